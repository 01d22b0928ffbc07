"""Reading of several result files, of which some may have no rows yet."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lvmrs import analysis
from lvmrs.analysis import Results
from lvmrs.analysis.results import NoRowsError
from lvmrs.cli.console import tell

__all__ = ["read_all"]


def read_all(paths: Sequence[Path]) -> tuple[list[Results], bool]:
    """The results of those that have rows, and whether these are all; the others are told."""
    found: list[Results] = []
    empty: list[NoRowsError] = []
    for path in paths:
        try:
            found.append(analysis.read(path))
        except NoRowsError as error:
            empty.append(error)
    if empty and not found:
        raise empty[0]
    for why in empty:
        tell(f"left out: {why}")
    return found, not empty
