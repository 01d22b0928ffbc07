"""The tests themselves: their processes hear signals, and those that are left behind are found."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.processes import left_behind, running, until

ROOT = Path(__file__).parents[1]
ASKS = """
import signal, subprocess, sys
from tests.processes import hear_signals
hear_signals()
code = "import signal; print([str(signal.getsignal(n)) for n in (signal.SIGINT, signal.SIGHUP)])"
print(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout)
"""


def test_processes_hear_signals_that_are_ignored_here() -> None:
    line = ["/bin/sh", "-c", 'trap \'\' INT HUP; exec "$0" "$@"', sys.executable, "-c", ASKS]
    shown = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=True).stdout  # noqa: S603
    assert "SIG_IGN" not in shown
    assert str(signal.SIG_DFL) in shown


def test_processes_and_orphans_are_found() -> None:
    orphan = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)  # orphan'])"
    with running("-c", orphan) as parent:
        parent.wait()
        found: list[int] = []

        def orphan_is_found() -> bool:
            found[:] = [number for number, words in left_behind().items() if "# orphan" in words]
            return bool(found)

        until(orphan_is_found, seconds=10)
        for number in found:
            os.kill(number, signal.SIGKILL)
        until(lambda: not orphan_is_found(), seconds=10)
