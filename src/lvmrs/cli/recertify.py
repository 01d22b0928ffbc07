"""``lvmrs recertify``: a new run from the kept scores of another, without a network."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Optional

import typer

from lvmrs.cli import options, spread
from lvmrs.cli.console import command_line
from lvmrs.cli.outcome import show_run
from lvmrs.cli.progress import Watcher
from lvmrs.cli.stoppable import stoppable
from lvmrs.errors import InvalidArgumentError
from lvmrs.record import Run

__all__ = ["recertify"]


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
    form: options.Form = None,
    noise: Annotated[
        Optional[str],
        typer.Option("--noise", help="The noise of RUN, which cannot be changed; needed if it is python:MODULE:NOISE."),
    ] = None,
    width: options.Width = None,
    alpha: Annotated[Optional[float], typer.Option("--alpha", help="Another risk.")] = None,
    n0: Annotated[Optional[int], typer.Option("--n0", "--N0", help="Fewer samples to plan on.")] = None,
    n: Annotated[Optional[int], typer.Option("--n", "--N", help="Fewer samples to prove on.")] = None,
    target_radius: options.Targets = None,
    tolerance: options.Tolerance = None,
    budget: options.Budget = None,
    beta: options.Beta = None,
    ray: spread.RayAddress = None,
    workers: spread.WorkerCount = None,
    cpus_per_worker: spread.CpusPerWorker = None,
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
    from lvmrs import runs as jobs
    from lvmrs.cli.chosen_goal import check_no_bound, chosen_goal
    from lvmrs.cli.chosen_method import chosen_method

    source = Run(run)
    _check_noise(noise, source)
    goal = chosen_goal(target_radius, tolerance, beta, budget, bound=bound)
    if source.manifest.terms.goal is not None:
        check_no_bound(bound)
    chosen = chosen_method(method, bound=bound, map=map, temperature=temperature, mass=mass, form=form, width=width)
    if goal is not None and goal.limited:
        for option, typed in (("ray", ray), ("workers", workers)):
            if typed is not None:
                raise InvalidArgumentError(f"{option} has no effect: one process spends a budget; leave it out")
    inputs, terms = source.count, source.manifest.terms
    who = spread.chosen_workers(ray, workers, cpus_per_worker, usual=os.cpu_count() or 1)
    watcher = Watcher(inputs, workers=who if ray is not None else None)
    with stoppable(lambda: ("stopped; what is done is safe; go on with:", command_line())), watcher:
        watcher.begin(inputs, (terms.n0 or 0) + (terms.n or 0) if goal is None and terms.goal is None else 0)
        made = jobs.recertify(
            source,
            out,
            chosen,
            alpha=alpha,
            n0=n0,
            n=n,
            goal=goal,
            command=command_line(),
            workers=who,
            on_row=watcher.row,
        )
    show_run(made, as_json=as_json)


def _check_noise(typed: str | None, source: Run) -> None:
    """Refuse a noise that is not that of the run; the user's own is added to the registry."""
    from lvmrs.cli.own_parts import OWN, known_name
    from lvmrs.registry import NOISES, noise_named

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
