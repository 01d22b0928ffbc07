"""A process that holds one group of contestants, and lets them take a turn when it is asked to.

What one group changes in its process (memory, threads, compiled programs) does not touch the others. A process that
waits for its turn uses no core.

``python -m suite.worker GROUP NETWORK N`` prints one line about the group. Then it reads names, and prints for each one
the seconds per sample of a turn.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Self

__all__ = ["Worker"]


class Worker:
    """The process of a group, as others see it."""

    def __init__(self, group: str, network: str, n: int) -> None:
        """Start it, and wait until its contestants have chosen what is theirs to choose."""
        arguments = [sys.executable, "-m", "suite.worker", group, network, str(n)]
        self._process = subprocess.Popen(  # noqa: S603
            arguments, cwd=Path(__file__).parents[1], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        try:
            about = json.loads(self._line())
        except BaseException:
            self.__exit__(None, None, None)
            raise
        self.settings: dict[str, str] = about.pop("settings")
        self.more: dict[str, Any] = about

    def turn(self, name: str) -> float:
        """Seconds per sample of one turn."""
        assert self._process.stdin is not None  # noqa: S101 (a pipe was asked for)
        self._process.stdin.write(f"{name}\n")
        self._process.stdin.flush()
        return float(self._line())

    def __enter__(self) -> Self:
        """The worker itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def _line(self) -> str:
        """The next line that is meant for us; models may print others."""
        assert self._process.stdout is not None  # noqa: S101 (a pipe was asked for)
        for line in self._process.stdout:
            if line.startswith(_MARK):
                return line.removeprefix(_MARK)
        raise SystemExit(f"a contestant failed: {' '.join(map(str, self._process.args))}")  # type: ignore[arg-type]


_MARK = "suite: "


def main() -> None:
    from suite.groups import GROUPS
    from suite.networks import network
    from suite.rounds import seconds_per_sample

    name, chosen, n = sys.argv[1:]
    group = GROUPS[name](network(chosen), int(n))
    print(_MARK + json.dumps({"settings": group.settings, **group.more}), flush=True)
    for line in sys.stdin:
        print(f"{_MARK}{seconds_per_sample(group.contestants[line.rstrip()])!r}", flush=True)


if __name__ == "__main__":
    main()
