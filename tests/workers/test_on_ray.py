"""What is asked of a Ray cluster before workers are started; no Ray is needed."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from lvmrs.errors import RunError
from lvmrs.workers import Ray, on_ray


@pytest.mark.parametrize("workers", [None, 2])
def test_a_worker_that_no_node_has_room_for_is_refused(workers: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [{"Alive": True, "Resources": {"CPU": 2.0}}, {"Alive": False, "Resources": {"CPU": 64.0}}]

    @contextmanager
    def connected(address: str | None) -> Iterator[SimpleNamespace]:
        yield SimpleNamespace(nodes=lambda: nodes)

    monkeypatch.setattr(on_ray, "connected", connected)
    sentence = r"no node of the Ray cluster has 64 CPUs for a worker \(they have 2 CPUs and 0 GPUs\); ask for less"
    with pytest.raises(RunError, match=sentence), Ray(workers=workers, cpus=64).doing(abs):
        pass
