"""``lvmrs certify``: a data set into a run directory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from lvmrs.cli import options, spread
from lvmrs.cli.console import command_line, tell
from lvmrs.cli.outcome import show_run
from lvmrs.cli.parsing import shard
from lvmrs.cli.progress import Watcher, duration
from lvmrs.cli.setup import Setup, with_setup
from lvmrs.cli.stoppable import stoppable
from lvmrs.record import RunWriter

if TYPE_CHECKING:
    from lvmrs.runs import Outlook

__all__ = ["certify"]


@with_setup()
def certify(
    setup: Setup,
    out: options.Out,
    method: options.Method = None,
    bound: options.Bound = None,
    map: options.Map = None,  # noqa: A002
    temperature: options.Temperature = None,
    mass: options.Mass = None,
    form: options.Form = None,
    width: options.Width = None,
    settings: options.Settings = None,
    lipschitz: options.Lipschitz = None,
    alpha: options.Alpha = 0.001,
    n0: options.N0 = 1_000,
    n: options.N = 100_000,
    target_radius: options.Targets = None,
    tolerance: options.Tolerance = None,
    budget: options.Budget = None,
    beta: options.Beta = None,
    shard_: Annotated[
        Optional[str],
        typer.Option(
            "--shard",
            help="Do only this share, such as 2/8; merge them with lvmrs merge. In a Slurm array, auto takes that of "
            "the task, and writes to OUT-2-of-8.",
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the run in --out, made with the same settings.")
    ] = False,
    resample: Annotated[
        bool,
        typer.Option("--resample", help="With --resume: sample inputs again whose kept scores are missing or damaged."),
    ] = False,
    keep_scores: Annotated[
        bool, typer.Option("--keep-scores", help="Keep all scores, so that lvmrs recertify can use them.")
    ] = False,
    autocast: options.Autocast = None,
    compile: options.Compile = None,  # noqa: A002
    ray: spread.RayAddress = None,
    workers: spread.WorkerCount = None,
    cpus_per_worker: spread.CpusPerWorker = None,
    gpus_per_worker: spread.GpusPerWorker = None,
    as_json: options.Json = False,
) -> None:
    """Certify the inputs of a data set: one row each in OUT/certificates.tsv.

    If a run is stopped or killed, inputs that were being certified are lost, and no written row is; --resume continues
    the run.

    \b
    Examples:
      lvmrs certify --model python:nets.py:resnet --weights w.safetensors --data cifar10:c.npz --sigma 0.5 --out runs/a
      lvmrs certify --model hf:microsoft/resnet-50 --data imagefolder:val --image-size 224 --sigma 0.25 --out runs/b
      lvmrs certify --model onnx:net.onnx --data npz:test.npz --sigma 0.5 --method cohen --skip 20 --out runs/c
      lvmrs certify --model onnx:net.onnx --data npz:test.npz --sigma 0.5 --ray 10.0.0.1:6379 --out runs/d
    """
    from lvmrs import runs as jobs  # torch takes seconds to import: only those who use it wait
    from lvmrs.cli.chosen_goal import chosen_goal, usual_n0
    from lvmrs.cli.chosen_method import chosen_method
    from lvmrs.cli.recorded import Recorded
    from lvmrs.runs.workers.slurm import shard_directory, shard_of_task

    part = shard_of_task() if shard_ == "auto" else shard(shard_)
    whole, out = out, shard_directory(out, *part) if shard_ == "auto" else out
    RunWriter.begun(out, resume=resume, batch=setup.batch)  # a place where no run can be is refused before loading
    recorded = Recorded.read(settings)
    goal = chosen_goal(target_radius, tolerance, beta, budget, bound=bound)
    chosen = chosen_method(method, bound=bound, map=map, temperature=temperature, mass=mass, form=form, width=width)
    # The tasks of an array agree on how to run the model before workers could, and a budget is spent by one process.
    several = setup.device == "auto" and shard_ != "auto" and not (goal is not None and goal.limited)
    spread.check_gpus(gpus_per_worker, setup.device)
    who = spread.chosen_workers(ray, workers, cpus_per_worker, gpus_per_worker, device=setup.device, several=several)
    running: dict[str, Any] = {
        "lipschitz": lipschitz,
        "autocast": autocast,
        "compiled": compile,
        "elsewhere": who.device is not None,
    }
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
    if shard_ == "auto" and who.device is None:
        from lvmrs.runs.shard_way import way_of_shards

        job.smoothed.fix_way(way_of_shards(job, whole))
    tell(f"method {job.method}")
    if goal is not None:
        tell(f"goal   sampling for an input stops {goal.words}, or after {n} samples; n0 = {n0}")
    watcher = Watcher(len(job.selection.indices), workers=who if who.elsewhere else None)
    with stoppable(lambda: watcher.how_to_go_on(*(() if resume else ("--resume",)))), watcher:
        run = jobs.certify(
            job,
            out,
            resume=resume,
            resample=resample,
            command=command_line(),
            workers=who,
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
