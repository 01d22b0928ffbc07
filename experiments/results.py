"""Write docs/results.md, docs/results/*.md and the figures from the JSON files that the experiments have written.

    python experiments/results.py

The pages are generated: run an experiment again to change it. Parts that were not run are named as missing.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from matplotlib.figure import Figure

import adaptive_sampling
import beyond_average
import bounds_compared
import decomposition
import ensembles_compared
import lipschitz_and_noise
import lvm_against_cohen
import map_and_temperature
import near_a_tie
import opening
import r2_against_r3
import simplex_mass
import training_objectives
import variance_and_constant
from lab import figures, record

__all__ = ["EXPERIMENTS", "page", "pictures", "tables", "write"]

EXPERIMENTS: tuple[ModuleType, ...] = (
    decomposition,
    near_a_tie,
    lvm_against_cohen,
    lipschitz_and_noise,
    simplex_mass,
    r2_against_r3,
    bounds_compared,
    map_and_temperature,
    variance_and_constant,
    beyond_average,
    adaptive_sampling,
    training_objectives,
    ensembles_compared,
)
"""In the order of the page."""

_DOCS = Path(__file__).resolve().parents[1] / "docs"


def page(results: Path) -> str:
    """The page to read, as Markdown: what was found, and a section for each experiment."""
    found = {module.__name__: record.read(results, module.__name__) for module in EXPERIMENTS}
    parts = [_HEAD, "# Results", opening.shown(found)]
    for module in EXPERIMENTS:
        each = found[module.__name__]
        parts += [f"## {module.TITLE}", _missing(module) if each is None else module.brief(each)]
        parts.append(f"[Tables: {module.TITLE}](results/{module.__name__}.md)")
    names = "\n".join(f"results/{module.__name__}" for module in EXPERIMENTS)
    return "\n\n".join([*parts, f"```{{toctree}}\n:hidden:\n\n{names}\n```"]) + "\n"


def tables(results: Path) -> Iterator[tuple[str, str]]:
    """The pages of tables behind the page to read: their names, and their Markdown."""
    for module in EXPERIMENTS:
        found = record.read(results, module.__name__)
        shown = _missing(module) if found is None else module.shown(found)
        parts = [_HEAD, f"# {module.TITLE}", "Tables of one experiment; [the results](../results.md) have all.", shown]
        yield module.__name__, "\n\n".join(parts) + "\n"


def _missing(module: ModuleType) -> str:
    return f"Not run yet: `python experiments/{module.__name__}.py`."


def pictures(results: Path) -> Iterator[tuple[str, Figure]]:
    """The figures, by their names."""
    for module in EXPERIMENTS:
        found = record.read(results, module.__name__)
        if found is not None and hasattr(module, "drawn"):
            yield from module.drawn(found).items()


def write(results: Path, file: Path) -> None:
    """Write the page to read, the pages of tables and the figures."""
    file.write_text(page(results), encoding="utf-8")
    for name, text in tables(results):
        (results / f"{name}.md").write_text(text, encoding="utf-8")
    for name, figure in pictures(results):
        figures.save(figure, results / f"{name}.svg")


def main() -> int:
    """Write the pages and their figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--results", type=Path, default=_DOCS / "results", help="the JSON files; figures and tables go there too"
    )
    parser.add_argument("--page", type=Path, default=_DOCS / "results.md")
    options = parser.parse_args()
    write(options.results, options.page)
    print(options.page)
    return 0


_HEAD = "<!-- made by `make experiments` from docs/results/*.json; not edited by hand -->"


if __name__ == "__main__":
    sys.exit(main())
