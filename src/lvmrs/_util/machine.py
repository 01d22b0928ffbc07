"""Properties of the machine: processor, available cores and memory."""

from __future__ import annotations

import ctypes
import functools
import os
import platform
from pathlib import Path

__all__ = ["allowed_cores", "keep_freed", "memory", "processor"]


def processor() -> str:
    """The name of the processor, or its architecture if the system does not report the name."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


def allowed_cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# Parameters of mallopt and their values in bytes: M_MMAP_THRESHOLD, the size up to which blocks come from the heap, and
# M_TRIM_THRESHOLD, the free memory that the heap keeps.
_LARGEST_KEPT, _KEPT = (-3, 32 << 20), (-1, 512 << 20)


def memory() -> int:
    """The memory of this machine in bytes, or 64 GiB if the system does not report it."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 1 << 36


@functools.cache
def keep_freed() -> bool:
    """Make glibc keep freed memory for reuse.

    Networks allocate and free blocks of megabytes in every layer. By default glibc returns such blocks to the system,
    and the system fills each new block with zeros, which can take as long as the network itself.

    Returns:
        True if glibc accepted the settings; False for other C libraries, which are not changed.
    """
    try:
        library = ctypes.CDLL(None)
    except (OSError, TypeError):  # no such C library
        return False
    if not hasattr(library, "gnu_get_libc_version"):
        return False
    return all(bool(library.mallopt(name, value)) for name, value in (_LARGEST_KEPT, _KEPT))
