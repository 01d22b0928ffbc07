"""The machine that this runs on: its processor, and how many cores this process may use."""

from __future__ import annotations

import ctypes
import functools
import os
import platform
from pathlib import Path

__all__ = ["allowed_cores", "keep_freed", "memory", "processor"]


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


# ---------------------------------------------------------------------------------------------------------------------
# The memory of this machine: what claims to need more is refused before it is taken.


# Names of settings of the C library, and their values in bytes: blocks up to the first are taken from memory that the
# process keeps, and so much of that is kept when it is free.
_LARGEST_KEPT, _KEPT = (-3, 32 << 20), (-1, 512 << 20)


def memory() -> int:
    """The memory of this machine in bytes, or 64 GiB where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 1 << 36


@functools.cache
def keep_freed() -> bool:
    """Tell the C library to keep memory that is freed, and say whether it was told.

    Networks free and take blocks of megabytes in every layer. By default glibc gives them back to the system each time,
    and the system fills them with zeros again, which can cost as much as the network. Other libraries are left alone.
    """
    try:
        library = ctypes.CDLL(None)
    except (OSError, TypeError):  # no C library of this kind
        return False
    if not hasattr(library, "gnu_get_libc_version"):
        return False
    return all(bool(library.mallopt(name, value)) for name, value in (_LARGEST_KEPT, _KEPT))
