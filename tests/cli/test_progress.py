"""Progress for a log: few lines, at growing intervals."""

import pytest

from lvmrs.cli.progress import Lines, Watcher, displaying
from lvmrs.record import Row

RIGHT, WRONG = (
    Row(0, 1, answer, 0.5, int(answer == 1), 0.1, 0.9, 0.1, 1, "hardmax", 1.0, 1.0, "betting", "r2", 0.001, "-", "-")
    for answer in (1, 2)
)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_log_of_a_long_run_has_few_lines(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    with Watcher(700, clock) as watcher:
        clock.now = 100.0
        watcher.begin(600, 1000, done=100)
        for k in range(600):
            clock.now += 1
            watcher.row(RIGHT if k % 4 else WRONG)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "10/600 inputs  1 inputs/s  1,000 samples/s  certified accuracy 70.0%  about 10 min left"
    assert lines[-1] == "600/600 inputs  1 inputs/s  1,000 samples/s  certified accuracy 75.0%"
    done = [int(line.partition("/")[0]) for line in lines]
    assert done == [10, 25, 48, 82, 133, 193, 253, 313, 373, 433, 493, 553, 600]
    assert watcher.done == 700


def test_a_log_of_a_short_run_has_none(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    with Watcher(9, clock) as watcher:
        watcher.begin(9, 1000)
        for _ in range(9):
            clock.now += 1
            watcher.row(RIGHT)
    assert capsys.readouterr().err == ""


def test_steps_of_a_training(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    with displaying("steps", clock) as display:
        display.begin(40)
        for k in range(1, 41):
            clock.now += 0.5
            display.show(k)
    assert capsys.readouterr().err == "20/40 steps  2 steps/s  about 10 s left\n40/40 steps  2 steps/s\n"


def test_slow_inputs_are_counted_by_the_hour(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    lines = Lines("inputs", clock)
    lines.begin(3)
    clock.now = 120.0
    lines.show(1)
    assert capsys.readouterr().err == "1/3 inputs  30 inputs/h  about 4 min left\n"
