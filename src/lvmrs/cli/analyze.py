"""``lvmrs analyze``: the measures of runs in a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lvmrs import analysis
from lvmrs.analysis.tables import FORMATS, summary_table
from lvmrs.cli import options, parsing
from lvmrs.cli.console import INCOMPLETE, output, tell
from lvmrs.cli.reading import read_all

__all__ = ["analyze"]


def analyze(
    runs: Annotated[list[Path], typer.Argument(help="Run directories, or TSV files of other projects.")],
    radii: options.Radii = options.RADII,
    form: options.Format = "table",
    intervals: Annotated[
        bool, typer.Option("--intervals", help="Show confidence intervals too (csv and json have them always).")
    ] = False,
    envelope: Annotated[
        bool, typer.Option("--envelope", help="Add the best of the runs at each radius, as papers do over σ.")
    ] = False,
    confidence: options.Confidence = 0.95,
    as_json: options.Json = False,
) -> None:
    """Show certified accuracy at given radii (in %), average certified radius (ACR) and abstentions.

    The accuracy without noise (clean) is shown too, where a run has measured it.

    \b
    Examples:
      lvmrs analyze runs/a runs/b
      lvmrs analyze runs/a --radii 0,0.25,0.5,1 --intervals
      lvmrs analyze runs/sigma-* --envelope --format latex
      lvmrs analyze other-project.tsv --format csv
    """
    wanted, form = parsing.radii(radii), parsing.choice("format", form, FORMATS)
    results, are_all = read_all(runs)
    found = [analysis.summarise(result, wanted, confidence=confidence) for result in results]
    output(summary_table(found, "json" if as_json else form, intervals=intervals, envelope=envelope))
    unfinished = analysis.unfinished(*found)
    for sentence in unfinished:
        tell(f"{sentence}, and not counted here")
    if unfinished or not are_all:
        raise typer.Exit(INCOMPLETE)
