"""The options of all commands that run a model on data under noise: declared once, loaded in one place."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_type_hints

from lvmrs.cli import options
from lvmrs.cli.console import tell
from lvmrs.cli.parsing import numbers
from lvmrs.runs import Selection

if TYPE_CHECKING:
    from lvmrs.data import Dataset
    from lvmrs.models import Loaded
    from lvmrs.smooth import SmoothedClassifier

__all__ = ["Setup", "with_setup"]


@dataclass(frozen=True)
class Setup:
    """A model, data and noise, as they were typed."""

    model: options.Model
    data: options.Data
    sigma: options.Sigma
    weights: options.Weights = None
    mean: options.Mean = None
    std: options.Std = None
    denoiser: options.Denoiser = None
    noise: options.Noise = "gaussian"
    split: options.Split = "test"
    image_size: options.ImageSize = None
    class_index: options.ClassIndex = None
    batch: options.Batch = None
    skip: options.Skip = 1
    max: options.Max = None
    seed: options.Seed = 0
    device: options.Device = "auto"

    def load(
        self, *, lipschitz: float | None = None, autocast: str | None = None, compiled: bool = False
    ) -> tuple[Loaded, Dataset, SmoothedClassifier]:
        """The model, the data and the smoothed classifier; what was assumed about them is told."""
        from torch import nn

        from lvmrs import _checks, _torch_checks, data, models
        from lvmrs.cli.own_parts import noise
        from lvmrs.smooth import SmoothedClassifier

        dataset = data.load(self.data, split=self.split, size=self.image_size, class_index=self.class_index)
        loaded = models.load(
            self.model,
            weights=self.weights,
            mean=numbers("mean", self.mean),
            std=numbers("std", self.std),
            denoiser=self.denoiser,
            sigma=_checks.positive_number("sigma", self.sigma),
        )
        device = _torch_checks.device_to_run_on(self.device)
        if isinstance(loaded.model, nn.Module):
            loaded.model.to(device)
        smoothed = SmoothedClassifier(
            loaded.model,
            self.sigma,
            lipschitz,
            batch=self.batch,
            device=device,
            autocast=_torch_checks.precision(autocast),
            compile=compiled,
            noise=noise(self.noise),
        )
        tell(f"model  {'; '.join((loaded.name, *loaded.assumed))}")
        if math.isfinite(smoothed.lipschitz):
            own = _checks.known_lipschitz(loaded.model)
            told = "" if lipschitz is None else ", as given" + (f" (the model says {own:g})" if own else "")
            tell(f"lipschitz {smoothed.lipschitz:g}{told}")
        tell(f"data   {'; '.join((dataset.name, f'{dataset.split}, {len(dataset)} inputs', *dataset.assumed))}")
        return loaded, dataset, smoothed

    def selection(self, dataset: Dataset, shard: tuple[int, int] = (1, 1)) -> Selection:
        """The inputs that were asked for."""
        return Selection(len(dataset), self.skip, self.max, *shard)


def with_setup(**defaults: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command all options of a ``Setup``, which it takes as its first argument; ``defaults`` are its own."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        hints = get_type_hints(Setup, include_extras=True)
        shared = [
            inspect.Parameter(
                field.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=defaults.get(
                    field.name,
                    inspect.Parameter.empty if field.default is dataclasses.MISSING else field.default,
                ),
                annotation=hints[field.name],
            )
            for field in dataclasses.fields(Setup)
        ]
        own_hints = get_type_hints(command, include_extras=True)
        _, *own = inspect.signature(command).parameters.values()
        own = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=own_hints[p.name]) for p in own]

        @functools.wraps(command)
        def wrapped(**given: Any) -> None:
            setup = Setup(**{parameter.name: given.pop(parameter.name) for parameter in shared})
            command(setup, **given)

        wrapped.__signature__ = inspect.Signature([*shared, *own])  # type: ignore[attr-defined]
        wrapped.__annotations__ = {parameter.name: parameter.annotation for parameter in (*shared, *own)}
        return wrapped

    return decorate
