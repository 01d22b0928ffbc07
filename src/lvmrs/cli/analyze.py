"""``lvmrs analyze``: a table of certified accuracy and average radius."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lvmrs import analysis
from lvmrs.analysis.tables import FORMATS, summary_table
from lvmrs.cli import options
from lvmrs.cli.console import INCOMPLETE, output, read_all, tell
from lvmrs.cli.options import OUTPUT, option

__all__ = ["analyze"]


def analyze(
    runs: Annotated[list[Path], typer.Argument(help="Run directories, or TSV files of other projects.")],
    radii: options.Radii = options.RADII,
    form: options.Format = "table",
    intervals: Annotated[
        bool, option(OUTPUT, "--intervals", help="Show confidence intervals too; csv and json always have them.")
    ] = False,
    confidence: options.Confidence = 0.95,
    envelope: Annotated[
        bool, option(OUTPUT, "--envelope", help="Add the best of the runs at each radius, as papers do over σ.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Show certified accuracy at given radii (in %), average certified radius (ACR) and abstentions.

    The column clean is the accuracy without noise, for runs that measured it.

    \b
    Examples:
      lvmrs analyze runs/a runs/b
      lvmrs analyze runs/a --radii 0,0.25,0.5,1 --intervals
      lvmrs analyze runs/sigma-* --envelope --format latex
      lvmrs analyze other-project.tsv --format csv
    """
    wanted, form = options.radii(radii), options.choice("format", form, FORMATS)
    results, are_all = read_all(runs)
    found = [analysis.summarise(result, wanted, confidence=confidence) for result in results]
    output(summary_table(found, "json" if as_json else form, intervals=intervals, envelope=envelope))
    unfinished = analysis.unfinished(*found)
    for sentence in unfinished:
        tell(f"{sentence}, and not counted here")
    if unfinished or not are_all:
        raise typer.Exit(INCOMPLETE)
