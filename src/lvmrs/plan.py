"""What is to be proved, and how a planner proposes to prove it.

A ``Plan`` is a heuristic's answer: it may be useless, but whatever it says, a certificate that the prover makes from it
holds. What a certificate may rely on are the ``Terms``.
"""

from __future__ import annotations

import dataclasses
import html
import json
import math
from dataclasses import dataclass
from typing import Any, Literal

from lvmrs import _checks
from lvmrs.errors import InvalidArgumentError
from lvmrs.sampling import Stream
from lvmrs.simplex import MapName

__all__ = ["BoundName", "Plan", "RadiusName", "Scope", "Terms", "check_fields", "fields_of_json"]

BoundName = Literal["clopper_pearson", "hoeffding", "bernstein", "betting"]
RadiusName = Literal["r1", "r1-noise", "r2", "r3", "ramp", "deterministic"]
Scope = Literal["this input", "all inputs"]


@dataclass(frozen=True)
class Terms:
    """The terms of a certificate: noise, risk, number of samples, and a Lipschitz constant of the logits if known."""

    sigma: float
    alpha: float
    n: int
    lipschitz: float = math.inf

    def __post_init__(self) -> None:
        alpha = _checks.single("alpha", _checks.real("alpha", self.alpha))
        if not 1e-300 <= alpha < 1:
            raise InvalidArgumentError(f"alpha must lie strictly between 0 and 1, got {alpha}")
        plain = {
            "sigma": _checks.single("sigma", _checks.positive("sigma", self.sigma)),
            "alpha": alpha,
            "n": int(_checks.single("n", _checks.whole("n", self.n, least=2))),
            "lipschitz": _checks.single("lipschitz", _checks.positive("lipschitz", self.lipschitz, infinite=True)),
        }
        for name, value in plain.items():  # Python's own numbers, whatever they came as
            object.__setattr__(self, name, value)


@dataclass(frozen=True)
class Plan:
    """How one input is to be certified. ``groups`` partition the rivals of ``top``, or are empty.

    Each group is bounded together, at its own risk; with no groups the rivals are bounded by what the top class leaves.
    """

    planner: str
    top: int
    classes: int
    map: MapName
    bound: BoundName
    radius: RadiusName
    risk_top: float
    groups: tuple[tuple[int, ...], ...] = ()
    risk_groups: tuple[float, ...] = ()
    temperature: float = 1.0
    mass: float = 1.0
    origin: Stream | None = None
    """The stream that it was made on; the prover takes scores of any other."""
    scope: Scope = "this input"
    """Whether map, temperature and mass were chosen for this input or for all inputs alike."""

    @property
    def risk(self) -> float:
        """The risk that it spends."""
        return math.fsum((self.risk_top, *self.risk_groups))

    def __repr__(self) -> str:
        """Short: the choices, not the groups."""
        at = "" if self.map == "hardmax" else f" at t={self.temperature:.4g}"
        mass = "" if self.mass == 1.0 else f", mass {self.mass:.4g}"
        rivals = f"{len(self.groups)} groups of rivals" if self.groups else "rivals by what is left"
        return (
            f"<Plan by {self.planner}: class {self.top}, {self.map}{at}{mass}, {self.bound}, {self.radius}, {rivals}>"
        )

    def _repr_html_(self) -> str:
        return f"<code>{html.escape(repr(self))}</code>"

    def to_json(self) -> str:
        """Everything, without loss."""
        return json.dumps(dataclasses.asdict(self), allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """The plan that ``to_json`` wrote."""
        return cls.from_dict(fields_of_json(text, "plan"))

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Plan:
        """The plan with these fields, as they come from JSON."""
        check_fields(cls, fields, "plan")
        origin = fields.get("origin")
        return cls(
            **{
                **fields,
                "groups": tuple(tuple(group) for group in fields.get("groups", ())),
                "risk_groups": tuple(fields.get("risk_groups", ())),
                "origin": Stream(**origin) if origin else None,
            }
        )


def check_fields(cls: type, fields: dict[str, Any], what: str) -> None:
    """Refuse fields that are not exactly those of a dataclass."""
    known = {field.name for field in dataclasses.fields(cls)}
    if odd := sorted(set(fields) ^ known):
        raise InvalidArgumentError(f"this is not a {what} of this version: {', '.join(odd)} missing or unknown")


def fields_of_json(text: str, what: str) -> dict[str, Any]:
    """The fields of a JSON object, or one sentence."""
    try:
        fields = json.loads(text)
    except json.JSONDecodeError as error:
        raise InvalidArgumentError(f"this is not the JSON of a {what}: {error}") from error
    if not isinstance(fields, dict):
        raise InvalidArgumentError(f"this is not the JSON of a {what}: expected an object, got {text:.40}")
    return fields
