"""Writes the report page: a JSON object with all its content, and a script that draws it."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Sequence
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from lvmrs import analysis
from lvmrs._util import files as _disk
from lvmrs._util.files import replacing
from lvmrs._util.text import outward, percent
from lvmrs.analysis import Results
from lvmrs.analysis.report.finding import finding
from lvmrs.analysis.report.pictures import Picture
from lvmrs.analysis.report.settings import guarantee, kinds_of_rows, settings_shown
from lvmrs.analysis.summary import common_measure, with_distances
from lvmrs.kernel import checks
from lvmrs.kernel.method import ABSTAIN
from lvmrs.kernel.radius import rounded_down, rounded_up
from lvmrs.record import Row, Run
from lvmrs.record.result_file import escaped
from lvmrs.record.rows import correctness
from lvmrs.registry import MAPS


def write_report(
    runs: Sequence[Run],
    out: Path | BinaryIO,
    *,
    radii: Sequence[float],
    picture: Picture = lambda index: None,
    most: int = 1_000,
    confidence: float = 0.95,
    names: Sequence[str] | None = None,
) -> None:
    """Write the page.

    Args:
        runs: The runs to show, each with at least one row.
        out: The file to write, as a path or an open file; a path is written completely or not at all.
        radii: The radii of the table.
        picture: Returns the picture of an input of the first run's data, by its index.
        most: Maximum number of listed inputs.
        confidence: Confidence level of the intervals for the finite test set.
        names: A name for each run; by default the path of its directory.
    """
    place = None if hasattr(out, "write") else _disk.place(out)
    runs = checks.instances("runs", runs, Run, "objects of lvmrs.Run")
    radii, most = checks.radii(radii), checks.count("most", most, least=1)
    results = analysis.named([analysis.results_of(run) for run in runs], names)
    manifests = [run.manifest for run in runs]
    every = np.unique(np.concatenate([result.idx for result in results]))
    listed: list[int] = every[:most].tolist()
    rows = [run.rows(listed) for run in runs]
    files = {row.idx: escaped(row.name) for row in rows[0] if row.name is not None}
    content = {
        "version": version("lvmrs"),
        "confidence": confidence,
        "abstain": ABSTAIN,
        "measure": common_measure(results),
        "classes": next((made.data.classes for made in manifests if made.data.classes), None),
        "inputs": [{"idx": index, "name": files.get(index), "picture": picture(index)} for index in listed],
        "unlisted": len(every) - len(listed),
        "finding": finding(results, radii, confidence=confidence)._asdict(),
        "cautions": _cautions(results),
        "runs": [
            _measures(result, radii, confidence)
            | {
                "settings": settings_shown(run.manifest),
                "guarantee": guarantee(run.manifest, kinds_of_rows(run)),
                "pictured": run.manifest.data.hash == manifests[0].data.hash,
                "rows": {row.idx: _row(row) | distances.get(row.idx, {}) for row in part},
            }
            for result, run, part, distances in zip(results, runs, rows, map(_distances, results), strict=True)
        ],
    }
    page = _page(content).encode()
    if place is None:
        out.write(page)  # type: ignore[union-attr]
        return
    with _disk.errors(place, "choose another file"), replacing(place) as file:
        file.write(page)


def _page(content: dict[str, Any]) -> str:
    page, style, script = (
        files("lvmrs.analysis.report").joinpath(f"page.{kind}").read_text(encoding="utf-8")
        for kind in ("html", "css", "js")
    )
    # The escape keeps the data from ending the script element.
    text = json.dumps(content, ensure_ascii=False, allow_nan=False).replace("<", "\\u003c")
    for name, part in (("style", style), ("script", script), ("content", text)):
        page = page.replace(f"<!-- {name} -->", part, 1)
    return page


def _distances(result: Results) -> dict[int, dict[str, Any]]:
    """For each attacked input, the found distance, rounded up; null if no point was found."""
    found = result.attacked
    if found is None:
        return {}
    places = np.flatnonzero(found.tried)
    return {
        int(result.idx[k]): {
            "attacked": rounded_up(float(found.distance[k])) if np.isfinite(found.distance[k]) else None,
            "broken": bool(found.distance[k] < result.radius[k]),
        }
        for k in places
    }


def _cautions(results: Sequence[Results]) -> list[str]:
    told = [
        f"{result.name}: {broken} of its certificates are broken by an attack"
        for result in results
        if result.attacked is not None and (broken := int((result.attacked.distance < result.radius).sum()))
    ]
    pairs = itertools.combinations(results, 2)
    doubts = [f"{one.name} and {other.name}: {why}" for one, other in pairs for why in analysis.differences(one, other)]
    return told + analysis.unfinished(*results) + doubts


def _measures(result: Results, radii: Sequence[float], confidence: float) -> dict[str, Any]:
    """The measures of a run in the form that is shown; ``clean`` is null if it was not measured."""
    summary = analysis.summarise(result, radii, confidence=confidence)
    average, clean = summary.average_certified_radius, summary.clean_accuracy
    return {
        "name": summary.name,
        "inputs": summary.inputs,
        "curve": _curve(result, confidence),
        "radii": [f"{radius:g}" for radius in summary.radii],
        "accuracy": [_share(share) for share in summary.certified_accuracy],
        "clean": None if clean is None else _share(clean),
        "abstains": _share(summary.abstention),
        "notes": summary.notes,
        "average": [rounded_down(average.value), outward(average.low, average.high)],
        "attack": None if summary.attack is None else _attack(result, summary.attack, confidence),
    }


def _attack(result: Results, attack: analysis.AttackSummary, confidence: float) -> dict[str, Any]:
    """The upper bounds of an attacked run in the form that is shown."""
    return {
        "inputs": attack.of,
        "certified": [_share(share) for share in attack.certified_accuracy] if attack.is_part else None,
        "broken": attack.broken,
        "curve": _curve(with_distances(result), confidence, math.ceil),
        "accuracy": [_share(share) for share in attack.accuracy],
    }


def _share(share: analysis.Estimate) -> list[str]:
    return [percent(share.value), outward(100 * share.low, 100 * share.high, 1)]


def _curve(result: Results, confidence: float, rounded: Callable[[float], int] = math.floor) -> list[list[float]]:
    """Points of the curve: the radius, rounded (by default down), accuracy and its interval."""
    return [
        [rounded(1e6 * radius) / 1e6, *(round(value, 5) for value in values)]
        for radius, *values in zip(
            *(part.tolist() for part in analysis.curve(result, confidence=confidence)), strict=True
        )
    ]


def _row(row: Row) -> dict[str, Any]:
    temperature = f"{row.temperature:.3g}" if row.map in MAPS.having("tempered") else None
    return {
        "label": row.label,
        "predict": row.predict,
        "correct": correctness(row.predict, row.label),
        "radius": row.radius,
        "shown": rounded_down(row.radius),
        "map": row.map,
        "temperature": temperature,
        "bound": row.bound,
    }
