"""``lvmrs import``: a run from another project's file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Optional

import numpy as np
import typer

from lvmrs import _checks, analysis
from lvmrs.cli import options
from lvmrs.cli.certify import summary
from lvmrs.cli.console import command_line
from lvmrs.errors import InvalidArgumentError
from lvmrs.runs import Manifest, Row, RunWriter, Selection

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

    Nothing is certified again: the radii are taken as they are. Whether an answer is correct is computed anew.

    \b
    Examples:
      lvmrs import smoothadv.tsv --sigma 0.25 --alpha 0.001 --n 100000 --out runs/smoothadv
    """
    if file.is_dir():
        raise InvalidArgumentError(f"{file} is a run already; use it as it is")
    _check(sigma, alpha, n0, n)
    found = analysis.read(file)
    settings: dict[str, Any] = {
        "model": method, "weights": "unknown", "model assumed": [], "lipschitz": None, "split": split, "data": None,
        "data assumed": [], "method": {"planner": method}, "sigma": sigma, "alpha": alpha, "n0": n0, "n": n,
    }  # fmt: skip
    step = max(1, int(np.gcd.reduce(found.idx)))  # the --skip that they were made with, as it seems
    selection = Selection(int(found.idx.max()) + 1, skip=step)
    if len(selection.indices) != len(found):
        selection = Selection(int(found.idx.max()) + 1, only=sorted(found.idx.tolist()))
    about = {"command": command_line(), "data": data, "imported": str(file), "classes": None}
    known = {int(index): k for k, index in enumerate(found.idx)}
    with RunWriter.begin(out, Manifest(settings, selection, None, about=about)) as writer:
        for index in selection.indices:
            k = known[index]
            writer.append(_row(index, int(found.label[k]), int(found.predict[k]), float(found.radius[k])))
    summary(writer.run, as_json=as_json)


def _check(sigma: float, alpha: float | None, n0: int | None, n: int | None) -> None:
    _checks.positive_number("sigma", sigma)
    if alpha is not None:
        _checks.alpha(alpha)
    for name, value in (("n0", n0), ("n", n)):
        if value is not None:
            _checks.count(name, value, least=1)


def _row(index: int, label: int, predict: int, radius: float) -> Row:
    nothing = float("nan")
    return Row(
        index, label, predict, radius, int(predict == label != -1), 0.0, nothing, nothing, predict, "unknown", nothing,
        nothing, "unknown", "unknown", nothing, "-", "-",
    )  # fmt: skip
