"""Which shard a task of a Slurm array does."""

import pytest

from lvmrs.errors import InvalidArgumentError
from lvmrs.slurm import shard_of_task
from lvmrs.slurm.launching import _minutes


def task(number: object, first: object, count: object, step: object = None) -> tuple[int, int]:
    names = {"ID": number, "MIN": first, "COUNT": count, "STEP": step}
    return shard_of_task({f"SLURM_ARRAY_TASK_{name}": str(value) for name, value in names.items() if value is not None})


def test_tasks_are_counted_from_the_first() -> None:
    assert [task(number, 0, 4) for number in range(4)] == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert [task(number, 1, 3) for number in range(1, 4)] == [(1, 3), (2, 3), (3, 3)]
    assert [task(number, 10, 3, 5) for number in (10, 15, 20)] == [(1, 3), (2, 3), (3, 3)]


@pytest.mark.parametrize("given", [("", "", ""), ("1", "", "4"), ("x", "0", "4"), ("-1", "0", "4"), ("²", "0", "4")])
def test_what_is_no_task_is_refused(given: tuple[str, str, str]) -> None:
    with pytest.raises(InvalidArgumentError, match="shard auto is for the tasks of a Slurm array, and this is none"):
        task(*given)


@pytest.mark.parametrize("given", [(9, 1, 3), (0, 1, 3), (12, 10, 3, 5)])
def test_gaps_are_refused(given: tuple[int, ...]) -> None:
    with pytest.raises(InvalidArgumentError, match="the array has gaps; submit one such as 1-8"):
        task(*given)


@pytest.mark.parametrize(
    ("text", "minutes"),
    [("90", 90), ("2:30", 3), ("4:00:00", 240), ("1-12", 2160), ("1-12:30", 2190), ("0-0:0:30", 1), ("0:20", 1)],
)
def test_time_limits(text: str, minutes: int) -> None:
    assert _minutes(text) == minutes


@pytest.mark.parametrize("text", ["", "soon", "1:2:3:4", "-5", "1-", "１２"])
def test_other_time_limits_are_refused(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match="time must be minutes"):
        _minutes(text)
