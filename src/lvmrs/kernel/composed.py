"""Certificates of routed classifiers, in which a smoothed router chooses the smoothed expert that answers.

The classes of the router are the experts. The expert that wins all its duels answers, or the *fallback* if none does.

The argument. Let S be a set of experts that contains j and, unless it is {j}, the fallback. Where j wins its duels with
all experts outside of S, none of these wins all its duels, so an expert of S answers (if S is {j}, j wins all its
duels). If this holds within r of x, and each expert i of S answers with class A within R_i of x, then the routed
classifier answers with class A within min(r, min_i R_i). If S is all experts, r is infinite.

**The risk is not split.** Fix S and all plans. Which part (router or expert) has the smallest radius at the exact means
does not depend on the certification samples. If the certified minimum is larger than that radius, the certificate of
this part is false: an event of probability at most its alpha. So each part is certified at the full risk, even on noise
that all share.

**Two premises are up to the caller**, since certificates hold neither inputs nor samples. (1) All parts are certified
at one input: a certificate records the stream of noise (seed, index and stage), and not x. (2) S is fixed before the
certification samples are drawn: S is read from the map of the router's plan, and a plan whose map was replaced still
has the origin of the old plan. ``lvmrs.runs.routed`` gives all parts one x, and chooses S on selection samples.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from lvmrs.errors import ProofError
from lvmrs.kernel import radius as radii
from lvmrs.kernel.certificate import Certificate
from lvmrs.kernel.maps import Duel
from lvmrs.kernel.method import ABSTAIN
from lvmrs.kernel.terms import Plan


@dataclass(frozen=True)
class DuelsOutside(Duel):
    """Duels with the classes outside of a set; duels with classes in it count as won. Pooled rivals are outside."""

    name: ClassVar[str] = "duel-outside"
    inside: tuple[int, ...] = ()

    def columns(self, logits: Tensor, top: int, alone: Tensor, pooled: Tensor) -> Tensor:
        """Whether the top class beats each rival, or the rival is in the set."""
        won = super().columns(logits, top, alone, pooled)
        won[:, : len(alone)] |= torch.isin(alone, torch.tensor(self.inside, dtype=torch.long)).to(won.device)
        return won

    def classifier(self, noise: str) -> str:
        """The duel classifier, without the duels that count as won."""
        return f"the classifier that takes the winner of all duels except those with {[*self.inside]} under {noise}"


@dataclass(frozen=True, repr=False)
class RoutedCertificate:
    """The certificate of a routed classifier, composed from certificates of its parts for the same input."""

    plan: Plan
    """The plan of the router, of duels or ``DuelsOutside``; its top class is the expert that is expected to answer."""
    router: Certificate | None
    """The certificate of that plan; None if ``answering`` are all experts."""
    experts: tuple[Certificate, ...]
    """The certificate of each expert of ``answering``, in that order."""
    fallback: int
    """The expert that answers where none wins all duels of the router."""
    answering: tuple[int, ...] = field(init=False)
    """The experts S among which the router may choose within the radius."""
    router_radius: float = field(init=False)
    """r: within it an expert of ``answering`` answers; infinite if these are all experts."""
    expert_radius: float = field(init=False)
    """min_i R_i: within it each expert of ``answering`` answers with ``prediction``."""
    radius: float = field(init=False)
    """The routed classifier answers with ``prediction`` at every point closer to the input; 0 certifies nothing."""
    prediction: int = field(init=False)
    """The certified class, or −1 if nothing is certified."""
    alpha: float = field(init=False)
    """The certificate is wrong with at most this probability."""
    n: int = field(init=False)
    """Number of samples of all proofs together."""

    def __post_init__(self) -> None:
        if not isinstance(self.plan, Plan) or type(self.plan.map) not in (Duel, DuelsOutside):
            raise ProofError(f"the plan of a router must be a Plan of Duel or DuelsOutside, got {self.plan!r:.80}")
        s, m = tuple(sorted({self.plan.top, *getattr(self.plan.map, "inside", ())})), self.plan.classes
        if not {*s, self.fallback} <= set(range(m)) or (len(s) > 1 and self.fallback not in s):
            raise ProofError(f"the experts {s} of {m} must contain the fallback {self.fallback}, or be a single one")
        if len(self.experts) != len(s) or (self.router is None) != (len(s) == m):
            raise ProofError(f"give certificates of the experts {s}, and of the router if these are not all {m}")
        parts, first = [*self.experts, *([] if self.router is None else [self.router])], self.experts[0]
        if not all(isinstance(part, Certificate) for part in parts) or (self.router and self.router.plan != self.plan):
            raise ProofError("give certificates of the experts, and that of the router for its plan")
        plans = [self.plan, *(each.plan for each in self.experts)]
        streams, origins = {part.stream for part in parts}, {each and each.origin for each in plans}
        if len(streams) != 1 or len(origins) != 1 or None in streams | origins:  # each proof refused its plan's stream
            raise ProofError("all parts must be planned on one stream of noise, and all be proved on another one")
        if any(p.noise != first.noise for p in parts) or any(p is None or p.scope != "all inputs" for p in plans):
            raise ProofError("all parts must have the same kind of noise, and one map for all inputs each")
        kinds = {(e.top, e.classes, isinstance(e.plan and e.plan.map, DuelsOutside)) for e in self.experts}
        if kinds != {(first.top, first.classes, False)}:
            raise ProofError(f"the certificates of the experts {s} must be about one class, and all its duels")
        outer, inner = math.inf if self.router is None else self.router.radius, min(e.radius for e in self.experts)
        found = {"answering": s, "router_radius": outer, "expert_radius": inner, "radius": min(outer, inner)}
        found |= {"alpha": max(part.alpha for part in parts), "n": sum(part.n for part in parts)}
        for name, value in {**found, "prediction": first.top if min(outer, inner) > 0 else ABSTAIN}.items():
            object.__setattr__(self, name, value)

    @property
    def guarantee(self) -> str:
        """One sentence that states the certified property, followed by the guarantees of the parts."""
        if self.prediction == ABSTAIN:
            return f"Nothing is certified: class {self.experts[0].top} could not be shown to win at this risk."
        parts = [] if self.router is None else [f"Router: {self.router.guarantee}"]
        parts += [f"Expert {i}: {each.guarantee}" for i, each in zip(self.answering, self.experts, strict=True)]
        within = f"for every x' with {self.experts[0].noise.length} < {radii.text(self.radius)} the routed classifier"
        said = f"{within} answers with class {self.prediction}, by any of the experts {[*self.answering]}."
        return " ".join([f"With probability at least 1 − {self.alpha:g} over the sampling, {said}", *parts])

    def __repr__(self) -> str:
        """One-line summary for people."""
        router = "not needed" if self.router is None else radii.text(self.router_radius)
        both = f"experts {[*self.answering]} {radii.text(self.expert_radius)}, router {router}"
        return f"<RoutedCertificate: {self.prediction} within {radii.text(self.radius)} ({both}), n={self.n}>"
