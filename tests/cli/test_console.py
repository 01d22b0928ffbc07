"""How commands end: exit codes that no other code can change, one sentence, and --debug for the rest."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import typer

from lvmrs.cli.console import exit_code, output, tell
from lvmrs.errors import InvalidArgumentError, RunError
from tests.cli.helpers import run


class UnprintableError(Exception):
    def __str__(self) -> str:
        raise ValueError("no")


def raising(error: BaseException) -> Callable[[], None]:
    def command() -> None:
        raise error

    return command


ENDS: dict[str, tuple[BaseException, int, str]] = {
    "usage": (InvalidArgumentError("n is wrong"), 2, "lvmrs: n is wrong"),
    "failure": (RunError("it is gone"), 1, "lvmrs: it is gone"),
    "exit 0": (SystemExit(0), 1, "lvmrs: code of a model, data set or method ended the program itself (sys.exit(0))"),
    "exit None": (SystemExit(), 1, "lvmrs: code of a model, data set or method ended the program itself"),
    "end of file": (EOFError(), 1, "lvmrs: internal error: EOFError; run again with --debug and report it"),
    "bug": (KeyError("x\ny"), 1, "lvmrs: internal error: KeyError: 'x\\ny'; run again with --debug and report it"),
    "memory": (MemoryError(), 1, "lvmrs: there is not enough memory for this"),
    "recursion": (RecursionError("too deep"), 1, "lvmrs: some code calls itself without end (RecursionError)"),
    "unprintable": (UnprintableError(), 1, "lvmrs: internal error: UnprintableError: it cannot be printed, ValueError"),
    "another pipe": (BrokenPipeError(32, "Broken pipe"), 1, "lvmrs: internal error: BrokenPipeError"),
    "disk": (OSError(36, "File name too long", "a" * 5000), 1, f"lvmrs: {'a' * 200}… cannot be used (File name too"),
    "disk without a name": (OSError(5, "Input/output error"), 1, "lvmrs: internal error: OSError: [Errno 5]"),
    "generator": (GeneratorExit(), 1, "lvmrs: internal error: GeneratorExit"),
    "control": (RunError("a\x1b[31m\nb"), 1, "lvmrs: a\\x1b[31m\\nb"),
    "long": (RunError("a" * 10**6), 1, "lvmrs: aaa"),
    "Control-C": (KeyboardInterrupt(), 3, "lvmrs: stopped; what was written is safe"),
}


@pytest.mark.parametrize("name", ENDS)
def test_ends(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    error, code, sentence = ENDS[name]
    assert exit_code(raising(error), debug=False) == code
    err = capsys.readouterr().err
    assert err.startswith(sentence)
    assert err.count("\n") == 1
    assert len(err) < 2_100


def test_ends_without_a_word(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(lambda: None, debug=False) == 0
    assert exit_code(raising(typer.Exit(3)), debug=True) == 3
    assert capsys.readouterr() == ("", "")


def test_debug_shows_all_that_led_to_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    def command() -> None:
        try:
            try:
                raising(ValueError("first\nwith keys:\n\tlayer.0\x1b[0m"))()
            except ValueError as error:
                raise KeyError("second") from error
        except KeyError:
            raise RunError("third") from None

    assert exit_code(command, debug=True) == 1
    err = capsys.readouterr().err
    assert "ValueError: first\nwith keys:\n\\tlayer.0\\x1b[0m\n" in err
    assert "KeyError: 'second'" in err
    assert err.endswith("RunError: third\nlvmrs: third\n")


@pytest.fixture
def lvmrs(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], tuple[int, str, str]]:
    monkeypatch.chdir(tmp_path)
    return lambda line: run(line, capsys)


Lvmrs = Callable[[str], tuple[int, str, str]]


def test_debug_may_stand_anywhere(lvmrs: Lvmrs, monkeypatch: pytest.MonkeyPatch) -> None:
    for line in ("--debug analyze nowhere", "analyze --debug nowhere", "analyze nowhere --debug"):
        code, _, err = lvmrs(line)
        assert code == 1
        assert err.startswith("Traceback")
        assert err.endswith("\nlvmrs: nowhere does not exist; give a run directory or a TSV file\n")
    assert "Traceback" not in lvmrs("analyze nowhere")[2]
    assert "--debug does not exist" in lvmrs("analyze -- --debug")[2]
    monkeypatch.setenv("LVMRS_DEBUG", "1")
    assert "Traceback" in lvmrs("analyze nowhere")[2]
    assert "--debug" in lvmrs("--help")[1]
    assert "--debug" in lvmrs("")[1]


def test_help_and_usage_errors_are_where_they_belong(lvmrs: Lvmrs) -> None:
    code, out, err = lvmrs("certify --help")
    assert (code, err) == (0, "")
    assert "Usage: lvmrs certify" in out
    assert lvmrs("certify --zzz") == (
        2,
        "",
        "Usage: lvmrs certify [OPTIONS]\nTry 'lvmrs certify -h' for help.\n\nError: No such option: --zzz\n",
    )
    assert "\x1b" not in lvmrs("--\x1b[31m")[2]


@pytest.mark.parametrize("where", ["import", "construction", "forward", "data", "method"])
def test_sys_exit_in_code_of_the_user_is_a_failure(lvmrs: Lvmrs, where: str) -> None:
    ends = {name: "sys.exit(0)" if name == where else "pass" for name in ("import", "construction", "forward", "data")}
    Path(f"ends_{where}.py").write_text(
        "import sys, torch\nfrom lvmrs.data import Dataset\nfrom lvmrs.planners import Cohen\n"
        f"{ends['import']}\n"
        "class Net(torch.nn.Linear):\n"
        f"    def forward(self, x):\n        {ends['forward']}\n        return super().forward(x)\n"
        f"def net():\n    {ends['construction']}\n    return Net(4, 3)\n"
        "class Data(Dataset):\n"
        "    name, split = 'mine', 'test'\n"
        "    def fingerprint(self): return 'x'\n"
        "    def __len__(self): return 3\n"
        f"    def __getitem__(self, k):\n        {ends['data']}\n        return torch.zeros(4), 0\n"
        "def data(split): return Data()\n"
        f"def method(): {'sys.exit(0)' if where == 'method' else 'return Cohen()'}\n"
    )
    this = f"python:ends_{where}.py"
    line = (
        f"--model {this}:net --data {this}:data --sigma 0.5 --n 100 --n0 10 --batch 10 --out a --method {this}:method"
    )
    code, out, err = lvmrs(f"certify {line}")
    assert code in (1, 2), err
    assert out == ""
    assert "Traceback" not in err
    assert "sys.exit" in err.splitlines()[-1]


NOISY = """
import os, sys, torch
print("imported")
os.write(1, b"from C, on import\\n")
class Net(torch.nn.Sequential):
    def __init__(self):
        super().__init__(torch.nn.Flatten(), torch.nn.Linear(64, 10))
        print("made")
    def forward(self, x):
        print("runs", flush=True)
        os.write(1, b"from C\\n")
        sys.__stdout__.write("by another name\\n")
        return super().forward(x)
"""


@pytest.mark.parametrize(
    "line",
    [
        "certify --data npz:few.npz --sigma 0.5 --n0 10 --n 50 --batch 50 --max 2 --out a",
        "predict --data npz:few.npz --sigma 0.5 --n0 10 --n 50 --batch 50 --max 1",
        "lipschitz --shape 64",
    ],
)
def test_what_models_print_does_not_reach_stdout(tmp_path: Path, line: str) -> None:
    (tmp_path / "noisy.py").write_text(NOISY)
    np.savez(tmp_path / "few.npz", x_test=np.full((2, 1, 8, 8), 0.5), y_test=np.arange(2))  # digits would take longer
    command = [sys.executable, "-m", "lvmrs", *line.split(), "--model", "python:noisy.py:Net", "--json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)  # noqa: S603
    assert done.returncode == 0, done.stderr
    assert isinstance(json.loads(done.stdout), dict)
    assert "from C, on import" in done.stderr
    assert "made" in done.stderr


def test_what_models_print_in_this_process(lvmrs: Lvmrs) -> None:
    Path("loud.py").write_text("import torch\nprint('loud')\ndef net(): return torch.nn.Linear(4, 2)\n")
    code, out, err = lvmrs("lipschitz --model python:loud.py:net --shape 4 --json")
    assert code == 0, err
    assert "lipschitz" in json.loads(out)
    assert "loud" in err


def shell(script: str, place: Path) -> "subprocess.CompletedProcess[str]":
    lvmrs = f"{sys.executable} -m lvmrs"
    return subprocess.run(  # noqa: S603
        ["/bin/bash", "-c", script.replace("LVMRS", lvmrs)],
        cwd=place,
        capture_output=True,
        text=True,
        check=False,
    )


def test_stdout_that_is_gone_full_or_closed(tmp_path: Path) -> None:
    radius = "LVMRS radius 0.9 --sigma 1"
    gone = shell(f"({radius}; echo $? >&2) | true", tmp_path)
    assert gone.stderr in ("3\n", "0\n")  # 0 if it was quicker than its reader
    gone = shell("LVMRS --help | true; echo ${PIPESTATUS[0]} >&2", tmp_path)
    assert gone.stderr in ("3\n", "0\n")
    full = shell(f"ulimit -f 0; {radius} > a", tmp_path)
    assert (full.returncode, full.stderr) == (1, "lvmrs: stdout cannot be written to (File too large)\n")
    closed = shell(f"{radius} >&-", tmp_path)
    assert (closed.returncode, closed.stderr) == (
        1, "lvmrs: there is no stdout to write the result to; do not close it\n",
    )  # fmt: skip
    assert shell(f"{radius} <&- 2>&-", tmp_path).stdout.startswith("R1")


def test_a_terminal_that_is_gone_does_not_end_the_work(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Gone:
        def write(self, text: str) -> int:
            raise OSError(5, "Input/output error")

        def flush(self) -> None: ...

    monkeypatch.setattr(sys, "stderr", Gone())
    tell("nobody hears")
    tell("nobody hears this either")
    output("data")
    assert capsys.readouterr().out == "data\n"
