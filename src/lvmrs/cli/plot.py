"""``lvmrs plot``: draw a figure of runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lvmrs import analysis
from lvmrs.analysis import plots
from lvmrs.cli import options
from lvmrs.cli.console import INCOMPLETE, read_all, tell, writing
from lvmrs.cli.options import OUTPUT, option
from lvmrs.errors import InvalidArgumentError
from lvmrs.record import Run

__all__ = ["plot"]

_SUFFIXES = (".png", ".svg", ".pdf")


def plot(
    runs: Annotated[list[Path], typer.Argument(help="Run directories, or TSV files for curves and radii.")],
    out: Annotated[Path, option(OUTPUT, "--out", "-o", help="New file: .png, .svg or .pdf.")],
    kind: Annotated[str, option(OUTPUT, "--kind", help=f"Kind of figure: {', '.join(plots.KINDS)}.")] = "curves",
    confidence: options.Confidence = 0.95,
) -> None:
    """Draw a figure of runs.

    curves shows certified accuracy with confidence bands, radii a histogram, choices the map and temperature of each
    input, and variance the variance of the top score against its margin, for a run with --keep-scores.

    \b
    Examples:
      lvmrs plot runs/cohen runs/lvm -o curves.pdf
      lvmrs plot runs/lvm --kind choices -o choices.svg
    """
    options.choice("kind", kind, plots.KINDS)
    if out.suffix.lower() not in _SUFFIXES:
        raise InvalidArgumentError(f"out must end with {', '.join(_SUFFIXES)}, got {out}")
    are_all = True
    if kind in plots.OF_ONE_RUN:
        if len(runs) != 1:
            raise InvalidArgumentError(f"kind {kind} shows one run, and {len(runs)} were given")
        figure = plots.OF_ONE_RUN[kind](Run(runs[0]))
    else:
        results, are_all = read_all(runs)
        for sentence in analysis.unfinished(*results):
            tell(f"caution: {sentence}")
        figure = plots.OF_RESULTS[kind](results, confidence)
    with writing(out) as file:
        figure.savefig(file, format=out.suffix[1:].lower(), dpi=160)
    tell(f"wrote {out}")
    if not are_all:
        raise typer.Exit(INCOMPLETE)
