"""Running a task on many items, in order, in this process or in several processes of this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context
from typing import Any

import torch

from lvmrs.jobs.packing import Packed, packed, unpacked

__all__ = ["spread"]


@contextmanager
def spread(processes: int, task: Callable[[Any], Any]) -> Iterator[Callable[[Iterable[Any]], Iterator[Any]]]:
    """A function that does the task for each of several things, in so many processes; results come in order."""
    if processes <= 1:
        yield partial(map, task)
        return
    # Not forked: torch's threads do not survive that.
    with ProcessPoolExecutor(processes, get_context("spawn"), _begin_worker, (packed(task),)) as pool:
        yield partial(pool.map, task)


def _begin_worker(task: Packed) -> None:
    torch.set_num_threads(1)
    unpacked(task)  # so that the user's code is there when the task itself comes
