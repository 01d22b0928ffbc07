"""``lvmrs launch``: certify as an array of Slurm jobs."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from lvmrs.cli import options
from lvmrs.cli.console import output, show_run, stoppable, tell
from lvmrs.cli.options import EXECUTION, option, with_address
from lvmrs.cli.progress import displaying
from lvmrs.errors import InvalidArgumentError

# Options of certify that cannot be launched, and why.
_REFUSED = {
    "shard": "is set by launch",
    "resume": "is set by launch",
    "ray": "cannot be used in a task of Slurm, which computes by itself",
}


def launch(
    context: typer.Context,
    command: Annotated[list[str], typer.Argument(help="The command after --: certify and its options.")],
    slurm: Annotated[bool, option(EXECUTION, "Submit to Slurm with sbatch.", "--slurm")] = False,
    shards: Annotated[int, option(EXECUTION, "Number of shards.")] = 8,
    tasks: Annotated[int | None, option(EXECUTION, "Number of shards that run at a time. Default: all.")] = None,
    sbatch: Annotated[
        list[str] | None,
        option(
            EXECUTION,
            "Option of sbatch, such as partition=gpu or gres=gpu:1; may be repeated. The default time limit of "
            "a task is time=1440 minutes.",
        ),
    ] = None,
    wait: Annotated[bool, option(EXECUTION, "Wait until the run is merged.", "--wait")] = False,
    as_json: options.Json = False,
) -> None:
    """Divide a run into shards, submit them to Slurm as an array of jobs, and merge them when all are done.

    A task that is preempted or reaches its time limit ends in order, is requeued and resumes. The same command, typed
    again, computes the rows that are missing.

    \b
    Examples:
      lvmrs launch --slurm --shards 16 --tasks 4 --sbatch partition=gpu \\
          --sbatch gres=gpu:1 --sbatch time=4:00:00 --wait \\
          -- certify --model onnx:net.onnx --data npz:test.npz --sigma 0.5 \\
          --out runs/a
    """
    from lvmrs.runs.workers import slurm as jobs_of_slurm

    if not slurm:
        raise InvalidArgumentError("slurm must be given: runs can be launched on Slurm only")
    out = _checked_out(context, command)
    settings = dict(_setting(word) for word in sbatch or ())
    made = jobs_of_slurm.launch(command, out, shards=shards, tasks=tasks, settings=settings)
    tell(
        f"slurm  array {made.array} of {shards} shards, then job {made.merging} merges them",
        f"logs   {made.logs}",
    )
    if not wait:
        output(shlex.join(["squeue", "--jobs", f"{made.array},{made.merging}"]))
        return
    cancel = f"stopped waiting; the jobs go on; cancel them with: scancel {made.array} {made.merging}"
    seen: list[int] = []
    with stoppable(lambda: (cancel,)), displaying("rows") as display:

        def show(rows: int, inputs: int) -> None:
            if not seen:
                display.begin(inputs)
            seen.append(rows)
            display.show(rows)

        run = made.wait(show)
    show_run(run, as_json=as_json)


def _checked_out(context: typer.Context, command: Sequence[str]) -> Path:
    """Return the directory of the run; raises if certify would refuse the command."""
    if command[0] != "certify":
        raise InvalidArgumentError(f"only certify can be launched, got {command[0]!r:.40}; write it after --")
    words = with_address(list(command[1:]))
    tree: Any = context.find_root().command
    with tree.get_command(context, "certify").make_context("certify", words, parent=context.find_root()) as parsed:
        for name, why in _REFUSED.items():
            if parsed.get_parameter_source(name).name == "COMMANDLINE":
                raise InvalidArgumentError(f"{name} {why}; leave it out of the command")
        if str(parsed.params["model"]).startswith("routed:"):
            raise InvalidArgumentError("model is a routed classifier, which has no shards; type lvmrs certify itself")
        if parsed.params["out"] is None:
            raise InvalidArgumentError("out must be given: the directory of the new run")
        return Path(parsed.params["out"])


def _setting(word: str) -> tuple[str, str]:
    name, sign, value = word.removeprefix("--").partition("=")
    if not name or not sign:
        raise InvalidArgumentError(f"sbatch must be NAME=VALUE, such as partition=gpu, got {word!r:.80}")
    return name, value
