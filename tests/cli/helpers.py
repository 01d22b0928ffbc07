"""Commands as they are typed, in this process."""

import sys
from typing import Any

import pytest
import typer

from lvmrs.cli import app, main

__all__ = ["commands", "run"]


def run(line: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of ``lvmrs LINE``."""
    arguments = line.split()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["lvmrs", *arguments])
        with pytest.raises(SystemExit) as end:
            main()
    shown = capsys.readouterr()
    return int(end.value.code or 0), shown.out, shown.err


def commands() -> dict[str, Any]:
    """All commands by name, as typer knows them."""
    group: Any = typer.main.get_command(app)
    return {name: group.get_command(None, name) for name in group.list_commands(None)}
