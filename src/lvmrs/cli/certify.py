"""``lvmrs certify``: certify a data set into a run directory."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from lvmrs._util.text import percent
from lvmrs.cli import options
from lvmrs.cli.check import show_check, words
from lvmrs.cli.console import command_line, show_run, stoppable, tell
from lvmrs.cli.options import EXECUTION, OUTPUT, grouped, option
from lvmrs.cli.progress import Watcher, duration
from lvmrs.cli.setup import GoalOptions, MethodOptions, Setup, WorkerOptions, load_as_recorded
from lvmrs.errors import InvalidArgumentError, LvmrsError
from lvmrs.record import Row, Run, RunWriter

if TYPE_CHECKING:
    from lvmrs.analysis.diagnosis import Finding
    from lvmrs.analysis.results import Results
    from lvmrs.kernel.method import Goal
    from lvmrs.runs.certify import RunEstimate
    from lvmrs.runs.job import Job

# Samples to plan on where sampling stops early: most inputs need few in all.
_FEW = 64
# With a budget: the share of an input's average number of samples to plan on, and the limits of that number.
_SHARE, _LEAST, _MOST = 16, 32, 256

# A run is told of a lower precision that is at least this many times as fast.
_WORTH_TELLING = 1.3

# A run begins with a check of at most this many inputs and noisy copies of each, if that costs at most this share.
_CHECKED, _COPIES, _SHARE_OF_CHECK = 50, 20, 0.01


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
    compile: Annotated[  # noqa: A002
        bool | None, option(EXECUTION, "Run the model through torch.compile. Default: if the run is long.")
    ] = None,
    worker_options: WorkerOptions,
    shard: Annotated[
        str | None,
        option(
            EXECUTION,
            "Certify only this shard, such as 2/8; lvmrs merge joins the shards. In a Slurm array, auto is the shard "
            "of the task, and the run is OUT-2-of-8.",
        ),
    ] = None,
    out: Annotated[Path | None, option(OUTPUT, "Directory of the new run. Required, except with --dry-run.")] = None,
    resume: Annotated[
        bool, option(OUTPUT, "Continue the run in --out, which must have the same settings.", "--resume")
    ] = False,
    resample: Annotated[
        bool,
        option(OUTPUT, "With --resume: sample inputs again whose kept scores are missing or damaged.", "--resample"),
    ] = False,
    keep_scores: Annotated[bool, option(OUTPUT, "Keep all scores, for lvmrs recertify.", "--keep-scores")] = False,
    tracker: options.Tracker = None,
    dry_run: Annotated[
        bool, option(OUTPUT, "Write nothing: check what the run would give, as lvmrs check does.", "--dry-run")
    ] = False,
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
      lvmrs certify --model routed:parts.json --data digits --out runs/e
    """
    options.check_tracker(tracker)
    if setup.is_routed:
        from lvmrs.cli.routed import certify_routed

        certify_routed(setup, alpha=alpha, n0=n0, n=n, out=out, resume=resume, as_json=as_json)
        return
    if out is None:
        if not dry_run:
            raise InvalidArgumentError("out must be given: the directory of the new run")
        if resume or resample:
            raise InvalidArgumentError("resume needs out: the directory of the run to continue")
    setup.check_sigma(method_options.method, settings)
    goal = goal_options.chosen(method_options.bound)
    whole = out
    if shard == "auto":
        from lvmrs.runs.workers.slurm import shard_directory, shard_of_task

        part = shard_of_task()
        out = None if out is None else shard_directory(out, *part)
    else:
        part = options.shard(shard)
    # refuse a place where no run can be before loading
    begun = None if out is None else RunWriter.begun(out, resume=resume, batch=setup.batch)
    # torch takes seconds to import: only commands that use it wait, and wrong options do not
    from lvmrs.analysis.diagnosis import diagnose
    from lvmrs.runs.certify import certify as certify_job
    from lvmrs.runs.check import INPUTS
    from lvmrs.runs.job import Job, Sampling

    chosen = method_options.chosen()
    # The tasks of an array agree on how to run the model before workers could, and one process spends a budget.
    several = setup.device == "auto" and shard != "auto" and not (goal is not None and goal.limited)
    workers = worker_options.chosen(setup.device, typed=setup.device, several=several)
    running: dict[str, Any] = {"compiled": compile, "elsewhere": workers.device is not None}
    chosen, loaded, dataset, smoothed = load_as_recorded(setup, chosen, settings, **running)
    selected = setup.selection(dataset, part)
    n0 = n0 if goal is None or "n0" in setup.typed else _usual_n0(goal, len(selected.indices))
    method = smoothed.default_method if chosen is None else chosen
    job = Job(loaded, dataset, smoothed, method, Sampling(alpha, n0, n, setup.seed, goal), selected, keep_scores)
    if whole is not None and shard == "auto" and workers.device is None:
        from lvmrs.runs.dispatch import way_of_shards

        smoothed.fix_way(way_of_shards(job, whole))
    tell(f"method {method}")
    if goal is not None:
        tell(f"goal   sampling for an input stops {goal.words}, or after {n} samples; n0 = {n0}")
    if dry_run or out is None:
        show_check(job, INPUTS, None, options.radii(options.RADII), as_json=as_json)
        return
    ended: list[Results] = []

    def begin(estimate: RunEstimate) -> None:
        _tell_cost(estimate, watcher, at_most=goal is not None)
        if not estimate.done:
            samples = 0 if workers.elsewhere else estimate.inputs * estimate.samples_each
            _tell_findings(_checked_first(job, samples), job)

    watcher = Watcher(len(selected.indices), workers=workers if workers.elsewhere else None)
    with stoppable(lambda: watcher.how_to_continue(*(() if resume else ("--resume",)))), watcher:
        on_row = watcher.row
        if tracker is not None:
            from lvmrs.runs.trackers import RowLog, opened

            terms = {"sigma": smoothed.sigma, "alpha": alpha, "n0": n0, "n": n, "seed": setup.seed}
            recorded = {"run": str(out), "model": loaded.name, "data": dataset.name, "method": str(method), **terms}
            log = RowLog(watcher.enter_context(opened(tracker, recorded)), Run(out).rows() if begun else ())

            def on_row(row: Row) -> None:
                log(row)
                watcher.row(row)

        run = certify_job(
            job,
            out,
            resume=resume,
            resample=resample,
            command=command_line(),
            workers=workers,
            on_begin=begin,
            on_row=on_row,
            on_end=ended.append,
        )
    for results in ended:
        _tell_answers(results)
        _tell_findings(diagnose(results), job)
    show_run(run, as_json=as_json)


def _usual_n0(goal: Goal, inputs: int) -> int:
    """Return the default number of samples to plan on where sampling has a goal.

    >>> from lvmrs.kernel.method import Goal
    >>> _usual_n0(Goal((0.5,)), 100), _usual_n0(Goal(budget=10**6), 100), _usual_n0(Goal(budget=10**5), 100)
    (64, 256, 62)
    """
    if goal.budget is None:
        return _FEW
    return min(_MOST, max(_LEAST, goal.budget // max(1, inputs) // _SHARE))


def _tell_cost(estimate: RunEstimate, watcher: Watcher, *, at_most: bool) -> None:
    samples = {"samples_each": 0} if at_most else {"samples_each": estimate.samples_each, "rate": estimate.rate}
    watcher.begin(estimate.inputs, done=estimate.done, **samples)
    if not estimate.inputs:
        return
    if estimate.workers > 1:
        tell(f"workers {estimate.workers}")
    in_all = "" if estimate.budget is None else f", {estimate.budget} in all,"
    tell(
        f"cost   {estimate.inputs} inputs × {'at most ' * at_most}{estimate.samples_each} samples{in_all} at "
        f"{estimate.rate:,.0f} samples/s: {'at most ' * at_most}about {duration(estimate.seconds)}"
    )
    tell(f"runs   {estimate.running}")
    if estimate.in_bfloat16 >= _WORTH_TELLING:
        tell(
            f"faster --precision bfloat16 would be {estimate.in_bfloat16:.1f} × as fast here; "
            "it is then the network in bfloat16 that is certified"
        )
    if estimate.scores_bytes:
        tell(f"scores {'at most ' * at_most}{estimate.scores_bytes / 1e9:.3g} GB on disk, for all inputs")


def _checked_first(job: Job, samples: int) -> list[Finding]:
    """Likely mistakes in settings and, if a check costs a small share of these samples, in answers to a few inputs."""
    from lvmrs.analysis.diagnosis import diagnose
    from lvmrs.runs.check import check, evidence_of_settings

    copies = min(_COPIES, job.sampling.n0)
    inputs = min(_CHECKED, int(_SHARE_OF_CHECK * samples) // copies)
    found = None
    if inputs and job.method.samples:
        with suppress(LvmrsError):  # of one input: the run reports it when it reaches that input
            found = check(job, inputs=inputs, copies=copies)
    if found is None:
        return diagnose(evidence_of_settings(job))
    if found.clean_accuracy is not None and found.noisy_accuracy is not None:
        tell(
            f"check  {len(found.index)} inputs: {percent(found.clean_accuracy)} % right without noise, "
            f"{percent(found.noisy_accuracy)} % of noisy copies"
        )
    return found.findings


def _tell_findings(findings: Sequence[Finding], job: Job) -> None:
    for finding in findings:
        tell(*words(finding, job))


def _tell_answers(results: Results) -> None:
    from lvmrs.analysis.metrics import abstention, clean_accuracy

    clean = clean_accuracy(results)
    abstained = f"{percent(abstention(results).value)} % abstain"
    tell(
        f"result {abstained}" if clean is None else f"clean  {percent(clean.value)} % right without noise, {abstained}"
    )
