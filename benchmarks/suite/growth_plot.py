"""The growth curves as a figure. It has no date and no random names, so that it changes only with the numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

__all__ = ["plot"]

_AXES = {"n": "samples n", "classes": "classes", "side": "pixels of a side", "rows": "inputs"}


def plot(points: list[dict[str, Any]], path: Path) -> None:
    """Write an SVG: seconds above, peak memory below, one column for each thing that grows."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    with matplotlib.rc_context({"svg.hashsalt": "lvmrs", "font.size": 9}):
        figure, axes = pyplot.subplots(2, len(_AXES), figsize=(11, 5), layout="constrained")
        for column, (kind, words) in enumerate(_AXES.items()):
            of_kind = [point for point in points if point["kind"] == kind]
            for row, (field, unit) in enumerate((("seconds", "seconds"), ("peak", "peak memory, MB"))):
                axis = axes[row, column]
                for method in dict.fromkeys(point["method"] for point in of_kind):
                    mine = [point for point in of_kind if point["method"] == method]
                    axis.plot([p["value"] for p in mine], [p[field] for p in mine], marker="o", ms=3, label=method)
                axis.set_xscale("log")
                axis.set_yscale("log" if field == "seconds" else "linear")
                axis.set_xlabel(words)
                if field == "peak":
                    axis.set_ylim(bottom=0)
                if column == 0:
                    axis.set_ylabel(unit)
        axes[0, 0].legend(frameon=False)
        figure.savefig(path, metadata={"Date": None, "Creator": None})
        pyplot.close(figure)
