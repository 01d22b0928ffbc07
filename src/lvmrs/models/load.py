"""Loads models by name: a callable on pixels in [0, 1], with its metadata and a hash of its weights.

A model that was loaded by name can be pickled: the pickle contains the arguments of ``load``, the weights and their
hash.
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
        name: a source of ``lvmrs.registry.MODELS`` with its argument, such as ``onnx:FILE``.
        weights: a file of weights, for a network without weights.
        mean: with ``std``, the normalisation for a model without its own; one number for each channel.
        std: one number for each channel.
        denoiser: a source of ``lvmrs.registry.DENOISERS`` with its argument; the denoiser runs before the model.
        sigma: the standard deviation of the noise, for the denoiser.

    Returns:
        The model, a callable on pixels in [0, 1], with its metadata and hashes.

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
    """The arguments of ``load``, which identify the model in any process and working directory."""

    name: str
    weights: str | None = None
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    denoiser: str | None = None
    sigma: float = 0.0
    directory: Path = field(default_factory=Path.cwd)
    """The base of relative paths: the working directory of the first call."""

    def load(self) -> Loaded:
        """Load the model."""
        made = self.assembled()
        return Loaded(
            made.model, self.name, made.fingerprint, made.code, made.facts, made.denoiser_fingerprint, source=self
        )

    @property
    def files(self) -> list[Path]:
        """The files that ``load`` reads, as far as the names contain them."""
        weights = [] if self.weights is None else [absolute(self.weights, self.directory)]
        denoiser = [] if self.denoiser is None else files_of(DENOISERS, self.denoiser, self.directory)
        return [*files_of(MODELS, self.name, self.directory), *weights, *denoiser]

    def assembled(self) -> Assembled:
        """Load the model and its parts."""
        if (self.mean is None) != (self.std is None):
            raise ModelError("mean and std go together; give both")
        normalisation = None if self.mean is None or self.std is None else (self.mean, self.std)
        return assemble(self.name, self.weights, normalisation, self.denoiser, self.sigma, self.directory)


@dataclass(frozen=True)
class Loaded:
    """A model with its name, facts and hashes.

    With a ``source``, the pickle contains the source and the weights: the other process loads the model by name and
    sets these weights. Without a source, the pickle contains the model itself.
    """

    model: Model
    """A callable on pixels in [0, 1]."""
    name: str
    fingerprint: str | None
    """A hash of the weights; None if they are unknown."""
    code: str | None
    """A hash of the user's Python file that makes the model, if there is one."""
    facts: ModelFacts
    """Metadata from the source, and assumptions."""
    denoiser_fingerprint: str | None = None
    """A hash of the weights of the denoiser, if there is one; ``facts`` contains its name."""
    source: ModelSource | None = None
    """The arguments of ``load``; None if the model was not loaded by name."""
    digest: str | None = field(repr=False, compare=False, default=None)
    """A hash of all weights of ``model`` at the time of loading; computed if not given."""

    @classmethod
    def of(cls, model: Model, name: str) -> Loaded:
        """Wrap a model that is in memory.

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
        """Raise ModelError if the weights have changed since loading, because the hash would no longer match."""
        if hash_of(self.model) != self.digest:
            raise ModelError(f"{self.name}: its weights were changed after it was loaded; name it again with Loaded.of")

    @property
    def assumed(self) -> tuple[str, ...]:
        """One sentence for each fact."""
        return self.facts.sentences()

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Pickle the source and the weights instead of the model, if there is a source."""
        if self.source is None:
            return super().__reduce_ex__(protocol)
        state = _state(self.model) if isinstance(self.model, nn.Module) else {}
        return _reloaded, (self.source, self.fingerprint, self.code, self.facts, self.denoiser_fingerprint, state)


def _state(model: nn.Module) -> dict[str, Any]:
    """Copies of the weights on the CPU."""
    held = model.state_dict().items()
    return {key: value.detach().cpu().clone() if isinstance(value, Tensor) else value for key, value in held}


def _reloaded(
    source: ModelSource,
    fingerprint: str | None,
    code: str | None,
    facts: ModelFacts,
    denoiser: str | None,
    state: dict[str, Any],
) -> Loaded:
    """Load a pickled model. Raises if the model has changed, because a run must not mix rows of two models."""
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
        "its metadata": made.facts == facts,
    }
    if not all(same.values()):
        raise _changed(source, " and ".join(what for what, is_same in same.items() if not is_same))
    return Loaded(made.model, source.name, fingerprint, code, facts, denoiser, source)


def _changed(source: ModelSource, what: str) -> ModelError:
    return ModelError(f"{source.name}: it is not the model that was pickled: {what} changed; load it again")
