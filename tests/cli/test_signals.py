"""Control-C, SIGTERM and SIGHUP at any moment: one sentence, exit code 3, nothing lost, nothing left."""

import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lvmrs.record import Run
from tests.cli.helpers import run
from tests.processes import left_behind, running, until
from tests.runs.helpers import fill

STOPS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
# Each starts processes that import torch: the quick tests have one signal, the slow ones all.
MOST_ARE_SLOW = [signal.SIGTERM, *(pytest.param(n, marks=pytest.mark.slow) for n in (signal.SIGINT, signal.SIGHUP))]
MODEL = """
from torch import nn
def net():
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
"""
CERTIFY = "certify --model python:nets.py:net --data digits --sigma 0.5 --batch 100 --n0 100 --out a"


def answers(process: "subprocess.Popen[str]") -> bool:
    """Whether the process has handlers of its own for the signals."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    caught = int(re.findall(r"SigCgt:\s*([0-9a-f]+)", status)[0], 16)
    return all(caught >> number - 1 & 1 for number in STOPS)


@contextmanager
def lvmrs(line: str, place: Path) -> Iterator["subprocess.Popen[str]"]:
    (place / "nets.py").write_text(MODEL)
    with running("-m", "lvmrs", *line.split(), cwd=place) as process:
        yield process


def stopped_at_start(line: str, place: Path, number: signal.Signals, delay: float) -> tuple[int, str]:
    """Exit code and stderr of a command that gets a signal some seconds after it starts to listen."""
    with lvmrs(line, place) as process:
        until(lambda: answers(process), process)
        time.sleep(delay)
        process.send_signal(number)
        _, err = process.communicate(timeout=300)
    return process.returncode, err


def check_stop(code: int, err: str, out: Path) -> None:
    assert "Traceback" not in err, err
    assert "internal error" not in err, err
    assert code in (0, 3), (code, err)
    if code == 3:
        last = err.splitlines()[-1]
        assert last == "lvmrs: stopped; nothing was written" or "--out" in last, err
        assert "nothing was written" not in err or not out.exists()


@pytest.mark.parametrize(
    ("number", "delay"),
    [(signal.SIGINT, 0.0), (signal.SIGTERM, 0.3), (signal.SIGINT, 0.8)],
)
def test_a_signal_while_everything_is_loaded(tmp_path: Path, number: signal.Signals, delay: float) -> None:
    code, err = stopped_at_start(f"{CERTIFY} --n 100000", tmp_path, number, delay)
    check_stop(code, err, tmp_path / "a")
    assert code == 3


def test_an_interruption_within_exec_has_our_exit_code(tmp_path: Path) -> None:
    """Python itself would end with SIGINT, long after the interruption was answered."""
    (tmp_path / "late.py").write_text('def net():\n    exec("raise KeyboardInterrupt")\n')
    line = "certify --model python:late.py:net --data digits --sigma 0.5 --out a"
    with running("-m", "lvmrs", *line.split(), cwd=tmp_path) as process:
        _, err = process.communicate(timeout=300)
    assert process.returncode == 3, err
    assert "stopped" in err


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(90))
def test_a_signal_at_any_moment(tmp_path: Path, seed: int) -> None:
    moments = random.Random(seed)  # noqa: S311
    number, delay = moments.choice(STOPS), moments.uniform(0, 4)
    line = moments.choice(
        [
            f"{CERTIFY} --n 1000 --max 20",
            "train --model ready:small_cnn --data digits --sigma 0.5 --epochs 3 --out a.safetensors",
            "predict --model python:nets.py:net --data digits --sigma 0.5 --max 20",
        ]
    )
    code, err = stopped_at_start(line, tmp_path, number, delay)
    assert "Traceback" not in err, err
    assert "internal error" not in err, err
    assert code in (0, 3), (code, err)
    assert (code == 3) == ("stopped" in err)
    if "nothing was written" in err:
        assert {path.name for path in tmp_path.iterdir()} <= {"nets.py", "__pycache__"}
    elif code == 3 and line.startswith("certify"):
        with lvmrs(f"{line} --resume", tmp_path) as process:
            process.communicate(timeout=300)
        assert process.returncode == 0
        assert len(Run(tmp_path / "a").rows()) == 20


@pytest.mark.parametrize("number", MOST_ARE_SLOW)
def test_a_signal_during_a_run_tells_how_to_go_on(tmp_path: Path, number: signal.Signals) -> None:
    rows = tmp_path / "a" / "certificates.tsv"
    with lvmrs(f"{CERTIFY} --n 20000", tmp_path) as process:
        until(lambda: rows.exists() and rows.read_text().count("\n") > 2, process)
        process.send_signal(number)
        out, err = process.communicate(timeout=300)
    assert (process.returncode, out) == (3, "")
    assert re.search(r"\nstopped after \d+ of 360 inputs; continue with:\nlvmrs certify .* --resume\n$", err), err
    assert rows.read_text().endswith("\n")


SWALLOWED = """
import os, signal, weakref
from lvmrs._util import signals as _stopping
_stopping.listen()
_stopping.work_begins()
class Thing: pass
thing = Thing()
seen = weakref.ref(thing, lambda _: {callback})
del thing
try:
    _stopping.check()
except KeyboardInterrupt:
    print("interrupted again")
"""


def test_an_interruption_that_python_swallows_is_not_lost_and_needs_no_traceback(tmp_path: Path) -> None:
    script = SWALLOWED.format(callback="os.kill(os.getpid(), signal.SIGTERM)")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)  # noqa: S603
    assert (done.stdout, done.stderr) == ("interrupted again\n", "")
    other = subprocess.run(  # noqa: S603
        [sys.executable, "-c", SWALLOWED.format(callback="1 / 0")], capture_output=True, text=True, check=False
    )
    assert other.stdout == ""
    assert "ZeroDivisionError" in other.stderr


def test_a_signal_that_was_ignored_from_the_start_stays_so(tmp_path: Path) -> None:
    (tmp_path / "nets.py").write_text(MODEL)
    rows = tmp_path / "a" / "certificates.tsv"
    ignoring = 'trap \'\' HUP; exec "$0" "$@"'  # what nohup does
    line = [sys.executable, "-m", "lvmrs", *CERTIFY.split(), "--n", "500", "--max", "30"]
    with subprocess.Popen(["sh", "-c", ignoring, *line], cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:  # noqa: S603, S607
        try:
            until(rows.exists, process)
            process.send_signal(signal.SIGHUP)
            _, err = process.communicate(timeout=300)
        finally:
            process.kill()
    assert process.returncode == 0, err
    assert len(Run(tmp_path / "a").rows()) == 30


def test_code_that_swallows_everything_is_stopped_too(tmp_path: Path) -> None:
    stubborn = (
        "import os, signal\nfrom torch import nn\n"
        "class Net(nn.Linear):\n"
        "    def forward(self, x):\n"
        "        try:\n"
        "            if os.path.exists('a/certificates.tsv') and not os.path.exists('sent'):\n"
        "                open('sent', 'w').close()\n"
        "                os.kill(os.getpid(), signal.SIGTERM)\n"
        "                for _ in range(1000): pass\n"
        "        except BaseException: pass\n"
        "        return super().forward(x.flatten(1))\n"
        "def net(): return Net(64, 10)\n"
    )
    (tmp_path / "stubborn.py").write_text(stubborn)
    line = CERTIFY.replace("nets.py", "stubborn.py") + " --n 1000"
    with running("-m", "lvmrs", *line.split(), cwd=tmp_path) as process:
        _, err = process.communicate(timeout=300)
    assert process.returncode == 3, err
    assert "stopped after 1 of 360 inputs; continue with:" in err


# Recertification with several processes; its rows take a while.
PARALLEL = """
if __name__ == "__main__":
    from lvmrs.__main__ import main
    main()
"""
# Waits until both workers have begun; then each makes one row, and no other before the file "go" is there.
SLOW_COHEN = """
import os, time
from pathlib import Path
from lvmrs.planners import Cohen
made = []
class Slow(Cohen):
    def choose(self, scores, terms):
        Path(f"worker-{os.getpid()}").touch()
        while not Path("go").exists() and (len(list(Path().glob("worker-*"))) < 2 or made):
            time.sleep(0.01)
        made.append(True)
        return super().choose(scores, terms)
"""
RECERTIFY = "recertify source --method python:slow.py:Slow --out b --workers 2"


@contextmanager
def recertifying(place: Path) -> Iterator[tuple["subprocess.Popen[str]", list[int]]]:
    """A recertification that has written a row, and its two workers."""
    fill(place / "source", keep=True)
    (place / "parallel.py").write_text(PARALLEL)
    (place / "slow.py").write_text(SLOW_COHEN)
    with running("parallel.py", *RECERTIFY.split(), cwd=place) as process:
        rows = place / "b" / "certificates.tsv"
        until(lambda: rows.exists() and rows.read_text().count("\n") > 1, process)
        yield process, [int(path.name.partition("-")[2]) for path in place.glob("worker-*")]


def ended(processes: list[int]) -> bool:
    """Whether none of the processes runs."""
    mine = left_behind()  # an orphan becomes a child of this process, which does not wait for it
    return all(not Path(f"/proc/{number}").exists() or number not in mine for number in processes)


@pytest.fixture
def goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The same command completes what was begun, and leaves no other file."""
    yield
    monkeypatch.chdir(tmp_path)
    Path("go").touch()
    code, _, err = run(RECERTIFY, capsys)
    assert code == 0, err
    assert len(Run("b").rows()) == 12
    assert {path.name for path in Path("b").iterdir()} == {"manifest.json", "certificates.tsv"}


@pytest.mark.usefixtures("goes_on")
@pytest.mark.parametrize("number", MOST_ARE_SLOW)
def test_stopping_a_parallel_recertification_stops_its_processes(tmp_path: Path, number: signal.Signals) -> None:
    with recertifying(tmp_path) as (process, workers):
        process.send_signal(number)
        _, err = process.communicate(timeout=300)
        assert process.returncode == 3, err
        assert err.endswith(f"stopped; written rows are safe; continue with:\nlvmrs {RECERTIFY}\n")
        assert "Traceback" not in err
        until(lambda: ended(workers), seconds=10)


@pytest.mark.slow
def test_control_c_in_a_terminal_reaches_all_processes(tmp_path: Path) -> None:
    with recertifying(tmp_path) as (process, workers):
        for number in [*workers, process.pid]:
            os.kill(number, signal.SIGINT)
        _, err = process.communicate(timeout=300)
        assert process.returncode == 3, err
        assert "Traceback" not in err
        until(lambda: ended(workers), seconds=10)


@pytest.mark.usefixtures("goes_on")
def test_killing_a_parallel_recertification_ends_its_processes(tmp_path: Path) -> None:
    with recertifying(tmp_path) as (process, workers):
        semaphores = set(re.findall(r"/\S+/sem\.\S+", Path(f"/proc/{process.pid}/maps").read_text()))
        assert semaphores
        process.kill()
        _, err = process.communicate(timeout=300)
        until(lambda: ended(workers), seconds=10)
        until(lambda: not any(map(os.path.exists, semaphores)), seconds=10)  # Python's resource tracker removes them
    assert "Traceback" not in err


@pytest.mark.usefixtures("goes_on")
def test_a_killed_worker_gets_one_sentence(tmp_path: Path) -> None:
    with recertifying(tmp_path) as (process, workers):
        os.kill(workers[0], signal.SIGKILL)
        _, err = process.communicate(timeout=300)
        assert process.returncode == 1, err
        assert "lvmrs: a worker process was killed" in err
        assert "Traceback" not in err
        until(lambda: ended(workers), seconds=10)
