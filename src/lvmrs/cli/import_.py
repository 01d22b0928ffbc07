"""``lvmrs import``: a run from another project's file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from lvmrs.analysis import import_results
from lvmrs.cli import options
from lvmrs.cli.console import command_line
from lvmrs.cli.outcome import show_run
from lvmrs.cli.stoppable import stoppable

__all__ = ["import_"]


def import_(
    file: Annotated[Path, typer.Argument(help="A TSV file with columns idx, label, predict, radius.")],
    out: options.Out,
    sigma: options.Sigma,
    alpha: Annotated[Optional[float], typer.Option("--alpha", help="The risk it was made with, if known.")] = None,
    n0: Annotated[Optional[int], typer.Option("--n0", "--N0", help="Samples to choose the class, if known.")] = None,
    n: Annotated[Optional[int], typer.Option("--n", "--N", help="Samples to prove on, if known.")] = None,
    data: Annotated[
        Optional[str], typer.Option("--data", help="The data set by our name, for the pictures of a report.")
    ] = None,
    split: options.Split = "test",
    method: Annotated[str, typer.Option("--method", help="What it was made with, in words.")] = "imported",
    as_json: options.Json = False,
) -> None:
    """Make a run of the results of another project, with what is known about them, to compare and to report.

    Nothing is certified again: the radii are taken as they are. Whether an answer is correct is computed again.

    \b
    Examples:
      lvmrs import smoothadv.tsv --sigma 0.25 --alpha 0.001 --n 100000 --out runs/smoothadv
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
