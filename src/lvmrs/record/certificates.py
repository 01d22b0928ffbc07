"""Converts certificates and plans to JSON and back, without loss."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any

from lvmrs.errors import InvalidArgumentError, guarded, shown
from lvmrs.kernel import checks
from lvmrs.kernel.bounds.base import Bound
from lvmrs.kernel.certificate import BY_A_PROOF, Certificate
from lvmrs.kernel.noise import Stream
from lvmrs.kernel.terms import Plan
from lvmrs.registry import BOUNDS, FORMS, MAPS, noise_named

__all__ = ["certificate_from_json", "certificate_to_json", "plan_from_json", "plan_to_json"]

_MAY_BE_INFINITE = ("lipschitz", "radius", "limit")


def certificate_to_json(certificate: Certificate) -> str:
    """The certificate as JSON, without loss."""
    fields: dict[str, Any] = {field.name: getattr(certificate, field.name) for field in dataclasses.fields(certificate)}
    for name in _MAY_BE_INFINITE:  # JSON has no infinity
        fields[name] = fields[name] if math.isfinite(fields[name]) else None
    fields["noise"] = certificate.noise.spelling
    fields["plan"] = None if certificate.plan is None else _plan_fields(certificate.plan)
    fields["stream"] = None if certificate.stream is None else dataclasses.asdict(certificate.stream)
    return json.dumps(fields, allow_nan=False)


def certificate_from_json(text: str) -> Certificate:
    """Read a certificate from JSON; raises if writing the result would not give the same JSON."""
    fields = _fields_of_json(text, "certificate")
    _check_fields(Certificate, fields, "certificate")
    with guarded("this is not a whole certificate", error=InvalidArgumentError):
        made = _certificate(dict(fields))
        if json.loads(certificate_to_json(made)) != fields:
            raise ValueError("it would not be read back as written")
    return made


def plan_to_json(plan: Plan) -> str:
    """The plan as JSON, without loss."""
    return json.dumps(_plan_fields(plan), allow_nan=False)


def plan_from_json(text: str) -> Plan:
    """Read a plan from JSON; raises for a map, bound or form that is not in the registry."""
    return _plan(_fields_of_json(text, "plan"))


def _certificate(fields: dict[str, Any]) -> Certificate:
    for name in _MAY_BE_INFINITE:
        fields[name] = math.inf if fields[name] is None else fields[name]
    stream, plan = fields.pop("stream"), fields.pop("plan")
    noise = noise_named(fields.pop("noise"))
    if stream is not None:
        _check_fields(Stream, _fields_of(stream, "stream of a certificate"), "stream of a certificate")
    return Certificate(
        **fields,
        noise=noise,
        plan=None if plan is None else _plan(_fields_of(plan, "plan of a certificate")),
        stream=None if stream is None else Stream(**stream),
        made_by=BY_A_PROOF,
    )


def _plan_fields(plan: Plan) -> dict[str, Any]:
    """All fields of a plan as JSON values."""
    fields = {field.name: getattr(plan, field.name) for field in dataclasses.fields(plan)}
    settings = dataclasses.asdict(plan.bound)
    return fields | {
        "map": {"name": plan.map.name, **dataclasses.asdict(plan.map)},
        "bound": {"name": plan.bound.name, **settings} if settings else plan.bound.name,
        "form": plan.form.name,
        "origin": dataclasses.asdict(plan.origin),
    }


def _plan(fields: dict[str, Any]) -> Plan:
    _check_fields(Plan, _fields_of(fields, "plan"), "plan")
    settings, origin = _fields_of(fields["map"], "map of a plan"), _fields_of(fields["origin"], "stream of a plan")
    kind = MAPS.find(settings.pop("name", None))
    _check_fields(kind, settings, "map of a plan")
    _check_fields(Stream, origin, "stream of a plan")
    return Plan(
        **{
            **fields,
            "map": kind(**settings),
            "bound": _bound(fields["bound"]),
            "form": FORMS.find(fields["form"])(),
            "alone": None if fields["alone"] is None else tuple(fields["alone"]),
            "origin": Stream(**origin),
        }
    )


def _bound(described: Any) -> Bound:
    """The bound for a name, or for a name with settings."""
    if not isinstance(described, dict):
        found: Bound = BOUNDS.find(described)()
        return found
    settings = dict(described)
    kind = BOUNDS.find(settings.pop("name", None))
    _check_fields(kind, settings, "bound of a plan")
    return kind(  # type: ignore[no-any-return]
        **{name: tuple(value) if isinstance(value, list) else value for name, value in settings.items()}
    )


def _check_fields(cls: type, fields: dict[str, Any], what: str) -> None:
    """Raise unless the fields are exactly those of a dataclass."""
    known = {field.name for field in dataclasses.fields(cls)}
    if odd := sorted(set(fields) ^ known):
        raise InvalidArgumentError(f"this is not a {what} of this version: {', '.join(odd)} missing or unknown")


def _fields_of_json(text: str, what: str) -> dict[str, Any]:
    """The fields of a JSON object in a text; ``what`` names the object in error messages."""
    checks.text("text", text)
    try:
        fields = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise InvalidArgumentError(f"this is not the JSON of a {what}: {error}") from error
    return _fields_of(fields, what)


def _fields_of(value: object, what: str) -> dict[str, Any]:
    """A copy of a JSON object; raises for other values, and ``what`` names the object in error messages."""
    if not isinstance(value, dict):
        raise InvalidArgumentError(f"this is not the JSON of a {what}: expected an object, got {shown(value)}")
    return dict(value)
