"""States what runs found: in one or two sentences, and in three numbers of the best run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from lvmrs import analysis
from lvmrs._util.text import outward, percent
from lvmrs.analysis import Results, Summary
from lvmrs.kernel.radius import rounded_down


class Finding(NamedTuple):
    """The headline of a report."""

    sentences: Sequence[str]
    numbers: Sequence[tuple[str, str, str]] = ()
    """Value, meaning and interval of each number; none if no run is the best."""


def finding(results: Sequence[Results], radii: Sequence[float], *, confidence: float) -> Finding:
    """State what runs found.

    Several runs are ranked only if they have the same inputs: by average certified radius, or, if sampling stopped when
    targets were decided, by certified accuracy at a target that these runs share.

    Args:
        results: The results of at least one run.
        radii: The radii of the table.
        confidence: Confidence level of the intervals.
    """
    if any(analysis.differences(_without_settings(results[0]), _without_settings(other)) for other in results[1:]):
        return Finding([f"{len(results)} runs on different inputs: none of them is named the best."])
    goals = [made.terms.goal for result in results if (made := result.manifest) is not None]
    targets = [set(goal.targets) for goal in goals if goal is not None and goal.targets]
    known = sorted(set.intersection(*targets)) if targets else radii
    if not known:
        return Finding([f"{len(results)} runs with different targets: none of them is named the best."])
    summaries = [analysis.summarise(result, known, confidence=confidence) for result in results]
    place = _place(summaries, known)
    ranked = [s.certified_accuracy[place].value if targets else s.average_certified_radius.value for s in summaries]
    best = ranked.index(max(ranked))
    said = _says(results[best], summaries[best], place)
    if len(results) > 1:
        said.insert(0, _ranking(results, ranked, known[place], confidence=confidence, targets=bool(targets)))
    return Finding(said, _numbers(summaries[best], place, cut_short=_has_targets(results[best])))


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
