"""``lvmrs export``: write a run for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lvmrs.analysis.export import FORMATS, export_run
from lvmrs.cli import options
from lvmrs.cli.console import INCOMPLETE, tell, writing
from lvmrs.cli.options import OUTPUT, option
from lvmrs.record import Run


def export(
    run: Annotated[Path, typer.Argument(help="A run directory.")],
    form: Annotated[str, option(OUTPUT, f"Format of the file: {', '.join(FORMATS)}.", "--format")],
    out: Annotated[Path, option(OUTPUT, "File to write; an existing file is replaced.", "--out", "-o")],
    radii: options.Radii = options.RADII,
    confidence: options.Confidence = 0.95,
) -> None:
    """Write a run for other programs.

    card is a section of a Hugging Face model card, with model-index. json has the manifest, the measures and all rows,
    and a schema. parquet has the rows, and the rest as metadata. tsv is the file that the code of Cohen et al. (2019)
    writes, with all digits.

    \b
    Examples:
      lvmrs export runs/a --format card -o card.md
      lvmrs export runs/a --format json --radii 0.25,0.5 -o a.json
      lvmrs export runs/a --format parquet -o a.parquet
      lvmrs export runs/a --format tsv -o a.tsv
    """
    found = Run(run)
    content = export_run(found, form, options.radii(radii), confidence=confidence)
    with writing(out) as file:
        file.write(content)
    tell(f"wrote {out}")
    if not found.complete:
        tell(f"caution: {found.directory} is unfinished; the file has the rows that exist")
        raise typer.Exit(INCOMPLETE)
