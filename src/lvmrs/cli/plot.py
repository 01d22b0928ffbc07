"""``lvmrs plot``: draw a figure of runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lvmrs import analysis
from lvmrs.analysis import plots
from lvmrs.cli import options
from lvmrs.cli.console import INCOMPLETE, read_all, tell, writing
from lvmrs.cli.options import OUTPUT, option
from lvmrs.errors import InvalidArgumentError
from lvmrs.kernel import checks
from lvmrs.record import Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SUFFIXES = (".png", ".svg", ".pdf")


def plot(
    runs: Annotated[list[Path], typer.Argument(help="Run directories, or TSV files for curves and radii.")],
    out: Annotated[
        Path, option(OUTPUT, "File to write: .png, .svg or .pdf; an existing file is replaced.", "--out", "-o")
    ],
    kind: Annotated[str, option(OUTPUT, f"Kind of figure: {', '.join(plots.KINDS)}.")] = "curves",
    confidence: options.Confidence = 0.95,
    names: options.Names = None,
) -> None:
    """Draw a figure of runs.

    curves shows certified accuracy with confidence bands, radii a histogram, choices the map and temperature of each
    input, and variance the variance of the top score against its margin, for a run with --keep-scores. --names are
    for curves and radii.

    \b
    Examples:
      lvmrs plot runs/cohen runs/lvm -o curves.pdf
      lvmrs plot runs/lvm --kind choices -o choices.svg
    """
    checks.one_of("kind", kind, plots.KINDS)
    check_suffix("out", out)
    are_all = True
    if kind in plots.OF_ONE_RUN:
        if len(runs) != 1:
            raise InvalidArgumentError(f"kind {kind} shows one run, and {len(runs)} were given")
        if names is not None:
            raise InvalidArgumentError(f"names has no effect: kind {kind} shows no names of runs; leave it out")
        figure = plots.OF_ONE_RUN[kind](Run(runs[0]))
    else:
        results, are_all = read_all(runs, options.names(names))
        for sentence in analysis.unfinished(*results) + analysis.stopped_early(*results):
            tell(f"caution: {sentence}")
        figure = plots.OF_RESULTS[kind](results, confidence)
    write_figure(figure, out)
    if not are_all:
        raise typer.Exit(INCOMPLETE)


def check_suffix(name: str, out: Path) -> None:
    """Refuse a file whose name does not end as that of a figure; ``name`` is that of the option."""
    if out.suffix.lower() not in _SUFFIXES:
        raise InvalidArgumentError(f"{name} must end with {', '.join(_SUFFIXES)}, got {out}")


def write_figure(figure: Figure, out: Path) -> None:
    """Write a figure in the format that the name of the file says."""
    with writing(out) as file:
        figure.savefig(file, format=out.suffix[1:].lower(), dpi=160)
    tell(f"wrote {out}")
