"""``lvmrs report``: a page about runs, to open and to send."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from lvmrs.cli import options, parsing
from lvmrs.cli.console import tell
from lvmrs.cli.output_file import writing
from lvmrs.errors import InvalidArgumentError
from lvmrs.record import Run

__all__ = ["report"]


def report(
    runs: Annotated[list[Path], typer.Argument(help="Run directories.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The HTML file to write.")] = Path("report.html"),
    radii: options.Radii = options.RADII,
    data: Annotated[
        Optional[str],
        typer.Option("--data", help="Where the inputs are now, for their pictures; none for no pictures."),
    ] = None,
    class_index: options.ClassIndex = None,
    most: Annotated[int, typer.Option("--inputs", help="List at most so many inputs.")] = 1_000,
    confidence: options.Confidence = 0.95,
) -> None:
    """Write one HTML file to open and to send: settings, guarantee, interactive curves, table, and the inputs.

    It needs no network, and shows light or dark.

    \b
    Examples:
      lvmrs report runs/cohen runs/lvm -o report.html
      lvmrs report runs/lvm --data cifar10:elsewhere/cifar10.npz
    """
    from lvmrs.analysis.report import Pictures, pictures_of, write_report

    opened = [Run(path) for path in runs]
    if most < 1:
        raise InvalidArgumentError(f"inputs must be a whole number of at least 1, got {most}")
    if class_index is not None and data in (None, "none"):
        raise InvalidArgumentError("class-index goes with data; say where the data are, too")
    wanted = parsing.radii(radii)
    pictures = Pictures() if data == "none" else pictures_of(opened[0], data, class_index)
    if pictures.why_none is not None:
        tell(f"no pictures: {pictures.why_none}{'; say where the data are with --data' if data is None else ''}")
    with writing(out) as file:
        write_report(opened, file, radii=wanted, picture=pictures.of, most=most, confidence=confidence)
    tell(f"wrote {out} ({out.stat().st_size / 1e6:.1f} MB)")
