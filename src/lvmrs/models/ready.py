"""Networks that come with lvmrs, by name and settings: ``resnet20`` or ``sandwich_small,gamma=5,width=2``."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from torch import nn

from lvmrs.errors import InvalidArgumentError, ModelError
from lvmrs.models.dncnn import dncnn
from lvmrs.models.residual import ResNet
from lvmrs.models.sandwich import sandwich
from lvmrs.models.small import fast_cnn, small_cnn

__all__ = ["NETWORKS", "build", "fitted", "parsed", "written"]

NETWORKS: dict[str, Callable[..., nn.Module]] = {
    "small_cnn": small_cnn,
    "fast_cnn": fast_cnn,
    "resnet8": partial(ResNet, 8),
    "resnet20": partial(ResNet, 20),
    "resnet56": partial(ResNet, 56),
    "resnet110": partial(ResNet, 110),
    "cifar_resnet20": partial(ResNet, 20, shortcut="convolved"),
    "cifar_resnet110": partial(ResNet, 110, shortcut="convolved"),
    "sandwich_small": sandwich,
    "sandwich_medium": partial(sandwich, width=2),
    "sandwich_large": partial(sandwich, width=4),
    "dncnn": dncnn,
}


def build(text: str) -> nn.Module:
    """The network of that name, with fresh weights."""
    name, settings = parsed(text)
    try:
        return NETWORKS[name](**settings)
    except InvalidArgumentError as error:
        raise ModelError(f"{text}: {error}") from error


def parsed(text: str) -> tuple[str, dict[str, int | float]]:
    """``NAME,setting=value,…`` taken apart, with names that exist and values of the right kind."""
    name, *parts = text.split(",")
    if name not in NETWORKS:
        raise ModelError(f"{name}: no such network; there are {', '.join(NETWORKS)}")
    known = _settings(name)
    settings: dict[str, int | float] = {}
    for part in parts:
        key, _, value = part.partition("=")
        if key not in known:
            raise ModelError(f"{text}: {name} has no setting {key!r}; it has {', '.join(known)}")
        try:
            settings[key] = type(known[key])(value)
        except ValueError:
            kind = "a whole number" if isinstance(known[key], int) else "a number"
            raise ModelError(f"{text}: {key} must be {kind}, got {value!r}") from None
        if not 0 < settings[key] < float("inf"):
            raise ModelError(f"{text}: {key} must be positive, got {value}")
    return name, settings


def fitted(text: str, facts: Mapping[str, int]) -> str:
    """The same network with what the data say (channels, side, classes) filled in where it was left open."""
    name, settings = parsed(text)
    known = _settings(name)
    return written(name, {**{key: value for key, value in facts.items() if key in known}, **settings})


def written(name: str, settings: Mapping[str, Any]) -> str:
    """The text that ``parsed`` takes apart."""
    return ",".join([name, *(f"{key}={value}" for key, value in settings.items())])


def _settings(name: str) -> dict[str, int | float]:
    """The numbers that a network can be made with, and their defaults."""
    parameters = inspect.signature(NETWORKS[name]).parameters.values()
    return {p.name: p.default for p in parameters if isinstance(p.default, (int, float))}
