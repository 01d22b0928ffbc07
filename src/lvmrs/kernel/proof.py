"""The proof of a certificate from fresh scores.

The guarantee of ``Proof``: for every plan that was made without the scores of the proof, with probability at least
1 − alpha over the noise of these scores, the class and radius of the certificate are right: for
every x' closer to x than the radius, the smoothed classifier *with the map of the plan* answers with the top class A.

The argument, in three steps.

1. The scores are independent, the plan does not depend on them, and each bound fails with probability at most its risk.
   If the noise is drawn from another distribution than that of the theorem, the probability of any event differs by at
   most the total variation distance of all numbers together: the noise takes that much of the risk.
2. **No union bound over the rivals is needed.** Fix the plan. Let k* be the rival with the smallest radius at the
   exact means; it depends on the classifier, x and the plan, not on these scores. If the bounds on A and on k* both
   hold, then the certified radius, which is the smallest over all rivals, is at most the radius from the bounds on A
   and k*, and this is at most the radius from their exact means: the certificate is right. So it is false only if the
   bound on A fails, or the bound on k*: two events, of probability risk_top and risk_rival, however many rivals are
   bounded. A duel is a statement about A and one rival at once: one event, of probability risk_rival. If k* is
   pooled, the column of the pooled rivals takes its place, since its score is no better for A than that of k*.
3. The radius from these two bounds is right by the theorem of its form (``lvmrs.kernel.radius``). It grows with the
   bound on A and falls with that on the rival, so the largest bound of a rival gives the smallest radius. The rivals'
   means are also at most 1 − p_a.

A form that relies on a Lipschitz constant is a theorem about scores in exact arithmetic, and the scores here come
from rounded logits. So the bounds are first moved towards each other by ``Terms.allowance``. The certificate then
holds for the network in exact arithmetic, and for the network as it runs, if rounding moves logits by no more than
the terms say. Let a be a third of the allowance: rounding moves the mean of a score by at most a. At x the exact
means are within a of those that are bounded, so bounds moved by a hold for the exact means. At x' the network as it
runs answers with A if the exact means there differ by more than 2a. In the theorem, the score of A falls and that of
the rival rises with the distance r from x. Let q(r) be such a path of either score from the bound moved by 3a, and
p(r) the path from the bound moved by a. The two paths q meet at a level T no sooner than at the radius R. Each p first
changes by 2a over a distance d, where it equals q(0), and then p(r) = q(r − d); so p(R) = q(R − d). A score on a ramp
changes faster, the nearer it is to ½. So if T ≤ ½, the path q of the rival, which approaches ½ all the way, changes by
at least 2a between R − d and R: the rival's p(R) is at least 2a below T, and that of A is not below T. If T > ½,
likewise p(R) of A is at least 2a above T. (R1 is linear, and needs less.)
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor

from lvmrs.errors import ProofError, guarded
from lvmrs.kernel.bounds.base import Bound, Sides
from lvmrs.kernel.certificate import PROOF_KEY, Certificate
from lvmrs.kernel.checks import Floats, all_finite
from lvmrs.kernel.maps import Map
from lvmrs.kernel.method import ABSTAIN
from lvmrs.kernel.noise import Stream
from lvmrs.kernel.radius import Form
from lvmrs.kernel.scores import Portion, Regrouping, Scores, check_scores, statistics_device
from lvmrs.kernel.terms import Plan, Terms

PORTION = 1024
"""The number of samples that are mapped and tallied at a time, for portions of any size.

So sums are rounded in the same way for every batch size.
"""


def prove(plan: Plan, terms: Terms, scores: Scores) -> Certificate:
    """Prove a certificate for one input; the module docstring states the guarantee.

    Args:
        plan: a plan by a planner.
        terms: σ, risk, number of samples and Lipschitz constant.
        scores: logits of exactly ``terms.n`` noisy copies of the input, from another stream than that of the plan.

    Returns:
        The certificate. Its prediction is −1 and its radius 0 if the scores do not show that the top class wins.

    >>> import torch, lvmrs
    >>> smoothed = lvmrs.SmoothedClassifier(torch.nn.Identity(), sigma=0.5, batch=100)
    >>> x, terms = torch.tensor([1.0, 0.0]), Terms(sigma=0.5, alpha=0.001, n=1000)
    >>> plan = lvmrs.Cohen().plan(smoothed.scores(x, 100, stage="selection"), terms)
    >>> prove(plan, terms, smoothed.scores(x, 1000)).prediction
    0
    """
    planner = getattr(plan, "planner", type(plan).__name__)
    with guarded(f"the proof of a plan by {planner} fails", error=ProofError):  # parts of a plan may be user code
        proof = Proof(plan, terms)
        check_scores(scores, error=ProofError)
        check_stream(plan, scores.stream)
        for portion in scores:
            proof.add(portion)
        return proof.certificate()


class Proof:
    """A proof that takes scores in portions of any size and gives the certificate at the end.

    It stores the tally of the columns and, unless scores are 0 or 1, less than one portion of columns. It can be
    pickled at any time. ``prove`` does the same in one call.
    """

    def __init__(self, plan: Plan, terms: Terms) -> None:
        self._input = ProofInput(plan, terms)
        self._tally = plan.bound.tally(terms.n, self._input.risks, self._input.upper)
        self._broken = False
        self._regrouping = Regrouping(PORTION)

    @property
    def wanted(self) -> int:
        """The number of samples still needed."""
        return self._input.terms.n - self._input.seen

    def add(self, portion: Portion) -> None:
        """Take the next samples of the stream: each once, in order, with the noise and σ of the terms."""
        given = self._input
        logits = given.take(portion)
        with self._whole_or_broken():
            for rows in torch.split(logits, PORTION):
                columns = given.columns(rows)
                # Counts are exact for any portions; rounded sums are not.
                for part in [columns] if given.plan.bound.votes_only else self._regrouping.add(columns):
                    self._tally.add(part)

    def certificate(self) -> Certificate:
        """Give the certificate, once all n samples were added."""
        seen, terms = self._input.seen, self._input.terms
        if seen != terms.n:
            raise ProofError(f"{seen} scores were given, and the terms say n = {terms.n}; give exactly n")
        with self._whole_or_broken():
            for part in self._regrouping.rest():
                self._tally.add(part)
        return concluded(self._input, self._tally.bounds(), seen)

    @contextmanager
    def _whole_or_broken(self) -> Iterator[None]:
        """Invalidate the proof if the block fails: samples that are counted but not tallied make bounds too narrow."""
        if self._broken:
            raise ProofError("an earlier portion of these scores failed; begin the proof again")
        self._broken = True
        yield
        self._broken = False


def concluded(given: ProofInput, bounds: Floats, n: int, *, limit: float = math.inf, beta: float = 0.0) -> Certificate:
    """The certificate from bounds on the means of the columns, which hold at the risks of the plan.

    Args:
        given: the samples behind the bounds.
        bounds: a bound for each column, on its side.
        n: the number of samples behind the bounds.
        limit: the largest radius that the plan may certify with more samples; infinite if unknown.
        beta: the risk of the limit.
    """
    plan, terms = given.plan, given.terms
    p_a, p_b, radius = conclusion(plan, terms, bounds)
    return Certificate(
        prediction=plan.top if radius > 0 else ABSTAIN,
        radius=radius,
        top=plan.top,
        p_lower=plan.map.mass * float(p_a),
        p_upper=plan.map.mass * float(p_b),
        classes=plan.classes,
        sigma=terms.sigma,
        alpha=terms.alpha,
        noise_risk=terms.noise_risk,
        n=n,
        lipschitz=terms.lipschitz,
        noise=terms.noise,
        plan=plan,
        stream=given.stream,
        rounding=terms.rounding if terms.relies_on_constant(plan.map, plan.form) else 0.0,
        limit=limit,
        beta=beta,
        precision=terms.precision,
        made_by=PROOF_KEY,
    )


def conclusion(plan: Plan, terms: Terms, bounds: Floats) -> tuple[Floats, Floats, float]:
    """The score of the top class, that of its worst rival, and the radius, for these bounds of the columns."""
    p_a, p_b = _worst(plan, bounds, terms.allowance(plan.map, plan.form))
    radius = float(plan.form.radius(p_a, p_b, sigma=terms.sigma, slopes=plan.map.slopes(terms.lipschitz)))
    if not radius >= 0:
        raise ProofError(f"the form {plan.form.name} gives the radius {radius} for the bounds {p_a} and {p_b}")
    return p_a, p_b, radius


def _worst(plan: Plan, bounds: Floats, allowance: float) -> tuple[Floats, Floats]:
    """The lower bound on the top class and the upper bound on its worst rival, as shares of the mass.

    The minimum over the rivals needs no union bound: step 2 of the module docstring. The allowance is subtracted from
    the lower bound and added to the upper bound.
    """
    if not ((bounds >= 0) & (bounds <= 1)).all():
        raise ProofError(f"{plan.bound.name} gives a bound outside of [0, 1]: {bounds}")
    if plan.map.paired:
        won = np.maximum(bounds.min() - allowance, 0.0)
        return won, 1 - won
    top, rivals = np.maximum(bounds[0] - allowance, 0.0), bounds[1:] + allowance
    return top, np.minimum(rivals.max(initial=0.0), 1 - top) if len(rivals) else 1 - top


class ProofInput:
    """Takes the portions of one stream, in order, and computes the columns of scores to bound.

    It rejects a plan or a portion that does not match. ``risks`` and ``upper`` give, for each column, the risk of its
    bound, and whether it is an upper bound.
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
        """Take the next samples of the stream, each once and in order, and return their checked logits."""
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
        """The columns of scores to bound, of shape (samples, columns), checked."""
        plan, expected = self.plan, (len(logits), len(self.risks))
        if self.terms.relies_on_constant(plan.map, plan.form):  # the allowance covers rounding of logits, not of scores
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
    """Raise if a stream is the one on which the plan was made."""
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
    # A duel is one statement about both classes; otherwise the top class needs its own bound.
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
