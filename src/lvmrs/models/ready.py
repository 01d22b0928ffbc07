"""Networks of lvmrs by name and settings: ``resnet20`` or ``sandwich_small,gamma=5,width=2``.

``lvmrs.registry.NETWORKS`` lists the names.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from lvmrs._util.facts import ModelFacts
from lvmrs.errors import InvalidArgumentError, ModelError, guarded
from lvmrs.kernel.checks import memory
from lvmrs.registry import NETWORKS

# The largest accepted settings.
_MOST = {"channels": 10_000, "side": 4096, "classes": 1_000_000, "width": 10_000, "depth": 2_000, "stride": 16}


def ready(name: str, rest: str) -> tuple[nn.Module, ModelFacts]:
    """Make the network ``NAME,setting=value,…`` with random weights."""
    return build(rest), ModelFacts(random_weights=True)


def build(text: str) -> nn.Module:
    """Make the network of a name and settings, with random weights.

    >>> type(build("resnet8,classes=100")).__name__
    'ResNet'
    """
    name, settings = parsed(text)
    make = partial(NETWORKS.find(name), **{**NETWORKS.settings(name), **settings})
    try:
        with torch.device("meta"), _SkipNormal():  # a file could name a huge network
            size = sum(p.numel() * p.element_size() for p in make().parameters())
        if size > memory():
            raise ModelError(f"{text}: it has {size:,} bytes of weights, more than the memory of this machine")
        with guarded(f"{text}: it cannot be made", error=ModelError):
            network: nn.Module = make()
    except InvalidArgumentError as error:
        raise ModelError(f"{text}: {error}") from error
    return network


class _SkipNormal(TorchFunctionMode):
    """Skips ``normal_``, for which the meta device imports parts of torch for about a second."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return args[0] if func is torch.Tensor.normal_ else func(*args, **(kwargs or {}))


def parsed(text: str) -> tuple[str, dict[str, int | float]]:
    """Parse ``NAME,setting=value,…``. Raises ModelError for unknown names and invalid values.

    >>> parsed("resnet8,classes=100")
    ('resnet8', {'classes': 100})
    """
    name, *parts = text.split(",")
    if name not in NETWORKS:
        raise ModelError(f"{name}: there is no network of that name; choose one of {NETWORKS.listed}")
    known = settings_of(name)
    settings: dict[str, int | float] = {}
    for part in parts:
        key, _, value = part.partition("=")
        if key not in known:
            raise ModelError(f"{text}: {name} has no setting {key!r}; it has {', '.join(known)}")
        if key in settings:
            raise ModelError(f"{text}: {key} is given twice; give it once")
        try:
            settings[key] = type(known[key])(value)
        except ValueError:
            kind = "a whole number" if isinstance(known[key], int) else "a number"
            raise ModelError(f"{text}: {key} must be {kind}, got {value!r}") from None
        most = _MOST.get(key, 1e30)
        if not 0 < settings[key] <= most:
            raise ModelError(f"{text}: {key} must be positive and at most {most:g}, got {value:.40}")
    return name, settings


def fitted(text: str, facts: Mapping[str, int]) -> str:
    """Add the settings from the data (channels, side, classes) that the text does not give.

    >>> fitted("small_cnn,width=8", {"channels": 1, "classes": 10})
    'small_cnn,channels=1,classes=10,width=8'
    """
    name, settings = parsed(text)
    known = settings_of(name)
    settings = {**{key: value for key, value in facts.items() if key in known}, **settings}
    return ",".join([name, *(f"{key}={value}" for key, value in settings.items())])


def settings_of(name: str) -> dict[str, int | float]:
    """The settings of a network with their defaults.

    >>> settings_of("sandwich_medium")
    {'channels': 3, 'side': 32, 'classes': 10, 'gamma': 1.0, 'width': 2}
    """
    parameters = inspect.signature(NETWORKS.find(name)).parameters.values()
    numbers = {p.name: p.default for p in parameters if isinstance(p.default, (int, float))}
    return {key: NETWORKS.settings(name).get(key, default) for key, default in numbers.items()}
