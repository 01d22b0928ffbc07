"""``lvmrs analyze``: a table of certified accuracy and average radius."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lvmrs import analysis
from lvmrs.analysis.tables import FORMATS, quantile_table, summary_table
from lvmrs.cli import options
from lvmrs.cli.console import INCOMPLETE, output, read_all, tell
from lvmrs.cli.options import OUTPUT, option
from lvmrs.kernel import checks

Format = Annotated[str, option(OUTPUT, f"Format of the table: {', '.join(FORMATS)}.", "--format")]


def analyze(
    runs: Annotated[list[Path], typer.Argument(help="Run directories, or TSV files of other projects.")],
    radii: options.Radii = options.RADII,
    form: Format = "table",
    intervals: Annotated[
        bool, option(OUTPUT, "Show confidence intervals too; csv and json always have them.", "--intervals")
    ] = False,
    confidence: options.Confidence = 0.95,
    envelope: Annotated[
        bool, option(OUTPUT, "Add the best of the runs at each radius, as papers do over σ.", "--envelope")
    ] = False,
    names: options.Names = None,
    as_json: options.Json = False,
) -> None:
    """Show certified accuracy at given radii (in %), average certified radius (ACR) and abstentions.

    The column clean is the accuracy without noise, for runs that measured it. A second table has the distribution over
    the inputs of p_lower, the lower bound on the label's mean score under noise.

    \b
    Examples:
      lvmrs analyze runs/a runs/b
      lvmrs analyze runs/a --radii 0,0.25,0.5,1 --intervals
      lvmrs analyze runs/sigma-* --envelope --format latex
      lvmrs analyze runs/a runs/b --names Cohen,duels
      lvmrs analyze other-project.tsv --format csv
    """
    wanted = options.radii(radii)
    checks.one_of("format", form, FORMATS)
    results, are_all = read_all(runs, options.names(names))
    found = [analysis.summarise(result, wanted, confidence=confidence) for result in results]
    form = "json" if as_json else form
    output(summary_table(found, form, intervals=intervals, envelope=envelope))
    if form not in ("csv", "json") and (quantiles := quantile_table(found, form)) is not None:
        output(f"\n{quantiles}")
    unfinished = analysis.unfinished(*found)
    for sentence in unfinished:
        tell(f"{sentence}, and not counted here")
    if unfinished or not are_all:
        raise typer.Exit(INCOMPLETE)
