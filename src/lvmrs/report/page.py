"""From runs to the page: everything that it shows is one JSON object in it, drawn by the script beside."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from lvmrs import analysis
from lvmrs._decimals import percent, rounded_down
from lvmrs.analysis import Results
from lvmrs.runs import Row, Run

__all__ = ["write_report"]

Picture = Callable[[int], str | None]
_POINTS = 500
_SETTINGS = ("model", "data", "split", "sigma", "alpha", "n0", "n", "seed", "lipschitz", "device")


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
    listed = sorted({row.idx for run in runs for row in run.rows()})[:most]
    classes = next((run.manifest.about.get("classes") for run in runs if run.manifest.about.get("classes")), None)
    labels = {row.idx: row.label for run in runs for row in run.rows()}
    content = {
        "version": version("lvmrs"),
        "confidence": confidence,
        "classes": classes,
        "inputs": [{"idx": index, "label": labels[index], "picture": picture(index)} for index in listed],
        "unlisted": len(labels) - len(listed),
        "cautions": _cautions(results),
        "runs": [_run(run, result, radii, set(listed), confidence) for run, result in zip(runs, results, strict=True)],
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
    for other in results[1:]:
        for reason in analysis.differences(results[0], other):
            if "is not finished" not in reason:
                found.append(f"{results[0].name} and {other.name}: {reason}")
    return found


def _run(run: Run, result: Results, radii: Sequence[float], listed: set[int], confidence: float) -> dict[str, Any]:
    settings = {**run.manifest.settings, "data": run.manifest.about.get("data")}
    shown = {name: settings[name] for name in _SETTINGS if settings.get(name) is not None}
    average = analysis.average_certified_radius(result, confidence=confidence)
    return {
        "name": result.name,
        "settings": {name: str(value) for name, value in shown.items()} | {"method": settings["method"]["planner"]},
        "guarantee": _guarantee(run),
        "inputs": len(result),
        "curve": _curve(result, confidence),
        "radii": [f"{radius:g}" for radius in radii],
        "accuracy": [
            [percent(share.value), percent(share.low), percent(share.high)]
            for share in analysis.certified_accuracy_intervals(result, radii, confidence=confidence)
        ],
        "clean": percent(analysis.clean_accuracy(result).value),
        "abstains": percent(analysis.abstention(result).value),
        "average": rounded_down(average.value),
        "rows": {row.idx: _row(row) for row in run.rows() if row.idx in listed},
    }


def _row(row: Row) -> dict[str, Any]:
    finite = math.isfinite(row.radius)
    temperature = None if row.map in ("hardmax", "unknown") else f"{row.temperature:.3g}"
    return {
        "predict": row.predict,
        "radius": row.radius if finite else None,
        "shown": rounded_down(row.radius) if finite else "∞",
        "map": row.map,
        "temperature": temperature,
        "bound": row.bound,
    }


def _guarantee(run: Run) -> str:
    settings = run.manifest.settings
    if settings["method"].get("procedure") == "deterministic":
        return "Each certificate is certain: no point closer than the radius changes the classifier's answer."
    if "imported" in run.manifest.about:
        return "Taken from another project's file: what is guaranteed is what that project says."
    chosen = "chosen for each input" if settings["method"]["planner"] in ("LVM", "Paper") else "the same for all inputs"
    return (
        f"Each certificate is right with probability at least 1 − {settings['alpha']:g} over its sampling: no point "
        "closer than the radius (in the Euclidean distance of pixels in [0, 1]) changes the answer of the classifier "
        f"smoothed with Gaussian noise of σ = {settings['sigma']:g}, with its map {chosen}. Choices were made on "
        f"{settings['n0']} samples, and proved on {settings['n']} others."
    )


def _curve(result: Results, confidence: float) -> list[list[float]]:
    """Radius, certified accuracy and its interval, at so many radii that the steps are seen."""
    finite = result.radius[result.correct & np.isfinite(result.radius)]
    grid = np.unique(np.concatenate([[0.0], finite]))
    if len(grid) > _POINTS:
        grid = np.linspace(0, grid[-1], _POINTS)
    shares = analysis.certified_accuracy_intervals(result, grid.tolist(), confidence=confidence)
    return [
        [round(float(radius), 6), *(round(value, 5) for value in share)]
        for radius, share in zip(grid, shares, strict=True)
    ]
