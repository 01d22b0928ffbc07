"""Tables in the formats that people paste: text, Markdown, LaTeX (booktabs), CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence

__all__ = ["FORMATS", "formatted"]

_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "–": "--", "−": "$-$", "σ": r"$\sigma$", "α": r"$\alpha$",
}  # fmt: skip


def formatted(rows: Sequence[Sequence[str]], form: str) -> str:
    """The table, whose first row is its head, without a line's end after it."""
    return _FORMATS[form]([list(row) for row in rows])


def _text(rows: list[list[str]]) -> str:
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    lines = (
        "  ".join(cell.ljust(widths[k]) if k == 0 else cell.rjust(widths[k]) for k, cell in enumerate(row))
        for row in rows
    )
    return "\n".join(line.rstrip() for line in lines)


def _markdown(rows: list[list[str]]) -> str:
    head, *body = ([cell.replace("|", "\\|") for cell in row] for row in rows)
    ruler = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ruler, *body))


def _latex(rows: list[list[str]]) -> str:
    head, *body = ([_escaped(cell) for cell in row] for row in rows)
    lines = [f"{' & '.join(row)} \\\\" for row in body]
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


def _escaped(cell: str) -> str:
    return "".join(_LATEX.get(character, character) for character in cell)


def _csv(rows: list[list[str]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().removesuffix("\n")


_FORMATS: dict[str, Callable[[list[list[str]]], str]] = {
    "table": _text,
    "markdown": _markdown,
    "latex": _latex,
    "csv": _csv,
}
FORMATS = (*_FORMATS, "json")
