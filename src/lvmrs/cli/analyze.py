"""``lvmrs analyze``: what runs amount to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from lvmrs import analysis
from lvmrs._decimals import rounded_down
from lvmrs.cli import options
from lvmrs.cli.certify import INCOMPLETE
from lvmrs.cli.tables import aligned, percent
from lvmrs.cli.words import numbers, tell
from lvmrs.errors import InvalidArgumentError
from lvmrs.runs import Run

__all__ = ["analyze", "parse_radii", "table"]


def analyze(
    runs: Annotated[list[Path], typer.Argument(help="Run directories.")],
    radii: Annotated[
        str, typer.Option("--radii", help="FIRST:LAST:STEP, or radii with commas between.")
    ] = "0:1.5:0.25",
    as_json: options.Json = False,
) -> None:
    """Show certified accuracy at given radii (in %) and the average certified radius (ACR) of runs.

    \b
    Examples:
      lvmrs analyze runs/a runs/b
      lvmrs analyze runs/a --radii 0,0.25,0.5,1 --json
    """
    wanted = parse_radii(radii)
    results = [analysis.results_of(Run(path)) for path in runs]
    if as_json:
        print(json.dumps([_summary(result, wanted) for result in results]))
    else:
        print(table(results, wanted))
    for result in results:
        if result.missing:
            tell(f"{result.name} is not finished: {result.missing} inputs are missing, and not counted here")
    if any(result.missing for result in results):
        raise typer.Exit(INCOMPLETE)


def table(results: list[analysis.Results], radii: list[float]) -> str:
    """One line for each run."""
    head = ["run", "inputs", *(f"{r:g}" for r in radii), "ACR"]
    lines = [
        [
            result.name,
            str(len(result.radius)),
            *(percent(share) for share in analysis.certified_accuracy(result, radii)),
            rounded_down(analysis.average_certified_radius(result)),
        ]
        for result in results
    ]
    return aligned([head, *lines])


def _summary(result: analysis.Results, radii: list[float]) -> dict[str, object]:
    return {
        "run": result.name,
        "inputs": len(result.radius),
        "missing": result.missing,
        "radii": radii,
        "certified accuracy": analysis.certified_accuracy(result, radii),
        "average certified radius": analysis.average_certified_radius(result),
    }


def parse_radii(text: str) -> list[float]:
    """0:1.5:0.25 goes from 0 to 1.5 in steps of 0.25; 0,0.5,1 is a list."""
    values = numbers("radii", text.replace(":", ",")) or []
    if ":" in text:
        if len(values) != 3 or not (values[2] > 0 and values[1] >= values[0]):
            raise InvalidArgumentError(f"radii must be FIRST:LAST:STEP with a positive step, got {text!r}")
        first, last, step = values
        count = int(np.floor((last - first) / step + 1e-9)) + 1
        if count > 10_000:
            raise InvalidArgumentError(f"radii {text!r} are {count} radii; take a larger step")
        values = [round(first + k * step, 12) for k in range(count)]
    if any(not 0 <= value < np.inf for value in values):
        raise InvalidArgumentError(f"radii must be numbers from 0, got {text!r}")
    return values
