"""As much of Ray as a pool of actors uses, in this process: calls finish in a random order, and workers die."""

import random
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

__all__ = ["FakeRay"]


class RayError(Exception):
    pass


class FakeRay:
    """What was called is done when its result is asked for.

    Args:
        make: makes a worker, which has the methods of a ``RayWorker``.
        death: the probability that a worker dies over a call.
        seed: of chance.
    """

    def __init__(self, make: Callable[[], Any], *, death: float = 0.0, seed: int = 0) -> None:
        self._make, self._death, self._random = make, death, random.Random(seed)  # noqa: S311
        self.exceptions = SimpleNamespace(RayError=RayError)
        self.alive: list[Any] = []
        self.started = 0
        self.finish_all = False
        """Whether all calls have finished whenever somebody waits."""

    def new(self) -> Any:
        self.started += 1
        worker = SimpleNamespace(actor=self._make(), dead=False)
        for name in ("load", "run"):
            call = SimpleNamespace(remote=lambda *given, name=name: _Call(worker, name, given))
            setattr(worker, name, call)
        self.alive.append(worker)
        return worker

    def wait(
        self, calls: Sequence[Any], *, num_returns: int, timeout: float | None = None, fetch_local: bool = True
    ) -> Any:
        assert 1 <= num_returns <= len(calls)
        if self.finish_all:
            for call in calls:
                call.there = True
        elif timeout != 0:
            self._random.choice([call for call in calls if not call.there] or list(calls)).there = True
        return [call for call in calls if call.there], [call for call in calls if not call.there]

    def get(self, call: Any) -> Any:
        assert call.there
        assert not call.taken, "a result was taken twice"
        call.taken = True
        call.worker.dead = call.worker.dead or self._random.random() < self._death
        if call.worker.dead:
            raise RayError("the worker died")
        return getattr(call.worker.actor, call.name)(*call.given)

    def kill(self, worker: Any) -> None:
        worker.dead = True
        if worker in self.alive:
            self.alive.remove(worker)


class _Call:
    def __init__(self, worker: Any, name: str, given: tuple[Any, ...]) -> None:
        self.worker, self.name, self.given, self.there, self.taken = worker, name, given, False, False
