"""``lvmrs merge``: make one run from all its shards."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lvmrs.cli import options
from lvmrs.cli.console import command_line, show_run, stoppable
from lvmrs.record import Run


def merge(
    shards: Annotated[list[Path], typer.Argument(help="Run directories of all shards.")],
    out: options.Out,
    as_json: options.Json = False,
) -> None:
    """Make one run from all its shards, which must be finished and have the same settings.

    \b
    Examples:
      lvmrs merge runs/a-1 runs/a-2 runs/a-3 runs/a-4 --out runs/a
    """
    from lvmrs import runs

    opened = [Run(path) for path in shards]
    with stoppable(lambda: ("stopped; written rows are safe; continue with:", command_line())):
        run = runs.merge(opened, out, command=command_line())
    show_run(run, as_json=as_json)
