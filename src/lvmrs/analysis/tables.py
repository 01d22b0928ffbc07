"""Tables of summaries and comparisons: text, Markdown, LaTeX (booktabs), CSV and JSON.

JSON has the same measures as the tables, by name, with all digits.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Sequence
from typing import Any

from lvmrs._util.text import printable
from lvmrs.analysis.attacked import AttackSummary
from lvmrs.analysis.compare import Comparison
from lvmrs.analysis.metrics import Estimate
from lvmrs.analysis.spending import spending_object, spending_words
from lvmrs.analysis.summary import Summary, best_over_runs
from lvmrs.kernel.goals import CERTIFIED, IMPOSSIBLE, UNDECIDED
from lvmrs.kernel.radius import outward, percent, rounded_down

__all__ = ["FORMATS", "attack_object", "comparison_table", "formatted", "summary_table"]

_BEST = "best at each radius"
_VERDICTS = (CERTIFIED, IMPOSSIBLE, UNDECIDED)
_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "–": "--", "−": "$-$", "σ": r"$\sigma$", "α": r"$\alpha$",
}  # fmt: skip
# Characters that would end a cell, begin a tag, or load a picture in Markdown.
_MARKDOWN = {"|": "\\|", "<": "&lt;", "[": "\\["}
# First characters of cells that spreadsheets read as formulas; tabs and the like are escaped before.
_FORMULAS = ("=", "+", "-", "@", "＝", "＋", "－", "＠")


def summary_table(
    runs: Sequence[Summary], form: str = "table", *, intervals: bool = False, envelope: bool = False
) -> str:
    """A table of runs: one line for each run, or one line for each number (csv), or a list of objects (json).

    Args:
        runs: The summaries, at the same radii.
        form: One of ``FORMATS``.
        intervals: Also show intervals; csv and json always have them.
        envelope: Add the best of the runs at each radius.

    Returns:
        The text, without a final line break.
    """
    if form == "json":
        return json.dumps([*map(_object, runs), *([_best_object(runs)] if envelope else [])])
    if form == "csv":
        return formatted(_long_rows(runs, envelope=envelope), form)
    return formatted(_rows(runs, intervals=intervals, envelope=envelope), form)


def comparison_table(found: Comparison, form: str = "table") -> str:
    """A table of a comparison: one line for each radius, and below them one line with the average radii.

    For programs, csv has no line with the averages, and json has them as numbers.

    Args:
        found: The comparison of two runs.
        form: One of ``FORMATS``.

    Returns:
        The text, without a final line break.
    """
    if form == "json":
        return json.dumps(_comparison_object(found))
    table = formatted(found.rows(), form)
    if form == "csv":
        return table
    before = {"table": "", "markdown": "\n", "latex": "% "}[form]
    return f"{table}\n{before}{found.averages}"


def _rows(runs: Sequence[Summary], *, intervals: bool, envelope: bool) -> list[list[str]]:
    """A table for people, with its header first; clean accuracy has a column if a run has measured it."""
    clean = any(run.clean_accuracy is not None for run in runs)
    radii = runs[0].radii if runs else ()
    rows = [["run", "inputs", *(["clean"] if clean else []), *(f"{radius:g}" for radius in radii), "ACR", "abstains"]]
    for run in runs:
        rows.append(
            [
                run.name,
                str(run.inputs),
                *([_percent(run.clean_accuracy, intervals=intervals)] if clean else []),
                *(_percent(share, intervals=intervals) for share in run.certified_accuracy),
                _radius(run.average_certified_radius, intervals=intervals),
                _percent(run.abstention, intervals=intervals),
            ]
        )
        for words in () if run.spent is None else spending_words(run.spent):
            rows.append([f"  {words}", *[""] * (len(rows[0]) - 1)])
        if run.attack is not None:
            shares = [_percent(share, intervals=intervals) for share in run.attack.accuracy]
            rows.append([_attack_words(run.attack), str(run.attack.inputs), *([""] if clean else []), *shares, "", ""])
    if envelope:
        best = [percent(share) for share, _ in best_over_runs(runs)]
        rows.append([_BEST, "", *([""] if clean else []), *best, "", ""])
    return rows


def _attack_words(attack: AttackSummary) -> str:
    """The first cell of the line with the upper bounds of an attacked run, below its certified accuracy."""
    ratio = "" if attack.ratio is None else f", attacked/certified {attack.ratio:.2f}"
    return f"  attacked: {attack.broken} broken{ratio}"


def _percent(share: Estimate | None, *, intervals: bool) -> str:
    if share is None:
        return "-"
    shown = percent(share.value)
    return f"{shown} ({outward(100 * share.low, 100 * share.high, 1)})" if intervals else shown


def _radius(value: Estimate, *, intervals: bool) -> str:
    shown = rounded_down(value.value)
    return f"{shown} ({outward(value.low, value.high)})" if intervals else shown


def _long_rows(runs: Sequence[Summary], *, envelope: bool) -> list[list[str]]:
    """One number per row, with its interval, for programs."""
    rows = [["run", "inputs", "measure", "radius", "value", "low", "high"]]
    for run in runs:
        measures = [
            *([] if run.clean_accuracy is None else [("clean accuracy", "", run.clean_accuracy)]),
            *(
                ("certified accuracy", f"{radius:g}", share)
                for radius, share in zip(run.radii, run.certified_accuracy, strict=True)
            ),
            ("average certified radius", "", run.average_certified_radius),
            ("abstention", "", run.abstention),
        ]
        rows += [
            [run.name, str(run.inputs), name, radius, repr(value.value), *_ends(value)]
            for name, radius, value in measures
        ]
        if run.spent is not None:
            rows.append([run.name, str(run.inputs), "mean samples", "", repr(run.spent.mean), "", ""])
            rows += [
                [run.name, str(run.inputs), name, f"{each.target:g}", repr(count / run.inputs), "", ""]
                for each in run.spent.targets
                for name, count in zip(_VERDICTS, (each.certified, each.impossible, each.undecided), strict=True)
            ]
        if run.attack is not None:
            rows += _long_rows_of_attack(run.name, run.radii, run.attack)
    if envelope:
        best = zip(runs[0].radii, best_over_runs(runs), strict=True)
        rows += [[_BEST, "", "certified accuracy", f"{radius:g}", repr(share), "", ""] for radius, (share, _) in best]
    return rows


def _long_rows_of_attack(name: str, radii: Sequence[float], attack: AttackSummary) -> list[list[str]]:
    counts = {"attacked": attack.inputs, "points found": attack.found, "certificates broken": attack.broken}
    means = {"mean attacked/certified": attack.ratio, "mean attacked distance": attack.attacked}
    known = {measure: value for measure, value in {**counts, **means}.items() if value is not None}
    return [
        *(
            [name, str(attack.inputs), "attacked accuracy", f"{radius:g}", repr(share.value), *_ends(share)]
            for radius, share in zip(radii, attack.accuracy, strict=True)
        ),
        *([name, str(attack.inputs), measure, "", repr(value), "", ""] for measure, value in known.items()),
    ]


def _ends(value: Estimate) -> list[str]:
    interval = _finite(value)
    return ["", ""] if interval is None else [repr(end) for end in interval]


def _finite(value: Estimate | None) -> list[float] | None:
    """The interval; None if it is infinite, since JSON has no infinity."""
    if value is None or not math.isfinite(value.high):
        return None
    return [round(value.low, 9), round(value.high, 9)]


def attack_object(attack: AttackSummary) -> dict[str, Any]:
    """The measures of an attack by name, for JSON."""
    return {
        "inputs": attack.inputs,
        "found": attack.found,
        "broken": attack.broken,
        "broken by chance at most": attack.by_chance,
        "beta": attack.beta,
        "attacked accuracy": [share.value for share in attack.accuracy],
        "attacked accuracy interval": [_finite(share) for share in attack.accuracy],
        "mean certified radius": attack.certified,
        "mean attacked distance": attack.attacked,
        "mean attacked/certified": attack.ratio,
    }


def _object(run: Summary) -> dict[str, Any]:
    attacked = {} if run.attack is None else {"attack": attack_object(run.attack)}
    spent = {} if run.spent is None else {"samples": spending_object(run.spent)}
    return {
        "run": run.name,
        "inputs": run.inputs,
        "missing": run.missing,
        "confidence": run.confidence,
        "radii": run.radii,
        "certified accuracy": [share.value for share in run.certified_accuracy],
        "certified accuracy interval": [_finite(share) for share in run.certified_accuracy],
        "average certified radius": run.average_certified_radius.value,
        "average certified radius interval": _finite(run.average_certified_radius),
        "clean accuracy": None if run.clean_accuracy is None else run.clean_accuracy.value,
        "clean accuracy interval": _finite(run.clean_accuracy),
        "abstention": run.abstention.value,
        "abstention interval": _finite(run.abstention),
        **spent,
        **attacked,
    }


def _best_object(runs: Sequence[Summary]) -> dict[str, Any]:
    best = best_over_runs(runs)
    return {
        "run": _BEST,
        "radii": runs[0].radii,
        "certified accuracy": [share for share, _ in best],
        "whose": [run.name for _, run in best],
    }


def _comparison_object(found: Comparison) -> dict[str, Any]:
    names = ("radius", "both", "only_first", "only_second", "neither", "p_value")
    return {
        "first": found.first,
        "second": found.second,
        "inputs": found.inputs,
        "radii": [{name: getattr(pair, name) for name in names} for pair in found.pairs],
        "confidence": found.confidence,
        "average certified radius": [found.average_first.value, found.average_second.value],
        "average certified radius interval": [_finite(found.average_first), _finite(found.average_second)],
        "difference": found.average_difference.value,
        "difference interval": _finite(found.average_difference),
        "warnings": found.warnings,
    }


def formatted(rows: Sequence[Sequence[str]], form: str) -> str:
    """Format rows of cells, with the header first; the text has no final line break."""
    return _FORMATS[form]([list(map(printable, row)) for row in rows])


def _text(rows: list[list[str]]) -> str:
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    lines = (
        "  ".join(cell.ljust(widths[k]) if k == 0 else cell.rjust(widths[k]) for k, cell in enumerate(row))
        for row in rows
    )
    return "\n".join(line.rstrip() for line in lines)


def _markdown(rows: list[list[str]]) -> str:
    head, *body = ([_in(cell, _MARKDOWN) for cell in row] for row in rows)
    ruler = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ruler, *body))


def _latex(rows: list[list[str]]) -> str:
    head, *body = ([_in(cell, _LATEX) for cell in row] for row in rows)
    # LaTeX would read a star or bracket at the start of a line as an argument of the command before it.
    lines = [f"{'{}' if row[0][:1] in ('*', '[') else ''}{' & '.join(row)} \\\\" for row in body]
    return "\n".join(
        [
            rf"\begin{{tabular}}{{l{'r' * (len(head) - 1)}}}",
            r"\toprule",
            rf"{' & '.join(head)} \\",
            r"\midrule",
            *lines,
            r"\bottomrule",
            r"\end{tabular}",
        ]
    )


def _in(cell: str, language: dict[str, str]) -> str:
    return "".join(language.get(character, character) for character in cell)


def _csv(rows: list[list[str]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([[_no_formula(cell) for cell in row] for row in rows])
    return text.getvalue().removesuffix("\n")


def _no_formula(cell: str) -> str:
    """Quote a cell that a spreadsheet would run as a formula; numbers stay unquoted."""
    return f"'{cell}" if cell[:1] in _FORMULAS and len(cell) > 1 and not _is_number(cell) else cell


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


_FORMATS: dict[str, Callable[[list[list[str]]], str]] = {
    "table": _text,
    "markdown": _markdown,
    "latex": _latex,
    "csv": _csv,
}
FORMATS = (*_FORMATS, "json")
