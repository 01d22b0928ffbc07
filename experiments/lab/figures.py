"""Figures as SVG files that are the same for the same numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from lvmrs.analysis.plots import COLOURS

__all__ = ["Line", "ladder", "lines", "points", "save", "steps"]

Line = tuple[Sequence[float], Sequence[float]]
"""Numbers to the right, and numbers upwards."""


def lines(found: Mapping[str, Line], x: str, y: str, *, log: bool = False, level: Sequence[str] = ()) -> Figure:
    """Lines with their names; those named in ``level`` are dashed."""
    figure, axes = _axes(x, y)
    for k, (name, (across, up)) in enumerate(found.items()):
        axes.plot(across, up, "--" if name in level else "-", color=COLOURS[k % len(COLOURS)], label=name)
    if log:
        axes.set_xscale("log")
    axes.legend(frameon=False, fontsize=8)
    return figure


def points(found: Mapping[str, Line], x: str, y: str) -> Figure:
    """Points with their names, and the diagonal on which both numbers are equal."""
    figure, axes = _axes(x, y)
    for k, (name, (across, up)) in enumerate(found.items()):
        axes.scatter(across, up, s=9, alpha=0.6, color=COLOURS[k % len(COLOURS)], label=name)
    end = max((max([*across, *up], default=0.0) for across, up in found.values()), default=0.0)
    axes.plot([0, end], [0, end], color="#888888", linewidth=0.8)
    axes.legend(frameon=False, fontsize=8)
    return figure


def steps(found: Mapping[str, Sequence[float]], x: str, y: str) -> Figure:
    """For each name, the share of all values that are at least so large, in %; values that are 0 count as none."""
    figure, axes = _axes(x, y)
    for k, (name, values) in enumerate(found.items()):
        ordered = sorted(value for value in values if value > 0)
        shares = [100 * (len(ordered) - at) / len(values) for at in range(len(ordered) + 1)]
        colour = COLOURS[k % len(COLOURS)]
        axes.step([0.0, *ordered], shares, where="post", color=colour, label=name)
    axes.set_xlim(left=0)
    axes.set_ylim(0, 100)
    axes.legend(frameon=False, fontsize=8)
    return figure


def ladder(found: Mapping[str, Mapping[str, float]], names: Sequence[str], y: str) -> Figure:
    """One line over the same steps for each title; steps that a title does not have are left out."""
    figure, axes = _axes("", y)
    for k, (title, each) in enumerate(found.items()):
        at = [step for step, name in enumerate(names) if name in each]
        colour, mark = COLOURS[k % len(COLOURS)], "osv^D"[k // len(COLOURS) % 5]
        axes.plot(at, [each[names[step]] for step in at], color=colour, marker=mark, markersize=4, label=title)
    axes.set_xticks(range(len(names)), names, rotation=20, ha="right", fontsize=8)
    axes.axhline(1.0, color="#888888", linewidth=0.8)
    figure.legend(loc="outside right upper", frameon=False, fontsize=7)
    figure.set_size_inches(8.2, 3.8)
    return figure


def save(figure: Figure, file: Path) -> None:
    """Write an SVG file without the time at which it was made."""
    with mpl.rc_context({"svg.hashsalt": "lvmrs"}):
        figure.savefig(file, format="svg", metadata={"Date": None})


def _axes(x: str, y: str) -> tuple[Figure, Any]:
    figure = Figure(figsize=(5.5, 3.6), layout="constrained")
    axes = figure.subplots()
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes
