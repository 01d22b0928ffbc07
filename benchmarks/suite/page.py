"""The tables of docs/speed.md, written between two marks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from suite.machine import words
from suite.spread import Spread
from suite.targets import verdicts

__all__ = ["BEGIN", "END", "replaced", "table", "tables"]

BEGIN = "<!-- made by `make bench`: begin -->"
END = "<!-- made by `make bench`: end -->"


def replaced(text: str, made: str) -> str:
    """A page with what stands between the marks replaced.

    >>> "old" in replaced(f"a {BEGIN} old {END} b", "new")
    False
    """
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        raise SystemExit(f"the page must have the lines {BEGIN} and {END}, once each")
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n\n{made.strip()}\n\n{END}{after}"


def tables(results: Mapping[str, Any]) -> str:
    """All tables of one measurement, as Markdown; parts that were not measured are left out."""
    parts = [f"Measured on {words(results['machine'])}.{' Few samples, to try it out.' if results['quick'] else ''}"]
    for key, title in (("contests", "The same work side by side"), ("load", "The same beside two busy processes")):
        if results.get(key):
            parts += [f"### {title}", _about(results[key]), contest_table(results[key])]
    if "methods" in results:
        parts += ["### Methods against Cohen", _methods(results["methods"])]
    if "growth" in results:
        parts += ["### Growth", _GROWTH, _growth(results["growth"]), "![growth](speed-growth.svg)"]
    parts += ["### Targets", _targets(results)]
    return "\n\n".join(parts)


_GROWTH = (
    "Networks are tiny here, so this is what everything else costs. Each point is a process of its own, and its peak "
    "memory holds torch. Inputs are certified with 20 samples each, into a run."
)


def _about(contests: Mapping[str, Any]) -> str:
    sizes = ", ".join(f"{each['title']} {each['n']} and {each.get('long', each['n'])}" for each in contests.values())
    rounds = min(each["rounds"] for each in contests.values())
    return (
        f"Time per sample as a ratio to the limit, round by round: median of {rounds} rounds in which all take turns, "
        "and the range. The limit is the fastest of the bare forward passes that a search found, on noise made "
        f"beforehand. Samples of a turn, usually and in a long run (and of the limit): {sizes}. Ours takes two inputs "
        "with half of them each. All but bare passes plan on 100 more for each input."
    )


def contest_table(contests: Mapping[str, Any]) -> str:
    """One row for each contestant, one column for each network."""
    names = list(dict.fromkeys(name for each in contests.values() for name in each["contestants"]))
    rows = [["limit, µs a sample", *(_microseconds(each) for each in contests.values())]]
    for name in names:
        rows.append([name, *(_ratio(each["contestants"].get(name)) for each in contests.values())])
    found = [each["contestants"]["limit"]["setting"] for each in contests.values()]
    rows.append(["the limit is", *found])
    rows.append(["seconds to choose, short / long", *(_preparing(each) for each in contests.values())])
    return table(["", *(each["title"] for each in contests.values())], rows)


def _microseconds(contest: Mapping[str, Any]) -> str:
    return f"{contest['contestants']['limit']['microseconds']['median']:.0f}"


def _ratio(contestant: Mapping[str, Any] | None) -> str:
    return "–" if contestant is None else Spread(**contestant["to_limit"]).text()


def _preparing(contest: Mapping[str, Any]) -> str:
    return f"{contest['preparing']['short']:.1f} / {contest['preparing']['long']:.1f}"


_TO_COHEN = {"to_cohen": "time / Cohen", "processor_to_cohen": "processor time / Cohen"}


def _methods(found: Mapping[str, Any]) -> str:
    rows = [
        [name, *(Spread(**each[key][name]).text(3) for key in _TO_COHEN for each in found.values()),
         *(f"{each['milliseconds_alone'][name]['median']:.0f}" for each in found.values())]
        for name in ("Cohen", "LVM", "duels")
    ]  # fmt: skip
    first = next(iter(found.values()))
    head = [
        "",
        *(f"{label}, c = {c}" for label in _TO_COHEN.values() for c in found),
        *(f"planning and proving, ms, c = {c}" for c in found),
    ]
    return f"ResNet-20, n0 = {first['n0']}, n = {first['n']}.\n\n{table(head, rows)}"


def _growth(points: Iterable[Mapping[str, Any]]) -> str:
    rows = [
        [
            f"{point['kind']} = {point['value']}",
            point["method"],
            f"{point['seconds']:.2f}",
            f"{1e6 * point['seconds'] / point['samples']:.1f}",
            f"{point['peak']:.0f}",
        ]
        for point in points
    ]
    return table(["", "method", "seconds", "µs a sample", "peak memory, MB"], rows)


def _targets(results: Mapping[str, Any]) -> str:
    rows = [[each.target.what, each.wanted, each.found, each.word] for each in verdicts(results)]
    return table(["", "target", "measured", ""], rows)


def table(head: list[str], rows: Iterable[list[str]]) -> str:
    """A Markdown table.

    >>> print(table(["a", "b"], [["1", "2"]]))
    | a | b |
    |---|---|
    | 1 | 2 |
    """
    lines = [f"| {' | '.join(row)} |" for row in (head, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(head), *lines[1:]])
