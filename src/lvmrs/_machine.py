"""The machine that this runs on: its processor, and how many cores this process may use."""

from __future__ import annotations

import os
import platform
from pathlib import Path

__all__ = ["allowed_cores", "processor"]


def processor() -> str:
    """The name of the processor; that of its kind where the system does not tell."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


def allowed_cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
