"""What is to be proved, and how a planner proposes to prove it.

A ``Choice`` is a heuristic's answer; a ``Plan`` is a choice with the stream that it was made on. It may be useless, but
whatever it says, a certificate that the proof makes from it holds. What a certificate may rely on are the ``Terms``.
"""

from __future__ import annotations

import dataclasses
import html
import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Literal

from lvmrs import _checks
from lvmrs.confidence.base import Bound
from lvmrs.errors import InvalidArgumentError
from lvmrs.forms.base import Form
from lvmrs.maps.base import Map
from lvmrs.noise import GAUSSIAN, Noise, Stream
from lvmrs.registry import BOUNDS, FORMS, MAPS

__all__ = ["Choice", "Plan", "Scope", "Terms", "check_fields", "fields_of", "fields_of_json"]

Scope = Literal["this input", "all inputs"]


@dataclass(frozen=True)
class Terms:
    """The terms of a certificate: noise, risk, number of samples, and a Lipschitz constant of the logits if known."""

    sigma: float
    alpha: float
    n: int
    lipschitz: float = math.inf
    noise: Noise = GAUSSIAN

    def __post_init__(self) -> None:
        if not isinstance(self.noise, Noise):
            raise InvalidArgumentError(f"noise must be a Noise such as Gaussian(), got {self.noise!r:.60}")
        plain = {
            "sigma": _checks.positive_number("sigma", self.sigma),
            "alpha": _checks.alpha(self.alpha),
            "n": _checks.count("n", self.n, least=2),
            "lipschitz": _checks.single("lipschitz", _checks.constant(self.lipschitz)),
        }
        for name, value in plain.items():  # Python's own numbers, whatever they came as
            object.__setattr__(self, name, value)


@dataclass(frozen=True, kw_only=True)
class Choice:
    """How one input is to be certified: class ``top`` against each of its rivals."""

    top: int
    classes: int
    map: Map
    bound: Bound
    form: Form
    risk_top: float
    """Risk of the bound on the top class; 0 for duels, which have no such bound."""
    risk_rival: float = 0.0
    """Risk of the bound on each rival; 0 where the rivals are bounded by what the top class leaves."""
    alone: tuple[int, ...] | None = None
    """Rivals that are bounded each alone, the others together, which saves work; None for all of them alone."""

    def __post_init__(self) -> None:
        """Python's own numbers, whatever they came as; what is no number of its kind is refused."""
        plain: dict[str, Any] = {name: _index(name, getattr(self, name)) for name in ("top", "classes")}
        for name in ("risk_top", "risk_rival"):
            plain[name] = _checks.single(name, _checks.real(name, getattr(self, name)))
        if self.alone is not None:
            if isinstance(self.alone, str) or not isinstance(self.alone, Iterable):
                raise InvalidArgumentError(f"alone must be a tuple of classes or None, got {self.alone!r:.40}")
            plain["alone"] = tuple(_index("alone", k) for k in self.alone)
        for name, value in plain.items():
            object.__setattr__(self, name, value)

    @property
    def risk(self) -> float:
        """The risk that it spends: once for the top class, once for the rivals, however many there are."""
        return self.risk_top + self.risk_rival

    @property
    def rivals(self) -> tuple[list[int], list[int]]:
        """The rivals that are bounded each alone, and those that are bounded together."""
        if self.risk_rival == 0:
            return [], []
        others = [k for k in range(self.classes) if k != self.top]
        alone = others if self.alone is None else list(self.alone)
        return alone, sorted(set(others) - set(alone))


@dataclass(frozen=True, kw_only=True, repr=False)
class Plan(Choice):
    """A choice, and where it comes from: stamped by ``Planner.plan``, whoever wrote the planner."""

    planner: str
    scope: Scope
    """Whether map, temperature and mass were chosen for this input or for all inputs alike."""
    origin: Stream
    """The stream that it was made on; the proof takes scores of any other."""
    n0: int
    """How many samples it was made on."""

    def __repr__(self) -> str:
        """Short: the choices, not the rivals."""
        alone, pooled = self.rivals
        together = f" and {len(pooled)} together" if pooled else ""
        rivals = f"{len(alone)} rivals{together}" if self.risk_rival else "rivals by what is left"
        parts = f"{self.map.name}{self.map.settings}, {self.bound.name}, {self.form.name}"
        return f"<Plan by {self.planner}: class {self.top}, {parts}, {rivals}>"

    def _repr_html_(self) -> str:
        return f"<code>{html.escape(repr(self))}</code>"

    def to_dict(self) -> dict[str, Any]:
        """All fields, in what JSON knows."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return fields | {
            "map": {"name": self.map.name, **dataclasses.asdict(self.map)},
            "bound": self.bound.name,
            "form": self.form.name,
            "origin": dataclasses.asdict(self.origin),
        }

    def to_json(self) -> str:
        """Everything, without loss."""
        return json.dumps(self.to_dict(), allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """The plan that ``to_json`` wrote."""
        return cls.from_dict(fields_of_json(text, "plan"))

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Plan:
        """The plan with these fields, as they come from JSON; parts that are not known here are refused by name."""
        check_fields(cls, fields, "plan")
        settings, origin = fields_of(fields["map"], "map of a plan"), fields_of(fields["origin"], "stream of a plan")
        kind = MAPS.find(settings.pop("name", None))
        check_fields(kind, settings, "map of a plan")
        check_fields(Stream, origin, "stream of a plan")
        return cls(
            **{
                **fields,
                "map": kind(**settings),
                "bound": BOUNDS.find(fields["bound"])(),
                "form": FORMS.find(fields["form"])(),
                "alone": None if fields["alone"] is None else tuple(fields["alone"]),
                "origin": Stream(**origin),
            }
        )


def _index(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise InvalidArgumentError(f"{name} must be a whole number, got {value!r:.40}")
    return int(value)


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
    return fields_of(fields, what)


def fields_of(value: object, what: str) -> dict[str, Any]:
    """A copy of a JSON object, or one sentence."""
    if not isinstance(value, dict):
        raise InvalidArgumentError(f"this is not the JSON of a {what}: expected an object, got {value!r:.40}")
    return dict(value)
