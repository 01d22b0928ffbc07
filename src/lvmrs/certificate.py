"""The certificate: what was proved, in numbers, in words and in JSON. It proves nothing by itself: see ``prove``."""

from __future__ import annotations

import dataclasses
import html
import json
import math
from dataclasses import dataclass
from typing import Any, Final

from lvmrs import radius as radii
from lvmrs.answers import ABSTAIN
from lvmrs.errors import ProofError
from lvmrs.noise import Gaussian, Noise, Stream
from lvmrs.plan import Plan, check_fields, fields_of, fields_of_json
from lvmrs.registry import NOISES

__all__ = ["ABSTAIN", "BY_A_PROOF", "Certificate"]

BY_A_PROOF: Final = object()
"""What the makers of certificates show; there are two, ``lvmrs.prove`` and ``lvmrs.deterministic``."""


@dataclass(frozen=True, repr=False)
class Certificate:
    """A class, a radius, and every number behind them. Made by a proof and by ``from_json`` only."""

    prediction: int
    """The class, or −1 where nothing is certified."""
    radius: float
    top: int
    """The class that was put to the proof."""
    p_lower: float
    """Lower bound on the mean score of the top class.

    For duels it is the lower bound on the mean of the hardest duel, and for a deterministic certificate the logit.
    """
    p_upper: float
    """Upper bound on the mean score of every other class.

    For duels it is 1 − p_lower, and for a deterministic certificate the largest other logit.
    """
    classes: int
    sigma: float
    alpha: float
    n: int
    lipschitz: float
    noise: Noise
    """The kind of noise; for a deterministic certificate without meaning, but for the distance."""
    plan: Plan | None
    """How it was proved; none for a deterministic certificate."""
    stream: Stream | None
    """Where the noise came from; none for a deterministic certificate."""
    made_by: dataclasses.InitVar[object] = None

    def __post_init__(self, made_by: object) -> None:
        if made_by is not BY_A_PROOF:
            raise ProofError("certificates are made by lvmrs.prove.prove from a plan and fresh scores, not by hand")

    @property
    def n0(self) -> int:
        """How many samples the plan was made on; 0 without a plan."""
        return 0 if self.plan is None else self.plan.n0

    @property
    def guarantee(self) -> str:
        """What it says, in one sentence."""
        if self.prediction == ABSTAIN:
            return f"Nothing is certified: class {self.top} could not be shown to win at this risk."
        within = f"for every x' with {self.noise.length} < {radii.text(self.radius)}"
        if self.plan is None:
            return f"Certainly, {within} the classifier itself answers with class {self.prediction}.{self._relies_on}"
        chosen = "chosen for this input" if self.plan.scope == "this input" else "the same for all inputs"
        return (
            f"With probability at least 1 − {self.alpha:g} over the sampling, {within} "
            f"{self.plan.map.classifier(self.noise.words(self.sigma))} ({chosen}) answers with class {self.prediction}."
            f"{self._relies_on}"
        )

    @property
    def _relies_on(self) -> str:
        plan = self.plan
        if plan is not None and not (plan.form.uses_constant and math.isfinite(plan.map.slopes(self.lipschitz).vector)):
            return ""
        return f" That relies on {self.lipschitz:g} being a Lipschitz constant of the logits."

    def record(self) -> dict[str, Any]:
        """How it was proved, in names and numbers for a row; ``groups`` lists the rivals with a bound of their own."""
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
        fields: dict[str, Any] = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        for name in ("lipschitz", "radius"):  # JSON has no infinity
            fields[name] = fields[name] if math.isfinite(fields[name]) else None
        fields["noise"] = self.noise.name
        fields["plan"] = None if self.plan is None else self.plan.to_dict()
        fields["stream"] = None if self.stream is None else dataclasses.asdict(self.stream)
        return json.dumps(fields, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Certificate:
        """The certificate that ``to_json`` wrote."""
        fields = {"noise": Gaussian.name, **fields_of_json(text, "certificate")}  # not written before there were others
        check_fields(cls, fields, "certificate")
        for name in ("lipschitz", "radius"):
            fields[name] = math.inf if fields[name] is None else fields[name]
        stream, plan = fields.pop("stream"), fields.pop("plan")
        noise: Noise = NOISES.find(fields.pop("noise"))()
        if stream is not None:
            check_fields(Stream, fields_of(stream, "stream of a certificate"), "stream of a certificate")
        return cls(
            **fields,
            noise=noise,
            plan=None if plan is None else Plan.from_dict(fields_of(plan, "plan of a certificate")),
            stream=None if stream is None else Stream(**stream),
            made_by=BY_A_PROOF,
        )
