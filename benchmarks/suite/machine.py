"""A description of the machine, so that absolute numbers can be understood."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import time

from lvmrs._util.machine import allowed_cores, processor

__all__ = ["machine", "words"]


def machine() -> dict[str, str | int | float]:
    """Cores, processor, software, date, and how busy it is now."""
    cores = allowed_cores()
    return {
        "cores": cores,
        "cpu": processor(),
        "threads": int(os.environ.get("OMP_NUM_THREADS", cores)),
        "python": platform.python_version(),
        "torch": importlib.metadata.version("torch"),
        "lvmrs": importlib.metadata.version("lvmrs"),
        "art": importlib.metadata.version("adversarial-robustness-toolbox"),
        "date": time.strftime("%Y-%m-%d"),
        "load": round(os.getloadavg()[0], 2),
    }


def words(known: dict[str, str | int | float]) -> str:
    """The same in one line."""
    return (
        f"{known['cores']} cores of {known['cpu']}, {known['threads']} threads, torch {known['torch']}, "
        f"Python {known['python']}, lvmrs {known['lvmrs']}; {known['date']}, load {known['load']} at the start"
    )
