"""A real Ray cluster on this machine: a head and nodes, each its own processes and its own address on loopback."""

import json
import os
import secrets
import socket
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from tests.cluster.guarded import descendants, guarded, remove
from tests.processes import until

__all__ = ["RayCluster"]

ROOT = Path(__file__).parents[2]
# A dead node is noticed within seconds and not within half a minute.
QUICK = {"health_check_period_ms": 500, "health_check_timeout_ms": 2000, "health_check_failure_threshold": 3}


class RayCluster:
    """A head without processors for workers, and nodes with one each; use it in a ``with`` block."""

    def __init__(self, nodes: int) -> None:
        self._wanted = nodes
        self._folder = tempfile.mkdtemp(prefix="ray-", dir="/tmp")  # paths of sockets must be short
        self._log = Path(self._folder, "log.txt")
        self._head: subprocess.Popen[bytes] | None = None
        self.nodes: list[subprocess.Popen[bytes]] = []
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{free.getsockname()[1]}"
        self._last, self._started = 1, 0
        self._token = secrets.token_hex(32)  # nobody else's cluster is met, and nobody else meets this one

    def __enter__(self) -> "RayCluster":
        try:
            port = self.address.partition(":")[2]
            self._head = self._start(
                *("--head", f"--port={port}", "--num-cpus=0", "--include-dashboard=false"),
                *(f"--temp-dir={self._folder}", f"--system-config={json.dumps(QUICK)}"),
                *("--node-ip-address=127.0.0.1",),
                folder=Path(self._folder),
            )
            self._wait()
            for _ in range(self._wanted):
                self.add_node()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process in (*self.nodes, self._head):
            if process is not None:
                self._end(process)
        remove(self._folder)

    def add_node(self, *before: str, cpus: int = 1) -> None:
        """Start a node on an address of its own; ``before`` are words before its command, such as unshare."""
        self._last += 1
        words = (f"--address={self.address}", f"--node-ip-address=127.0.0.{self._last}", f"--num-cpus={cpus}")
        self.nodes.append(self._start(*words, before=before))
        self._wait()  # two that start at once may take the same ports

    def kill_node(self, number: int) -> None:
        """Kill all processes of a node at once."""
        self._end(self.nodes.pop(number))

    def workers(self) -> list[int]:
        """The processes of all nodes that are workers of lvmrs."""
        return [each for node in self.nodes for each in descendants(node.pid) if _is_worker(each)]

    @property
    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_worker_niceness": "0",  # by default it is 15: on a busy machine, workers would hardly run
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": self._token,
        }

    def _start(
        self, *words: str, before: tuple[str, ...] = (), folder: Path | None = None
    ) -> "subprocess.Popen[bytes]":
        self._started += 1
        ray = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--object-store-memory=80000000"]
        return guarded([*before, *ray, *words], self.environment, self._log, folder)

    def _wait(self) -> None:
        """Wait until all that was started runs."""

        def run() -> bool:
            text = self._log.read_text()
            assert all(each.poll() is None for each in (*self.nodes, self._head) if each is not None), text
            return text.count("Ray runtime started") == self._started

        until(run, seconds=120)

    def _end(self, process: "subprocess.Popen[bytes]") -> None:
        process.communicate()  # its input is closed, so that it kills


def _is_worker(process: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{process}/cmdline").read_bytes().startswith(b"ray::RayWorker")
    return False
