"""From runs to the page: everything that it shows is one JSON object in it, drawn by the script beside."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Sequence
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from lvmrs import analysis
from lvmrs._decimals import outward, percent, rounded_down
from lvmrs.analysis import Results
from lvmrs.registry import MAPS
from lvmrs.runs import Row, Run

__all__ = ["write_report"]

Picture = Callable[[int], str | None]
_POINTS = 500


def write_report(
    runs: Sequence[Run],
    out: Path,
    *,
    radii: Sequence[float],
    picture: Picture = lambda index: None,
    most: int = 1_000,
    confidence: float = 0.95,
) -> None:
    """Write the page. ``picture`` gives the picture of an input by its index; ``most`` inputs are listed."""
    results = [analysis.results_of(run) for run in runs]
    classes = next((run.manifest.about.get("classes") for run in runs if run.manifest.about.get("classes")), None)
    rows = [run.rows() for run in runs]
    every = {row.idx for part in rows for row in part}
    listed = sorted(every)[:most]
    pictured = runs[0].manifest.settings.get("data")  # whose pictures these are
    content = {
        "version": version("lvmrs"),
        "confidence": confidence,
        "classes": classes,
        "inputs": [{"idx": index, "picture": picture(index)} for index in listed],
        "unlisted": len(every) - len(listed),
        "cautions": _cautions(results),
        "runs": [
            _run(run, result, radii, confidence)
            | {
                "pictured": run.manifest.settings.get("data") == pictured,
                "rows": {row.idx: _row(row) for row in part if row.idx <= listed[-1]},
            }
            for run, result, part in zip(runs, results, rows, strict=True)
        ],
    }
    parts = files("lvmrs.report")
    page = parts.joinpath("page.html").read_text(encoding="utf-8")
    # Nothing in the data can end the script that holds it.
    text = json.dumps(content, ensure_ascii=False, allow_nan=False).replace("<", "\\u003c")
    for name, part in (
        ("style", parts.joinpath("page.css").read_text(encoding="utf-8")),
        ("script", parts.joinpath("page.js").read_text(encoding="utf-8")),
        ("content", text),
    ):
        page = page.replace(f"<!-- {name} -->", part, 1)
    out.write_text(page, encoding="utf-8")


def _cautions(results: Sequence[Results]) -> list[str]:
    found = [
        f"{result.name} is not finished: {result.missing} inputs are missing" for result in results if result.missing
    ]
    for one, other in itertools.combinations(results, 2):
        for reason in analysis.differences(one, other):
            if "is not finished" not in reason:
                found.append(f"{one.name} and {other.name}: {reason}")
    return found


def _run(run: Run, result: Results, radii: Sequence[float], confidence: float) -> dict[str, Any]:
    average = analysis.average_certified_radius(result, confidence=confidence)
    clean = analysis.clean_accuracy(result, confidence=confidence)
    abstains = analysis.abstention(result, confidence=confidence)
    return {
        "name": result.name,
        "settings": _settings(run),
        "guarantee": _guarantee(run),
        "inputs": len(result),
        "curve": _curve(result, confidence),
        "radii": [f"{radius:g}" for radius in radii],
        "accuracy": [
            _shown(share) for share in analysis.certified_accuracy_intervals(result, radii, confidence=confidence)
        ],
        "clean": _shown(clean),
        "abstains": _shown(abstains),
        "average": [rounded_down(average.value), outward(average.low, average.high)],
    }


def _shown(share: analysis.Estimate) -> list[str]:
    return [percent(share.value), outward(100 * share.low, 100 * share.high, 1)]


def _settings(run: Run) -> dict[str, str]:
    """All that decides the rows, each in a line; of hashes the beginning."""
    settings = run.manifest.settings
    method = dict(settings["method"])
    rest = {name: value for name, value in settings.items() if name not in ("method", "data", "weights")}
    if settings["n"] == 0:  # nothing was sampled
        rest = {name: value for name, value in rest.items() if name not in ("alpha", "n0", "n", "seed", "sigma")}
    shown = {
        "data": run.manifest.about.get("data"),
        "hash of the data": (settings.get("data") or "")[:12],
        "hash of the weights": (settings.get("weights") or "")[:12],
        "method": method.pop("planner"),
        **rest,
        **method,
    }
    return {name: _words(value) for name, value in shown.items() if value not in (None, "", [])}


def _words(value: object) -> str:
    if isinstance(value, list) and len(value) > 5 and all(isinstance(part, float) for part in value):
        return f"{len(value)} values from {value[0]:g} to {value[-1]:g}"
    return "; ".join(map(str, value)) if isinstance(value, list) else str(value)


def _row(row: Row) -> dict[str, Any]:
    temperature = f"{row.temperature:.3g}" if row.map in MAPS.having("tempered") else None
    return {
        "label": row.label,
        "predict": row.predict,
        "radius": row.radius,
        "shown": rounded_down(row.radius),
        "map": row.map,
        "temperature": temperature,
        "bound": row.bound,
    }


def _guarantee(run: Run) -> str:
    settings, about = run.manifest.settings, run.manifest.about
    if "imported" in about:
        return "Taken from another project's file: what is guaranteed is what that project says."
    answer = about.get("classifier") or "the smoothed classifier"
    if settings["n"] == 0:
        return (
            f"If {settings['lipschitz']:g} is a Lipschitz constant of the logits for pixels in [0, 1], each "
            f"certificate is certain: no point closer than the radius changes the answer of {answer}."
        )
    constant = settings.get("lipschitz")
    known = "" if constant is None else f" That relies on {constant:g} being a Lipschitz constant of the logits."
    return (
        f"Each certificate is right with probability at least 1 − {settings['alpha']:g} over its sampling: no point "
        "closer than the radius (in the Euclidean distance of pixels in [0, 1]) changes the answer of "
        f"{answer}. Choices were made on {settings['n0']} samples, and proved on {settings['n']} others.{known}"
    )


def _curve(result: Results, confidence: float) -> list[list[float]]:
    """Radius, certified accuracy and its interval, at so many radii that the steps are seen."""
    grid = np.unique(np.concatenate([[0.0], result.radius[result.correct]]))
    if len(grid) > _POINTS:
        grid = np.linspace(0, grid[-1], _POINTS)
    grid = np.append(grid, 1.03 * (grid[-1] or 1.0))  # beyond the last radius, where nothing is certified
    shares = analysis.certified_accuracy_intervals(result, grid.tolist(), confidence=confidence)
    return [
        [math.floor(1e6 * float(radius)) / 1e6, *(round(value, 5) for value in share)]
        for radius, share in zip(grid, shares, strict=True)
    ]
