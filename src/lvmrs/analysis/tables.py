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

from lvmrs._util.text import outward, percent, printable
from lvmrs.analysis.compare import Comparison
from lvmrs.analysis.metrics import QUANTILES, Estimate
from lvmrs.analysis.results import CERTIFIED_ACCURACY, CERTIFIED_SHARE
from lvmrs.analysis.summary import AttackSummary, Summary, best_over_runs, common_measure, spending_object
from lvmrs.kernel.radius import rounded_down

_BEST = "best at each radius"
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

    Notes on the runs stand below a table for people.

    Args:
        runs: The summaries, at the same radii.
        form: One of ``FORMATS``.
        intervals: Also show intervals; csv and json always have them.
        envelope: Add the best of the runs at each radius.
    """
    common_measure(runs)
    if form == "json":
        return json.dumps([*map(_object, runs), *([_best_object(runs)] if envelope else [])])
    if form == "csv":
        return formatted(_long_rows(runs, envelope=envelope), form)
    notes = [f"{run.name}: {note}" for run in runs for note in run.notes]
    return _with_notes(formatted(table_rows(runs, intervals=intervals, envelope=envelope), form), notes, form)


def quantile_table(runs: Sequence[Summary], form: str = "table") -> str | None:
    """A table for people of the distribution of ``p_lower`` in each run, at ``metrics.QUANTILES``.

    The table is None if no run has it. The formats csv and json have these numbers in ``summary_table``.
    """
    rows = [["p_lower", "scores", *(f"{100 * share:g} %" for share in QUANTILES)]]
    for run in runs:
        if run.p_lower is not None:
            rows.append([run.name, ", ".join(run.maps), *map(rounded_down, run.p_lower)])
    notes = [
        "p_lower: lower bound on the mean score of the label under noise, 0 where another class was planned (without "
        "labels, of the planned class); at least 90 % of the inputs reach the value at 10 %"
    ]
    if len({run.maps for run in runs if run.p_lower is not None}) > 1:
        notes.append("the scores of different maps do not compare with one another")
    return None if len(rows) == 1 else _with_notes(formatted(rows, form), notes, form)


def _with_notes(table: str, notes: Sequence[str], form: str) -> str:
    """A table for people with notes below it."""
    before, language = {"table": ("\n", {}), "markdown": ("\n\n", _MARKDOWN), "latex": ("\n% ", {})}[form]
    return table + "".join(f"{before}{_in(printable(note), language)}" for note in notes)


def comparison_table(found: Comparison, form: str = "table") -> str:
    """A table of a comparison: one line for each radius, and below them one line with the average radii.

    For programs, csv has no line with the averages, and json has them as numbers.
    """
    if form == "json":
        return json.dumps(_comparison_object(found))
    table = formatted(found.rows(), form)
    if form == "csv":
        return table
    return _with_notes(table, [found.averages], form)


def table_rows(runs: Sequence[Summary], *, intervals: bool = False, envelope: bool = False) -> list[list[str]]:
    """A table for people, with its header first; clean accuracy has a column if a run has measured it."""
    clean = any(run.clean_accuracy is not None for run in runs)
    radii = runs[0].radii if runs else ()
    at = "share at " if common_measure(runs) == CERTIFIED_SHARE else ""
    heads = (f"{at}{radius:g}" for radius in radii)
    rows = [["run", "inputs", *(["clean"] if clean else []), *heads, "ACR", "abstains"]]
    for run in runs:
        average = run.average_certified_radius
        rows.append(
            [
                run.name,
                str(run.inputs),
                *([_percent(run.clean_accuracy, intervals=intervals)] if clean else []),
                *(_percent(share, intervals=intervals) for share in run.certified_accuracy),
                rounded_down(average.value) + (f" ({outward(average.low, average.high)})" if intervals else ""),
                _percent(run.abstention, intervals=intervals),
            ]
        )
        if run.attack is not None:
            for measure, shares in _accuracies(run.attack, run.measure).items():
                shown = [_percent(share, intervals=intervals) for share in shares]
                title = f"  {measure.partition(' ')[0]}"
                rows.append([title, str(run.attack.of), *([""] if clean else []), *shown, "", ""])
    if envelope:
        best = [percent(share) for share, _ in best_over_runs(runs)]
        rows.append([_BEST, "", *([""] if clean else []), *best, "", ""])
    return rows


def _percent(share: Estimate | None, *, intervals: bool) -> str:
    if share is None:
        return "-"
    shown = percent(share.value)
    return f"{shown} ({outward(100 * share.low, 100 * share.high, 1)})" if intervals else shown


def _long_rows(runs: Sequence[Summary], *, envelope: bool) -> list[list[str]]:
    """One number per row, with its interval, for programs."""
    rows = [["run", "inputs", "measure", "radius", "value", "low", "high"]]
    for run in runs:
        measures = [
            *([] if run.clean_accuracy is None else [("clean accuracy", "", run.clean_accuracy)]),
            *(
                (run.measure, f"{radius:g}", share)
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
                for name, count in (*each.counts.items(), ("certified correctly", each.correct))
                if count is not None
            ]
        rows += [
            [run.name, str(run.inputs), f"p_lower, {100 * share:g} % quantile", "", repr(value), "", ""]
            for share, value in zip(QUANTILES, run.p_lower or (), strict=run.p_lower is not None)
        ]
        if run.attack is not None:
            rows += _long_rows_of_attack(run, run.attack)
    if envelope:
        best = zip(runs[0].radii, best_over_runs(runs), strict=True)
        rows += [[_BEST, "", runs[0].measure, f"{radius:g}", repr(share), "", ""] for radius, (share, _) in best]
    return rows


def _long_rows_of_attack(run: Summary, attack: AttackSummary) -> list[list[str]]:
    counts = {"attacked": attack.inputs, "points found": attack.found, "certificates broken": attack.broken}
    means = {"mean attacked/certified": attack.ratio, "mean attacked distance": attack.attacked}
    known = {measure: value for measure, value in {**counts, **means}.items() if value is not None}
    return [
        *(
            [run.name, str(attack.of), measure, f"{radius:g}", repr(share.value), *_ends(share)]
            for measure, shares in _accuracies(attack, run.measure).items()
            for radius, share in zip(run.radii, shares, strict=True)
        ),
        *([run.name, str(attack.inputs), measure, "", repr(value), "", ""] for measure, value in known.items()),
    ]


def _accuracies(attack: AttackSummary, measure: str) -> dict[str, tuple[Estimate, ...]]:
    """The measure under attack; with the measure itself for the attacked inputs, if these are not all."""
    certified = {f"{measure} of the attacked": attack.certified_accuracy} if attack.is_part else {}
    return {**certified, _attacked(measure): attack.accuracy}


def _ends(value: Estimate) -> list[str]:
    return list(map(repr, _finite(value) or [])) or ["", ""]


def _finite(value: Estimate | None) -> list[float] | None:
    """The interval; None if it is infinite, since JSON has no infinity."""
    if value is None or not math.isfinite(value.high):
        return None
    return [round(value.low, 9), round(value.high, 9)]


def _attacked(measure: str) -> str:
    """The name of the upper bound on a measure that an attack gives, such as "attacked accuracy"."""
    return measure.replace("certified", "attacked")


def attack_object(attack: AttackSummary, measure: str = CERTIFIED_ACCURACY) -> dict[str, Any]:
    """The measures of an attack by name, for JSON; ``measure`` is that of the run."""
    return {
        "inputs": attack.inputs,
        "found": attack.found,
        "broken": attack.broken,
        "broken by chance at most": attack.by_chance,
        "beta": attack.beta,
        "inputs of accuracy": attack.of,
        **{name: [share.value for share in shares] for name, shares in _accuracies(attack, measure).items()},
        f"{_attacked(measure)} interval": [_finite(share) for share in attack.accuracy],
        "mean certified radius": attack.certified,
        "mean attacked distance": attack.attacked,
        "mean attacked/certified": attack.ratio,
    }


def _object(run: Summary) -> dict[str, Any]:
    return {
        "run": run.name,
        "inputs": run.inputs,
        "missing": run.missing,
        "confidence": run.confidence,
        "radii": run.radii,
        run.measure: [share.value for share in run.certified_accuracy],
        f"{run.measure} interval": [_finite(share) for share in run.certified_accuracy],
        "average certified radius": run.average_certified_radius.value,
        "average certified radius interval": _finite(run.average_certified_radius),
        "clean accuracy": None if run.clean_accuracy is None else run.clean_accuracy.value,
        "clean accuracy interval": _finite(run.clean_accuracy),
        "abstention": run.abstention.value,
        "abstention interval": _finite(run.abstention),
        **(
            {}
            if run.p_lower is None
            else {"p_lower quantiles": dict(zip(map(str, QUANTILES), run.p_lower, strict=True))}
        ),
        **({} if run.caution is None else {"caution": run.caution}),
        **({} if run.spent is None else {"samples": spending_object(run.spent)}),
        **({} if run.attack is None else {"attack": attack_object(run.attack, run.measure)}),
    }


def _best_object(runs: Sequence[Summary]) -> dict[str, Any]:
    best = best_over_runs(runs)
    return {
        "run": _BEST,
        "radii": runs[0].radii,
        runs[0].measure: [share for share, _ in best],
        "whose": [run.name for _, run in best],
    }


def _comparison_object(found: Comparison) -> dict[str, Any]:
    names = ("radius", "both", "only_first", "only_second", "neither", "p_value")
    return {
        **({} if found.measure == CERTIFIED_ACCURACY else {"measure": found.measure}),
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
    try:
        float(cell)
    except ValueError:
        return f"'{cell}" if cell[:1] in _FORMULAS and len(cell) > 1 else cell
    return cell


_FORMATS: dict[str, Callable[[list[list[str]]], str]] = {
    "table": _text,
    "markdown": _markdown,
    "latex": _latex,
    "csv": _csv,
}
FORMATS = (*_FORMATS, "json")
