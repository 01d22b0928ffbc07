"""Commands as they are typed, in this process."""

import sys

import pytest

from lvmrs.cli import main

__all__ = ["run"]


def run(line: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of ``lvmrs LINE``."""
    arguments = line.split()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["lvmrs", *arguments])
        with pytest.raises(SystemExit) as end:
            main()
    shown = capsys.readouterr()
    return int(end.value.code or 0), shown.out, shown.err
