"""``lvmrs recertify``: certify the kept scores of a run again, without a network."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from lvmrs.cli import options
from lvmrs.cli.console import command_line, show_run, stoppable
from lvmrs.cli.options import SAMPLES, grouped, option
from lvmrs.cli.progress import Watcher
from lvmrs.cli.setup import OWN, GoalOptions, MethodOptions, check_no_bound, chosen_workers, known_name
from lvmrs.errors import InvalidArgumentError
from lvmrs.record import Run
from lvmrs.registry import NOISES, noise_named


@grouped()
def recertify(
    run: Annotated[Path, typer.Argument(help="Run that was made with --keep-scores.")],
    *,
    out: options.Out,
    method_options: MethodOptions,
    noise: Annotated[
        str | None, option(SAMPLES, "Noise of RUN, which cannot be changed; required if it is python:MODULE:NOISE.")
    ] = None,
    alpha: Annotated[float | None, option(SAMPLES, "Another risk.")] = None,
    n0: Annotated[int | None, option(SAMPLES, "Fewer samples to plan on.", "--n0", "--N0")] = None,
    n: Annotated[int | None, option(SAMPLES, "Fewer samples to prove on.", "--n", "--N")] = None,
    goal_options: GoalOptions,
    ray: options.RayAddress = None,
    workers: options.WorkerCount = None,
    cpus_per_worker: options.CpusPerWorker = None,
    as_json: options.Json = False,
) -> None:
    """Certify the kept scores of RUN again, in seconds and without a network.

    The default method is that of RUN, or duels if --width is given, or lvm if another setting of a method is. Each new
    run holds by itself. Picking for each input the best of several runs does not hold: it would choose on the sample
    that certifies.

    \b
    Examples:
      lvmrs recertify runs/a --method cohen --out runs/a-cohen
      lvmrs recertify runs/a --method lvm --bound bernstein --alpha 0.01 \\
          --out runs/a-bernstein
    """
    from lvmrs import runs

    source = Run(run)
    _check_noise(noise, source)
    goal = goal_options.chosen(method_options.bound)
    if source.manifest.terms.goal is not None:
        check_no_bound(method_options.bound)
    chosen = method_options.chosen()
    if goal is not None and goal.limited:
        goal_options.refuse(("ray", "workers"), "one process spends a budget")
    inputs, terms = source.count, source.manifest.terms
    pool = chosen_workers(ray, workers, cpus_per_worker, usual=os.cpu_count() or 1)
    watcher = Watcher(inputs, workers=pool if ray is not None else None)
    with stoppable(lambda: ("stopped; written rows are safe; continue with:", command_line())), watcher:
        watcher.begin(inputs, (terms.n0 or 0) + (terms.n or 0) if goal is None and terms.goal is None else 0)
        made = runs.recertify(
            source,
            out,
            chosen,
            alpha=alpha,
            n0=n0,
            n=n,
            goal=goal,
            command=command_line(),
            workers=pool,
            on_row=watcher.row,
        )
    show_run(made, as_json=as_json)


def _check_noise(typed: str | None, source: Run) -> None:
    """Refuse another noise than that of the run; adds the user's own noise to the registry."""
    if typed is None:
        return
    used = source.manifest.terms.noise
    if typed.startswith(OWN):
        same = known_name(NOISES, typed) == used.partition(":")[0]
    else:
        same = noise_named(typed).spelling == used
    if not same:
        raise InvalidArgumentError(
            f"noise has no effect: the scores of {source.directory} were sampled with {used:.80} noise; leave it out, "
            "or certify the inputs again"
        )
