"""Other processes that keep the machine busy while something is measured."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["busy"]

# It ends by itself if the process that started it is gone.
_LOOP = """
import os, sys
parent = int(sys.argv[1])
while os.getppid() == parent:
    for _ in range(1_000_000):
        pass
"""


@contextmanager
def busy(processes: int = 2) -> Iterator[None]:
    """So many processes use one core each until the block ends, however it ends."""
    alone = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", _LOOP, str(os.getpid())]
    started: list[subprocess.Popen[bytes]] = []
    try:
        for _ in range(processes):
            started.append(subprocess.Popen(command, env=alone, stdin=subprocess.DEVNULL))  # noqa: S603
        yield
    finally:
        for process in started:
            process.kill()
        for process in started:
            process.wait()
