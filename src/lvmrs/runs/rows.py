"""The rows of a run: one line of a TSV file for each certified input.

The first six columns are those that the field's scripts read; radii are written in full, not rounded.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lvmrs.errors import RunError

if TYPE_CHECKING:
    from lvmrs.certificate import Certificate

__all__ = ["COLUMNS", "HEADER", "Row"]


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

    @classmethod
    def of(cls, index: int, label: int, certificate: Certificate, seconds: float) -> Row:
        """The row of a certificate."""
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
            **certificate.record(),
        )

    def text(self) -> str:
        """The line, without its end."""
        return "\t".join(str(value) for value in dataclasses.astuple(self))

    @classmethod
    def parse(cls, line: str, where: str) -> Row:
        """The row of a line, or one sentence that says where it is damaged."""
        fields = line.split("\t")
        if len(fields) != len(COLUMNS):
            raise RunError(f"{where} has {len(fields)} columns instead of {len(COLUMNS)}; it is damaged")
        try:
            return cls(**{name: _KINDS[name](value) for name, value in zip(COLUMNS, fields, strict=True)})
        except ValueError as error:
            raise RunError(f"{where} is damaged: {error}") from error


COLUMNS = tuple(column.name for column in dataclasses.fields(Row))
HEADER = "\t".join(COLUMNS)
_KINDS = {column.name: {"int": int, "float": float, "str": str}[str(column.type)] for column in dataclasses.fields(Row)}
