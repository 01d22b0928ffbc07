"""Processes of this machine: results in order, bounded memory, and no process left, however the work ends."""

import os
import pickle
import signal
import time
from concurrent.futures import Future
from multiprocessing import active_children
from multiprocessing.util import Finalize
from pathlib import Path
from typing import Any

import pytest

from lvmrs.errors import InvalidArgumentError, RunError
from lvmrs.runs.workers import Processes, processes


def test_a_small_task_does_not_make_them_fewer_for_good() -> None:
    workers = Processes(4)
    with workers.doing(abs, most=1) as each:
        assert workers.size == 1
        assert list(each([-3])) == [[3]]
    assert workers.size == 4


class FakePool:
    """A pool whose results are there at once."""

    def __init__(self, nbytes: int) -> None:
        self.nbytes, self.submitted = nbytes, 0

    def submit(self, _: object, item: bytes) -> "Future[bytes]":
        self.submitted += 1
        future: Future[bytes] = Future()
        future.set_result(pickle.dumps(((pickle.loads(item), bytes(self.nbytes)), None)))  # noqa: S301
        return future


@pytest.mark.parametrize(("nbytes", "ahead"), [(1, 48), (1900, 5), (50_000, 3)])
def test_items_in_flight_and_their_results_are_bounded(
    nbytes: int, ahead: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "_BYTES", 10_000)
    taken, found, most = list[int](), list[int](), list[int]()
    pool: Any = FakePool(nbytes)

    def items() -> Any:
        for number in range(200):
            taken.append(number)
            yield number

    for ((number, _),) in processes._in_order(pool, 3, items()):
        found.append(number)
        most.append(pool.submitted - len(found))
        assert len(taken) - len(found) <= ahead, "an item is asked for when there is room"
    assert found == list(range(200))
    assert max(most) == ahead, "beside the one that the receiver has"


def slow_first(item: int) -> int:
    """A task whose later items are finished first; odd ones raise what cannot be pickled."""
    time.sleep(0.3 if item == 0 else 0.0)
    if item % 2:
        raise UnpicklableError(item)
    return os.getpid()


class UnpicklableError(Exception):
    def __init__(self, item: int) -> None:
        super().__init__(f"{item} is odd")
        self.function = lambda: item


def test_results_come_in_order_and_a_failure_after_those_before_it() -> None:
    found: list[list[int]] = []
    with pytest.raises(RunError, match="UnpicklableError: 5 is odd") as error, Processes(2).doing(slow_first) as each:
        found.extend(each([0, 2, 4, 5, 6, 7]))
    assert len(found) == 3
    assert len({number for numbers in found for number in numbers}) <= 2
    assert "in slow_first" in error.value.__notes__[0], "where it was raised"
    assert not active_children()


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
    """Libraries in a process can clean up; and nobody waits for results that nobody wants."""
    with Processes(2).doing(LeavesWord(tmp_path)) as each:
        ids = [number for numbers in each([0.0] * 4) for number in numbers]
    assert {path.name for path in tmp_path.iterdir()} == set(map(str, ids))
    begun = time.monotonic()
    with Processes(2).doing(LeavesWord(tmp_path)) as each:
        assert next(iter(each([0.0, 60.0, 60.0])))
    assert time.monotonic() - begun < 50
    assert not active_children()
    assert "Traceback" not in capfd.readouterr().err


def test_a_process_that_is_killed_ends_the_work_with_one_sentence(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Also if another process is busy for long: it is not waited for."""
    begun = time.monotonic()
    with pytest.raises(RunError, match="was killed, perhaps for lack of memory"):  # noqa: PT012, SIM117
        with Processes(2).doing(LeavesWord(tmp_path)) as each:
            results = each([0.0, 60.0, 60.0])
            os.kill(next(results)[0], signal.SIGKILL)
            next(results)
    assert time.monotonic() - begun < 50
    assert not active_children()
    assert "Traceback" not in capfd.readouterr().err


def visible(item: int) -> tuple[int, str | None]:
    time.sleep(0.2)  # so that each process gets an item
    return item, os.environ.get("CUDA_VISIBLE_DEVICES")


def test_each_process_sees_a_gpu_of_its_own() -> None:
    workers = Processes(2, ["5", "GPU-8a"])
    assert workers.device == "cuda"
    with workers.doing(visible) as each:
        found = [result for results in each(range(6)) for result in results]
    assert [item for item, _ in found] == list(range(6))
    assert {gpu for _, gpu in found} == {"5", "GPU-8a"}


@pytest.mark.parametrize(
    ("count", "visible", "expected"),
    [
        (0, None, None),
        (1, None, None),
        (2, None, ("0", "1")),
        (2, "3,GPU-8a", ("3", "GPU-8a")),
        (4, "", ("0", "1", "2", "3")),
    ],
)
def test_one_process_for_each_gpu(
    count: int, visible: str | None, expected: tuple[str, ...] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.device_count", lambda: count)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    found = Processes.on_all_gpus()
    assert (None if found is None else found._gpus) == expected


def test_as_many_gpus_as_processes() -> None:
    with pytest.raises(InvalidArgumentError, match="2 processes need as many GPUs, got 1"):
        Processes(2, ["0"])
