"""``lvmrs analyze`` and ``lvmrs compare``: what runs amount to."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Annotated, Any

import typer

from lvmrs import analysis
from lvmrs._decimals import outward, percent, rounded_down
from lvmrs.analysis import Estimate, Results
from lvmrs.analysis.tables import FORMATS, formatted
from lvmrs.cli import options, parsing
from lvmrs.cli.console import INCOMPLETE, tell
from lvmrs.errors import InvalidArgumentError

__all__ = ["analyze", "compare", "table"]

Radii = Annotated[str, typer.Option("--radii", help="FIRST:LAST:STEP, or radii with commas between.")]
Format = Annotated[str, typer.Option("--format", help=f"One of {', '.join(FORMATS)}.")]
Confidence = Annotated[float, typer.Option("--confidence", help="Of the intervals for the finite test set.")]
_RADII = "0:1.5:0.25"


def analyze(
    runs: Annotated[list[Path], typer.Argument(help="Run directories, or TSV files of other projects.")],
    radii: Radii = _RADII,
    form: Format = "table",
    intervals: Annotated[
        bool, typer.Option("--intervals", help="Show confidence intervals too (csv and json have them always).")
    ] = False,
    envelope: Annotated[
        bool, typer.Option("--envelope", help="Add the best of the runs at each radius, as papers do over σ.")
    ] = False,
    confidence: Confidence = 0.95,
    as_json: options.Json = False,
) -> None:
    """Show certified accuracy at given radii (in %), clean accuracy, average certified radius (ACR) and abstentions.

    \b
    Examples:
      lvmrs analyze runs/a runs/b
      lvmrs analyze runs/a --radii 0,0.25,0.5,1 --intervals
      lvmrs analyze runs/sigma-* --envelope --format latex
      lvmrs analyze other-project.tsv --format csv
    """
    wanted, form = parsing.radii(radii), _form(form, as_json=as_json)
    results = [analysis.read(path) for path in runs]
    if form == "json":
        shown = [_summary(result, wanted, confidence) for result in results]
        print(json.dumps(shown + ([_best(results, wanted)] if envelope else [])))
    elif form == "csv":
        print(formatted(_long_rows(results, wanted, confidence, envelope=envelope), "csv"))
    else:
        print(formatted(_rows(results, wanted, confidence, intervals=intervals, envelope=envelope), form))
    for result in results:
        if result.missing:
            tell(f"{result.name} is not finished: {result.missing} inputs are missing, and not counted here")
    if any(result.missing for result in results):
        raise typer.Exit(INCOMPLETE)


def compare(
    first: Annotated[Path, typer.Argument(help="A run directory or TSV file.")],
    second: Annotated[Path, typer.Argument(help="Another, on the same inputs.")],
    radii: Radii = _RADII,
    form: Format = "table",
    confidence: Confidence = 0.95,
    as_json: options.Json = False,
) -> None:
    """Compare two runs input by input: where one certifies and the other does not, and whether that could be chance.

    p is that of McNemar's exact test. What makes the comparison doubtful (other data, subset, risk) is said.

    \b
    Examples:
      lvmrs compare runs/cohen runs/lvm
      lvmrs compare runs/a runs/b --radii 0,0.5,1 --format markdown
    """
    wanted, form = parsing.radii(radii), _form(form, as_json=as_json)
    found = analysis.compare(analysis.read(first), analysis.read(second), wanted, confidence=confidence)
    for warning in found.warnings:
        tell(f"caution: {warning}")
    change = found.average_difference
    if form == "json":
        print(json.dumps(_comparison(found, confidence)))
    else:
        print(formatted(found.rows(), form))
    if form in ("table", "markdown", "latex"):
        before = {"table": "", "markdown": "\n", "latex": "% "}[form]
        print(
            f"{before}{found.inputs} inputs; ACR {rounded_down(found.average_first.value)} and "
            f"{rounded_down(found.average_second.value)}, difference {change.value:+.4f} "
            f"({outward(change.low, change.high)} at {confidence:g})"
        )
    if found.unfinished:
        raise typer.Exit(INCOMPLETE)


def _form(form: str, *, as_json: bool) -> str:
    if form not in FORMATS:
        raise InvalidArgumentError(f"format must be one of {', '.join(FORMATS)}, got {form!r}")
    return "json" if as_json else form


def table(results: list[Results], radii: list[float]) -> str:
    """One line for each run, as text."""
    return formatted(_rows(results, radii, 0.95, intervals=False, envelope=False), "table")


def _rows(
    results: list[Results], radii: list[float], confidence: float, *, intervals: bool, envelope: bool
) -> list[list[str]]:
    rows = [["run", "inputs", "clean", *(f"{r:g}" for r in radii), "ACR", "abstains"]]
    for result in results:
        clean = analysis.clean_accuracy(result, confidence=confidence)
        certified = analysis.certified_accuracy_intervals(result, radii, confidence=confidence)
        average = analysis.average_certified_radius(result, confidence=confidence)
        abstains = analysis.abstention(result, confidence=confidence)
        rows.append(
            [
                result.name,
                str(len(result)),
                *(_percent(share, intervals=intervals) for share in (clean, *certified)),
                _radius(average, intervals=intervals),
                _percent(abstains, intervals=intervals),
            ]
        )
    if envelope:
        best = [share for share, _ in analysis.best_over_runs(results, radii)]
        rows.append(["best at each radius", "", "", *(percent(share) for share in best), "", ""])
    return rows


def _percent(share: Estimate, *, intervals: bool) -> str:
    shown = percent(share.value)
    return f"{shown} ({outward(100 * share.low, 100 * share.high, 1)})" if intervals else shown


def _radius(value: Estimate, *, intervals: bool) -> str:
    shown = rounded_down(value.value)
    return f"{shown} ({outward(value.low, value.high)})" if intervals else shown


def _best(results: list[Results], radii: list[float]) -> dict[str, Any]:
    best = analysis.best_over_runs(results, radii)
    return {
        "run": "best at each radius",
        "radii": radii,
        "certified accuracy": [share for share, _ in best],
        "whose": [run.name for _, run in best],
    }


def _long_rows(results: list[Results], radii: list[float], confidence: float, *, envelope: bool) -> list[list[str]]:
    """One number a row, with its interval: what other programs read best."""
    rows = [["run", "inputs", "measure", "radius", "value", "low", "high"]]
    for result in results:
        measures = [
            ("clean accuracy", "", analysis.clean_accuracy(result, confidence=confidence)),
            *(
                ("certified accuracy", f"{radius:g}", share)
                for radius, share in zip(
                    radii, analysis.certified_accuracy_intervals(result, radii, confidence=confidence), strict=True
                )
            ),
            ("average certified radius", "", analysis.average_certified_radius(result, confidence=confidence)),
            ("abstention", "", analysis.abstention(result, confidence=confidence)),
        ]
        rows += [
            [result.name, str(len(result)), name, radius, repr(value.value), *_ends(value)]
            for name, radius, value in measures
        ]
    if envelope:
        best = zip(radii, analysis.best_over_runs(results, radii), strict=True)
        rows += [
            ["best at each radius", "", "certified accuracy", f"{radius:g}", repr(share), "", ""]
            for radius, (share, _) in best
        ]
    return rows


def _summary(result: Results, radii: list[float], confidence: float) -> dict[str, Any]:
    certified = analysis.certified_accuracy_intervals(result, radii, confidence=confidence)
    average = analysis.average_certified_radius(result, confidence=confidence)
    clean = analysis.clean_accuracy(result, confidence=confidence)
    abstains = analysis.abstention(result, confidence=confidence)
    return {
        "run": result.name,
        "inputs": len(result),
        "missing": result.missing,
        "confidence": confidence,
        "radii": radii,
        "certified accuracy": [share.value for share in certified],
        "certified accuracy interval": [_finite(share) for share in certified],
        "average certified radius": average.value,
        "average certified radius interval": _finite(average),
        "clean accuracy": clean.value,
        "clean accuracy interval": _finite(clean),
        "abstention": abstains.value,
        "abstention interval": _finite(abstains),
    }


def _ends(value: Estimate) -> list[str]:
    interval = _finite(value)
    return ["", ""] if interval is None else [repr(end) for end in interval]


def _finite(value: Estimate) -> list[float] | None:
    """The interval, if there is one: JSON has no infinity."""
    return [round(value.low, 9), round(value.high, 9)] if math.isfinite(value.high) else None


def _comparison(found: analysis.Comparison, confidence: float) -> dict[str, Any]:
    names = ("radius", "both", "only_first", "only_second", "neither", "p_value")
    return {
        "first": found.first,
        "second": found.second,
        "inputs": found.inputs,
        "radii": [{name: getattr(pair, name) for name in names} for pair in found.pairs],
        "confidence": confidence,
        "average certified radius": [found.average_first.value, found.average_second.value],
        "average certified radius interval": [_finite(found.average_first), _finite(found.average_second)],
        "difference": found.average_difference.value,
        "difference interval": _finite(found.average_difference),
        "warnings": found.warnings,
    }
