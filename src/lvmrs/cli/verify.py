"""``lvmrs verify``: compute rows of a run again and compare them; options that name the parts of a run."""

from __future__ import annotations

import json
import shlex
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lvmrs._util import signals
from lvmrs._util.text import printable
from lvmrs.cli import options
from lvmrs.cli.console import FAILED, INCOMPLETE, output, stoppable, tell
from lvmrs.cli.options import EXECUTION, INPUTS, METHOD, MODEL, SAMPLES, Group, grouped, option
from lvmrs.cli.setup import OWN, WorkerOptions, chosen_method, known_name, own_code, whole_class
from lvmrs.errors import InvalidArgumentError
from lvmrs.record import Run
from lvmrs.registry import BOUNDS, FORMS, MAPS, NOISES

if TYPE_CHECKING:
    from lvmrs.kernel.method import Method
    from lvmrs.runs import Job, Verification
    from lvmrs.runs.verify import Measured, RowVerdict
    from lvmrs.runs.workers import Workers

_MOVED = "of RUN, if it moved or could run code, such as python:…"
_OWN = "of RUN, if it is your own code: python:MODULE:"


@dataclass(frozen=True)
class RunOptions(Group):
    """Parts of a run that exists, which its manifest names: those that moved or that could run code, and the device."""

    model: Annotated[str | None, option(MODEL, f"Model {_MOVED}")] = None
    weights: Annotated[Path | None, option(MODEL, "File of weights that was loaded into the model of RUN.")] = None
    denoiser: Annotated[str | None, option(MODEL, f"Denoiser {_MOVED}")] = None
    data: Annotated[str | None, option(INPUTS, f"Data {_MOVED}")] = None
    class_index: Annotated[Path | None, option(INPUTS, "Class index file of RUN, with --data.")] = None
    method: Annotated[str | None, option(METHOD, f"Method {_OWN}PLANNER.")] = None
    map: Annotated[str | None, option(METHOD, f"Map {_OWN}MAP.")] = None
    bound: Annotated[str | None, option(METHOD, f"Bound {_OWN}BOUND.")] = None
    form: Annotated[str | None, option(METHOD, f"Form of the radius {_OWN}FORM.")] = None
    noise: Annotated[str | None, option(SAMPLES, f"Noise {_OWN}NOISE.")] = None
    device: Annotated[
        str | None,
        option(EXECUTION, "auto, cpu, cuda, cuda:1, … Default: the kind of device of RUN.", check=options.check_device),
    ] = None

    def workers(self, run: Run, chosen: WorkerOptions) -> Workers:
        """Make the workers that compute on the device that was typed, or else on the kind of device of the run."""
        device = self.device or run.manifest.model.device or "auto"
        several = self.device in (None, "auto") and device != "cpu"
        return chosen.chosen(device, typed=self.device, several=several)

    def job(self, run: Run, workers: Workers, *, batch: int | None = None) -> Job:
        """Make the job of the run again, from its manifest and these options."""
        from lvmrs.runs.rebuild import NotNamedError, job_of_run

        used = {name.rpartition(".")[2] for name in run.manifest.method.own_code}
        for table in (MAPS, BOUNDS, FORMS, NOISES):
            word = getattr(self, table.kind)
            name = known_name(table, _own_word(table.kind, word))
            if name is not None and table.find(name).__name__ not in used:
                raise InvalidArgumentError(
                    f"{table.kind} has no effect: {run.directory} was made without {word}; leave it out"
                )
        try:
            return job_of_run(
                run,
                method=_own_method(self.method),
                model=self.model,
                weights=self.weights,
                denoiser=self.denoiser,
                data=self.data,
                class_index=self.class_index,
                device=self.device if workers.device is None else "cpu",  # workers have devices of their own
                batch=batch,
            )
        except NotNamedError as error:
            what = "" if error.recorded is None else f" {shlex.quote(printable(error.recorded)):.200}"
            raise InvalidArgumentError(f"{error}: --{error.argument}{what or ' …'}") from error


def _own_word(option: str, word: str | None) -> str | None:
    if word is not None and not word.startswith(OWN):
        raise InvalidArgumentError(f"{option} must be {OWN}MODULE:NAME here, got {word!r:.80}; else the run decides it")
    return word


def _own_method(word: str | None) -> Method | type[Method] | None:
    """Import a class of the user's own, which gets the settings of the run, or call a function that makes a method."""
    from lvmrs.kernel.method import Method

    if _own_word("method", word) is None or word is None:
        return None
    named = own_code(word)
    if not isinstance(named, type):
        return chosen_method(word)
    return whole_class(word, named, Method, "Planner", "lvmrs.planners")


@grouped()
def verify(
    run: Annotated[Path, typer.Argument(help="Directory of the run.")],
    *,
    rows: Annotated[str, option(INPUTS, "Number of rows to draw and compute again, or all.")] = "10",
    seed: Annotated[int | None, option(INPUTS, "Seed of that draw. Default: a new seed, which is printed.")] = None,
    batch: Annotated[int | None, option(EXECUTION, "Samples in a batch. Default: half of the batch of RUN.")] = None,
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
    from lvmrs import runs
    from lvmrs.runs.rebuild import ChangedError
    from lvmrs.runs.verify import check_verifiable, other_batch

    check_verifiable(opened)
    if number is None:
        run_options.refuse(("seed",), "all rows are computed again, and none is drawn")
    if not opened.manifest.terms.samples:
        run_options.refuse(("batch",), f"{opened.directory} took no samples")
    workers = run_options.workers(opened, worker_options)
    seen: list[RowVerdict] = []
    with stoppable(lambda: (f"stopped after {len(seen)} rows; nothing was written",)):
        try:
            job = run_options.job(opened, workers, batch=other_batch(opened) if batch is None else batch)

            def show(row: RowVerdict) -> None:
                seen.append(row)
                if not as_json:
                    if len(seen) == 1:
                        output("\t".join(asdict(row)))
                    output("\t".join(map(_text, asdict(row).values())))
                signals.check()

            found = runs.verify(opened, job, rows=number, seed=seed, workers=workers, on_row=show)
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
        "rows": [asdict(row) for row in found.rows],
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
