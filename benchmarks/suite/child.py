"""Measurements in processes of their own: what one leaves in memory and caches does not touch the next.

This module imports nothing large. The peak memory of a process counts that of its parent at the start.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Done", "answer", "command", "measured"]

_FOLDER = Path(__file__).parents[1]


@dataclass(frozen=True)
class Done:
    """What a process printed, and what it took."""

    text: str
    seconds: float
    megabytes: float
    """The most memory that it held at one time."""


def command(arguments: list[str], *, cache: str | None = None) -> Done:
    """Run Python with these arguments.

    Args:
        arguments: what follows ``python``.
        cache: the user's cache directory, which then holds torch's compiled programs too; by default an empty one, and
            torch keeps its programs where it always does.
    """
    with tempfile.TemporaryDirectory() as empty:
        environment = {**os.environ, "XDG_CACHE_HOME": cache or empty}
        if cache is not None:
            environment["TORCHINDUCTOR_CACHE_DIR"] = str(Path(cache) / "inductor")
        start = time.perf_counter()
        child = subprocess.Popen(  # noqa: S603
            [sys.executable, *arguments], cwd=_FOLDER, stdout=subprocess.PIPE, env=environment, text=True
        )
        try:
            assert child.stdout is not None  # noqa: S101 (a pipe was asked for)
            with child.stdout as pipe:
                text = pipe.read()
            _, status, used = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
        except BaseException:
            child.kill()
            child.wait()
            raise
        taken = time.perf_counter() - start
    if child.returncode:
        raise SystemExit(f"python {' '.join(arguments)} failed with exit code {child.returncode}")
    return Done(text, taken, used.ru_maxrss / 1024)


def measured(module: str, *arguments: object, cache: str | None = None) -> dict[str, Any]:
    """What a module of the suite answers, with the peak memory of its process in MB."""
    done = command(["-m", f"suite.{module}", *map(str, arguments)], cache=cache)
    found: dict[str, Any] = json.loads(done.text.splitlines()[-1])
    return {**found, "peak": round(done.megabytes, 1)}


def answer(found: Mapping[str, object]) -> None:
    """Print what was measured, for the process that asked; the last line of stdout is read."""
    print(json.dumps(found), flush=True)
