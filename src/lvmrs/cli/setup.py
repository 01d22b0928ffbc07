"""The options of all commands that run a model on data under noise: declared once, loaded in one place."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_type_hints

import typer

from lvmrs.cli import options
from lvmrs.cli.console import tell
from lvmrs.cli.parsing import numbers
from lvmrs.errors import InvalidArgumentError
from lvmrs.record import Selection
from lvmrs.registry import MODELS

if TYPE_CHECKING:
    from lvmrs.data import Dataset
    from lvmrs.kernel.method import Method
    from lvmrs.models import Loaded
    from lvmrs.smoothed import SmoothedClassifier

__all__ = ["Setup", "refuse_typed", "typed_options", "with_setup"]

# Options that have an effect on samples under noise only.
_OF_SAMPLES = ("noise", "alpha", "n0", "n", "seed", "batch", "fast")


@dataclass(frozen=True)
class Setup:
    """A model, data and noise, as they were typed."""

    model: options.Model
    data: options.Data
    sigma: options.SigmaIfNoisy = None
    weights: options.Weights = None
    mean: options.Mean = None
    std: options.Std = None
    denoiser: options.Denoiser = None
    noise: options.Noise = None
    split: options.Split = "test"
    image_size: options.ImageSize = None
    class_index: options.ClassIndex = None
    batch: options.Batch = None
    fast: options.Fast = True
    skip: options.Skip = 1
    max: options.Max = None
    seed: options.Seed = 0
    device: options.Device = "auto"
    typed: frozenset[str] = frozenset()
    """The names of the options of the command that the user typed, also of those that are not here."""

    def load(
        self,
        method: Method | None = None,
        *,
        lipschitz: float | None = None,
        autocast: str | None = None,
        compiled: bool | None = None,
        elsewhere: bool = False,
    ) -> tuple[Loaded, Dataset, SmoothedClassifier]:
        """The model, the data and the smoothed classifier; what was assumed about them is told.

        Options that have no effect on this method, model or data are refused; None is for a method that samples. A
        model that runs elsewhere need not run here: this machine may have no such device.
        """
        import torch
        from torch import nn

        from lvmrs import data, models
        from lvmrs.cli.own_parts import noise
        from lvmrs.kernel import checks, torch_checks
        from lvmrs.kernel.exact_noise import suited_noise
        from lvmrs.models.lipschitz.stated import known_lipschitz
        from lvmrs.smoothed import SmoothedClassifier

        self._refuse_without_effect(method)
        # What cannot be used is refused before anything is loaded.
        device = torch.device("cpu") if elsewhere else torch_checks.device_to_run_on(self.device)
        dataset = data.load(self.data, split=self.split, size=self.image_size, class_index=self.class_index)
        if not dataset.divided:
            self.refuse(("split",), f"{self.data} is not divided into splits")
        loaded = models.load(
            self.model,
            weights=self.weights,
            mean=numbers("mean", self.mean),
            std=numbers("std", self.std),
            denoiser=self.denoiser,
            sigma=0.0 if self.sigma is None else checks.positive_number("sigma", self.sigma),
        )
        if isinstance(loaded.model, nn.Module):
            loaded.model.to(device)
        samples = method is None or method.samples
        constant = known_lipschitz(loaded.model) if lipschitz is None else lipschitz
        smoothed = SmoothedClassifier(
            loaded.model,
            self.sigma,
            lipschitz,
            batch=self.batch,
            device=device,
            autocast=torch_checks.precision(autocast),
            compile=compiled,
            fast=self.fast,
            noise=suited_noise(dataset.levels, constant) if self.noise is None else noise(self.noise),
        )
        tell(f"model  {'; '.join((loaded.name, *loaded.assumed))}")
        if math.isfinite(smoothed.lipschitz):
            own = known_lipschitz(loaded.model)
            told = "" if lipschitz is None else ", as given" + (f" (the model says {own:g})" if own else "")
            tell(f"lipschitz {smoothed.lipschitz:g}{told}")
        tell(f"data   {'; '.join((dataset.name, _part(dataset), *dataset.assumed))}")
        if samples:
            if smoothed.noise.rounds:
                self.refuse(("lipschitz",), f"{smoothed.noise.name} noise rounds inputs, which leaves no constant")
            tell(f"noise  {smoothed.noise.spelling}: {smoothed.noise.words(smoothed.sigma)}")
        return loaded, dataset, smoothed

    def _refuse_without_effect(self, method: Method | None) -> None:
        samples = method is None or method.samples
        if self.sigma is None and (samples or self.denoiser is not None):
            raise InvalidArgumentError("sigma must be given: the standard deviation of the noise")
        if not samples:
            names = _OF_SAMPLES if self.denoiser is not None else ("sigma", *_OF_SAMPLES)
            self.refuse(names, "this method takes no samples under noise")
        if method is not None and not method.uses_constant:
            self.refuse(("lipschitz",), f"{type(method).__name__} does not use a Lipschitz constant as it is set")
        if self.model.partition(":")[0] in MODELS.having("foreign") and self.denoiser is None:
            self.refuse(("autocast", "compile", "fast"), f"{self.model} is not run by torch")

    def refuse(self, names: tuple[str, ...], reason: str) -> None:
        """Refuse the first of these options that the user typed."""
        refuse_typed(self.typed, names, reason)

    def selection(self, dataset: Dataset, shard: tuple[int, int] = (1, 1)) -> Selection:
        """The inputs that were asked for."""
        return Selection(len(dataset), self.skip, self.max, *shard)


def typed_options(context: typer.Context) -> frozenset[str]:
    """The names of the options of a command that the user typed."""
    sources = {name: context.get_parameter_source(name) for name in context.params}
    return frozenset(name for name, source in sources.items() if source and source.name == "COMMANDLINE")


def refuse_typed(typed: frozenset[str], names: tuple[str, ...], reason: str) -> None:
    """Refuse the first of these options that the user typed."""
    for name in names:
        if name in typed:
            raise InvalidArgumentError(f"{name} has no effect: {reason}; leave it out")


def _part(dataset: Dataset) -> str:
    return f"{dataset.split if dataset.divided else 'not divided into splits'}, {len(dataset)} inputs"


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
            if field.name != "typed"
        ]
        own_hints = get_type_hints(command, include_extras=True)
        _, *own = inspect.signature(command).parameters.values()
        own = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=own_hints[p.name]) for p in own]

        @functools.wraps(command)
        def wrapped(context: typer.Context, **given: Any) -> None:
            shared_options = {parameter.name: given.pop(parameter.name) for parameter in shared}
            setup = Setup(**shared_options, typed=typed_options(context))
            command(setup, **given)

        context = inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
        parameters = [context, *shared, *own]
        wrapped.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        wrapped.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return wrapped

    return decorate
