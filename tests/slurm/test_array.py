"""Which shard a task of a Slurm array does."""

import pytest

from lvmrs.errors import InvalidArgumentError
from lvmrs.slurm import shard_of_task
from lvmrs.slurm.sbatch import checked_settings, minutes


def task(number: object, first: object, count: object, step: object = None, last: object = None) -> tuple[int, int]:
    names = {"ID": number, "MIN": first, "COUNT": count, "STEP": step, "MAX": last}
    return shard_of_task({f"SLURM_ARRAY_TASK_{name}": str(value) for name, value in names.items() if value is not None})


def test_tasks_are_counted_from_the_first() -> None:
    assert [task(number, 0, 4) for number in range(4)] == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert [task(number, 1, 3) for number in range(1, 4)] == [(1, 3), (2, 3), (3, 3)]
    assert [task(number, 10, 3, 5) for number in (10, 15, 20)] == [(1, 3), (2, 3), (3, 3)]
    assert [task(number, 0, 3, 2, 4) for number in (0, 2, 4)] == [(1, 3), (2, 3), (3, 3)], "0-5:2"
    assert task(3, 3, 1, 1, 3) == (1, 1)


@pytest.mark.parametrize("given", [("", "", ""), ("1", "", "4"), ("x", "0", "4"), ("-1", "0", "4"), ("²", "0", "4")])
def test_what_is_no_task_is_refused(given: tuple[str, str, str]) -> None:
    with pytest.raises(InvalidArgumentError, match="shard auto is for the tasks of a Slurm array, and this is none"):
        task(*given)


@pytest.mark.parametrize(
    "given",
    [
        *((9, 1, 3), (0, 1, 3), (12, 10, 3, 5)),
        *((0, 0, 3, 1, 5), (2, 0, 3, 1, 5), (5, 0, 3, 1, 5)),  # what Slurm sets for 0,2,5
        *((0, 0, 6, 1, 9), (1, 0, 6, 1, 9), (9, 0, 6, 1, 9)),  # 0,1,2,7-9
    ],
)
def test_gaps_are_refused(given: tuple[int, ...]) -> None:
    with pytest.raises(InvalidArgumentError, match=r"the array has gaps.* submit an array such as 1-8, or name the"):
        task(*given)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("array", "one task for each shard; use --shards and --tasks"),
        ("arr", "one task for each shard"),
        ("output", "logs are where"),
        ("open_mode", "logs are where"),
        ("signal", "ends a task in order"),
        ("no-requeue", "a task that is stopped is requeued"),
        ("ntasks", "each shard is one task"),
        ("wrap", "what sbatch does with the script"),
    ],
)
def test_options_that_would_break_a_launch_are_refused(name: str, sentence: str) -> None:
    with pytest.raises(InvalidArgumentError, match=f"sbatch '{name}' cannot be given here: .*{sentence}"):
        checked_settings({"partition": "gpu", name: "x"})


def test_other_options_are_taken_and_the_time_limit_is_a_day() -> None:
    given = {"gres": "gpu:1", "mem": "8G", "cpus-per-task": "4", "dependency": "afterok:3", "no-kill": "off"}
    assert checked_settings(given) == {"time": "1440", **given}
    assert checked_settings({"time": "4:00:00"}) == {"time": "4:00:00"}


@pytest.mark.parametrize(
    ("text", "limit"),
    [("90", 90), ("2:30", 3), ("4:00:00", 240), ("1-12", 2160), ("1-12:30", 2190), ("0-0:0:30", 1), ("0:20", 1)],
)
def test_time_limits(text: str, limit: int) -> None:
    assert minutes(text) == limit


@pytest.mark.parametrize("text", ["", "soon", "1:2:3:4", "-5", "1-", "１２"])
def test_other_time_limits_are_refused(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match="time must be minutes"):
        minutes(text)
