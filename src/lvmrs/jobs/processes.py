"""Running a task on many items, in order, in this process or in several processes of this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any

import torch

from lvmrs.jobs.packing import Packed, packed, unpacked

__all__ = ["spread"]


@contextmanager
def spread(processes: int) -> Iterator[Callable[..., Iterator[Any]]]:
    """Give a function that works like ``map`` and runs in this many processes."""
    if processes <= 1:
        yield map
        return
    # Processes are spawned and not forked, since torch's threads do not survive a fork.
    with ProcessPoolExecutor(processes, get_context("spawn"), _begin_worker, (packed(None),)) as pool:
        yield pool.map


def _begin_worker(own_parts: Packed) -> None:
    torch.set_num_threads(1)
    unpacked(own_parts)
