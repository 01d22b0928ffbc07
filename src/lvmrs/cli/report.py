"""``lvmrs report``: write an HTML page about runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lvmrs.cli import options
from lvmrs.cli.console import tell, writing
from lvmrs.cli.options import INPUTS, OUTPUT, option
from lvmrs.errors import InvalidArgumentError
from lvmrs.record import Run


def report(
    runs: Annotated[list[Path], typer.Argument(help="Run directories.")],
    out: Annotated[Path, option(OUTPUT, "New HTML file.", "--out", "-o")] = Path("report.html"),
    radii: options.Radii = options.RADII,
    data: Annotated[
        str | None, option(INPUTS, "Source of the inputs, for pictures, or none. Default: the data that RUNS name.")
    ] = None,
    class_index: options.ClassIndex = None,
    most: Annotated[int, option(OUTPUT, "Largest number of inputs in the list.", "--inputs")] = 1_000,
    confidence: options.Confidence = 0.95,
    names: options.Names = None,
) -> None:
    """Write one HTML file with settings, guarantee, interactive curves, a table, and the inputs.

    The page needs no internet connection, and has light and dark colours.

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
    wanted = options.radii(radii)
    pictures = Pictures() if data == "none" else pictures_of(opened[0], data, class_index)
    if pictures.why_none is not None:
        tell(f"no pictures: {pictures.why_none}{'; say where the data are with --data' if data is None else ''}")
    with writing(out) as file:
        called = options.names(names)
        write_report(opened, file, radii=wanted, picture=pictures.of, most=most, confidence=confidence, names=called)
    tell(f"wrote {out} ({out.stat().st_size / 1e6:.1f} MB)")
