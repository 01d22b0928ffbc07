"""Workers on Ray, without a cluster: every item is computed once, whoever dies; what a worker loads."""

import functools
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lvmrs import data, models, runs
from lvmrs._util import files as _paths
from lvmrs.errors import DataError, ModelError, RunError
from lvmrs.planners import Cohen
from lvmrs.record import Selection
from lvmrs.runs.workers import Ray, ray
from lvmrs.runs.workers.base import pickled
from lvmrs.runs.workers.ray import ActorPool, RayWorker, copy_files, use_copies, versions
from lvmrs.smoothed import SmoothedClassifier
from tests.workers.fake_ray import FakeRay, RayError


class Doubling:
    """A worker that doubles numbers; it cannot do the number 13."""

    def load(self) -> tuple[None, Exception | None]:
        return None, None

    def run(self, item: int) -> tuple[Any, Exception | None]:
        return (None, ModelError("13 is too much")) if item == 13 else (2 * item, None)


class Deadly(Doubling):
    """A worker that dies over the number 99."""

    def run(self, item: int) -> tuple[Any, Exception | None]:
        if item == 99:
            raise RayError("killed")
        return super().run(item)


class Stillborn(Doubling):
    """A worker that dies before it has begun."""

    def load(self) -> tuple[None, Exception | None]:
        raise RayError("killed")


class Homeless(Doubling):
    """A worker on a machine without lvmrs."""

    def load(self) -> tuple[None, Exception | None]:
        raise RayError("the actor died\nModuleNotFoundError: No module named 'lvmrs'\n")


class Unable(Doubling):
    """A worker that cannot load the job."""

    def load(self) -> tuple[None, Exception | None]:
        return None, RunError("the worker on a machine cannot load the job")


@pytest.mark.parametrize("seed", range(40))
def test_every_item_is_done_once(seed: int) -> None:
    fake = FakeRay(Doubling, death=0.1 * (seed % 2), seed=seed)
    pool = ActorPool(fake, fake.new)
    pool.start(1 + seed % 7)
    found = [result for together in pool.each(range(100, 140)) for result in together]
    assert sorted(found) == [2 * item for item in range(100, 140)]
    assert pool.ready <= 1 + seed % 7
    assert [result for together in pool.each([1]) for result in together] == [2], "a second task for the same workers"
    assert len(fake.alive) == 1 + seed % 7, "a dead worker is replaced"
    pool.end()
    assert not fake.alive


class Large(Doubling):
    """A worker whose results say that they are large."""

    def run(self, item: int) -> tuple[Any, Exception | None]:
        return SimpleNamespace(item=item, nbytes=1 << 27), None


def test_large_results_are_taken_few_at_a_time() -> None:
    for worker, most in ((Doubling, 20), (Large, 2)):
        fake = FakeRay(worker)
        fake.finish_all = True
        pool = ActorPool(fake, fake.new)
        pool.start(20)
        sizes = [len(together) for together in pool.each(range(100, 140))]
        assert sum(sizes) == 40
        assert max(sizes) == most
        pool.end()


def test_a_failure_ends_it_after_what_was_done() -> None:
    fake = FakeRay(Doubling)
    pool = ActorPool(fake, fake.new)
    pool.start(3)
    found: list[int] = []
    with pytest.raises(ModelError, match="13 is too much"):
        found.extend(result for together in pool.each(range(20)) for result in together)
    assert found
    assert 26 not in found
    pool.end()
    assert not fake.alive


def test_an_item_that_kills_its_workers_is_given_up() -> None:
    fake = FakeRay(Deadly)
    pool = ActorPool(fake, fake.new)
    pool.start(3)
    found: list[int] = []
    with pytest.raises(RunError, match=r"5 workers died while they computed the same input.*resume"):
        found.extend(result for together in pool.each([0, 1, 99, 2, 3]) for result in together)
    assert fake.started == 3 + 5
    assert set(found) <= {0, 2, 4, 6}
    pool.end()


@pytest.mark.parametrize(
    ("worker", "sentence"),
    [
        (Stillborn, r"died before they had loaded the job, perhaps for lack of memory"),
        (Homeless, r"No module named 'lvmrs'\); install the same version of lvmrs"),
        (Unable, r"cannot load the job"),
    ],
)
def test_workers_that_cannot_begin(worker: type, sentence: str) -> None:
    fake = FakeRay(worker)
    pool = ActorPool(fake, fake.new)
    pool.start(2)
    with pytest.raises(RunError, match=sentence):
        list(pool.each(range(3)))
    assert fake.started < 20
    pool.end()
    assert not fake.alive


def test_busy_workers_are_given_back_too() -> None:
    fake = FakeRay(Doubling)
    pool = ActorPool(fake, fake.new)
    pool.start(3)
    each = pool.each(range(9))
    next(each)
    assert pool.ready
    pool.end()
    assert not fake.alive


def test_items_are_taken_when_a_worker_is_free() -> None:
    taken: list[int] = []

    def items() -> Iterator[int]:
        for number in range(100, 200):
            taken.append(number)
            yield number

    fake = FakeRay(Doubling)
    pool = ActorPool(fake, fake.new)
    pool.start(3)
    done = 0
    for together in pool.each(items()):
        done += len(together)
        assert len(taken) <= done + 4, "one for each worker, and one to know whether any is left"
    assert done == 100
    pool.end()


def test_no_worker_is_waited_for_if_there_is_nothing_to_compute() -> None:
    fake = FakeRay(Doubling)
    pool = ActorPool(fake, fake.new)
    pool.start(1)
    assert not list(pool.each([]))
    pool.end()


@pytest.mark.parametrize("workers", [None, 2])
def test_a_worker_that_no_node_has_room_for_is_refused(workers: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [{"Alive": True, "Resources": {"CPU": 2.0}}, {"Alive": False, "Resources": {"CPU": 64.0}}]

    @contextmanager
    def connected(address: str | None, files: Iterable[Path]) -> Iterator[SimpleNamespace]:
        yield SimpleNamespace(nodes=lambda: nodes)

    monkeypatch.setattr(ray, "connected", connected)
    sentence = r"no node of the Ray cluster has 64 CPUs for a worker \(they have 2 CPUs and 0 GPUs\); ask for less"
    with pytest.raises(RunError, match=sentence), Ray(workers=workers, cpus=64).doing(abs):
        pass


def failing(error: type[Exception], missing: str | None, item: object) -> None:
    if missing is not None:
        try:
            Path(missing).read_bytes()
        except OSError as lost:
            raise error(f"{missing} cannot be read") from lost
    raise error("it failed")


def test_errors_of_a_worker_name_its_machine() -> None:
    for error in (ModelError, DataError, RunError):
        worker = RayWorker(pickled(functools.partial(failing, error, None)), versions(), 1)
        assert worker.load() == (None, None)
        _, failure = worker.run(3)
        assert type(failure) is error
        assert str(failure).startswith("it failed (on ")
    worker = RayWorker(pickled(functools.partial(failing, DataError, "/no/such/file")), versions(), 1)
    assert worker.load() == (None, None)
    _, failure = worker.run(3)
    assert isinstance(failure, RunError)
    assert str(failure).endswith("; put it where all nodes see it")


def test_another_version_is_refused() -> None:
    _, failure = RayWorker(pickled(abs), {**versions(), "torch": "1.0"}, 1).load()
    assert isinstance(failure, RunError)
    assert "and not 1.0; rows could differ: install the same on all nodes" in str(failure)


def test_a_task_that_cannot_be_loaded_and_one_that_can() -> None:
    assert RayWorker(pickled(abs)._replace(content=b"", modules=()), versions(), 1).load()[1] is not None
    worker = RayWorker(pickled(abs), versions(), 1)
    assert worker.load() == (None, None)
    assert worker._content is None, "the pickle is not kept beside the task"
    assert worker.run(-3) == (3, None)


NET = """
from neighbour import SIZE
from torch import nn
def net():
    return nn.Sequential(nn.Flatten(), nn.Linear(SIZE, 10))
"""


def copied(folder: Path) -> set[str]:
    return {f"/{path.relative_to(folder)}" for path in folder.rglob("*") if path.is_file()}


def test_code_goes_with_the_job_and_is_read_from_the_copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here, gone, copies = tmp_path / "here", tmp_path / "gone", tmp_path / "copies"
    package = here / "parts"
    package.mkdir(parents=True)
    (here / "nets.py").write_text(NET)
    (here / "neighbour.py").write_text("SIZE = 64\n")
    (package / "__init__.py").write_text("")
    (here / "notes.txt").write_text("not code")
    monkeypatch.chdir(here)
    monkeypatch.setattr(_paths, "_MOVED", {})
    loaded = models.load("python:nets.py:net")
    digits = data.load("digits")
    job = runs.Job(
        loaded,
        digits,
        SmoothedClassifier(loaded.model, 0.5, batch=50),
        Cohen(),
        runs.Sampling(n=100),
        Selection(len(digits), max=1),
    )
    copy_files(job.files, copies)
    assert copied(copies) == {str(here / name) for name in ("nets.py", "neighbour.py", "parts/__init__.py")}
    copy_files(job.files, tmp_path / "small", most=20)
    assert copied(tmp_path / "small") == {str(here / name) for name in ("neighbour.py", "parts/__init__.py")}
    here.rename(gone)
    use_copies(copies)
    place = _paths.redirected(here / "nets.py")
    assert place == copies / str(here / "nets.py").lstrip("/")
    assert place.read_text() == NET
    assert _paths.redirected(gone / "nets.py") == gone / "nets.py", "a file that was not sent is read where it is"
    assert _paths.redirected(here) == here, "so is a folder"


def test_only_files_that_can_be_read_go(tmp_path: Path) -> None:
    net = tmp_path / "nets.py"
    net.write_text("import neighbour")
    (tmp_path / "neighbour.py").write_text("SCALE = 1.0")
    (tmp_path / "gone.py").symlink_to(tmp_path / "nowhere.py")
    (tmp_path / "link.py").symlink_to(tmp_path / "neighbour.py")
    (tmp_path / "folder.py").mkdir()
    os.mkfifo(tmp_path / "pipe.py")
    secret = tmp_path / "secret.py"
    secret.write_text("")
    secret.chmod(0)
    copies = copy_files([net], tmp_path / "copies")
    there = {"nets.py", "neighbour.py", "link.py"} | ({"secret.py"} if os.access(secret, os.R_OK) else set())
    assert copied(copies) == {str(tmp_path / name) for name in there}
    with pytest.raises(FileNotFoundError):
        copy_files([net, tmp_path / "gone.py"], copies)
    assert not copy_files([], tmp_path / "none").exists()
