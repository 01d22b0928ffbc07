"""``lvmrs attack``: a search for points at which certified classes do not win."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Optional

import typer

from lvmrs import analysis
from lvmrs._util import signals as _stopping
from lvmrs._util.text import printable
from lvmrs.analysis import AttackSummary
from lvmrs.analysis.tables import attack_object
from lvmrs.cli import again, options, spread
from lvmrs.cli.console import command_line, output, tell
from lvmrs.cli.ending import FAILED
from lvmrs.cli.progress import displaying
from lvmrs.cli.setup import refuse_typed, typed_options
from lvmrs.cli.stoppable import stoppable
from lvmrs.kernel.radius import rounded_down, rounded_up
from lvmrs.record import Run
from lvmrs.record.attacks import Attack, AttackRow, attack_place

__all__ = ["attack"]


def attack(
    context: typer.Context,
    run: Annotated[Path, typer.Argument(help="The directory of the run.")],
    out: Annotated[
        Optional[Path], typer.Option("--out", help="Where to write the results, if not to the directory of RUN.")
    ] = None,
    steps: Annotated[int, typer.Option("--steps", help="Steps of gradient ascent from each start.")] = 10,
    restarts: Annotated[int, typer.Option("--restarts", help="Starts at each distance.")] = 2,
    samples: Annotated[int, typer.Option("--samples", help="Noisy copies for each gradient.")] = 32,
    n: Annotated[int, typer.Option("--n", "--N", help="Fresh samples to judge a finding on.")] = 10_000,
    beta: Annotated[float, typer.Option("--beta", help="Risk of what is said about each input.")] = 0.001,
    farthest: Annotated[
        Optional[float],
        typer.Option("--farthest", help="Give up beyond this distance; else 16 times σ or the radius."),
    ] = None,
    clip: Annotated[bool, typer.Option("--clip", help="Keep points in [0, 1]; certificates are about all.")] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Keep all points that are found, not only the broken.")] = False,
    skip: Annotated[int, typer.Option("--skip", help="Attack one certificate of so many.")] = 1,
    max: Annotated[Optional[int], typer.Option("--max", help="Attack so many certificates at most.")] = None,  # noqa: A002
    seed: Annotated[int, typer.Option("--seed", help="Seed of noise and starts.")] = 0,
    model: again.Model = None,
    weights: again.Weights = None,
    denoiser: again.Denoiser = None,
    data: again.Data = None,
    class_index: again.ClassIndex = None,
    method: again.Method = None,
    map: again.Map = None,  # noqa: A002
    bound: again.Bound = None,
    form: again.Form = None,
    noise: again.Noise = None,
    device: again.Device = None,
    ray: spread.RayAddress = None,
    workers: spread.WorkerCount = None,
    cpus_per_worker: spread.CpusPerWorker = None,
    gpus_per_worker: spread.GpusPerWorker = None,
    as_json: options.Json = False,
) -> None:
    """Search for points at which certified classes of RUN do not win: one row for each certificate in attack.tsv.

    Inside its radius a certificate says that there is none; outside, the nearest that is found is an upper bound of the
    true radius. Findings are judged on fresh samples. The exit code is 1 if more certificates are broken than their
    risks explain. An attack that was stopped goes on where it was if the same command is typed again.

    \b
    Examples:
      lvmrs attack runs/a
      lvmrs attack runs/a --max 50 --steps 20 --restarts 4
      lvmrs attack runs/b --model python:nets.py:resnet --weights w.safetensors --json
    """
    opened = Run(run)
    from lvmrs import runs as jobs
    from lvmrs.attacks import Search
    from lvmrs.runs.attack import certified_rows

    search = Search(steps, restarts, samples, n, beta, seed, farthest, clip)
    if not opened.manifest.terms.samples:
        refuse_typed(typed_options(context), ("samples", "n", "beta"), f"certificates of {run} are without noise")
    certified_rows(opened, most=max, skip=skip)  # what cannot be is refused before anything is loaded
    attack_place(opened, out)
    spread.check_gpus(gpus_per_worker, device)
    kind = again.kind_of_device(opened, device)
    several = device in (None, "auto") and kind != "cpu"
    who = spread.chosen_workers(ray, workers, cpus_per_worker, gpus_per_worker, device=kind, several=several)
    seen: list[AttackRow] = []
    with stoppable(lambda: (f"stopped after {len(seen)} inputs; go on with:", command_line())):
        job = again.job_again(
            opened,
            method=method,
            parts={"map": map, "bound": bound, "form": form, "noise": noise},
            model=model,
            weights=weights,
            denoiser=denoiser,
            data=data,
            class_index=class_index,
            device=device if who.device is None else "cpu",  # where it is loaded: workers have devices of their own
        )
        with displaying("inputs") as display:

            def show(row: AttackRow) -> None:
                seen.append(row)
                display.show(len(seen), lambda rate: f"{sum(row.broken for row in seen)} broken")
                _stopping.check()

            made = jobs.attack(
                job,
                opened,
                search,
                out=out,
                most=max,
                skip=skip,
                keep=keep,
                command=command_line(),
                workers=who,
                on_begin=lambda inputs, done: display.begin(inputs),
                on_row=show,
            )
    found = analysis.attack_summary(analysis.results_of(opened, made), [])
    assert found is not None  # noqa: S101 (it has rows)
    _show(opened, made, found, as_json=as_json)


def _show(run: Run, made: Attack, found: AttackSummary, *, as_json: bool) -> None:
    """Print the result in one line, and where broken certificates are; too many of them end the command with 1."""
    if as_json:
        shown = {name: value for name, value in attack_object(found).items() if "accuracy" not in name}
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
