"""Workers on a Ray cluster, or on a Ray of this machine: Ray places and watches them.

The task goes into the object store once. A worker loads it once, and does it for one item at a time.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lvmrs import _checks
from lvmrs._extras import optional
from lvmrs._stopping import SIGNALS
from lvmrs.errors import InvalidArgumentError, RunError, guarded
from lvmrs.workers.base import Each, Task, Workers
from lvmrs.workers.crowd import Crowd
from lvmrs.workers.hand import Hand, versions
from lvmrs.workers.packing import packed
from lvmrs.workers.shipping import shipped

__all__ = ["Ray", "connected"]

_ADDRESS = re.compile(r"local|(?:ray://)?[A-Za-z0-9._-]+:(?P<port>[0-9]{1,5})")
_LAST_PORT = (1 << 16) - 1


class Ray(Workers):
    """Workers on a Ray cluster, or on a Ray of this machine that is started for them.

    Args:
        address: the address of the head, such as "10.0.0.1:6379"; "local" starts a Ray on this machine. By default it
            is ``$RAY_ADDRESS``, or a Ray that runs on this machine, or else one that is started.
        workers: how many workers; by default as many as fit into the cluster now.
        cpus: processors of each worker, and threads that it uses.
        gpus: GPUs of each worker; a part such as 0.5 is possible.
    """

    def __init__(
        self, address: str | None = None, *, workers: int | None = None, cpus: int = 1, gpus: float = 0.0
    ) -> None:
        self.address = None if address is None else _address(address)
        self.wanted = None if workers is None else _checks.count("workers", workers, least=1)
        self.cpus = _checks.count("cpus", cpus, least=1)
        self.gpus = _checks.single("gpus", _checks.at_least_zero("gpus", gpus))
        self._size = self.wanted or 1
        self._crowd: Crowd | None = None

    @property
    def device(self) -> str | None:
        """The GPU that Ray shows to a worker, if it gives one."""
        return "cuda" if self.gpus else None

    @property
    def size(self) -> int:
        """How many workers were asked for; by default it is known when the cluster was asked."""
        return self._size

    @property
    def ready(self) -> int:
        """How many workers have loaded the task."""
        return 0 if self._crowd is None else self._crowd.ready

    @contextmanager
    def doing(self, task: Task, *, most: int | None = None, files: Iterable[Path] = ()) -> Iterator[Each]:
        """Ask the cluster for workers, and give them back after the block."""
        with connected(self.address) as ray:
            fitting = self._fitting(ray)  # asked in any case: a worker for which no node is large enough never comes
            self._size = self.wanted or fitting
            if most is not None:
                self._size = max(1, min(self._size, most))
            kind = ray.remote(num_cpus=self.cpus, num_gpus=self.gpus, max_restarts=0)(Hand)
            with guarded("the job cannot be put into Ray's object store", error=RunError):
                content = ray.put((packed(task), shipped(files)))
            self._crowd = Crowd(ray, lambda: kind.remote(content, versions(), self.cpus))
            try:
                self._crowd.start(self._size)
                yield self._crowd.each
            finally:
                self._crowd.end()
                self._crowd = None

    def _fitting(self, ray: Any) -> int:
        """How many workers the cluster has room for, if nobody else uses it."""
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        found = sum(
            int(min(node.get(name, 0.0) / each for name, each in (("CPU", self.cpus), ("GPU", self.gpus)) if each))
            for node in nodes
        )
        if not found:
            what = f"{self.cpus} CPUs" + (f" and {self.gpus:g} GPUs" if self.gpus else "")
            have = ", ".join(f"{node.get('CPU', 0):g} CPUs and {node.get('GPU', 0):g} GPUs" for node in nodes)
            raise RunError(f"no node of the Ray cluster has {what} for a worker (they have {have}); ask for less")
        return found


def _address(text: object) -> str:
    """An address that Ray can be asked for; a word that is none would be looked for in the network."""
    found = _ADDRESS.fullmatch(_checks.text("address", text))
    if found is None or (found["port"] is not None and int(found["port"]) > _LAST_PORT):
        raise InvalidArgumentError(f"ray must be HOST:PORT, such as 10.0.0.1:6379, or local, got {text!r:.80}")
    return found[0]


@contextmanager
def connected(address: str | None) -> Iterator[Any]:
    """Connect to a cluster, or start one; a connection that the caller has made is used and kept.

    The block gets the library.
    """
    ray = optional("ray", extra="ray", error=RunError)
    if ray.is_initialized():
        yield ray
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    heard = (
        {number: signal.getsignal(number) for number in SIGNALS}
        if threading.current_thread() is threading.main_thread()
        else {}
    )
    try:
        where = address or os.environ.get("RAY_ADDRESS") or "a Ray on this machine"
        with guarded(f"the Ray cluster at {where} cannot be used; does it run, and ask for a token?", error=RunError):
            if address == "local" or not _joined(ray, address, quiet):
                ray.init("local", include_dashboard=False, **quiet)
        for number, handler in heard.items():  # Ray has put one of its own in place
            signal.signal(number, handler)
        yield ray
    finally:
        ray.shutdown()


def _joined(ray: Any, address: str | None, quiet: dict[str, Any]) -> bool:
    """Connect to a cluster; False if none was named and none runs on this machine."""
    try:
        ray.init(address or "auto", **quiet)
    except ConnectionError:
        if address is not None or "RAY_ADDRESS" in os.environ:
            raise
        return False
    return True
