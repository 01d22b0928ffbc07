"""Figures of runs with matplotlib: curves, radii, chosen maps and temperatures, variance against margin."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from lvmrs import analysis
from lvmrs._util.text import optional, printable
from lvmrs.analysis import Results
from lvmrs.analysis.metrics import Curve, largest_radius
from lvmrs.analysis.summary import attacked_part, common_measure, with_distances
from lvmrs.errors import RunError
from lvmrs.kernel import checks
from lvmrs.record import Run
from lvmrs.record.result_file import NOT_NAMED
from lvmrs.registry import MAPS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The colours of Okabe and Ito, which colour-blind people can distinguish.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_RESULTS = "Results of runs, as lvmrs.analysis.read gives them"


def _figure(x: str, y: str) -> tuple[Figure, Any]:
    library = optional("matplotlib.figure", extra="plots", error=RunError)
    figure = library.Figure(figsize=(5.5, 3.6), layout="constrained")
    axes = figure.subplots()
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _label(name: str) -> str:
    """Escape a name: matplotlib reads $ as mathematics, hides labels that begin with _, and writes broken SVG."""
    return " " + printable(name).replace("$", r"\$")


def _label_of(run: Results) -> str:
    """The name of a run, and the goal at which its sampling stopped."""
    goal = None if run.manifest is None else run.manifest.terms.goal
    if goal is None:
        return _label(run.name)
    targets = ", ".join(f"{target:g}" for target in goal.targets)
    kind = (
        f"budget {goal.budget}"
        if goal.limited
        else f"targets {targets}"
        if targets
        else f"tolerance {goal.tolerance:g}"
    )
    return f"{_label(run.name)} (sampling: {kind})"


def curves(runs: Sequence[Results], *, confidence: float = 0.95) -> Figure:
    """Certified accuracy against the radius, with a band of pointwise intervals for the finite test set.

    Without labels, the figure shows the share of certified inputs. For an attacked run, a dashed line shows the share
    of inputs that are correct and not broken: the true accuracy lies between the two lines. If only some certificates
    were attacked, it is about these inputs alone, and a dotted line shows their certified accuracy.
    """
    runs = checks.instances("runs", runs, Results, _RESULTS)
    figure, axes = _figure("radius", f"{common_measure(runs)} (%)")
    attacked = {k: with_distances(run) for k, run in enumerate(runs) if run.attacked is not None}
    end = 1.02 * (max(largest_radius(run) for run in (*runs, *attacked.values())) or 1.0)
    for k, run in enumerate(runs):
        radius, share, low, high = analysis.curve(run, end=end, confidence=confidence)
        colour = COLOURS[k % len(COLOURS)]
        axes.plot(radius, 100 * share, drawstyle="steps-pre", color=colour, label=_label_of(run))
        axes.fill_between(radius, 100 * low, 100 * high, step="pre", color=colour, alpha=0.15, linewidth=0)
        if k in attacked:
            part = attacked_part(run)
            alone = f" ({len(part)} inputs)" if len(part) < len(run) else ""
            for drawn, line, what in ((part, ":", "certified"), (attacked[k], "--", "attacked"))[not alone :]:
                radius, share, _, _ = analysis.curve(drawn, end=end, confidence=confidence)
                label = f"{_label(run.name)}, {what}{alone}"
                axes.plot(radius, 100 * share, drawstyle="steps-pre", linestyle=line, color=colour, label=label)
    axes.set_ylim(0, 100)
    axes.set_xlim(0, end)
    axes.legend(frameon=False)
    return figure


def forecasts(found: Mapping[str, Curve], measure: str) -> Figure:
    """Forecast curves by name, with a band of pointwise intervals for the choice of the inputs."""
    figure, axes = _figure("radius", f"forecast of {measure} (%)")
    for k, (name, (radius, share, low, high)) in enumerate(found.items()):
        colour = COLOURS[k % len(COLOURS)]
        axes.plot(radius, 100 * share, color=colour, label=_label(name))
        axes.fill_between(radius, 100 * low, 100 * high, color=colour, alpha=0.15, linewidth=0)
    axes.set_ylim(0, 100)
    axes.set_xlim(0, max(curve.radius[-1] for curve in found.values()))
    axes.legend(frameon=False)
    return figure


def radii(runs: Sequence[Results]) -> Figure:
    """Histogram of the radii of correct predictions; without labels, of all predictions."""
    runs = checks.instances("runs", runs, Results, _RESULTS)
    figure, axes = _figure("certified radius", "inputs")
    common_measure(runs)
    kept = [run.radius[run.counted] for run in runs]
    edges = np.histogram_bin_edges(np.concatenate([[0.0], *kept]), bins=30)
    for k, (run, values) in enumerate(zip(runs, kept, strict=True)):
        colour, label = COLOURS[k % len(COLOURS)], _label_of(run)
        axes.hist(values, bins=edges, histtype="stepfilled", alpha=0.4, color=colour, label=label)
    axes.legend(frameon=False)
    return figure


def _coloured(maps: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Maps with their colours. Registered maps have the same colour in every figure; others get the next colours."""
    found = set(maps)
    for name, colour in zip((*MAPS, *sorted(found - set(MAPS))), itertools.cycle(COLOURS)):
        if name in found:
            yield name, colour


def choices(run: Run) -> Figure:
    """The map and temperature that were chosen for each input, against its radius."""
    checks.instance("run", run, Run, "a lvmrs.Run")
    figure, axes = _figure("certified radius", "temperature")
    rows = run.read("idx", "radius", "map", "temperature")
    maps = dict.fromkeys(rows["map"].tolist())
    maps.pop(NOT_NAMED, None)
    for name, colour in _coloured(maps):
        chosen = rows["map"] == name
        flat = name in MAPS and name not in MAPS.having("tempered")  # the temperature has no effect
        axes.scatter(
            rows["radius"][chosen], rows["temperature"][chosen], s=14, color=colour, alpha=0.6,
            marker="_" if flat else "o", linewidths=1, label=f"{_label(name)} ({chosen.sum()})",
        )  # fmt: skip
    if not axes.collections:
        raise RunError(f"{run.directory} does not record which maps were chosen; there is nothing to show")
    axes.set_yscale("log")
    axes.legend(frameon=False)
    return figure


def variance(run: Run) -> Figure:
    """Variance of the top class's score against its margin, by chosen map: the tradeoff of LVM-RS.

    Computed from the kept scores of the certification sample.
    """
    from lvmrs.record.scores import score_statistics

    checks.instance("run", run, Run, "a lvmrs.Run")
    figure, axes = _figure("margin of the mean scores", "variance of the top score")
    found = list(score_statistics(run))
    for name, colour in _coloured({map_ for map_, _, _ in found}):
        points = [(margin, spread) for map_, margin, spread in found if map_ == name]
        axes.scatter(*zip(*points, strict=True), s=14, color=colour, alpha=0.6, label=f"{_label(name)} ({len(points)})")
    axes.legend(frameon=False)
    return figure


OF_RESULTS: dict[str, Callable[[Sequence[Results], float], Figure]] = {
    "curves": lambda runs, confidence: curves(runs, confidence=confidence),
    "radii": lambda runs, confidence: radii(runs),
}
"""Figures of one run or several, by name. Their second argument is the confidence level of the intervals."""
OF_ONE_RUN: dict[str, Callable[[Run], Figure]] = {"choices": choices, "variance": variance}
"""Figures of one run, by name."""
KINDS = (*OF_RESULTS, *OF_ONE_RUN)
