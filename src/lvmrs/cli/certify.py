"""``lvmrs certify``: certify a data set into a run directory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Optional

from lvmrs.cli import options
from lvmrs.cli.console import command_line, show_run, stoppable, tell
from lvmrs.cli.options import EXECUTION, OUTPUT, grouped, option
from lvmrs.cli.progress import Watcher, duration
from lvmrs.cli.setup import GoalOptions, MethodOptions, Recorded, Setup, WorkerOptions, usual_n0
from lvmrs.record import RunWriter

if TYPE_CHECKING:
    from lvmrs.runs import Outlook

__all__ = ["certify"]


@grouped()
def certify(
    *,
    setup: Setup,
    method_options: MethodOptions,
    settings: options.Settings = None,
    alpha: options.Alpha = 0.001,
    n0: options.N0 = 1_000,
    n: options.N = 100_000,
    goal_options: GoalOptions,
    compile: options.Compile = None,  # noqa: A002
    worker_options: WorkerOptions,
    shard: Annotated[
        Optional[str],
        option(
            EXECUTION,
            "--shard",
            help="Certify only this shard, such as 2/8; lvmrs merge joins the shards. In a Slurm array, auto is the "
            "shard of the task, and the run is OUT-2-of-8.",
        ),
    ] = None,
    out: options.Out,
    resume: Annotated[
        bool, option(OUTPUT, "--resume", help="Continue the run in --out, which must have the same settings.")
    ] = False,
    resample: Annotated[
        bool,
        option(
            OUTPUT, "--resample", help="With --resume: sample inputs again whose kept scores are missing or damaged."
        ),
    ] = False,
    keep_scores: Annotated[bool, option(OUTPUT, "--keep-scores", help="Keep all scores, for lvmrs recertify.")] = False,
    as_json: options.Json = False,
) -> None:
    """Certify the inputs of a data set: one row for each input in OUT/certificates.tsv.

    The default method is hard duels, or soft duels with a width chosen for each input if a Lipschitz constant is known.
    With --target-radius, --tolerance or --budget, --n is the largest number of samples for an input, and the default of
    --n0 is smaller.

    If a run is stopped or killed, inputs that were being certified are lost, but no written row is; --resume continues
    the run.

    \b
    Examples:
      lvmrs certify --model python:nets.py:resnet --weights w.safetensors \\
          --data cifar10:c.npz --sigma 0.5 --out runs/a
      lvmrs certify --model hf:microsoft/resnet-50 --data imagefolder:val \\
          --image-size 224 --sigma 0.25 --out runs/b
      lvmrs certify --model onnx:net.onnx --data npz:test.npz --sigma 0.5 \\
          --method cohen --skip 20 --out runs/c
      lvmrs certify --model onnx:net.onnx --data npz:test.npz --sigma 0.5 \\
          --ray 10.0.0.1:6379 --out runs/d
    """
    from lvmrs import runs as jobs  # torch takes seconds to import: only commands that use it wait
    from lvmrs.runs.workers.slurm import shard_directory, shard_of_task

    part = shard_of_task() if shard == "auto" else options.shard(shard)
    whole, out = out, shard_directory(out, *part) if shard == "auto" else out
    RunWriter.begun(out, resume=resume, batch=setup.batch)  # refuse a place where no run can be before loading
    recorded = Recorded.read(settings)
    goal = goal_options.chosen(method_options.bound)
    chosen = method_options.chosen()
    # The tasks of an array agree on how to run the model before workers could, and one process spends a budget.
    several = setup.device == "auto" and shard != "auto" and not (goal is not None and goal.limited)
    workers = worker_options.chosen(setup.device, typed=setup.device, several=several)
    running: dict[str, Any] = {"compiled": compile, "elsewhere": workers.device is not None}
    if recorded is None:
        loaded, dataset, smoothed = setup.load(chosen, **running)
    else:
        chosen = recorded.method(chosen)
        loaded, dataset, smoothed = recorded.load(setup, chosen, **running)
    selected = setup.selection(dataset, part)
    n0 = n0 if goal is None or "n0" in setup.typed else usual_n0(goal, len(selected.indices))
    job = jobs.Job(
        loaded,
        dataset,
        smoothed,
        smoothed.default_method if chosen is None else chosen,
        jobs.Sampling(alpha, n0, n, setup.seed, goal),
        selected,
        keep_scores,
    )
    if shard == "auto" and workers.device is None:
        from lvmrs.runs.shard_way import way_of_shards

        job.smoothed.fix_way(way_of_shards(job, whole))
    tell(f"method {job.method}")
    if goal is not None:
        tell(f"goal   sampling for an input stops {goal.words}, or after {n} samples; n0 = {n0}")
    watcher = Watcher(len(job.selection.indices), workers=workers if workers.elsewhere else None)
    with stoppable(lambda: watcher.how_to_continue(*(() if resume else ("--resume",)))), watcher:
        run = jobs.certify(
            job,
            out,
            resume=resume,
            resample=resample,
            command=command_line(),
            workers=workers,
            on_begin=lambda outlook: _tell_cost(outlook, watcher, at_most=goal is not None),
            on_row=watcher.row,
        )
    show_run(run, as_json=as_json)


def _tell_cost(outlook: Outlook, watcher: Watcher, *, at_most: bool) -> None:
    samples = {"samples_each": 0} if at_most else {"samples_each": outlook.samples_each, "rate": outlook.rate}
    watcher.begin(outlook.inputs, done=outlook.done, **samples)
    if not outlook.inputs:
        return
    if outlook.workers > 1:
        tell(f"workers {outlook.workers}")
    in_all = "" if outlook.budget is None else f", {outlook.budget} in all,"
    tell(
        f"cost   {outlook.inputs} inputs × {'at most ' * at_most}{outlook.samples_each} samples{in_all} at "
        f"{outlook.rate:,.0f} samples/s: {'at most ' * at_most}about {duration(outlook.seconds)}"
    )
    tell(f"runs   {outlook.running}")
    if outlook.scores_bytes:
        tell(f"scores {'at most ' * at_most}{outlook.scores_bytes / 1e9:.3g} GB on disk, for all inputs")
