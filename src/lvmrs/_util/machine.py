"""Properties of the machine: processor, available cores, memory and devices."""

from __future__ import annotations

import ctypes
import functools
import os
import platform
from pathlib import Path
from typing import TYPE_CHECKING

from lvmrs.errors import InvalidArgumentError, first_line

if TYPE_CHECKING:
    import torch


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


@functools.cache
def keep_freed() -> bool:
    """Make glibc keep freed memory for reuse; returns whether it did, which other C libraries do not.

    Networks allocate and free blocks of megabytes in every layer. By default glibc returns such blocks to the system,
    and the system fills each new block with zeros, which can take as long as the network itself.
    """
    try:
        library = ctypes.CDLL(None)
    except (OSError, TypeError):  # no such C library
        return False
    if not hasattr(library, "gnu_get_libc_version"):
        return False
    return all(bool(library.mallopt(name, value)) for name, value in (_LARGEST_KEPT, _KEPT))


DEVICES = "auto|(cpu|cuda|mps|xpu)(:[0-9]{1,3})?"
"""A pattern of the names of devices that can be typed."""


def device(value: str | torch.device) -> torch.device | None:
    """A device that torch knows and this machine has; None for "auto"."""
    import torch

    if value == "auto":
        return None
    try:
        chosen = torch.device(value)
        if chosen.type == "cpu":
            chosen = torch.device("cpu")  # every machine has one, whatever its index
        else:
            torch.ones(1, device=chosen).add(1).item()  # the device "meta" fails here
    except Exception as error:  # torch raises errors of many kinds: without CUDA it asserts, others fail to import
        reason = first_line(error)
        if reason.startswith("Expected one of"):  # a list of all kinds of device that torch was ever made for
            reason = "torch knows no device of that name"
        usable = "auto, cpu or cuda" if torch.cuda.is_available() else "auto or cpu"
        raise InvalidArgumentError(
            f"device {str(value)!r:.80} cannot be used here ({reason}); give {usable}"
        ) from error
    return chosen


def has(value: str) -> bool:
    """Whether this machine has a device of this name that torch can use."""
    try:
        device(value)
    except InvalidArgumentError:
        return False
    return True


def device_to_run_on(value: str | torch.device) -> torch.device:
    """A device that this machine has; "auto" is a GPU if there is one, and the CPU otherwise."""
    import torch

    return device(value) or torch.device("cuda" if torch.cuda.is_available() else "cpu")
