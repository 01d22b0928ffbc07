"""The memory of this machine: what claims to need more is refused before it is taken."""

import os

__all__ = ["memory"]


def memory() -> int:
    """The memory of this machine in bytes, or 64 GiB where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 1 << 36
