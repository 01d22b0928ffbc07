"""Planners by name, as the command line and manifests know them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, get_args

from lvmrs import _checks
from lvmrs.errors import InvalidArgumentError
from lvmrs.planners import LVM, Cohen, Fixed, Lipschitz, Paper, Planner
from lvmrs.planners.lipschitz import Procedure

__all__ = ["METHODS", "described", "description", "planner"]

_PLANNERS: dict[str, Callable[..., Planner]] = {
    "lvm": LVM,
    "cohen": Cohen,
    "paper": Paper,
    "fixed": Fixed,
    **{f"lipschitz-{procedure}": Lipschitz for procedure in get_args(Procedure)},
}
METHODS = tuple(_PLANNERS)


def planner(method: str, **choices: Any) -> Planner:
    """The planner of that name. Choices (``bound``, ``map``, ``temperature``, ``mass``) that are None are left out."""
    _checks.one_of("method", method, METHODS)
    maker = _PLANNERS[method]
    given = {name: value for name, value in choices.items() if value is not None}
    settings: dict[str, Any] = {"procedure": method.removeprefix("lipschitz-")} if maker is Lipschitz else {}
    known = {field.name for field in dataclasses.fields(maker)}  # type: ignore[arg-type]
    for name, value in given.items():
        if name in known:
            settings[name] = value
        elif f"{name}s" in known:  # a search over one alone
            settings[f"{name}s"] = (value,)
        else:
            raise InvalidArgumentError(f"{name} cannot be chosen with method {method}; leave it out")
    if maker is Fixed and "map" not in settings:
        raise InvalidArgumentError("map must be given with method fixed: hardmax, softmax or sparsemax")
    return maker(**settings)


def description(planner: Planner) -> dict[str, Any]:
    """The planner and all its settings, for a manifest."""
    fields: dict[str, Any] = dataclasses.asdict(planner) if dataclasses.is_dataclass(planner) else {}
    plain = {name: list(value) if isinstance(value, tuple) else value for name, value in fields.items()}
    return {"planner": type(planner).__name__, **plain}


def described(fields: dict[str, Any]) -> Planner:
    """The planner that a manifest describes."""
    settings = {name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()}
    name = settings.pop("planner")
    makers: dict[str, Callable[..., Planner]] = {
        maker.__name__: maker for maker in (LVM, Cohen, Paper, Fixed, Lipschitz)
    }
    if name not in makers:
        raise InvalidArgumentError(f"method {name} is not one of ours; choose one with --method")
    return makers[name](**settings)
