"""``lvmrs recertify`` and ``lvmrs merge``: new runs from old ones, without a network."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Optional

import typer

from lvmrs.cli import options
from lvmrs.cli.certify import summary
from lvmrs.cli.console import command_line
from lvmrs.cli.progress import watching
from lvmrs.runs import Run

__all__ = ["merge", "recertify"]

# Inputs from which starting processes takes less time than they save.
_WORTH_PROCESSES = 100


def recertify(
    run: Annotated[Path, typer.Argument(help="A run that was made with --keep-scores.")],
    out: options.Out,
    method: Annotated[
        Optional[str],
        typer.Option(
            "--method", help="How to certify; else as RUN did, or lvm (with --width, duels) where a choice is given."
        ),
    ] = None,
    bound: options.Bound = None,
    map: options.Map = None,  # noqa: A002
    temperature: options.Temperature = None,
    mass: options.Mass = None,
    width: options.Width = None,
    alpha: Annotated[Optional[float], typer.Option("--alpha", help="Another risk.")] = None,
    n0: Annotated[Optional[int], typer.Option("--n0", "--N0", help="Fewer samples to plan on.")] = None,
    n: Annotated[Optional[int], typer.Option("--n", "--N", help="Fewer samples to prove on.")] = None,
    as_json: options.Json = False,
) -> None:
    """Certify the kept scores of RUN in another way: no network, seconds instead of hours.

    Each run that is made so holds by itself. Picking for each input the best of several runs does not hold: that would
    be choosing on the very sample that certifies.

    \b
    Examples:
      lvmrs recertify runs/a --method cohen --out runs/a-cohen
      lvmrs recertify runs/a --method lvm --bound bernstein --alpha 0.01 --out runs/a-bernstein
    """
    from lvmrs import method_settings, work
    from lvmrs.cli.chosen_method import chosen_method

    source = Run(run)
    chosen = chosen_method(method, bound=bound, map=map, temperature=temperature, mass=mass, width=width)
    planner = method_settings.described(source.manifest.settings["method"]) if chosen is None else chosen
    processes = (os.cpu_count() or 1) if len(source.rows()) >= _WORTH_PROCESSES else 1
    samples = source.manifest.settings["n0"] + source.manifest.settings["n"]
    with watching(len(source.rows()), samples) as show:
        made = work.recertify(
            source, out, planner, alpha=alpha, n0=n0, n=n, command=command_line(), processes=processes, on_row=show
        )
    summary(made, as_json=as_json)


def merge(
    shards: Annotated[list[Path], typer.Argument(help="The run directories of all shards.")],
    out: options.Out,
    as_json: options.Json = False,
) -> None:
    """Make one run of all shards of it, which must be finished and made with the same settings.

    \b
    Examples:
      lvmrs merge runs/a-1 runs/a-2 runs/a-3 runs/a-4 --out runs/a
    """
    from lvmrs import work

    made = work.merge([Run(path) for path in shards], out, command=command_line())
    summary(made, as_json=as_json)
