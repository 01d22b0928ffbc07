"""``lvmrs sigma``: which σ to take, by forecasts at several σ on the same inputs."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from lvmrs._util.text import optional, outward, percent
from lvmrs.analysis import plots
from lvmrs.analysis.tables import formatted
from lvmrs.cli import options
from lvmrs.cli.check import training_data, words
from lvmrs.cli.console import output, stoppable
from lvmrs.cli.options import MODEL, OUTPUT, SAMPLES, grouped, option
from lvmrs.cli.plot import check_suffix, write_figure
from lvmrs.cli.progress import counted, displaying
from lvmrs.cli.setup import MethodOptions, Setup
from lvmrs.errors import InvalidArgumentError, RunError
from lvmrs.kernel import checks
from lvmrs.registry import MODELS

if TYPE_CHECKING:
    from lvmrs.analysis.metrics import Estimate
    from lvmrs.runs.job import Job
    from lvmrs.runs.sigma import SigmaChoice, SigmaComparison


@dataclass(frozen=True)
class Candidates(Setup):
    """Several networks, or one network at several σ; all else as for one job."""

    model: Annotated[  # type: ignore[assignment]
        list[str], option(MODEL, f"Source of a model, once for each model: {MODELS.listed}.", "--model")
    ]
    sigma: Annotated[
        list[float] | None,
        option(
            SAMPLES,
            "Standard deviation of the noise, for pixels in [0, 1]: once for each model, in their order, or several "
            "times for one model. Default: for each model that of its training, if its file records it.",
            "--sigma",
        ),
    ] = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        self.pairs()
        super().__post_init__()

    def _models(self) -> list[str]:
        return list(self.model)

    def pairs(self) -> list[tuple[str, float | None]]:
        """Each model with its σ, or None for the σ of its training. Refuses numbers that do not match."""
        models, sigmas = list(self.model), list(self.sigma or ())
        for sigma in sigmas:
            checks.positive_number("sigma", sigma)
            if sigmas.count(sigma) > 1:
                raise InvalidArgumentError(f"sigma = {sigma:g} is given twice; give each sigma once")
        if sigmas and len(models) not in (1, len(sigmas)):
            raise InvalidArgumentError(
                f"there are {len(models)} models, and the number of sigmas is {len(sigmas)}; give one sigma for each "
                "model, or one model"
            )
        if max(len(models), len(sigmas)) < 2:
            raise InvalidArgumentError(
                "one sigma leaves nothing to choose; give several networks, or one network and several sigmas"
            )
        if not sigmas and self.denoiser is not None:
            raise InvalidArgumentError("sigma must be given: the denoiser does not say for which noise it is")
        if len(models) > 1:
            self.refuse(("weights",), "there are several models, each with its own weights")
        if not sigmas:
            return [(model, None) for model in models]
        return list(zip(models * len(sigmas) if len(models) == 1 else models, sigmas, strict=True))

    def each(self, pairs: list[tuple[str, float | None]]) -> list[Setup]:
        """The setup of each candidate. Refuses two models that were trained for the same σ."""
        found: dict[float, str] = {}
        for model, given in pairs:
            sigma = _recorded_sigma(model) if given is None else given
            if sigma in found:
                raise InvalidArgumentError(
                    f"{found[sigma]} and {model} were both trained for sigma = {sigma:g}; give one of them here, and "
                    "compare them with lvmrs certify and lvmrs compare"
                )
            found[sigma] = model
        return [Setup(**{**vars(self), "model": model, "sigma": sigma}) for sigma, model in found.items()]


def _recorded_sigma(model: str) -> float:
    from lvmrs.analysis.diagnosis import Evidence
    from lvmrs.models.load import load

    evidence = Evidence(model=load(model).facts)
    found = evidence.trained_sigma
    if not found:
        why = "its file does not record the noise of its training" if found is None else "it was trained without noise"
        if found is None and evidence.trained_sigmas:
            why = "its members were trained for different sigmas"
        raise InvalidArgumentError(f"sigma must be given for {model}, since {why}; give a sigma for each model")
    return found


@grouped()
def sigma(
    *,
    setup: Candidates,
    method_options: MethodOptions,
    alpha: options.Alpha = 0.001,
    n0: options.N0 = 1_000,
    n: options.N = 100_000,
    inputs: options.Checked = 200,
    copies: options.Copies = None,
    radius: Annotated[
        float | None, option(OUTPUT, "Say which sigma to take for accuracy that is certified at this radius.")
    ] = None,
    radii: options.Radii = options.RADII,
    confidence: Annotated[float, option(OUTPUT, "Confidence level of the intervals for the choice of the inputs.")] = (
        0.95
    ),
    plot: Annotated[
        Path | None, option(OUTPUT, "Draw the curves into this file: .png, .svg or .pdf; an existing file is replaced.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Forecast which sigma to take, from a few inputs: networks trained for several sigmas, or one network at several.

    Each network is sampled on the same inputs, and differences between sigmas are taken input by input. The verdict
    says which sigma is better by how much, or that more inputs are needed to decide, and which sigma to train for next.
    Nothing is certified. The forecast is made from few noisy copies, and proves nothing.

    \b
    Examples:
      lvmrs sigma --model trained:nets/low.safetensors \\
          --model trained:nets/high.safetensors --data digits --radius 0.5
      lvmrs sigma --model onnx:net.onnx --data npz:test.npz --sigma 0.25 \\
          --sigma 0.5 --n 10000 --plot sigma.pdf
    """
    pairs, wanted = setup.pairs(), options.radii(radii)
    checks.fraction("confidence", confidence)
    checks.count("inputs", inputs, least=2)
    if radius is not None:
        checks.at_least_zero("radius", radius)
    if plot is not None:
        check_suffix("plot", plot)
        if not plot.absolute().parent.is_dir():
            raise RunError(f"{plot} cannot be written to: there is no directory {plot.parent}; choose another file")
        try:
            plot.exists()
        except OSError as error:  # such as a name that is too long
            raise RunError(f"{plot} cannot be written to ({error.strerror}); choose another file") from error
        optional("matplotlib.figure", extra="plots", error=RunError)  # before a minute of work
    # torch takes seconds to import: refuse wrong options before
    from lvmrs.runs.job import Job, Sampling
    from lvmrs.runs.sigma import compare_sigmas

    method, sampling = method_options.chosen(), Sampling(alpha, n0, n, setup.seed)
    jobs: list[Job] = []
    for each in setup.each(pairs):
        loaded, dataset, smoothed = each.load(method, dataset=jobs[0].data if jobs else None)
        own = smoothed.default_method if method is None else method
        jobs.append(Job(loaded, dataset, smoothed, own, sampling, setup.selection(dataset)))
    with stoppable(lambda: ("stopped; nothing was written",)), displaying("forecasts") as display:
        found = compare_sigmas(jobs, inputs=inputs, copies=copies, confidence=confidence, on_input=counted(display))
    choices = [found.choice(at) for at in ([] if radius is None else [radius]) + [None]]
    if as_json:
        output(json.dumps(_object(found, choices, wanted), allow_nan=False))
    else:
        for line in _lines(found, choices, wanted):
            output(line)
    if plot is not None:  # last, since writing may fail
        curves = {f"sigma {sigma:g}": found.curve(k) for k, sigma in enumerate(found.sigmas)}
        write_figure(plots.forecasts(curves, found.measure), plot)


def _lines(found: SigmaComparison, choices: list[SigmaChoice], radii: list[float]) -> Iterator[str]:
    first, sampling = found.checks[0], found.jobs[0].sampling
    yield (
        f"forecast of {found.measure} in % for n = {sampling.n}, alpha = {sampling.alpha:g}, from {len(first.index)} "
        f"of {first.inputs} inputs, {first.copies} noisy copies of each"
    )
    yield formatted(list(_rows(found, radii)), "table")
    for choice in choices:
        yield _verdict(found, choice)
    yield from _next(found, choices)
    for job, one in zip(found.jobs, found.checks, strict=True):
        for finding in one.findings:
            head, *rest = words(finding, job)
            yield f"CHECK  sigma {job.smoothed.sigma:g}: {head.removeprefix('CHECK  ')}"
            yield from rest


def _rows(found: SigmaComparison, radii: list[float]) -> Iterator[list[str]]:
    """A line for each radius and a column for each σ; the last column has the sigmas that may be the best."""
    places = range(len(found.sigmas))
    yield ["radius", *(f"sigma {sigma:g}" for sigma in found.sigmas), "best"]
    for radius in radii:
        if radius > found.highest_ceiling:
            continue
        cells = ["-" if radius > found.ceiling(k) else _percent(found.certified_accuracy(k, radius)) for k in places]
        yield [f"{radius:g}", *cells, _contenders(found.choice(radius))]
    averages = [found.average_certified_radius(k) for k in places]
    shown = [f"{each.value:.3f} ({outward(each.low, each.high, 3)})" for each in averages]
    yield ["average radius", *shown, _contenders(found.choice())]
    yield ["largest radius", *(f"{found.ceiling(k):.3g}" for k in places), ""]
    clean = [one.clean_accuracy for one in found.checks]
    noisy = [one.noisy_accuracy for one in found.checks]
    if found.checks[0].labelled:
        yield ["right without noise", *(_share(share) for share in clean), ""]
        yield ["right with noise", *(_share(share) for share in noisy), ""]
    yield ["samples an input", *(str(job.samples_each) for job in found.jobs), ""]
    yield ["seconds an input", *(f"{found.seconds(k):.3g}" for k in places), ""]


def _share(share: float | None) -> str:
    return "-" if share is None else percent(share)


def _percent(share: Estimate) -> str:
    return f"{percent(share.value)} ({outward(100 * share.low, 100 * share.high, 1)})"


def _contenders(choice: SigmaChoice) -> str:
    return _either([choice.sigmas[k] for k in choice.contenders]) if choice.possible else "-"


def _either(sigmas: list[float], last: str = "or") -> str:
    *others, end = (f"{sigma:g}" for sigma in sigmas)
    return f"{', '.join(others)} {last} {end}" if others else end


def _purpose(choice: SigmaChoice) -> str:
    return "average radius" if choice.radius is None else f"radius {choice.radius:g}"


def _by(difference: Estimate, *, radius: float | None) -> str:
    """A difference with its interval: a radius, or points of percent."""
    if radius is None:
        return f"{difference.value:.3f} ({outward(difference.low, difference.high, 3)})"
    return f"{100 * difference.value:.1f} points ({outward(100 * difference.low, 100 * difference.high, 1)})"


def _verdict(found: SigmaComparison, choice: SigmaChoice) -> str:
    """Which σ to take, and by how much it is better; or that this is not decided."""
    purpose, best = _purpose(choice), choice.sigmas[choice.best]
    if not choice.possible:
        return f"{purpose}: {_out_of_reach(found, choice)}"
    margins = [
        f"than {choice.sigmas[k]:g} by {_by(by, radius=choice.radius)}"
        for k, by in enumerate(choice.differences)
        if k not in choice.contenders
    ]
    if choice.decided:
        return f"{purpose}: take sigma {best:g}, which is better {' and '.join(margins)}"
    ahead = [
        f"of {choice.sigmas[k]:g} by {_by(choice.differences[k], radius=choice.radius)}"
        for k in choice.contenders
        if k != choice.best
    ]
    better = f"; it is better {' and '.join(margins)}" if margins else ""
    between = _either([choice.sigmas[k] for k in choice.contenders], "and")
    return (
        f"{purpose}: not decided between sigma {between}: {best:g} is ahead {' and '.join(ahead)}{better}; "
        f"{_more_inputs(found, choice)}"
    )


def _more_inputs(found: SigmaComparison, choice: SigmaChoice) -> str:
    needed, there = choice.inputs_to_decide, found.checks[0].inputs
    if needed is None:
        return "any of these will do"
    if needed > there:
        return f"about {needed} inputs may decide, and there are {there}: any of these will do"
    return f"take more inputs: about {needed} may decide (--inputs {needed})"


def _out_of_reach(found: SigmaComparison, choice: SigmaChoice) -> str:
    from lvmrs.kernel.radius import rounded_up

    sampling, ceiling = found.jobs[0].sampling, found.highest_ceiling
    if choice.radius is None or choice.radius <= ceiling:
        return "no input is expected to be certified with any of these sigmas"
    least = found.sigma_to_reach(choice.radius)
    larger = "take a larger sigma" if least is None else f"it needs a sigma above {float(rounded_up(least, 3)):g}"
    return (
        f"out of reach: n = {sampling.n} samples at alpha = {sampling.alpha:g} certify no radius above {ceiling:.3g} "
        f"with these sigmas, even if all samples agree; {larger}, or more samples"
    )


def _next(found: SigmaComparison, choices: list[SigmaChoice]) -> Iterator[str]:
    """What to type to try each σ beyond those that were tried, if it may be better."""
    beyond = {choice: found.next_sigma(choice) for choice in choices}
    for sigma in dict.fromkeys(sigma for sigma in beyond.values() if sigma is not None):
        larger = sigma > found.sigmas[-1]
        tried = f"larger than {found.sigmas[-1]:g}" if larger else f"smaller than {found.sigmas[0]:g}"
        purposes = " and ".join(_purpose(choice) for choice in choices if beyond[choice] == sigma)
        yield f"no sigma {tried} was tried, which may be better for {purposes}; to try {sigma:g}:"
        command = None
        if len({job.model.name for job in found.jobs}) > 1:
            command = _training(found.jobs[-1 if larger else 0], sigma)
        yield f"       add --sigma {sigma:g}" if command is None else f"       {command}"
        if command is not None:
            yield "       (with the other options of the training of these networks)"


def _training(job: Job, sigma: float) -> str | None:
    """The command that trains the network of a job for another σ; None if lvmrs cannot train it."""
    source, network = job.model.source, job.model.facts.network
    if source is None or source.denoiser is not None:
        return None
    name = source.name if network is None else f"ready:{network}"
    if name.partition(":")[0] not in ("ready", "python"):
        return None
    out = f"nets/sigma-{sigma:g}.safetensors"
    return f"lvmrs train --model {shlex.quote(name)} --data {training_data(job)} --sigma {sigma:g} --out {out}"


def _object(found: SigmaComparison, choices: list[SigmaChoice], radii: list[float]) -> dict[str, Any]:
    first, sampling = found.checks[0], found.jobs[0].sampling
    return {
        "inputs": first.inputs,
        "checked": len(first.index),
        "copies": first.copies,
        "n": sampling.n,
        "alpha": sampling.alpha,
        "confidence": found.confidence,
        "sigmas": [
            {
                "sigma": job.smoothed.sigma,
                "model": job.model.name,
                found.measure: {f"{radius:g}": _estimate(found.certified_accuracy(k, radius)) for radius in radii},
                "average certified radius": _estimate(found.average_certified_radius(k)),
                "largest radius": one.evidence.ceiling,
                "clean accuracy": one.clean_accuracy,
                "noisy accuracy": one.noisy_accuracy,
                "samples of an input": job.samples_each,
                "seconds of an input": found.seconds(k),
                "findings": [{"mistake": finding.mistake, "text": finding.text} for finding in one.findings],
            }
            for k, (job, one) in enumerate(zip(found.jobs, found.checks, strict=True))
        ],
        "choices": [
            {
                "radius": choice.radius,
                "best": choice.sigmas[choice.best] if choice.possible else None,
                "decided": choice.decided,
                "ahead by": {
                    f"{sigma:g}": _estimate(by)
                    for k, (sigma, by) in enumerate(zip(choice.sigmas, choice.differences, strict=True))
                    if k != choice.best
                },
                "inputs to decide": choice.inputs_to_decide,
                "sigma to try": found.next_sigma(choice),
            }
            for choice in choices
        ],
    }


def _estimate(value: Estimate) -> dict[str, float | None]:
    is_known = math.isfinite(value.high)
    low, high = (value.low, value.high) if is_known else (None, None)
    return {"value": value.value, "low": low, "high": high}
