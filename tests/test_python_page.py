"""docs/python.md: its code prints what is shown, and so does its command."""

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import pytest

from tests.cli.helpers import run

PAGE = (Path(__file__).parent.parent / "docs" / "python.md").read_text(encoding="utf-8")


def test_code_and_command_print_what_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for code, shown in re.findall(r"```python\n(.*?)```\n(?:```text\n(.*?)```\n)?", PAGE, flags=re.DOTALL):
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile(code, "docs/python.md", "exec"), names)  # noqa: S102
        assert printed.getvalue() == shown
    ((line, shown),) = re.findall(r"```console\n\$ lvmrs (.*?)\n(.*?)```", PAGE, flags=re.DOTALL)
    code, out, err = run(line, capsys)
    assert (code, out) == (0, shown), err
