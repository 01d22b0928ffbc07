"""The trusted kernel: the only maker of certificates.

The guarantee of ``prove``: whatever the plan says, if it was made without the scores that are given here, then with
probability at least 1 − alpha over the noise of these scores, the class and radius of the certificate are right: for
every x' closer to x than the radius, the smoothed classifier *with the map of the plan* answers with that class.

The argument, in four steps. The scores are independent and the plan does not depend on them. Each bound fails with
probability at most its own risk, and these risks sum to at most alpha. A group's mean bounds the mean of each member,
so the largest upper bound holds for every rival; and so does mass − p_lower, since all means sum to the mass. The
radius of two such bounds is right by the theorem of its form (``lvmrs.radius``).
"""

from __future__ import annotations

import dataclasses
import html
import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Protocol, get_args

import numpy as np
import torch
from torch import Tensor

from lvmrs import _checks, simplex
from lvmrs import lipschitz as constants
from lvmrs import radius as radii
from lvmrs.confidence import bernstein, clopper_pearson, hoeffding
from lvmrs.confidence.game import Game
from lvmrs.errors import ProofError
from lvmrs.moments import Moments, statistics_device
from lvmrs.plan import BoundName, Plan, RadiusName, Terms, check_fields, fields_of_json
from lvmrs.sampling import Stream, in_portions

__all__ = ["ABSTAIN", "Certificate", "prove", "prove_without_noise"]

ABSTAIN: Final = -1
_BY_THE_PROVER = object()
# Samples mapped and tallied at a time, whatever the batches they come in.
_PORTION = 1024


@dataclass(frozen=True, repr=False)
class Certificate:
    """A class, a radius, and every number behind them. Made by ``prove`` and by ``from_json`` only."""

    prediction: int
    """The class, or −1 where nothing is certified."""
    radius: float
    p_lower: float
    """Lower bound on the mean score of the plan's top class (its logit, for a deterministic certificate)."""
    p_upper: float
    """Upper bound on the mean score of every other class (the largest other logit, for a deterministic one)."""
    plan: Plan
    sigma: float
    alpha: float
    n0: int
    n: int
    lipschitz: float
    stream: Stream | None
    """Where the noise came from; none for a deterministic certificate."""
    made_by: dataclasses.InitVar[object] = None

    def __post_init__(self, made_by: object) -> None:
        if made_by is not _BY_THE_PROVER:
            raise ProofError("certificates are made by lvmrs.prove.prove from a plan and fresh scores, not by hand")

    @property
    def guarantee(self) -> str:
        """What it says, in one sentence."""
        if self.prediction == ABSTAIN:
            return "Nothing is certified: the two leading classes could not be told apart at this risk."
        within = f"for every x' with ‖x' − x‖₂ < {radii.text(self.radius)}"
        if self.plan.radius == "deterministic":
            return f"Certainly, {within} the classifier itself answers with class {self.prediction}."
        at = "" if self.plan.map == "hardmax" else f" at temperature {self.plan.temperature:.4g}"
        at += "" if self.plan.mass == 1.0 else f" with mass {self.plan.mass:.4g}"
        chosen = "chosen for this input" if self.plan.scope == "this input" else "the same for all inputs"
        return (
            f"With probability at least 1 − {self.alpha:g} over the sampling, {within} the classifier smoothed with "
            f"σ = {self.sigma:g} and {self.plan.map}{at} ({chosen}) answers with class {self.prediction}."
        )

    def __repr__(self) -> str:
        """One line."""
        answer = (
            "abstains" if self.prediction == ABSTAIN else f"class {self.prediction} within {radii.text(self.radius)}"
        )
        return f"<Certificate: {answer}, alpha={self.alpha:g}, n={self.n}, {self.plan!r}>"

    def _repr_html_(self) -> str:
        rows = {
            "class": "abstains" if self.prediction == ABSTAIN else str(self.prediction),
            "radius": radii.text(self.radius),
            "bounds": f"{self.p_lower:.6g} (top), {self.p_upper:.6g} (others)",
            "plan": repr(self.plan),
            "terms": f"σ = {self.sigma:g}, α = {self.alpha:g}, n0 = {self.n0}, n = {self.n}",
            "guarantee": self.guarantee,
        }
        cells = "".join(f"<tr><th>{name}</th><td>{html.escape(value)}</td></tr>" for name, value in rows.items())
        return f"<table>{cells}</table>"

    def to_json(self) -> str:
        """Everything, without loss."""
        fields = dataclasses.asdict(self)
        for name in ("lipschitz", "radius"):  # JSON has no infinity
            fields[name] = fields[name] if math.isfinite(fields[name]) else None
        return json.dumps(fields, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Certificate:
        """The certificate that ``to_json`` wrote."""
        fields = fields_of_json(text, "certificate")
        check_fields(cls, fields, "certificate")
        for name in ("lipschitz", "radius"):
            fields[name] = math.inf if fields[name] is None else fields[name]
        stream = fields.pop("stream")
        plan = Plan.from_dict(fields.pop("plan"))
        return cls(**fields, plan=plan, stream=Stream(**stream) if stream else None, made_by=_BY_THE_PROVER)


def prove(plan: Plan, terms: Terms, scores: Iterable[Tensor], stream: Stream, *, n0: int) -> Certificate:
    """The certificate for one input from logits of ``terms.n`` noisy copies, in batches; see the top of this module.

    ``stream`` says where the noise of the scores came from, and must not be the one that the plan was made on.
    """
    _check_plan(plan, terms)
    if plan.origin == stream:
        raise ProofError(f"the plan was made on these very scores ({stream}); certify with another stage or seed")
    tally = _TALLIES[plan.bound](plan, terms)
    seen = 0
    for logits in in_portions(_checked(plan, scores), _PORTION):
        seen += len(logits)
        if seen > terms.n:
            raise ProofError(f"more than the {terms.n} scores that the risk was computed for; give exactly n")
        tally.add(_group_scores(plan, logits))
    if seen != terms.n:
        raise ProofError(f"{seen} scores where the risk was computed for {terms.n}; give exactly n")
    top, rivals = tally.bounds()
    p_lower = plan.mass * top
    p_upper = min(plan.mass * max(rivals), plan.mass - p_lower) if rivals else plan.mass - p_lower
    radius = _radius(plan, terms, p_lower, max(p_upper, 0.0))
    return Certificate(
        prediction=plan.top if radius > 0 else ABSTAIN,
        radius=radius,
        p_lower=p_lower,
        p_upper=p_upper,
        plan=plan,
        sigma=terms.sigma,
        alpha=terms.alpha,
        n0=n0,
        n=terms.n,
        lipschitz=terms.lipschitz,
        stream=stream,
        made_by=_BY_THE_PROVER,
    )


def prove_without_noise(logits: Tensor, lipschitz: float, *, planner: str) -> Certificate:
    """The deterministic certificate of one input from its c logits: margin/(√2 L) (Tsuzuku et al. 2018), no risk."""
    if logits.dim() != 1 or len(logits) < 2 or not torch.isfinite(logits).all():
        raise ProofError(f"expected the finite logits of one input, got {logits!r:.80}")
    if not 0 < lipschitz < math.inf:
        raise ProofError(f"a deterministic certificate needs a finite Lipschitz constant, got {lipschitz}")
    values = logits.double()
    top = int(values.argmax())
    first, second = (float(value) for value in values.topk(2).values)
    radius = (first - second) / (math.sqrt(2) * lipschitz)
    plan = Plan(planner, top, len(values), "hardmax", "hoeffding", "deterministic", risk_top=0.0)
    return Certificate(
        prediction=top if radius > 0 else ABSTAIN,
        radius=radius,
        p_lower=first,
        p_upper=second,
        plan=plan,
        sigma=0.0,
        alpha=0.0,
        n0=0,
        n=0,
        lipschitz=lipschitz,
        stream=None,
        made_by=_BY_THE_PROVER,
    )


def _check_plan(plan: Plan, terms: Terms) -> None:
    _checks.one_of("map", plan.map, get_args(simplex.MapName))
    _checks.one_of("bound", plan.bound, get_args(BoundName))
    _checks.one_of("radius", plan.radius, get_args(RadiusName))
    if plan.classes < 2 or not 0 <= plan.top < plan.classes:
        raise ProofError(f"class {plan.top} is not one of {plan.classes} classes")
    if len(plan.groups) != len(plan.risk_groups):
        raise ProofError(f"{len(plan.groups)} groups of rivals with {len(plan.risk_groups)} risks; give each its own")
    rivals = [k for k in range(plan.classes) if k != plan.top]
    if plan.groups and sorted(k for group in plan.groups for k in group) != rivals:
        raise ProofError("the groups do not partition the rival classes: each must be in one group, and only in one")
    if any(not group for group in plan.groups):
        raise ProofError("a group of rivals is empty")
    if not all(0 < risk < 1 for risk in (plan.risk_top, *plan.risk_groups)):
        raise ProofError("each risk of a plan must lie strictly between 0 and 1")
    if plan.risk > terms.alpha * (1 + 1e-12):
        raise ProofError(f"the plan spends a risk of {plan.risk:.6g}, more than alpha = {terms.alpha:.6g}")
    if plan.bound == "clopper_pearson" and plan.map != "hardmax":
        raise ProofError(f"Clopper–Pearson holds for 0/1 scores only, and {plan.map} is not; use betting")
    if plan.radius == "deterministic":
        raise ProofError("a deterministic radius takes no samples; use prove_without_noise")
    if plan.radius == "r1" and not (math.isfinite(terms.lipschitz) and plan.map != "hardmax"):
        raise ProofError("R1 with a Lipschitz constant needs one of the logits, and a map that keeps it")
    if not (plan.temperature > 0 and plan.mass > 0):
        raise ProofError(f"temperature and mass must be positive, got {plan.temperature} and {plan.mass}")


def _checked(plan: Plan, scores: Iterable[Tensor]) -> Iterator[Tensor]:
    for logits in scores:
        if logits.dim() != 2 or logits.shape[1] != plan.classes:
            raise ProofError(f"scores of shape {tuple(logits.shape)} for a plan of {plan.classes} classes")
        if not torch.isfinite(logits).all():
            raise ProofError("a score is NaN or infinite; nothing can be certified from it")
        yield logits.detach()


def _group_scores(plan: Plan, logits: Tensor) -> Tensor:
    """Scores of the top class and of each group, as shares of the mass: (samples, 1 + groups), float64.

    With no groups, column 0 alone.
    """
    where = statistics_device(logits.device)
    group_of = torch.full(
        (plan.classes,), len(plan.groups) + 1, device=where
    )  # one column more for classes in no group
    group_of[plan.top] = 0
    for number, group in enumerate(plan.groups, start=1):
        group_of[list(group)] = number
    shares = torch.zeros(len(logits), len(plan.groups) + 2, dtype=torch.float64, device=where)
    if plan.map == "hardmax":
        shares.scatter_(1, group_of[logits.argmax(dim=1).to(where)][:, None], 1.0)
    else:
        apply = simplex.softmax if plan.map == "softmax" else simplex.sparsemax
        p = apply(logits, temperature=plan.temperature, mass=plan.mass)
        shares.index_add_(1, group_of, p.to(where).to(torch.float64) / plan.mass)
        shares.clamp_(0.0, 1.0)  # rounding of single precision
    return shares[:, : len(plan.groups) + 1]


def _radius(plan: Plan, terms: Terms, p_a: float, p_b: float) -> float:
    slopes = {
        "lipschitz": constants.of_map(
            plan.map, terms.lipschitz, of="vector", temperature=plan.temperature, mass=plan.mass
        ),
        "class_lipschitz": constants.of_map(
            plan.map, terms.lipschitz, of="class", temperature=plan.temperature, mass=plan.mass
        ),
    }
    if plan.radius == "r3":
        return float(radii.r3(p_a, sigma=terms.sigma, mass=plan.mass))
    if plan.radius == "r2":
        return float(radii.r2(p_a, p_b, sigma=terms.sigma, mass=plan.mass))
    if plan.radius == "ramp":
        return float(radii.ramp(p_a, p_b, sigma=terms.sigma, mass=plan.mass, **slopes))
    slope = slopes["lipschitz"] if plan.radius == "r1" else math.inf
    smoothed = constants.smoothed(slope, sigma=terms.sigma, of="vector", mass=plan.mass)
    return float(radii.r1(p_a, p_b, lipschitz=smoothed, mass=plan.mass))


class _Tally(Protocol):
    """What is kept of the scores: shares of the mass, of the top class and of each group."""

    def __init__(self, plan: Plan, terms: Terms) -> None: ...

    def add(self, shares: Tensor) -> None: ...

    def bounds(self) -> tuple[float, list[float]]:
        """A lower bound for the top class, an upper bound for each group; each at its own risk."""
        ...


class _Counts:
    def __init__(self, plan: Plan, terms: Terms) -> None:
        self.plan, self.n = plan, terms.n
        self.counts = np.zeros(1 + len(plan.groups))

    def add(self, shares: Tensor) -> None:
        self.counts += shares.sum(dim=0).cpu().numpy()

    def bounds(self) -> tuple[float, list[float]]:
        top, *groups = self.counts
        lower = clopper_pearson.lower(top, self.n, self.plan.risk_top)
        uppers = [clopper_pearson.upper(k, self.n, a) for k, a in zip(groups, self.plan.risk_groups, strict=True)]
        return float(lower), [float(upper) for upper in uppers]


class _Moments:
    def __init__(self, plan: Plan, terms: Terms) -> None:
        self.plan = plan
        self.moments = Moments.empty((1 + len(plan.groups),))

    def add(self, shares: Tensor) -> None:
        self.moments = self.moments + Moments.of(shares.cpu())

    def bounds(self) -> tuple[float, list[float]]:
        mean, variance = self.moments.mean.clamp(0.0, 1.0).numpy(), self.moments.variance.numpy()
        n, risks = self.moments.count, np.array(self.plan.risk_groups)
        if self.plan.bound == "hoeffding":
            lower = hoeffding.lower(mean[0], n, self.plan.risk_top)
            uppers = hoeffding.upper(mean[1:], n, risks) if len(risks) else np.empty(0)
        else:
            lower = bernstein.lower(mean[0], variance[0], n, self.plan.risk_top)
            uppers = bernstein.upper(mean[1:], variance[1:], n, risks) if len(risks) else np.empty(0)
        return float(lower), uppers.tolist()


class _Bets:
    def __init__(self, plan: Plan, terms: Terms) -> None:
        self.game = Game(terms.n, np.array([plan.risk_top, *plan.risk_groups]))

    def add(self, shares: Tensor) -> None:
        values = shares.t().contiguous().cpu().numpy()
        values[1:] = 1 - values[1:]  # an upper bound is a lower bound on what is missing to 1
        self.game.feed(values)

    def bounds(self) -> tuple[float, list[float]]:
        lower, *missing = self.game.bound().tolist()
        return lower, [1 - value for value in missing]


_TALLIES: dict[BoundName, type[_Tally]] = {
    "clopper_pearson": _Counts,
    "hoeffding": _Moments,
    "bernstein": _Moments,
    "betting": _Bets,
}
