"""From a name to a model that takes pixels in [0, 1], with what is known about it and a hash of its weights.

A model that was loaded by name can be pickled: what is stored is how it was asked for, its weights and its hash.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from lvmrs.errors import ModelError, first_line
from lvmrs.models.assemble import Assembled, assemble, hash_of
from lvmrs.models.facts import ModelFacts
from lvmrs.models.preprocessing import Preprocessed
from lvmrs.sampling import Model

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
        name: a source of ``lvmrs.registry.MODELS`` and what it is asked for, such as ``onnx:FILE``.
        weights: a file of weights, for a network that comes without.
        mean: with ``std``, a normalisation that is put before a model which does not bring its own.
        std: one number for each channel.
        denoiser: a source of ``lvmrs.registry.DENOISERS`` and what it is asked for; it is put before all of it.
        sigma: the standard deviation of the noise, for the denoiser.

    Returns:
        The model, which takes pixels in [0, 1], and who it is.

    >>> load("ready:small_cnn").facts.random_weights
    True

    """
    return ModelSource(
        name,
        None if weights is None else str(weights),
        None if mean is None else tuple(float(value) for value in mean),
        None if std is None else tuple(float(value) for value in std),
        denoiser,
        sigma,
    ).load()


@dataclass(frozen=True)
class ModelSource:
    """How a model is asked for, in plain values. It names the same model in any process and working directory."""

    name: str
    weights: str | None = None
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    denoiser: str | None = None
    sigma: float = 0.0
    directory: Path = field(default_factory=Path.cwd)
    """Where relative paths begin and modules are imported from: the working directory when it was asked for."""

    def load(self) -> Loaded:
        """The model, made anew."""
        made = self.assembled()
        return Loaded(
            made.model, self.name, made.fingerprint, made.code, made.facts, made.denoiser_fingerprint, source=self
        )

    def assembled(self) -> Assembled:
        """The model and its parts, made anew."""
        if (self.mean is None) != (self.std is None):
            raise ModelError("mean and std go together; give both")
        normalisation = None if self.mean is None or self.std is None else (self.mean, self.std)
        return assemble(self.name, self.weights, normalisation, self.denoiser, self.sigma, self.directory)


@dataclass(frozen=True)
class Loaded:
    """A model and who it is.

    With a ``source`` it can be pickled whatever its code is: it is made anew in the other process, and is given the
    weights that it has here. Without one, its model is pickled as it is.
    """

    model: Model
    name: str
    fingerprint: str | None
    """A hash of its weights; None if they cannot be seen."""
    code: str | None
    """A hash of the file of Python code that makes it, if there is one."""
    facts: ModelFacts
    """What was taken from what it ships with, or assumed."""
    denoiser_fingerprint: str | None = None
    """A hash of the weights of the denoiser before it, if there is one; its name is among the facts."""
    source: ModelSource | None = None
    """How it was asked for; None for a model that was not loaded by name."""

    @classmethod
    def of(cls, model: Model, name: str) -> Loaded:
        """A model that is in memory already and takes pixels in [0, 1], under a name of your choice."""
        return cls(model, name, hash_of(model), None, ModelFacts(takes_pixels=not isinstance(model, Preprocessed)))

    @property
    def assumed(self) -> tuple[str, ...]:
        """Its facts in words."""
        return self.facts.sentences()

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Pickle the source and the weights instead of the model, where there is a source."""
        if self.source is None:
            return super().__reduce_ex__(protocol)
        state = _state(self.model) if isinstance(self.model, nn.Module) else {}
        return _made_anew, (self.source, self.fingerprint, self.code, self.facts, self.denoiser_fingerprint, state)


def _state(model: nn.Module) -> dict[str, Any]:
    """Its weights, each in memory of its own, on the CPU."""
    held = model.state_dict().items()
    return {key: value.detach().cpu().clone() if isinstance(value, Tensor) else value for key, value in held}


def _made_anew(
    source: ModelSource,
    fingerprint: str | None,
    code: str | None,
    facts: ModelFacts,
    denoiser: str | None,
    state: dict[str, Any],
) -> Loaded:
    """The model that was pickled; what is not as it was is refused, since rows of two models must not be mixed."""
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
    return ModelError(f"{source.name}: not the model that was pickled: {what} changed; load it again")
