"""The certificate: the result of a proof, in numbers and in words. ``lvmrs.kernel.proof.prove`` makes it."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, Final

from lvmrs.errors import ProofError
from lvmrs.kernel import checks
from lvmrs.kernel import radius as radii
from lvmrs.kernel.method import ABSTAIN, Verdict, verdict
from lvmrs.kernel.noise import Noise, Stream
from lvmrs.kernel.terms import Plan

PROOF_KEY: Final = object()
"""The key that constructs a certificate: for the proof, ``Deterministic``, and readers of stored certificates."""


@dataclass(frozen=True, repr=False)
class Certificate:
    """A class, a radius, and all numbers behind them. Only a proof can make one, or a reader of stored ones."""

    prediction: int
    """The certified class, or −1 if nothing is certified."""
    radius: float
    """The classifier answers with ``prediction`` at every point closer to the input than this; 0 certifies nothing."""
    top: int
    """The class that the proof tried to certify."""
    p_lower: float
    """Lower bound on the mean score of the top class.

    For duels it is the lower bound on the mean of the hardest duel, and for a deterministic certificate it is the
    logit of the top class minus ``rounding``.
    """
    p_upper: float
    """Upper bound on the mean score of every other class.

    For duels it is 1 − p_lower, and for a deterministic certificate it is the largest other logit plus ``rounding``.
    """
    classes: int
    """Number of classes."""
    sigma: float
    """Scale of the noise; 0 for a deterministic certificate."""
    alpha: float
    """The certificate is wrong with at most this probability; 0 for a deterministic certificate."""
    noise_risk: float
    """The part of alpha spent on the noise, because noise is drawn with a finite number of bits."""
    n: int
    """Number of samples of the proof; 0 for a deterministic certificate."""
    lipschitz: float
    """The Lipschitz constant of the logits available to the method; infinite if there was none."""
    noise: Noise
    """The kind of noise. A deterministic certificate has no noise, and uses only its distance."""
    plan: Plan | None
    """The plan that was proved; None for a deterministic certificate."""
    stream: Stream | None
    """The stream of the noise; None for a deterministic certificate."""
    rounding: float = 0.0
    """How far rounding may move the logits in the Euclidean norm; 0 if the Lipschitz constant is not used.

    For a deterministic certificate, how far rounding may move each logit.
    """
    limit: float = math.inf
    """An upper bound on the radius of the exact means, which infinitely many samples could certify with this plan.

    Infinite if no bound is known. It is too small with probability at most ``beta``, whenever sampling stopped
    (``lvmrs.kernel.anytime``).
    """
    beta: float = 0.0
    """The risk of the limit; 0 if there is none."""
    precision: str | None = None
    """The 16-bit type that the network of the certificate runs in, after "autocast-" if it runs in it under torch's
    autocast; None for the precision of the network itself."""
    made_by: dataclasses.InitVar[object] = None

    def __post_init__(self, made_by: object) -> None:
        if made_by is not PROOF_KEY:
            raise ProofError(
                "certificates are made by lvmrs.kernel.proof.prove from a plan and fresh scores, not by hand"
            )

    @property
    def n0(self) -> int:
        """Number of selection samples of the plan; 0 if there is no plan."""
        return 0 if self.plan is None else self.plan.n0

    def verdict(self, target: float) -> Verdict:
        """Whether a radius is certified, cannot be certified by this plan, or is undecided."""
        return verdict(self.radius, self.limit, target)

    @property
    def guarantee(self) -> str:
        """One sentence that states the certified property, and one that states its assumptions."""
        if self.prediction == ABSTAIN:
            return f"Nothing is certified: class {self.top} could not be shown to win at this risk."
        within = f"for every x' with {self.noise.length} < {radii.text(self.radius)}"
        if self.plan is None:
            return f"Certainly, {within} the classifier itself answers with class {self.prediction}.{self._relies_on}"
        chosen = "chosen for this input" if self.plan.scope == "this input" else "the same for all inputs"
        chosen = (
            chosen if self.precision is None else f"{chosen}; the network runs {checks.in_precision(self.precision)}"
        )
        return (
            f"With probability at least 1 − {self.alpha:g} over the sampling, {within} "
            f"{self.plan.map.classifier(self.noise.words(self.sigma))} ({chosen}) answers with class {self.prediction}."
            f"{self._relies_on}{self._of_the_noise}"
        )

    @property
    def _relies_on(self) -> str:
        plan = self.plan
        if plan is not None and not (plan.form.uses_constant and math.isfinite(plan.map.slopes(self.lipschitz).vector)):
            return ""
        return f" That relies on {self.lipschitz:g} being a Lipschitz constant of the logits{self._rounded}."

    @property
    def _rounded(self) -> str:
        if self.rounding == 0:
            return ""
        which = "each of them" if self.plan is None else "them"
        return f", and on rounding moving {which} by at most {self.rounding:.2g}"

    @property
    def _of_the_noise(self) -> str:
        about = f" Here x is {self.noise.centre}." if self.noise.centre else ""
        if not self.noise_risk:
            return about
        return f"{about} The noise is exact up to a probability of {self.noise_risk:.1e}, which is part of that risk."

    def record(self) -> dict[str, Any]:
        """The details of the proof, as fields of ``lvmrs.record.Row``."""
        if self.plan is None:
            nothing = {"bound": "none", "form": "deterministic", "risk_top": 0.0, "groups": "-", "risk_groups": "-"}
            return {"map": "hardmax", "temperature": 1.0, "mass": 1.0, **nothing, "scope": "all inputs"}
        plan = self.plan
        alone, pooled = plan.rivals
        groups = ";".join([*map(str, alone), "*"]) if pooled else "each"
        return {
            "map": plan.map.name,
            "temperature": plan.map.temperature,
            "mass": plan.map.mass,
            "bound": plan.bound.name,
            "form": plan.form.name,
            "risk_top": plan.risk_top,
            "groups": groups if plan.risk_rival else "-",
            "risk_groups": repr(plan.risk_rival) if plan.risk_rival else "-",
            "scope": plan.scope,
        }

    def __repr__(self) -> str:
        """One-line summary for people."""
        answer = (
            "abstains" if self.prediction == ABSTAIN else f"class {self.prediction} within {radii.text(self.radius)}"
        )
        return f"<Certificate: {answer}, alpha={self.alpha:g}, n={self.n}, {self.plan!r}>"
