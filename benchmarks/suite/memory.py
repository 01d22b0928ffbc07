"""How the C library deals with freed memory, which decides whether large layers cost page faults in every pass.

By default glibc gives blocks of more than 32 MiB back to the system as soon as they are freed, and the next layer has
to fetch its memory page by page. Nothing happens here on systems without glibc.
"""

from __future__ import annotations

import ctypes
import sys

__all__ = ["keep_freed_memory"]

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _MMAP_MAX = -1, -3, -4


def keep_freed_memory(*, kept: bool) -> None:
    """Keep freed memory for the next layer, or treat it as glibc does by itself after a while."""
    if sys.platform != "linux" or not hasattr(library := ctypes.CDLL(None), "mallopt"):
        return
    library.mallopt(_MMAP_MAX, 0 if kept else 65_536)
    library.mallopt(_MMAP_THRESHOLD, 2**25)
    library.mallopt(_TRIM_THRESHOLD, 2**31 - 1 if kept else 2**26)
