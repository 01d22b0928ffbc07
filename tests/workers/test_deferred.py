"""Other workers take over what takes long, and what does not is done here."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from lvmrs.runs.workers import Deferred, Here
from lvmrs.runs.workers.base import Each, Task


class Noted(Here):
    """Notes how many items it is started for."""

    def __init__(self) -> None:
        self.started: list[int | None] = []

    @contextmanager
    def doing(self, task: Task, *, most: int | None = None, files: Any = ()) -> Iterator[Each]:
        self.started.append(most)
        with super().doing(task) as each:
            yield each


@pytest.mark.parametrize(
    ("first", "seconds", "items", "started"),
    [(0.01, 0.01, 500, []), (3.0, 0.01, 500, []), (0.2, 0.2, 100, [94]), (100.0, 100.0, 6, []), (1.0, 1.0, 0, [])],
)
def test_others_take_over_what_takes_long(first: float, seconds: float, items: int, started: list[int]) -> None:
    now, others = [0.0], Noted()

    def task(item: int) -> int:
        now[0] += first if item == 0 else seconds
        return -item

    with Deferred(others, clock=lambda: now[0]).doing(task) as each:
        found = [result for results in each(range(items)) for result in results]
    assert found == [-item for item in range(items)]
    assert others.started == started


def test_results_are_handed_on_together_but_soon() -> None:
    now = [0.0]

    def task(item: int) -> int:
        now[0] += 0.03
        return item

    with Deferred(Noted(), clock=lambda: now[0]).doing(task) as each:
        handed = list(each(range(12)))
    assert handed == [[0], [1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11]]


def test_an_error_does_not_lose_the_results_before_it() -> None:
    now = [0.0]

    def task(item: int) -> int:
        now[0] += 0.03
        if item == 7:
            raise ValueError("seven")
        return item

    found: list[int] = []

    def take_all() -> None:
        with Deferred(Noted(), clock=lambda: now[0]).doing(task) as each:
            for results in each(range(12)):
                found.extend(results)

    with pytest.raises(ValueError, match="seven"):
        take_all()
    assert found == [0, 1, 2, 3, 4, 5, 6]
