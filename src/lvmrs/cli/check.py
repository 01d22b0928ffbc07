"""``lvmrs check``: what certifying a data set would give, and what looks like a mistake."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Any

from lvmrs._util.text import outward, percent
from lvmrs.cli import options
from lvmrs.cli.console import output, stoppable, tell
from lvmrs.cli.options import grouped
from lvmrs.cli.progress import counted, displaying, duration
from lvmrs.cli.setup import GoalOptions, MethodOptions, Setup, load_as_recorded

if TYPE_CHECKING:
    from lvmrs.analysis.diagnosis import Finding
    from lvmrs.runs.check import Check
    from lvmrs.runs.job import Job


@grouped()
def check(
    *,
    setup: Setup,
    method_options: MethodOptions,
    settings: options.Settings = None,
    alpha: options.Alpha = 0.001,
    n0: options.N0 = 1_000,
    n: options.N = 100_000,
    goal_options: GoalOptions,
    inputs: options.Checked = 200,
    copies: options.Copies = None,
    radii: options.Radii = options.RADII,
    as_json: options.Json = False,
) -> None:
    """Check a model, data and noise before certifying: accuracy, a forecast of certificates, and likely mistakes.

    The options are those of lvmrs certify. Nothing is certified or written. The forecast is made from few noisy copies,
    and proves nothing.

    \b
    Examples:
      lvmrs check --model trained:nets/a.safetensors --data digits --sigma 0.5
      lvmrs check --model onnx:net.onnx --data npz:test.npz --sigma 0.25 \\
          --n 10000 --target-radius 0.5
    """
    setup.check_sigma(method_options.method, settings)
    goal = goal_options.chosen(method_options.bound)
    wanted = options.radii(radii)
    from lvmrs.runs.job import Job, Sampling

    method, loaded, dataset, smoothed = load_as_recorded(setup, method_options.chosen(), settings)
    method = smoothed.default_method if method is None else method
    sampling = Sampling(alpha, n0, n, setup.seed, goal)
    job = Job(loaded, dataset, smoothed, method, sampling, setup.selection(dataset))
    tell(f"method {method}")
    show_check(job, inputs, copies, wanted, as_json=as_json)


def show_check(job: Job, inputs: int, copies: int | None, wanted: list[float], *, as_json: bool) -> None:
    """Check a job and print the result."""
    from lvmrs.runs.check import check as check_job

    with stoppable(lambda: ("stopped; nothing was written",)), displaying("inputs") as display:
        found = check_job(job, inputs=inputs, copies=copies, on_input=counted(display))
    if as_json:
        output(json.dumps(_object(found, wanted, job), allow_nan=False))
        return
    for line in _lines(found, wanted, job):
        output(line)


def _lines(found: Check, radii: list[float], job: Job) -> list[str]:
    seen, sampling = found.evidence, job.sampling
    copies = f", {found.copies} noisy copies of each" if found.copies else ""
    lines = [f"checked {len(found.index)} of {found.inputs} inputs{copies}"]
    if found.clean_accuracy is not None:
        noisy = f", {percent(found.noisy_accuracy)} % of noisy copies" if found.noisy_accuracy is not None else ""
        lines.append(f"right without noise {percent(found.clean_accuracy)} %{noisy}")
    terms = f" for n = {sampling.n}, alpha = {sampling.alpha:g}" if found.copies else ""
    average = found.average_certified_radius
    of = "" if found.labelled else ", wrong answers included, since labels are not known"
    lines.append(
        f"forecast{terms}: average certified radius {average.value:.3f} ({outward(average.low, average.high, 3)}), "
        f"{percent(found.abstention)} % abstain{of}"
    )
    shown = [radius for radius in radii if seen.ceiling is None or radius <= seen.ceiling]
    shares = "  ".join(f"{radius:g}: {percent(found.certified_accuracy(radius))} %" for radius in shown)
    lines.append(f"certified at radius  {shares}")
    if seen.ceiling is not None:
        beyond = {radius: found.samples_for(radius) for radius in radii if radius > seen.ceiling > 0}
        needs = [f"{radius:g} needs n ≥ {n}" for radius, n in beyond.items() if n is not None]
        if out := [f"{radius:g}" for radius, n in beyond.items() if n is None]:
            needs.append(f"a larger sigma for {', '.join(out)}")
        told = f" ({'; '.join(needs)})" if needs else ""
        lines.append(f"largest radius that n and alpha allow: {seen.ceiling:.3g}{told}")
    if found.seconds:
        lines.append(f"time for {found.inputs} inputs: about {duration(found.seconds)} ({found.rate:,.0f} samples/s)")
    findings = found.findings
    return (
        [*lines, *(line for finding in findings for line in words(finding, job))]
        if findings
        else [*lines, "nothing looks like a mistake"]
    )


def words(finding: Finding, job: Job) -> list[str]:
    """The lines for a likely mistake: what it looks like, and what to type."""
    return [f"CHECK  {finding.text}", *(f"       {line}" for line in _to_type(finding.mistake, job))]


def training_data(job: Job) -> str:
    """What to type for the data to train on: data that are not divided into splits would be the test data."""
    name = job.data.name if job.data.data_source is None else job.data.data_source.name
    return shlex.quote(name) if job.data.divided else "TRAINING_DATA"


def _to_type(mistake: str, job: Job) -> list[str]:
    """Options or commands that mend a mistake."""
    if mistake == "sigma in other units":
        return [f"--sigma {job.smoothed.sigma / 255:.3g}"]
    if mistake == "folders in alphabetical order":
        return ["--class-index FILE"]
    from lvmrs.analysis.diagnosis import OF_NOISE

    if mistake not in OF_NOISE or job.model.source is None:
        return []
    model = job.model.source
    rest = f"--data {training_data(job)} --sigma {job.smoothed.sigma:g}"
    lines = [
        f"lvmrs train --model ready:dncnn {rest} --objective denoise --out nets/denoiser.safetensors",
        "and then --denoiser trained:nets/denoiser.safetensors",
    ]
    if model.name.partition(":")[0] in ("ready", "python", "trained"):
        weights = "" if model.weights is None else f" --weights {shlex.quote(str(model.weights))}"
        return [
            f"lvmrs train --model {shlex.quote(model.name)}{weights} {rest} --out nets/new.safetensors",
            "or",
            *lines,
        ]
    return lines


def _object(found: Check, radii: list[float], job: Job) -> dict[str, Any]:
    average, seen = found.average_certified_radius, found.evidence
    return {
        "inputs": found.inputs,
        "checked": len(found.index),
        "copies": found.copies,
        "clean accuracy": found.clean_accuracy,
        "noisy accuracy": found.noisy_accuracy,
        "forecast": {
            "n": job.sampling.n,
            "alpha": job.sampling.alpha,
            "average certified radius": average.value,
            "abstentions": found.abstention,
            "certified accuracy": {f"{radius:g}": found.certified_accuracy(radius) for radius in radii},
        },
        "largest radius": seen.ceiling,
        "seconds": found.seconds,
        "findings": [{"mistake": finding.mistake, "text": finding.text} for finding in found.findings],
    }
