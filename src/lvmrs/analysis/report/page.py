"""Writes the report page: a JSON object with all its content, and a script that draws it."""

from __future__ import annotations

import base64
import io
import itertools
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lvmrs import analysis
from lvmrs._util import files as _disk
from lvmrs._util.files import replacing
from lvmrs._util.text import optional, outward, percent
from lvmrs.analysis import Results, Summary
from lvmrs.analysis.report.settings import guarantee, kinds_of_rows, settings_shown
from lvmrs.analysis.summary import common_measure, with_distances
from lvmrs.errors import DataError, LvmrsError
from lvmrs.kernel import checks
from lvmrs.kernel.method import ABSTAIN
from lvmrs.kernel.radius import rounded_down, rounded_up
from lvmrs.record import Row, Run
from lvmrs.record.manifest import why_not_data
from lvmrs.record.result_file import correctness, escaped
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
        "map": row.map if row.expert_radius is None else _routed(row, row.expert_radius),
        "temperature": temperature,
        "bound": row.bound,
    }


def _routed(row: Row, within: float) -> str:
    """The parts of the certificate of a routed classifier."""
    router = "not needed" if row.router_radius is None else f"within {rounded_down(row.router_radius)}"
    names = f"expert{'s' * (';' in row.experts)} {row.experts.replace(';', ', ')}"
    return f"{names} within {rounded_down(within)}; router {router}; {row.samples} samples"


class Headline(NamedTuple):
    """The headline of a report."""

    sentences: Sequence[str]
    numbers: Sequence[tuple[str, str, str]] = ()
    """Value, meaning and interval of each number; none if no run is the best."""


def finding(results: Sequence[Results], radii: Sequence[float], *, confidence: float) -> Headline:
    """State what runs found.

    Several runs are ranked only if they have the same inputs: by average certified radius, or, if sampling stopped when
    targets were decided, by certified accuracy at a target that these runs share.

    Args:
        results: The results of at least one run.
        radii: The radii of the table.
        confidence: Confidence level of the intervals.
    """
    if any(analysis.differences(_without_settings(results[0]), _without_settings(other)) for other in results[1:]):
        return Headline([f"{len(results)} runs on different inputs: none of them is named the best."])
    goals = [made.terms.goal for result in results if (made := result.manifest) is not None]
    targets = [set(goal.targets) for goal in goals if goal is not None and goal.targets]
    known = sorted(set.intersection(*targets)) if targets else radii
    if not known:
        return Headline([f"{len(results)} runs with different targets: none of them is named the best."])
    summaries = [analysis.summarise(result, known, confidence=confidence) for result in results]
    place = _place(summaries, known)
    ranked = [s.certified_accuracy[place].value if targets else s.average_certified_radius.value for s in summaries]
    best = ranked.index(max(ranked))
    said = _says(results[best], summaries[best], place)
    if len(results) > 1:
        said.insert(0, _ranking(results, ranked, known[place], confidence=confidence, targets=bool(targets)))
    return Headline(said, _numbers(summaries[best], place, cut_short=_has_targets(results[best])))


def _has_targets(result: Results) -> bool:
    """Whether sampling stopped at target radii, which keeps certified radii small."""
    goal = None if result.manifest is None else result.manifest.terms.goal
    return goal is not None and bool(goal.targets)


def _without_settings(result: Results) -> Results:
    """The results without the manifest: differences between two of these are differences between their inputs."""
    return replace(result, manifest=None)


def _place(summaries: Sequence[Summary], radii: Sequence[float]) -> int:
    """The place of the largest radius at which a run certifies half of the inputs, else of the smallest one above 0."""
    half = [k for k in range(len(radii)) if any(run.certified_accuracy[k].value >= 0.5 for run in summaries)]
    positive = [k for k in range(len(radii)) if radii[k] > 0]
    largest = max(half, key=radii.__getitem__, default=0)
    return largest if radii[largest] > 0 else min(positive, key=radii.__getitem__, default=0)


def _ranking(
    results: Sequence[Results], ranked: Sequence[float], radius: float, *, confidence: float, targets: bool
) -> str:
    """The best run, and by how much it leads the next one."""
    order = sorted(range(len(results)), key=ranked.__getitem__, reverse=True)
    leaders = [results[k].name for k in order if ranked[k] == ranked[order[0]]]
    among = f"Of {len(results)} runs on the same {len(results[0])} inputs,"
    measure = f"certified accuracy at radius {radius:g}" if targets else "average certified radius"
    if len(leaders) > 1:
        return f"{among} {', '.join(leaders[:-1])} and {leaders[-1]} have the largest {measure}."
    best, following = results[order[0]], results[order[1]]
    found = analysis.compare(following, best, [radius], confidence=confidence)
    if targets:
        pair = found.pairs[0]
        return (
            f"{among} {best.name} has the largest {measure}: it certifies {pair.only_second} inputs "
            f"that {following.name} does not, and {following.name} {pair.only_first} that it does not "
            f"(p = {pair.p_value:.2g})."
        )
    change = found.average_difference
    doubt = "" if change.low > 0 else ", which may be chance"
    interval = f"{100 * confidence:g} % interval {outward(change.low, change.high)}"
    lead = f"{change.value:.4f} more than {following.name} ({interval}){doubt}"
    return f"{among} {best.name} has the largest {measure}, {lead}."


def _says(result: Results, summary: Summary, place: int) -> list[str]:
    """What the certificates of a run say at a radius of its summary."""
    radius, terms = summary.radii[place], None if result.manifest is None else result.manifest.terms
    imported = result.manifest is not None and result.manifest.origin.imported is not None
    risk = f" and, at risk {terms.alpha:g} each," if terms is not None and terms.alpha else " and"
    distance = "" if terms is None else f" in {terms.distance}"
    unchanged = f"{risk} no point closer than {radius:g}{distance} changes the answer" if radius > 0 else ""
    answered = (
        "they are classified correctly"
        if result.label is not None
        else "they have an answer, right or wrong (there are no labels),"
    )
    words = [
        f"{'According to its imported file, ' if imported else ''}{summary.name} certifies "
        f"{percent(summary.certified_accuracy[place].value)} % of {summary.inputs} inputs at radius {radius:g}: "
        f"{answered}{unchanged}."
    ]
    if summary.attack is not None:
        words.append(f"An attack broke {summary.attack.broken} of the {summary.attack.inputs} attacked certificates.")
    return words


def _numbers(summary: Summary, place: int, *, cut_short: bool) -> list[tuple[str, str, str]]:
    certified, average, abstains = (
        summary.certified_accuracy[place],
        summary.average_certified_radius,
        summary.abstention,
    )
    shares = [
        (f"{percent(share.value)} %", meaning, f"{outward(100 * share.low, 100 * share.high, 1)} %")
        for share, meaning in ((certified, f"certified at radius {summary.radii[place]:g}"), (abstains, "abstentions"))
    ]
    meaning = "average certified radius, cut short by the target" if cut_short else "average certified radius"
    return [shares[0], (rounded_down(average.value), meaning, outward(average.low, average.high)), shares[1]]


Picture = Callable[[int], str | None]
"""Returns the picture of an input, by its index; None if there is none."""
_SIDE = 64


class Pictures(NamedTuple):
    """Pictures of the inputs of a run."""

    of: Picture = lambda index: None
    why_none: str | None = None
    """Why there are no pictures, if some were expected."""


def pictures_of(run: Run, name: str | None = None, class_index: Path | None = None) -> Pictures:
    """Pictures of the inputs of a run, if its data can be read and are unchanged.

    A run may come from someone else. So data that only the run names are loaded only if that merely reads files, and
    shown only if they have the hash in the manifest.

    Args:
        run: The run.
        name: The data set; by default the one in the manifest. Raises if a given data set cannot be read.
        class_index: The class index file of the data, if their labels come from one.
    """
    checks.instance("run", run, Run, "a lvmrs.Run")
    made = run.manifest.data
    if name is None and (why_not := why_not_data(made)) is not None:
        return Pictures(why_none=why_not)
    wanted = made.name if name is None else name
    if wanted is None:
        return Pictures()
    from lvmrs import data  # imported here, since importing torch takes seconds

    try:
        dataset = data.load(wanted, split=made.split, size=made.image_size, class_index=class_index)
        same = made.hash is None or dataset.fingerprint() == made.hash
    except LvmrsError as error:
        if name is not None:
            raise
        return Pictures(why_none=str(error))
    if not same:
        return Pictures(why_none=f"{wanted} is not the data that the run was made with")
    rows = run.read("idx", "radius", "label")
    order = rows["idx"].argsort()
    indices, labels = rows["idx"][order], rows["label"][order]

    def of(index: int) -> str | None:
        place = int(np.searchsorted(indices, index))
        if not 0 <= index < len(dataset) or place == len(indices) or indices[place] != index:
            return None
        try:
            x, label = data.checked_input(dataset, index)
        except DataError:
            if name is not None:
                raise
            return None
        same = np.isnan(labels[place]) if label is None else label == labels[place]
        return picture(x.numpy()) if same else None  # another label means other data

    return Pictures(of)


def picture(x: NDArray[np.float32]) -> str | None:
    """A data URL for channels × height × width in [0, 1]; None for inputs that are not images.

    Small images keep all pixels; larger ones become thumbnails, so that hundreds of them fit into a page.
    """
    if x.ndim != 3 or x.shape[0] not in (1, 3):
        return None
    images = optional("PIL.Image", extra="images", error=DataError)
    pixels = np.round(np.clip(x, 0, 1) * 255).astype(np.uint8)
    image = images.fromarray(pixels[0] if len(pixels) == 1 else pixels.transpose(1, 2, 0))
    exact = max(image.size) <= _SIDE
    if not exact:
        image.thumbnail((_SIDE, _SIDE))
    buffer = io.BytesIO()
    image.save(buffer, format="PNG" if exact else "JPEG", **({"optimize": True} if exact else {"quality": 80}))
    kind = "png" if exact else "jpeg"
    return f"data:image/{kind};base64,{base64.b64encode(buffer.getvalue()).decode()}"
