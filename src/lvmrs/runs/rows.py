"""The rows of a run: one line of a TSV file for each certified input.

The first six columns are those that the field's scripts read; radii are written in full, not rounded.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lvmrs.runs.result_file import UNKNOWN, Columns, Kind

if TYPE_CHECKING:
    from lvmrs.certificate import Certificate

__all__ = ["ADDED", "COLUMNS", "KINDS", "Row", "rows_of"]


@dataclass(frozen=True)
class Row:
    """One certificate, with the label of its input and the seconds that it took."""

    idx: int
    label: int
    predict: int
    radius: float
    correct: int
    time: float
    p_lower: float
    p_upper: float
    top: int
    map: str
    temperature: float
    mass: float
    bound: str
    form: str
    risk_top: float
    groups: str
    """Which rivals have bounds of their own: - none, each all, 3;1;* 3 and 1 alone and the others together."""
    risk_groups: str
    """The risk of the bound on each rival, or -."""
    scope: str = UNKNOWN
    """Whether the map was chosen for ``this input`` or is the same for ``all inputs``; - where that is not known."""
    clean: int | None = None
    """The answer of the classifier itself, without noise; None where it was not measured (- in a file)."""

    @classmethod
    def of(cls, index: int, label: int, certificate: Certificate, seconds: float, clean: int | None = None) -> Row:
        """The row of a certificate.

        Args:
            index: Index of the input in its data set.
            label: Its class in the data set.
            certificate: What was proved for it.
            seconds: The time that this took.
            clean: The answer of the classifier itself, without noise, if it was measured.
        """
        return cls(
            idx=index,
            label=label,
            predict=certificate.prediction,
            radius=certificate.radius,
            correct=int(certificate.prediction == label),
            time=round(seconds, 4),
            p_lower=certificate.p_lower,
            p_upper=certificate.p_upper,
            top=certificate.top,
            clean=clean,
            **{"scope": UNKNOWN, **certificate.record()},
        )

    def text(self, columns: Sequence[str] | None = None) -> str:
        """The line with these columns, or with all of them, without its end."""
        values = (getattr(self, name) for name in (COLUMNS if columns is None else columns))
        return "\t".join(UNKNOWN if value is None else str(value) for value in values)


_KINDS = {"int": Kind.WHOLE, "float": Kind.NUMBER, "str": Kind.TEXT, "int | None": Kind.MEASURED}
KINDS = {column.name: _KINDS[str(column.type)] for column in dataclasses.fields(Row)}
"""What each column holds."""
COLUMNS = tuple(KINDS)
ADDED = frozenset(column.name for column in dataclasses.fields(Row) if column.default is not dataclasses.MISSING)
"""Columns that files of earlier versions do not have."""


def rows_of(columns: Columns) -> list[Row]:
    """The rows whose fields are in these columns."""
    values = {
        name: _measured(column.tolist()) if KINDS[name] is Kind.MEASURED else column.tolist()
        for name, column in columns.items()
    }
    return [Row(**dict(zip(values, row, strict=True))) for row in zip(*values.values(), strict=True)]


def _measured(numbers: list[float]) -> list[int | None]:
    return [None if math.isnan(number) else int(number) for number in numbers]
