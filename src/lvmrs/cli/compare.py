"""``lvmrs compare``: two runs, input by input."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lvmrs import analysis
from lvmrs.analysis.tables import FORMATS, comparison_table
from lvmrs.cli import options
from lvmrs.cli.analyze import Format
from lvmrs.cli.console import INCOMPLETE, output, tell
from lvmrs.kernel import checks


def compare(
    first: Annotated[Path, typer.Argument(help="A run directory or TSV file.")],
    second: Annotated[Path, typer.Argument(help="Another one, on the same inputs.")],
    radii: options.Radii = options.RADII,
    form: Format = "table",
    confidence: options.Confidence = 0.95,
    names: options.Names = None,
    as_json: options.Json = False,
) -> None:
    """Compare two runs input by input: how many inputs only one of them certifies, and whether that could be chance.

    p is the p-value of McNemar's exact test. Cautions name differences that make the comparison doubtful, such as other
    data, another subset or another risk, or say that sampling stopped at a goal.

    \b
    Examples:
      lvmrs compare runs/cohen runs/lvm
      lvmrs compare runs/a runs/b --radii 0,0.5,1 --format markdown
    """
    wanted = options.radii(radii)
    checks.one_of("format", form, FORMATS)
    one, other = analysis.named([analysis.read(first), analysis.read(second)], options.names(names))
    found = analysis.compare(one, other, wanted, confidence=confidence)
    for warning in found.warnings:
        tell(f"caution: {warning}")
    output(comparison_table(found, "json" if as_json else form))
    if found.unfinished:
        raise typer.Exit(INCOMPLETE)
