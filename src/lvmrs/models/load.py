"""Loading of models by name: a model that takes pixels in [0, 1], facts about it, and a hash of its weights.

A model that was loaded by name can be pickled: the pickle holds the arguments of ``load``, the weights and their hash.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from lvmrs._util.facts import ModelFacts
from lvmrs._util.settings import absolute, files_of
from lvmrs.errors import ModelError, first_line
from lvmrs.kernel import checks
from lvmrs.kernel.sampler import Model
from lvmrs.models.assemble import Assembled, assemble, hash_of
from lvmrs.models.preprocessing import Preprocessed
from lvmrs.registry import DENOISERS, MODELS

__all__ = ["Loaded", "ModelSource", "load"]


def load(
    name: str,
    *,
    weights: str | Path | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    denoiser: str | None = None,
    sigma: float = 0.0,
) -> Loaded:
    """Load a model by its name.

    Args:
        name: a source of ``lvmrs.registry.MODELS`` and what to load from it, such as ``onnx:FILE``.
        weights: a file of weights, for a network that comes without.
        mean: with ``std``, a normalisation to put before a model that does not have its own; one number a channel.
        std: one number a channel.
        denoiser: a source of ``lvmrs.registry.DENOISERS`` and what to load from it; the denoiser comes first.
        sigma: the standard deviation of the noise, for the denoiser.

    Returns:
        The model, which takes pixels in [0, 1], with its facts and hashes.

    >>> load("ready:small_cnn").facts.random_weights
    True

    """
    if weights is not None:
        checks.instance("weights", weights, (str, Path), "the name of a file")
    return ModelSource(
        name,
        None if weights is None else str(weights),
        None if mean is None else tuple(checks.several("mean", checks.real("mean", mean))),
        None if std is None else tuple(checks.several("std", checks.real("std", std))),
        denoiser,
        sigma,
    ).load()


@dataclass(frozen=True)
class ModelSource:
    """The arguments of ``load`` as plain values. They name the same model in any process and working directory."""

    name: str
    weights: str | None = None
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    denoiser: str | None = None
    sigma: float = 0.0
    directory: Path = field(default_factory=Path.cwd)
    """Where relative paths begin: the working directory of the first call."""

    def load(self) -> Loaded:
        """Load the model."""
        made = self.assembled()
        return Loaded(
            made.model, self.name, made.fingerprint, made.code, made.facts, made.denoiser_fingerprint, source=self
        )

    @property
    def files(self) -> list[Path]:
        """The files that loading it reads, as far as names say which they are."""
        weights = [] if self.weights is None else [absolute(self.weights, self.directory)]
        denoiser = [] if self.denoiser is None else files_of(DENOISERS, self.denoiser, self.directory)
        return [*files_of(MODELS, self.name, self.directory), *weights, *denoiser]

    def assembled(self) -> Assembled:
        """Load the model as its parts."""
        if (self.mean is None) != (self.std is None):
            raise ModelError("mean and std go together; give both")
        normalisation = None if self.mean is None or self.std is None else (self.mean, self.std)
        return assemble(self.name, self.weights, normalisation, self.denoiser, self.sigma, self.directory)


@dataclass(frozen=True)
class Loaded:
    """A model with its name, facts and hashes.

    With a ``source`` it can be pickled whatever its code is: the other process loads it again and puts the weights of
    this one into it. Without a source, the model itself is pickled.
    """

    model: Model
    """It takes pixels in [0, 1]."""
    name: str
    fingerprint: str | None
    """A hash of its weights; None if they are not known."""
    code: str | None
    """A hash of the user's file of Python code that makes it, if there is one."""
    facts: ModelFacts
    """What its source states, or what was assumed."""
    denoiser_fingerprint: str | None = None
    """A hash of the weights of its denoiser, if it has one; the name of the denoiser is among the facts."""
    source: ModelSource | None = None
    """The arguments that it was loaded with; None for a model that was not loaded by name."""
    digest: str | None = field(repr=False, compare=False, default=None)
    """A hash of all weights of ``model`` when it was loaded; it is computed if it is not given."""

    @classmethod
    def of(cls, model: Model, name: str) -> Loaded:
        """Take a model that is in memory already.

        Args:
            model: a callable from pixels in [0, 1] to logits.
            name: a name of your choice, for the records of runs.

        >>> Loaded.of(nn.Flatten(), "flatten").assumed
        ('it takes pixels in [0, 1] as they are',)
        """
        checks.model(model)
        checks.text("name", name)
        return cls(model, name, hash_of(model), None, ModelFacts(takes_pixels=not isinstance(model, Preprocessed)))

    def __post_init__(self) -> None:
        if self.digest is None:
            object.__setattr__(self, "digest", hash_of(self.model))

    def check_unchanged(self) -> None:
        """Refuse a model whose weights are no longer those that it was loaded with: its hash would be of others."""
        if hash_of(self.model) != self.digest:
            raise ModelError(f"{self.name}: its weights were changed after it was loaded; name it again with Loaded.of")

    @property
    def assumed(self) -> tuple[str, ...]:
        """The facts in words."""
        return self.facts.sentences()

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Pickle the source and the weights instead of the model, if there is a source."""
        if self.source is None:
            return super().__reduce_ex__(protocol)
        state = _state(self.model) if isinstance(self.model, nn.Module) else {}
        return _made_again, (self.source, self.fingerprint, self.code, self.facts, self.denoiser_fingerprint, state)


def _state(model: nn.Module) -> dict[str, Any]:
    """The weights, each copied to the CPU."""
    held = model.state_dict().items()
    return {key: value.detach().cpu().clone() if isinstance(value, Tensor) else value for key, value in held}


def _made_again(
    source: ModelSource,
    fingerprint: str | None,
    code: str | None,
    facts: ModelFacts,
    denoiser: str | None,
    state: dict[str, Any],
) -> Loaded:
    """Load the model that was pickled; a change is refused, since one run must not mix rows of two models."""
    made = source.assembled()
    if isinstance(made.model, nn.Module):
        try:
            made.model.load_state_dict(state)
        except RuntimeError as error:
            raise _changed(source, f"its network ({first_line(error)})") from error
    same = {
        "the code that makes it": made.code == code,
        "its weights or file": made.fingerprint == fingerprint,
        "its denoiser": made.denoiser_fingerprint == denoiser,
        "what is known about it": made.facts == facts,
    }
    if not all(same.values()):
        raise _changed(source, " and ".join(what for what, is_same in same.items() if not is_same))
    return Loaded(made.model, source.name, fingerprint, code, facts, denoiser, source)


def _changed(source: ModelSource, what: str) -> ModelError:
    return ModelError(f"{source.name}: it is not the model that was pickled: {what} changed; load it again")
