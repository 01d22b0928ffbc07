"""Workers that are started only if what is left takes longer than starting them; until then this process works."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from lvmrs.workers.base import Each, Task, Workers

__all__ = ["WhenLong"]

# So many items are done before it is judged, not counting the first, which may import much; and so many seconds of work
# are worth other processes: each of them imports torch.
_FIRST, _LONG = 5, 10.0
# Results are handed on together after so many seconds: who writes them waits for the disk once.
_TOGETHER = 0.1


class WhenLong(Workers):
    """Does a task in this process; others take over if that pays.

    Args:
        others: who takes over.
        clock: shows the time.
    """

    def __init__(self, others: Workers, clock: Callable[[], float] = time.perf_counter) -> None:
        self._others, self._clock = others, clock

    @property
    def size(self) -> int:
        """How many there are at most."""
        return self._others.size

    @contextmanager
    def doing(self, task: Task, *, most: int | None = None, files: Iterable[Path] = ()) -> Iterator[Each]:
        """Do the task here; the others are started when it takes long, and end after the block."""
        with ExitStack() as block:

            def each(items: Iterable[Any]) -> Iterator[list[Any]]:
                left = list(items)
                left.reverse()
                if left:
                    yield [task(left.pop())]
                begun, done = self._clock(), 0
                handed, results = begun, list[Any]()
                while left:
                    try:
                        results.append(task(left.pop()))
                    except Exception:
                        if results:  # what was done before is not lost
                            yield results
                        raise
                    done, now = done + 1, self._clock()
                    takes_long = done >= _FIRST and (now - begun) / done * len(left) > _LONG
                    if takes_long or not left or now - handed >= _TOGETHER:
                        yield results
                        handed, results = self._clock(), []
                    if takes_long:
                        left.reverse()
                        others = block.enter_context(self._others.doing(task, most=len(left), files=files))
                        yield from others(left)
                        return

            yield each
