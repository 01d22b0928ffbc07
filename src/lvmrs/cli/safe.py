"""``lvmrs safe``: list the inputs that are certified at a radius."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from lvmrs import analysis
from lvmrs.analysis.tables import formatted
from lvmrs.cli.console import INCOMPLETE, output, tell, writing
from lvmrs.cli.options import INPUTS, OUTPUT, option
from lvmrs.kernel import checks
from lvmrs.kernel.radius import rounded_down
from lvmrs.record import Run
from lvmrs.record.result_file import UNKNOWN

_FORMATS = ("list", "csv", "json")


def safe(
    run: Annotated[Path, typer.Argument(help="Directory of the run.")],
    radius: Annotated[float, option(INPUTS, "Radius at which the certificate must hold.")],
    correct: Annotated[
        bool, option(INPUTS, "Leave out inputs that are certified for a wrong class.", "--correct")
    ] = False,
    form: Annotated[str, option(OUTPUT, f"Format: {', '.join(_FORMATS)}.", "--format")] = "list",
    out: Annotated[
        Path | None, option(OUTPUT, "File to write; an existing file is replaced. Default: stdout.", "--out", "-o")
    ] = None,
) -> None:
    """List the inputs of RUN that are certified at a radius: index, certified class, radius and name of each.

    The column correct is 1 if the class is the label. Wrong answers are listed too, unless --correct is given.
    Certificates that an attack broke are left out. Inputs that are not listed are not shown to be unsafe.

    \b
    Examples:
      lvmrs safe runs/a --radius 0.25
      lvmrs safe runs/a --radius 0.25 --correct --format csv -o safe.csv
    """
    checks.one_of("format", form, _FORMATS)
    opened = Run(run)
    results = analysis.results_of(opened)
    rows = analysis.safe_inputs(opened, radius, correct=correct)
    head = ["idx", "class", "radius", "correct", "name"]
    found = [(row.idx, row.predict, row.radius, row.correct, row.name) for row in rows]
    if form == "json":
        text = json.dumps([dict(zip(head, values, strict=True)) for values in found])
    else:
        cells = [[UNKNOWN if value is None else str(value) for value in values] for values in found]
        if form == "list":
            cells = [[*cell[:2], rounded_down(row.radius), *cell[3:]] for cell, row in zip(cells, rows, strict=True)]
        text = formatted([head, *cells], "table" if form == "list" else form)
    if out is None:
        output(text)
    else:
        with writing(out) as file:
            file.write(f"{text}\n".encode())
    if any(row.correct is None for row in rows):
        which = "without labels, wrong answers among these are unknown"
    else:
        wrong = sum(not row.correct for row in rows)
        which = "wrong answers are left out" if correct else f"{wrong} of these for a wrong class"
    tell(f"{len(rows)} of {len(results)} inputs are certified at {radius:.12g}; {which}")
    for sentence in analysis.stopped_early(results):
        tell(f"caution: {sentence}")
    if unfinished := analysis.unfinished(results):
        tell(*unfinished)
        raise typer.Exit(INCOMPLETE)
