"""How time and memory grow with samples, classes, input size and inputs; each point is a process of its own."""

from __future__ import annotations

from typing import Any

from suite.child import measured

__all__ = ["POINTS", "growth", "memory_growth", "row_growth"]

POINTS = {
    "n": (1_000, 10_000, 100_000, 1_000_000),
    "classes": (10, 1_000, 21_841),
    "side": (8, 32, 64, 128, 224),
    "rows": (1_000, 50_000),
}
QUICK = {"n": (1_000, 10_000), "classes": (10, 100), "side": (8, 32), "rows": (50, 100)}
_METHODS = {
    "n": ("Cohen", "LVM", "duels"),
    "classes": ("Cohen", "LVM", "duels"),
    "side": ("Cohen",),
    "rows": ("Cohen",),
}


def growth(*, quick: bool) -> list[dict[str, Any]]:
    """All points: what grows, the method, the value, seconds, samples, and peak memory in MB."""
    points = []
    for kind, values in (QUICK if quick else POINTS).items():
        for method in _METHODS[kind]:
            for value in values:
                found = measured("growth_point", kind, method, value)
                points.append({"kind": kind, "method": method, "value": value, **found})
                print(
                    f"growth: {kind} = {value}, {method}: {found['seconds']:.2f} s, {found['peak']:.0f} MB", flush=True
                )
    return points


def memory_growth(points: list[dict[str, Any]], few: int, many: int) -> float | None:
    """By how many MB peak memory is larger with many samples than with few, at worst over the methods."""
    peak = {(point["method"], point["value"]): point["peak"] for point in points if point["kind"] == "n"}
    methods = {method for method, _ in peak}
    more = [peak[each, many] - peak[each, few] for each in methods if {(each, few), (each, many)} <= peak.keys()]
    return max(more, default=None)


def row_growth(points: list[dict[str, Any]]) -> float | None:
    """In the longest run, the time of its last rows over that of its first."""
    runs = [point for point in points if point["kind"] == "rows"]
    longest = max(runs, key=lambda point: float(point["value"]), default=None)
    return None if longest is None else longest["last"] / longest["first"]
