"""``lvmrs verify``: compute rows of a run again and compare them."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from lvmrs._util import signals as _stopping
from lvmrs._util.text import printable
from lvmrs.cli import options
from lvmrs.cli.console import FAILED, INCOMPLETE, output, stoppable, tell
from lvmrs.cli.options import EXECUTION, INPUTS, grouped, option
from lvmrs.cli.setup import RunOptions, WorkerOptions
from lvmrs.errors import InvalidArgumentError
from lvmrs.record import Run

if TYPE_CHECKING:
    from lvmrs.runs import Verification
    from lvmrs.runs.verify import Measured, RowVerdict

__all__ = ["verify"]


@grouped()
def verify(
    run: Annotated[Path, typer.Argument(help="Directory of the run.")],
    *,
    rows: Annotated[str, option(INPUTS, "--rows", help="Number of rows to draw and compute again, or all.")] = "10",
    seed: Annotated[
        Optional[int], option(INPUTS, "--seed", help="Seed of that draw. Default: a new seed, which is printed.")
    ] = None,
    batch: Annotated[
        Optional[int], option(EXECUTION, "--batch", help="Samples in a batch. Default: half of the batch of RUN.")
    ] = None,
    run_options: RunOptions,
    worker_options: WorkerOptions,
    as_json: options.Json = False,
) -> None:
    """Compute rows of RUN again, from its manifest, weights and data, and compare them.

    A row is equal, or equal up to rounding of the logits, or different. All rows are checked as far as that needs no
    network. The exit code is 1 if a row is different, or if weights, data or code are not those of RUN. RUN cannot make
    lvmrs run code: options must name every part that could.

    \b
    Examples:
      lvmrs verify runs/a
      lvmrs verify runs/a --rows all --batch 7 --json
      lvmrs verify runs/b --model python:nets.py:resnet \\
          --weights w.safetensors --data npz:elsewhere/test.npz
    """
    number = _number(rows)
    opened = Run(run)
    from lvmrs import runs as jobs
    from lvmrs.runs.again import ChangedError
    from lvmrs.runs.verify import check_verifiable, other_batch

    check_verifiable(opened)
    if seed is not None and number is None:
        raise InvalidArgumentError("seed has no effect: all rows are computed again, and none is drawn; leave it out")
    if batch is not None and not opened.manifest.terms.samples:
        raise InvalidArgumentError(f"batch has no effect: {opened.directory} took no samples; leave it out")
    workers = run_options.workers(opened, worker_options)
    seen: list[RowVerdict] = []
    with stoppable(lambda: (f"stopped after {len(seen)} rows; nothing was written",)):
        try:
            job = run_options.job(opened, workers, batch=other_batch(opened) if batch is None else batch)

            def show(row: RowVerdict) -> None:
                seen.append(row)
                if not as_json:
                    _print_row(row, first=len(seen) == 1)
                _stopping.check()

            found = jobs.verify(opened, job, rows=number, seed=seed, workers=workers, on_row=show)
        except ChangedError as error:
            if not as_json:
                raise
            output(json.dumps({"run": str(opened.directory), "stands": False, "changed": error.changed, "rows": []}))
            raise typer.Exit(FAILED) from error
    if as_json:
        output(json.dumps(_as_json(opened, found)))
    _tell(found)
    if not found.stands:
        raise typer.Exit(FAILED)
    if found.missing:
        raise typer.Exit(INCOMPLETE)


def _number(rows: str) -> int | None:
    if rows == "all":
        return None
    if not rows.isascii() or not rows.isdigit() or not 1 <= int(rows[:20]) < 1 << 53:
        raise InvalidArgumentError(f"rows must be a whole number of at least 1, or all, got {rows!r:.80}")
    return int(rows)


def _print_row(row: RowVerdict, *, first: bool) -> None:
    if first:
        output("\t".join(_fields(row)))
    output("\t".join(map(_text, _fields(row).values())))


def _fields(row: RowVerdict) -> dict[str, Any]:
    return dataclasses.asdict(row)


def _text(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.3g}"
    return "-" if value is None else printable(str(value))


def _as_json(run: Run, found: Verification) -> dict[str, Any]:
    return {
        "run": str(run.directory),
        "stands": found.stands,
        "changed": [],
        "inputs": found.inputs,
        "missing": found.missing,
        "computed": found.computed,
        "seed": found.seed,
        "risk": found.risk,
        "forged rows found": found.forged_rows_found,
        "forged share found": found.forged_rows_found / found.inputs,
        **{verdict: found.count(verdict) for verdict in ("equal", "rounding", "different")},
        "batch": found.batch,
        "recorded batch": found.recorded_batch,
        "largest difference": {name: found.largest(name) for name in ("radius", "p_lower", "p_upper", "logits")},
        "notes": list(found.notes),
        "rows": [_fields(row) for row in found.rows],
    }


def _tell(found: Verification) -> None:
    for note in found.notes:
        tell(f"caution: {note}")
    batches = f"in batches of {found.batch} instead of {found.recorded_batch or 'an unknown number'}"
    tell(f"{found.computed} of {found.inputs} rows computed again, {batches}: {found.count('equal')} equal")
    tell(found.reach)
    if found.count("rounding"):
        names: tuple[Measured, ...] = ("radius", "p_lower", "p_upper")
        most = ", ".join(f"{found.largest(name) or 0.0:.2g} in {name}" for name in names)
        tell(f"{found.count('rounding')} equal up to rounding of the logits: at most {most}")
    if found.largest("logits") is not None:
        tell(f"kept scores are those of the model up to {found.largest('logits'):.2g}")
    if not found.stands:
        tell(f"{found.count('different')} rows do not stand")
    if found.missing:
        tell(f"the run is unfinished: {found.missing} rows are missing")
