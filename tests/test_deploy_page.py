"""docs/deploy.md: its commands and its code do what is shown."""

import contextlib
import io
import re
from pathlib import Path

import pytest

from lvmrs.registry import METHODS
from tests.cli.helpers import run
from tests.test_readme import masked

PAGE = (Path(__file__).parent.parent / "docs" / "deploy.md").read_text(encoding="utf-8")


def test_the_commands_print_what_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """But for numbers, and the map that calibration finds: they depend on how the network was trained."""
    monkeypatch.chdir(tmp_path)
    (block,) = re.findall(r"```console\n(.*?)```", PAGE, flags=re.DOTALL)
    steps = re.findall(r"\$ lvmrs (.*)\n((?:[^$].*\n)*)", block)
    assert [line.split()[0] for line, _ in steps] == ["train", "calibrate", "certify", "predict", "predict"]
    for line, shown in steps:
        code, out, err = run(line, capsys)
        assert code == 0, err
        assert without_choice(out) == without_choice(shown)


def without_choice(text: str) -> str:
    return re.sub(r"--map.*", "--map …", masked(text))


def test_the_code_prints_what_is_shown() -> None:
    ((code, shown),) = re.findall(r"```python\n(.*?)```\n```text\n(.*?)```", PAGE, flags=re.DOTALL)
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(code, "docs/deploy.md", "exec"), {})  # noqa: S102
    assert printed.getvalue() == shown


def test_every_method_is_in_the_table() -> None:
    table = PAGE.partition("## ")[0]
    assert [name for name in METHODS if f"`{name}`" not in table] == []
