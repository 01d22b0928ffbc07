"""``lvmrs import``: make a run from the results of another project."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lvmrs.analysis import import_results
from lvmrs.cli import options
from lvmrs.cli.console import command_line, show_run, stoppable
from lvmrs.cli.options import INPUTS, METHOD, SAMPLES, option


def import_(
    file: Annotated[Path, typer.Argument(help="A TSV file with columns idx, label, predict, radius.")],
    out: options.Out,
    sigma: options.Sigma,
    alpha: Annotated[float | None, option(SAMPLES, "Risk of the certificates, if known.")] = None,
    n0: Annotated[int | None, option(SAMPLES, "Samples to choose the class on, if known.", "--n0", "--N0")] = None,
    n: Annotated[int | None, option(SAMPLES, "Samples to prove on, if known.", "--n", "--N")] = None,
    data: Annotated[str | None, option(INPUTS, "Source of the data, for the pictures of a report.")] = None,
    split: options.Split = "test",
    method: Annotated[str, option(METHOD, "Name of the method, for tables.")] = "imported",
    as_json: options.Json = False,
) -> None:
    """Make a run from the results of another project, to compare them and to report on them.

    The radii are taken as they are; nothing is certified again. Whether an answer is correct is computed again.

    \b
    Examples:
      lvmrs import smoothadv.tsv --sigma 0.25 --alpha 0.001 --n 100000 \\
          --out runs/smoothadv
    """
    with stoppable(lambda: (f"stopped; delete {out} and begin again with:", command_line())):
        run = import_results(
            file,
            out,
            sigma=sigma,
            alpha=alpha,
            n0=n0,
            n=n,
            data=data,
            split=split,
            method=method,
            command=command_line(),
        )
    show_run(run, as_json=as_json)
