"""Methods by name, as the command line and manifests know them."""

from __future__ import annotations

import dataclasses
from typing import Any

from lvmrs._python import code_hash
from lvmrs.errors import InvalidArgumentError
from lvmrs.method import Method
from lvmrs.registry import BOUNDS, FORMS, MAPS, METHODS

__all__ = ["described", "description", "method"]

# Where a description has the hashes of the files that a user's own classes are in.
_OWN = "own code"


def method(name: str | type[Method], **choices: Any) -> Method:
    """The method of that name, or of a class of yours. Choices (``bound``, ``map``, …) that are None are left out."""
    maker, settings = (METHODS.find(name), METHODS.settings(name)) if isinstance(name, str) else (name, {})
    name = name if isinstance(name, str) else name.__name__
    fields = {field.name: field for field in dataclasses.fields(maker)} if dataclasses.is_dataclass(maker) else {}
    for choice, value in choices.items():
        if value is None:
            continue
        if choice in fields:
            settings[choice] = value
        elif f"{choice}s" in fields:  # a search over one alone
            settings[f"{choice}s"] = (value,)
        else:
            raise InvalidArgumentError(f"{choice} cannot be chosen with method {name}; leave it out")
    for field in fields.values():
        if field.name not in settings and field.default is field.default_factory is dataclasses.MISSING:
            known = f": {', '.join(MAPS.having('simplex'))}" if field.name == "map" else ""
            raise InvalidArgumentError(f"{field.name} must be given with method {name}{known}")
    made: Method = maker(**settings)
    return made


def description(chosen: Method) -> dict[str, Any]:
    """The method and all its settings, for a manifest."""
    fields: dict[str, Any] = dataclasses.asdict(chosen) if dataclasses.is_dataclass(chosen) else {}
    plain = {name: list(value) if isinstance(value, tuple) else value for name, value in fields.items()}
    own = {part.__name__: code_hash(part) for part in (type(chosen), *MAPS.added, *BOUNDS.added, *FORMS.added)}
    own = {name: known for name, known in own.items() if known is not None}
    return {"planner": type(chosen).__name__, **plain, **({_OWN: own} if own else {})}


def described(fields: object) -> Method:
    """The method that a manifest describes."""
    if not isinstance(fields, dict) or not isinstance(fields.get("planner"), str):
        raise InvalidArgumentError("the run does not say which method it was made with; choose one with --method")
    settings = {name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()}
    wanted = settings.pop("planner")
    settings.pop(_OWN, None)
    maker = next((maker for maker in map(METHODS.find, METHODS) if maker.__name__ == wanted), None)
    if maker is None:
        raise InvalidArgumentError(f"method {wanted} is not one of ours; choose one with --method")
    known = {field.name for field in dataclasses.fields(maker)}
    if odd := sorted(map(str, set(settings) - known)):
        raise InvalidArgumentError(f"method {wanted} has no setting {odd[0]}; choose a method with --method")
    made: Method = maker(**settings)
    return made
