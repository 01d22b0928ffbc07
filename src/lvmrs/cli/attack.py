"""``lvmrs attack``: search for points at which certified classes do not win."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from lvmrs import analysis
from lvmrs._util.text import printable
from lvmrs.analysis import AttackSummary
from lvmrs.analysis.tables import attack_object
from lvmrs.cli import options
from lvmrs.cli.console import FAILED, command_line, output, stoppable, tell
from lvmrs.cli.options import INPUTS, METHOD, OUTPUT, SAMPLES, grouped, option
from lvmrs.cli.progress import displaying
from lvmrs.cli.setup import WorkerOptions
from lvmrs.cli.verify import RunOptions
from lvmrs.kernel.radius import rounded_down, rounded_up
from lvmrs.record import Run
from lvmrs.record.attacks import Attack, AttackRow, attack_place


@grouped()
def attack(
    run: Annotated[Path, typer.Argument(help="Directory of the run.")],
    *,
    out: Annotated[Path | None, option(OUTPUT, "Directory of the results. Default: the directory of RUN.")] = None,
    steps: Annotated[int, option(METHOD, "Steps of gradient ascent from each start.")] = 10,
    restarts: Annotated[int, option(METHOD, "Starts at each distance.")] = 2,
    farthest: Annotated[
        float | None, option(METHOD, "Largest distance of the search. Default: 16 times σ or the radius.")
    ] = None,
    clip: Annotated[
        bool, option(METHOD, "Search only in [0, 1], though certificates hold outside too.", "--clip")
    ] = False,
    samples: Annotated[int, option(SAMPLES, "Noisy copies for each gradient.")] = 32,
    n: Annotated[int, option(SAMPLES, "Fresh samples to judge each point on.", "--n", "--N")] = 10_000,
    beta: Annotated[float, option(SAMPLES, "Risk that the judgement about an input is wrong.")] = 0.001,
    seed: Annotated[int, option(SAMPLES, "Seed of noise and starts.")] = 0,
    skip: Annotated[int, option(INPUTS, "Attack every K-th certificate.", metavar="K")] = 1,
    max: Annotated[  # noqa: A002
        int | None, option(INPUTS, "Largest number of certificates to attack.")
    ] = None,
    keep: Annotated[
        bool, option(OUTPUT, "Keep all points that are found, not only those that break a certificate.", "--keep")
    ] = False,
    run_options: RunOptions,
    worker_options: WorkerOptions,
    as_json: options.Json = False,
) -> None:
    """Search for points at which the certified classes of RUN do not win: one row for each certificate in attack.tsv.

    A point inside the radius breaks the certificate; the distance of the nearest point outside is an upper bound on the
    true radius. Points are judged on fresh samples. The exit code is 1 if more certificates are broken than their risks
    explain. If the command is stopped, type it again to continue.

    \b
    Examples:
      lvmrs attack runs/a
      lvmrs attack runs/a --max 50 --steps 20 --restarts 4
      lvmrs attack runs/b --model python:nets.py:resnet \\
          --weights w.safetensors --json
    """
    opened = Run(run)
    from lvmrs import runs
    from lvmrs.attacks import Search
    from lvmrs.runs.attack import certified_rows

    search = Search(steps, restarts, samples, n, beta, seed, farthest, clip)
    if not opened.manifest.terms.samples:
        run_options.refuse(("samples", "n", "beta"), f"certificates of {run} are without noise")
    certified_rows(opened, most=max, skip=skip)  # both raise for wrong arguments, before anything is loaded
    attack_place(opened, out)
    workers = run_options.workers(opened, worker_options)
    seen: list[AttackRow] = []
    with stoppable(lambda: (f"stopped after {len(seen)} inputs; continue with:", command_line())):
        job = run_options.job(opened, workers)
        with displaying("inputs") as display:

            def show(row: AttackRow) -> None:
                seen.append(row)
                display.show(len(seen), lambda rate: f"{sum(row.broken for row in seen)} broken")

            made = runs.attack(
                job,
                opened,
                search,
                out=out,
                most=max,
                skip=skip,
                keep=keep,
                command=command_line(),
                workers=workers,
                on_begin=lambda inputs, done: display.begin(inputs),
                on_row=show,
            )
    found = analysis.attack_summary(analysis.results_of(opened, made), [])
    assert found is not None  # noqa: S101 (the attack has rows)
    _show(opened, made, found, as_json=as_json)


def _show(run: Run, made: Attack, found: AttackSummary, *, as_json: bool) -> None:
    """Print a one-line summary and the broken certificates; too many of these end the command with exit code 1."""
    if as_json:
        shown = {name: value for name, value in attack_object(found).items() if not name.startswith("attacked ")}
        output(json.dumps({"run": str(run.directory), "attack": str(made.file), **shown}))
    else:
        means = "no point was found"
        if found.certified is not None and found.attacked is not None and found.ratio is not None:
            means = (
                f"{found.found} with a point: mean certified radius {rounded_down(found.certified)}, mean attacked "
                f"distance {rounded_up(found.attacked)}, attacked/certified {found.ratio:.3f} on average"
            )
        output(f"{printable(str(run.directory))}: {found.inputs} certificates attacked, {found.broken} broken; {means}")
    if not found.broken:
        return
    broken = [row.idx for row in made.rows() if row.broken]
    listed = f"{', '.join(map(str, broken[:20]))}{' …' if len(broken) > 20 else ''}"
    points = made.point(broken[0]).with_name("attack-INDEX.npy")
    tell(f"broken: input {listed}; the points are in {points}")
    if found.broken > found.by_chance:
        tell(f"at most {found.by_chance} of {found.inputs} would be broken by chance; these certificates do not hold")
        raise typer.Exit(FAILED)
    tell(f"up to {found.by_chance} of {found.inputs} may be broken by chance, at the risks of certificates and attack")
