"""A task for each of many things, in order: in this process, or in several of this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any

import torch

from lvmrs.registry import BOUNDS, FORMS, MAPS, NOISES

__all__ = ["spread"]

# Parts of a user's own may have been added to these.
_TABLES = (MAPS, BOUNDS, FORMS, NOISES)


@contextmanager
def spread(processes: int) -> Iterator[Callable[..., Iterator[Any]]]:
    """What ``map`` is, done by so many processes."""
    if processes <= 1:
        yield map
        return
    # Not forked: torch's threads do not survive that.
    added = [names.added for names in _TABLES]
    with ProcessPoolExecutor(processes, get_context("spawn"), _begin_worker, (added,)) as pool:
        yield pool.map


def _begin_worker(added: Sequence[Sequence[type]]) -> None:
    torch.set_num_threads(1)
    for names, parts in zip(_TABLES, added, strict=True):
        for part in parts:
            names.add(part)
