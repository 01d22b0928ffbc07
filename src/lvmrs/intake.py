"""What a proof takes in: portions of scores that fit its plan and terms, each sample once, and their columns."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from lvmrs._checks import Floats
from lvmrs._torch_checks import all_finite
from lvmrs.confidence.base import Bound, Sides
from lvmrs.errors import ProofError
from lvmrs.forms.base import Form
from lvmrs.maps.base import Map
from lvmrs.moments import statistics_device
from lvmrs.noise import Stream
from lvmrs.plan import Plan, Terms
from lvmrs.scores import Portion

__all__ = ["PORTION", "Intake", "check_stream"]

PORTION = 1024
"""Samples are mapped and tallied this many at a time, whatever the portions that they come in.

Sums are then rounded in the same way for every batch size.
"""


class Intake:
    """Takes the portions of one stream, in order, and gives the columns of scores that are bounded.

    A plan, or a portion, that does not fit is refused. ``risks`` and ``upper`` say, for each column, at which risk its
    mean is bounded, and whether from above.
    """

    def __init__(self, plan: Plan, terms: Terms) -> None:
        _check_plan(plan, terms)
        self.plan, self.terms = plan, terms
        alone, pooled = plan.rivals
        self._alone, self._pooled = torch.tensor(alone, dtype=torch.long), torch.tensor(pooled, dtype=torch.long)
        self.tops, self.rivals = int(not plan.map.paired), len(alone) + bool(pooled)
        self.risks: Floats = np.array([plan.risk_top] * self.tops + [plan.risk_rival] * self.rivals)
        self.upper: Sides = np.array([False] * self.tops + [not plan.map.paired] * self.rivals)
        self.stream: Stream | None = None
        self.seen = 0

    def take(self, portion: Portion) -> Tensor:
        """Take the next samples of the stream, each once, in order, with the noise and σ of the terms: their logits."""
        if not isinstance(portion, Portion):
            raise ProofError(f"a proof takes portions of Scores, which know their stream, not {type(portion).__name__}")
        check_stream(self.plan, portion.stream)
        if self.stream not in (None, portion.stream):
            raise ProofError(f"scores of {portion.stream} after scores of {self.stream}; a proof is about one stream")
        if portion.noise != self.terms.noise:
            names = portion.noise.spelling, self.terms.noise.spelling
            raise ProofError("the scores have {} noise, and the terms say {} noise; use one for both".format(*names))
        if portion.sigma != self.terms.sigma:
            sigmas = f"σ = {portion.sigma:g}, and the terms say σ = {self.terms.sigma:g}"
            raise ProofError(f"the scores have noise of {sigmas}; use one for both")
        if portion.dimensions > self.terms.dimensions and self.terms.noise.error(self.terms.sigma) > 0:
            sizes = f"{portion.dimensions} numbers, and the terms count the risk of {self.terms.dimensions}"
            raise ProofError(f"the scores are of an input of {sizes}; give the terms the dimensions of the input")
        if portion.first != self.seen:
            raise ProofError(
                f"sample {portion.first} was given and sample {self.seen} is next; give each once, in order"
            )
        logits = _checked(portion.logits, self.plan.classes)
        if self.seen + len(logits) > self.terms.n:
            raise ProofError(f"more scores were given than the n = {self.terms.n} of the terms; give exactly n")
        self.stream, self.seen = portion.stream, self.seen + len(logits)
        return logits

    def columns(self, logits: Tensor) -> Tensor:
        """The columns of scores that are bounded, of shape (samples, columns), checked."""
        plan, expected = self.plan, (len(logits), len(self.risks))
        if self.terms.relies_on_constant(plan.map, plan.form):  # the allowance is for logits, not for their scores
            logits = logits.to(statistics_device(logits.device)).double()
        columns = plan.map.columns(logits, plan.top, self._alone, self._pooled)
        if columns.shape != expected:
            raise ProofError(f"the map {plan.map.name} gives columns of shape {tuple(columns.shape)}, not {expected}")
        binary = columns.dtype == torch.bool
        if plan.bound.votes_only and not binary:
            raise ProofError(f"{plan.bound.name} holds for 0/1 scores only, and {plan.map.name} is not; use betting")
        if not binary and not bool(((columns >= 0) & (columns <= 1)).all()):  # also where a score is NaN
            raise ProofError(f"the map {plan.map.name} gives scores outside of [0, {plan.map.mass:g}]")
        return columns


def check_stream(plan: Plan, stream: Stream) -> None:
    """Refuse the stream that the plan was made on."""
    if stream == plan.origin:
        raise ProofError(f"the plan was made on these very scores ({stream}); certify with another stage or seed")


def _check_plan(plan: Plan, terms: Terms) -> None:
    if not isinstance(plan, Plan) or not isinstance(terms, Terms):
        raise ProofError(f"expected a Plan and Terms, got {type(plan).__name__} and {type(terms).__name__}")
    for name, part, kind in (("map", plan.map, Map), ("bound", plan.bound, Bound), ("form", plan.form, Form)):
        if not isinstance(part, kind):
            raise ProofError(f"{name} must be an object of the class {kind.__name__}, got {part!r:.60}")
    if plan.classes < 2 or not 0 <= plan.top < plan.classes:
        raise ProofError(f"class {plan.top} is not one of {plan.classes} classes")
    alone = [] if plan.alone is None else list(plan.alone)
    if len(set(alone)) < len(alone) or any(k == plan.top or not 0 <= k < plan.classes for k in alone):
        raise ProofError(f"alone must name rivals of class {plan.top} among {plan.classes} classes, each once")
    # A duel is one statement about both classes; otherwise the top class needs a bound of its own.
    expected, free = ("risk_rival", "risk_top") if plan.map.paired else ("risk_top", "risk_rival")
    if not 0 < getattr(plan, expected) < 1 or not 0 <= getattr(plan, free) < 1:
        of = "for duels" if plan.map.paired else "for a map to the simplex"
        raise ProofError(f"{of}, {expected} must lie strictly between 0 and 1, and {free} must lie in [0, 1)")
    if plan.risk > terms.spendable * (1 + 1e-12):
        left = f", of which the noise takes {terms.noise_risk:.3g}" if terms.noise_risk else ""
        raise ProofError(f"the plan spends a risk of {plan.risk:.12g}, more than alpha = {terms.alpha:.12g}{left}")
    if terms.noise.law not in plan.form.noises:
        known = ", ".join(plan.form.noises)
        raise ProofError(f"{plan.form.name} is a theorem about {known} noise, and this is {terms.noise.name} noise")
    if plan.form.needs_constant and not math.isfinite(plan.map.slopes(terms.lipschitz).vector):
        raise ProofError(f"{plan.form.name} needs a Lipschitz constant of the logits, and a map that keeps it")


def _checked(logits: Tensor, classes: int) -> Tensor:
    if logits.dim() != 2 or logits.shape[1] != classes:
        raise ProofError(f"the scores have shape {tuple(logits.shape)}, and the plan has {classes} classes")
    if not logits.is_floating_point():
        raise ProofError(f"the scores are {logits.dtype}; expected floating-point logits")
    if not all_finite(logits):
        raise ProofError("a score is NaN or infinite; nothing can be certified from it")
    return logits.detach()
