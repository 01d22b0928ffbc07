"""Processes of this machine: how many there are, and how much waits in this process."""

import os
import random
import time
from collections.abc import Sequence
from multiprocessing.util import Finalize
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lvmrs.workers import Processes, processes


def test_a_small_task_does_not_make_them_fewer_for_good() -> None:
    workers = Processes(4)
    with workers.doing(abs, most=1) as each:
        assert workers.size == 1
        assert list(each([-3])) == [[3]]
    assert workers.size == 4


class Played:
    """A worker that is played in this process; its pipe is itself."""

    def __init__(self, nbytes: int) -> None:
        self.nbytes, self.item, self.pipe = nbytes, -1, self

    def begin(self, item: int) -> None:
        self.item = item

    def result(self) -> Any:
        return SimpleNamespace(item=self.item, nbytes=self.nbytes)


@pytest.mark.parametrize(("nbytes", "ahead"), [(0, 49), (1 << 27, 3), (1 << 30, 2)])
def test_large_results_do_not_pile_up(nbytes: int, ahead: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first item takes as long as all others that may be begun before it has come."""
    chance, begun = random.Random(0), list[int]()  # noqa: S311

    def others_first(pipes: Sequence[Played]) -> list[Played]:
        late = [pipe for pipe in pipes if pipe.item != 0]
        begun.append(max(pipe.item for pipe in pipes))
        return chance.sample(late, 1) if late else list(pipes)

    monkeypatch.setattr(processes, "wait", others_first)
    workers: Any = [Played(nbytes) for _ in range(3)]
    each = processes._in_order(workers, range(50))
    first = next(each)[0].item
    assert (first, max(begun)) == (0, ahead)
    assert [result.item for together in each for result in together] == list(range(1, 50))


class LeavesWord:
    """A task that leaves word when its process ends by itself, and takes some time if it is asked to."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, seconds: float) -> int:
        Finalize(None, Path(self.folder, str(os.getpid())).touch, exitpriority=1)
        time.sleep(seconds)
        return os.getpid()


def test_processes_without_work_end_by_themselves_and_busy_ones_are_ended(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """What libraries have made in a process is cleaned up; and nobody waits for work that nobody wants."""
    with Processes(2).doing(LeavesWord(tmp_path)) as each:
        ids = [number for numbers in each([0.0] * 4) for number in numbers]
    assert {path.name for path in tmp_path.iterdir()} == set(map(str, ids))
    begun = time.monotonic()
    with Processes(2).doing(LeavesWord(tmp_path)) as each:
        assert next(iter(each([0.0, 60.0, 60.0])))
    assert time.monotonic() - begun < 50
    assert "Traceback" not in capfd.readouterr().err
