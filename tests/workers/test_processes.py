"""Processes of this machine: how many there are, and how much waits in this process."""

import random
from collections.abc import Sequence
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
