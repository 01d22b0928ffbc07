"""Decides whether rounding of the logits explains a difference between two computations of a row.

The same network rounds differently in another batch size. A row is computed twice more, with each logit moved by the
largest difference that rounding may cause (``lvmrs.kernel.agreement``), once in favour of the top class and once
against it. Scores are monotone in such a move, so every effect of rounding lies between the two results.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from lvmrs.kernel.agreement import Agreement
from lvmrs.kernel.certificate import Certificate
from lvmrs.kernel.method import Method
from lvmrs.kernel.sampler import Model
from lvmrs.kernel.terms import Choice, Plan, Terms
from lvmrs.planners import Planner
from lvmrs.record import Row
from lvmrs.runs.job import Job
from lvmrs.smoothed import SmoothedClassifier

__all__ = ["CHOICES", "why_not_rounding"]

CHOICES = ("top", "map", "temperature", "mass", "bound", "form", "risk_top", "groups", "risk_groups", "scope")
"""The columns that a method chooses on the selection sample."""
_PROVED = ("p_lower", "p_upper", "radius")


def why_not_rounding(job: Job, row: Row, now: Row, columns: Iterable[str], batch: int | None) -> str | None:
    """Explain why rounding of the logits does not account for the differences of a row; None if it does.

    Args:
        job: the job that computed the row again.
        row: the row of the run.
        now: the row that was computed again.
        columns: the differing columns, all of them columns that rounding can change.
        batch: the batch size of the run, if it is known.
    """
    x, _ = job.input(row.idx)
    differing = set(columns)
    shifted = partial(_shifted, job, job.smoothed.agreement(x))
    if "clean" in differing and (row.clean is None or shifted(row.clean, 1.0).answer(x) != row.clean):
        return _change("clean", row, now)
    if differing == {"clean"}:
        return None
    both = [shifted(row.top, sign) for sign in (1.0, -1.0)]
    slightly = [shifted(row.top, sign) for sign in (2.0**-6, -(2.0**-6))]
    found = [_certificate(job, smoothed, row.idx, job.method) for smoothed in both]
    if not all(_has_choices_of(certificate, row) for certificate in found):
        # Rounding changes the choice. If it can lead to the choice of the row, bounds are compared for that choice.
        tried = itertools.chain(found, _with_small_changes(job, row, batch, slightly))
        planned = next((certificate for certificate in tried if _has_choices_of(certificate, row)), None)
        if planned is None:
            return _change(next((name for name in (*CHOICES, "samples") if name in differing), "top"), row, now)
        method = job.method if planned.plan is None else _AsPlanned(planned.plan)
        found = [planned, *(_certificate(job, smoothed, row.idx, method) for smoothed in both)]
    outside = _outside(row, found)
    if outside is not None and row.samples is not None:
        # Bounds that hold at any time may be searched for on a grid, so that a small move changes them by a step.
        found += [each for each in _with_small_changes(job, row, batch, slightly) if _has_choices_of(each, row)]
        outside = _outside(row, found)
    return None if outside is None else _change(outside, row, now)


def _outside(row: Row, found: list[Certificate]) -> str | None:
    """The first column of a row outside the range of the certificates; None if there is none."""
    for name in _PROVED:
        if not _is_between(getattr(row, name), [getattr(certificate, name) for certificate in found]):
            return name
    limit = math.inf if row.limit is None else row.limit
    return None if _is_between(limit, [certificate.limit for certificate in found]) else "limit"


def _is_between(value: float, values: list[float]) -> bool:
    low, high = min(values), max(values)
    if math.isinf(low):
        return value == low
    slack = high - low + 1e-9 * abs(high)  # these moves change the scores of rivals less than other moves may
    return low - slack <= value <= high + slack


def _change(name: str, row: Row, now: Row) -> str:
    return f"{name}: {getattr(row, name)}, now {getattr(now, name)}"


def _with_small_changes(
    job: Job, row: Row, batch: int | None, slightly: list[SmoothedClassifier]
) -> Iterator[Certificate]:
    """Certificates without a move, with the batch size of the run, and with small moves of the logits."""
    yield _certificate(job, job.smoothed, row.idx, job.method)
    if batch is not None:
        yield _certificate(job, job.remade(job.smoothed.model, batch=batch), row.idx, job.method)
    yield from (_certificate(job, each, row.idx, job.method) for each in slightly)


def _has_choices_of(certificate: Certificate, row: Row) -> bool:
    """Whether a certificate has the choices of a row and stopped sampling at the same number."""
    made = {"top": certificate.top, **certificate.record()}
    return row.samples in (None, certificate.n) and all(made[name] == getattr(row, name) for name in CHOICES)


def _certificate(job: Job, smoothed: SmoothedClassifier, index: int, method: Method) -> Certificate:
    x, _ = job.input(index)
    settings: dict[str, Any] = vars(job.sampling) if method.samples else {}
    return smoothed.certify(x, method, index=index, **settings)


def _shifted(job: Job, agreement: Agreement, favoured: int, sign: float) -> SmoothedClassifier:
    """The smoothed classifier of a job with logits moved in favour of a class, or against it."""
    shifted = _ShiftedLogits(job.smoothed.model, agreement, favoured, sign)
    return job.remade(shifted, compile=False, fast=False, way=None)


class _ShiftedLogits(nn.Module):
    """A model with logits moved in favour of one class."""

    def __init__(self, model: Model, agreement: Agreement, favoured: int, times: float) -> None:
        super().__init__()
        self.inner, self.agreement, self.favoured, self.times = model, agreement, favoured, times

    def forward(self, x: Tensor) -> Tensor:
        """The logits, each moved by ``times`` the largest difference that rounding may cause."""
        logits = self.inner(x)
        wide = logits if logits.dtype == torch.float64 else logits.float()
        moves = -self.times * self.agreement.allowance(wide)[:, wide.shape[1] :]  # of margins
        if self.favoured < moves.shape[1]:  # an edited row may have any class
            moves[:, self.favoured] *= -1.0
        return (wide.double() + moves).to(wide.dtype)


@dataclass(frozen=True)
class _AsPlanned(Planner):
    """Repeats the choice of a plan."""

    planned: Plan

    def choose(self, logits: Iterable[Tensor], terms: Terms) -> Choice:
        """The choice of the plan."""
        for _ in logits:  # every planner consumes its scores
            pass
        return Choice(**{field.name: getattr(self.planned, field.name) for field in dataclasses.fields(Choice)})
