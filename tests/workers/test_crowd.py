"""A crowd of workers does every item once, whoever dies meanwhile."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from lvmrs.errors import ModelError, RunError
from lvmrs.workers.crowd import Crowd
from tests.workers.fake_ray import FakeRay, RayError


class Doubling:
    """A worker that doubles numbers; it cannot do the number 13."""

    def begin(self) -> Exception | None:
        return None

    def do(self, item: int) -> tuple[Any, Exception | None]:
        return (None, ModelError("13 is too much")) if item == 13 else (2 * item, None)

    def end(self) -> None:
        return None


class Deadly(Doubling):
    """A worker that dies over the number 99."""

    def do(self, item: int) -> tuple[Any, Exception | None]:
        if item == 99:
            raise RayError("killed")
        return super().do(item)


class Stillborn(Doubling):
    """A worker that dies before it has begun."""

    def begin(self) -> Exception | None:
        raise RayError("killed")


class Homeless(Doubling):
    """A worker on a machine without lvmrs."""

    def begin(self) -> Exception | None:
        raise RayError("the actor died\nModuleNotFoundError: No module named 'lvmrs'\n")


class Unable(Doubling):
    """A worker that cannot load the job."""

    def begin(self) -> Exception | None:
        return RunError("the worker on a machine cannot load the job")


@pytest.mark.parametrize("seed", range(40))
def test_every_item_is_done_once(seed: int) -> None:
    ray = FakeRay(Doubling, death=0.1 * (seed % 2), seed=seed)
    crowd = Crowd(ray, ray.new)
    crowd.start(1 + seed % 7)
    found = [result for together in crowd.each(range(100, 140)) for result in together]
    assert sorted(found) == [2 * item for item in range(100, 140)]
    assert crowd.ready <= 1 + seed % 7
    assert [result for together in crowd.each([1]) for result in together] == [2], "a second task for the same workers"
    assert len(ray.alive) == 1 + seed % 7, "a dead worker is replaced"
    crowd.end()
    assert not ray.alive


class Large(Doubling):
    """A worker whose results say that they are large."""

    def do(self, item: int) -> tuple[Any, Exception | None]:
        return SimpleNamespace(item=item, nbytes=1 << 27), None


def test_large_results_are_taken_few_at_a_time() -> None:
    for worker, most in ((Doubling, 20), (Large, 2)):
        ray = FakeRay(worker)
        ray.finish_all = True
        crowd = Crowd(ray, ray.new)
        crowd.start(20)
        sizes = [len(together) for together in crowd.each(range(100, 140))]
        assert sum(sizes) == 40
        assert max(sizes) == most
        crowd.end()


def test_a_failure_ends_it_after_what_was_done() -> None:
    ray = FakeRay(Doubling)
    crowd = Crowd(ray, ray.new)
    crowd.start(3)
    found: list[int] = []
    with pytest.raises(ModelError, match="13 is too much"):
        found.extend(result for together in crowd.each(range(20)) for result in together)
    assert found
    assert 26 not in found
    crowd.end()
    assert not ray.alive


def test_an_item_that_kills_its_workers_is_given_up() -> None:
    ray = FakeRay(Deadly)
    crowd = Crowd(ray, ray.new)
    crowd.start(3)
    found: list[int] = []
    with pytest.raises(RunError, match=r"5 workers died over the same input.*resume"):
        found.extend(result for together in crowd.each([0, 1, 99, 2, 3]) for result in together)
    assert ray.started == 3 + 5
    assert set(found) <= {0, 2, 4, 6}
    crowd.end()


@pytest.mark.parametrize(
    ("worker", "sentence"),
    [
        (Stillborn, r"died before they had loaded the job, perhaps for lack of memory"),
        (Homeless, r"No module named 'lvmrs'\); install the same version of lvmrs"),
        (Unable, r"cannot load the job"),
    ],
)
def test_workers_that_cannot_begin(worker: type, sentence: str) -> None:
    ray = FakeRay(worker)
    crowd = Crowd(ray, ray.new)
    crowd.start(2)
    with pytest.raises(RunError, match=sentence):
        list(crowd.each(range(3)))
    assert ray.started < 20
    crowd.end()
    assert not ray.alive


@contextmanager
def ended(crowd: Crowd) -> Iterator[None]:
    try:
        yield
    finally:
        crowd.end()


def test_copies_are_removed_after_a_failure_too() -> None:
    asked: list[str] = []
    ray = FakeRay(Doubling)

    def new() -> Any:
        worker = ray.new()
        remote = worker.end.remote

        def noted() -> Any:
            asked.append("end")
            return remote()

        worker.end.remote = noted
        return worker

    crowd = Crowd(ray, new)
    crowd.start(3)
    assert [result for together in crowd.each(range(6)) for result in together]
    begun = crowd.ready
    with pytest.raises(ModelError), ended(crowd):
        list(crowd.each([13] * 6))
    assert len(asked) >= begun
    assert not ray.alive
    crowd = Crowd(ray, new)
    crowd.start(1)
    each = crowd.each(range(9))
    next(each)
    asked.clear()
    with pytest.raises(KeyboardInterrupt), ended(crowd):
        raise KeyboardInterrupt
    assert not asked, "whoever stops the program does not wait for busy workers"
    assert not ray.alive
