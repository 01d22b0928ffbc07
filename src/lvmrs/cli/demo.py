"""``lvmrs demo``: train, certify, compare and report, in a minute."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

from lvmrs import analysis
from lvmrs._util import files
from lvmrs.analysis.tables import summary_table
from lvmrs.cli import options
from lvmrs.cli.console import command_line, output, stoppable, tell
from lvmrs.cli.options import OUTPUT, option
from lvmrs.cli.progress import Watcher
from lvmrs.errors import InvalidArgumentError
from lvmrs.record import Row, Run, Selection

SIGMA, ALPHA, N0, N, INPUTS = 0.5, 0.001, 1_000, 10_000, 100
METHODS = ("cohen", "votes", "lvm", "duels")
"""What is compared, from the same samples: each after the plainer one before it."""
_RADII = [0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5]


def demo(
    out: Annotated[
        Path | None, option(OUTPUT, "New directory for weights and runs. Default: lvmrs-demo-1, or the next number.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Train a small network on digits with noise, certify 100 test digits with four methods, and compare these.

    \b
    Examples:
      lvmrs demo
      lvmrs demo --out runs/demo
    """
    from lvmrs.analysis.report import pictures_of, write_report

    place = _new_directory() if out is None else files.place(out)
    weights = place / "digits.safetensors"
    if place == Path() or place.is_file() or weights.exists():
        raise InvalidArgumentError(f"out: {str(place)!r} must be a new directory for the demo")
    with stoppable(lambda: (f"stopped; delete {place} and begin again with:", command_line())):
        files.make_directory(place)
        accuracy = train(weights, sigma=SIGMA)
        tell(f"trained on digits with noise σ = {SIGMA:g}: right on {accuracy:.1%} of noisy test digits")
        with Watcher(INPUTS) as watcher:
            watcher.begin(INPUTS, N0 + N)
            runs = certify_all(place, weights, watcher.row)
    results = [analysis.results_of(run) for run in runs]
    if as_json:
        averages = {result.name: analysis.average_certified_radius(result).value for result in results}
        output(json.dumps(averages))
        return
    output(
        f"certified accuracy in %, {INPUTS} digits, σ = {SIGMA:g}, α = {ALPHA:g}, "
        f"n0 = {N0}, n = {N}\n{summary_table([analysis.summarise(result, _RADII) for result in results])}"
    )
    page = place / "report.html"
    pictures = pictures_of(runs[0])
    if pictures.why_none is not None:
        tell(f"no pictures: {pictures.why_none}")
    write_report(runs, page, radii=_RADII, picture=pictures.of)
    tell(f"open {page} in a browser; or look closer: lvmrs compare {runs[1].directory} {runs[-1].directory}")


def _new_directory() -> Path:
    paths = (Path(f"lvmrs-demo-{number}") for number in itertools.count(1))
    return next(path for path in paths if not path.exists())


def train(weights: Path, *, sigma: float, epochs: int = 40) -> float:
    """Train on noisy digits, write the weights, and return the accuracy of the network on noisy test digits.

    A training that was stopped is resumed, if it had the same ``sigma`` and ``epochs``.
    """
    from lvmrs import training

    settings = training.Settings(epochs=epochs, lr=0.01)
    job = training.TrainingJob(
        "ready:small_cnn", "digits", training.Gaussian(sigma), weights, settings, command="lvmrs demo"
    )
    accuracy: float = training.run(job, resume=job.checkpoint.exists()).measured["noisy accuracy"]
    return accuracy


def certify_all(out: Path, weights: Path, on_row: Callable[[Row], None]) -> list[Run]:
    """Certify test digits as Cohen et al. (2019) do, keeping the scores, and the same scores by the other methods."""
    from lvmrs import SmoothedClassifier, data, models, runs
    from lvmrs.kernel.exact_noise import suited_noise
    from lvmrs.planners.settings import method

    digits = data.load("digits")
    loaded = models.load(f"trained:{weights}")
    job = runs.Job(
        loaded,
        digits,
        SmoothedClassifier(loaded.model, SIGMA, noise=suited_noise(digits.levels)),
        method(METHODS[0]),
        runs.Sampling(ALPHA, N0, N),
        Selection(len(digits), max=INPUTS),
        keeps_scores=True,
    )
    sampled = runs.certify(job, out / METHODS[0], command="lvmrs demo", on_row=on_row)
    others = (runs.recertify(sampled, out / name, method(name), command="lvmrs demo") for name in METHODS[1:])
    return [sampled, *others]
