"""Loads models by name: network, weights, normalisation and denoiser in one callable on pixels in [0, 1].

A loaded model has its metadata and a hash of its weights. It can be pickled: the pickle contains the arguments of
``load``, the weights and their hash. The source ``python:`` imports models from the user's code.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor, nn

from lvmrs._util.facts import ModelFacts
from lvmrs._util.settings import absolute, files_of, member_names, parse_name
from lvmrs._util.user_code import called, imported, source_hash
from lvmrs.errors import ModelError, first_line, guarded
from lvmrs.kernel import checks
from lvmrs.kernel.sampler import Model
from lvmrs.models import onnx
from lvmrs.models.denoisers import Denoised, load_denoiser
from lvmrs.models.preprocessing import Preprocessed
from lvmrs.models.trained import normalisation_of
from lvmrs.models.weights import digest_of_file, digest_of_module, load_weights
from lvmrs.registry import DENOISERS, MODELS


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

    @property
    def files(self) -> list[Path]:
        """The files that ``load`` reads, as far as the names contain them."""
        weights = [] if self.weights is None else [absolute(self.weights, self.directory)]
        denoiser = [] if self.denoiser is None else files_of(DENOISERS, self.denoiser, self.directory)
        models = list[Path]()
        for member in member_names(MODELS, self.name):
            named = files_of(MODELS, member, self.directory)
            models += [*named, *_program_files(member.partition(":")[0], named[0])[1:]] if named else []
        return [*models, *weights, *denoiser]

    def load(self, state: Mapping[str, Any] | None = None) -> Loaded:
        """Load the model. The weights in ``state``, from a pickle, replace those of a torch module."""
        if (self.mean is None) != (self.std is None):
            raise ModelError("mean and std go together; give both")
        model, facts, code, fingerprint = self._classifier()
        denoiser: Model | None = None
        if self.denoiser is not None:
            denoiser, known = load_denoiser(self.denoiser, self.sigma, self.directory)
            model, facts = Denoised(denoiser, model), replace(facts, denoiser=known)
        if state is not None and isinstance(model, nn.Module):
            try:
                model.load_state_dict(state)
            except RuntimeError as error:
                raise self.changed(f"its network ({first_line(error)})") from error
        return Loaded(model, self.name, fingerprint(), code, facts, _hash(denoiser), self)

    def _classifier(self) -> _Classifier:
        """The model without its denoiser."""
        source, rest = parse_name(MODELS, self.name, self.directory, error=ModelError)
        if source in MODELS.having("members"):
            return self._ensemble(source)
        with guarded(f"{self.name}: it cannot be loaded", error=ModelError):
            network, facts = MODELS.find(source)(self.name, rest)
        code = source_hash(rest) if source in MODELS.having("code") else None
        if self.weights is not None:
            facts = self._with_weights(source, network, facts)
        model, facts = self._with_normalisation(network, facts)
        program = source in MODELS.having("program")
        fingerprint = partial(_digest_of_program, source, Path(rest)) if program else partial(_hash, network)
        return _Classifier(model, facts, code, fingerprint)

    def _ensemble(self, source: str) -> _Classifier:
        """The ensemble of the members in the name; mean and std are the normalisation of each of them."""
        if self.weights is not None:
            raise self._no_weights()
        names = member_names(MODELS, self.name)
        members = [replace(self, name=name, denoiser=None)._classifier() for name in names]
        for name, member in zip(names, members, strict=True):
            if not isinstance(member.model, nn.Module):
                raise ModelError(f"{name}: a member of an ensemble must be a torch module, and it is a function")
        network = MODELS.find(source)([member.model for member in members], **MODELS.settings(source))
        facts = ModelFacts.of_ensemble([member.facts for member in members])
        codes = [member.code for member in members]
        code = _joined(codes) if any(codes) else None

        def fingerprint() -> str:
            steps = [(getattr(each, "normalisation", None), getattr(each, "size", None)) for each in network.members]
            told = [asdict(member.facts) for member in members]  # networks with equal weights may differ
            return _joined([network.average, *steps, *told, *(member.fingerprint() for member in members)])

        return _Classifier(network, facts, code, fingerprint)

    def _with_weights(self, source: str, network: Model, facts: ModelFacts) -> ModelFacts:
        if not isinstance(network, nn.Module) or source not in MODELS.having("weights"):
            raise self._no_weights()
        lost = load_weights(network, absolute(str(self.weights), self.directory))
        return replace(facts, normalisation_lost=lost, random_weights=False)

    def _no_weights(self) -> ModelError:
        kinds = " and ".join(f"{taker}:" for taker in MODELS.having("weights"))
        return ModelError(f"{self.name}: only {kinds} modules take weights; leave weights out")

    def _with_normalisation(self, network: Model, facts: ModelFacts) -> tuple[Model, ModelFacts]:
        """Put the given normalisation, or the one in the file of weights, before the network."""
        if self.mean is not None and self.std is not None:
            if isinstance(network, Preprocessed):
                which = f" ({facts.normalisation})" if facts.normalisation else ""
                raise ModelError(f"{self.name}: it has its own normalisation{which}; leave mean and std out")
            facts = replace(facts, mean=self.mean, std=self.std, normalised_by="given")
            return Preprocessed(network, self.mean, self.std), facts
        kept = None if self.weights is None else normalisation_of(absolute(self.weights, self.directory))
        if kept is not None:
            mean, std = kept
            return Preprocessed(network, mean, std), replace(facts, mean=mean, std=std, normalised_by="training")
        if facts.normalisation_lost:
            raise ModelError(
                f"{self.name}: it was trained behind a normalisation that is not in its file; give mean and std"
            )
        return network, replace(facts, takes_pixels=not isinstance(network, Preprocessed))

    def changed(self, what: str) -> ModelError:
        """The error for a pickled model that cannot be made again."""
        return ModelError(f"{self.name}: it is not the model that was pickled: {what} changed; load it again")


class _Classifier(NamedTuple):
    """A model without its denoiser, and what identifies it."""

    model: Model
    facts: ModelFacts
    code: str | None
    fingerprint: Callable[[], str | None]
    """Computes the hash of the present weights, or of the file of a program."""


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
        return cls(model, name, _hash(model), None, ModelFacts(takes_pixels=not isinstance(model, Preprocessed)))

    def __post_init__(self) -> None:
        if self.digest is None:
            object.__setattr__(self, "digest", _hash(self.model))

    def check_unchanged(self) -> None:
        """Raise ModelError if the weights have changed since loading, because the hash would no longer match."""
        if _hash(self.model) != self.digest:
            raise ModelError(f"{self.name}: its weights were changed after it was loaded; name it again with Loaded.of")

    @property
    def assumed(self) -> tuple[str, ...]:
        """One sentence for each fact."""
        return self.facts.sentences()

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Pickle the source and copies of the weights instead of the model, if there is a source."""
        if self.source is None:
            return super().__reduce_ex__(protocol)
        held = self.model.state_dict().items() if isinstance(self.model, nn.Module) else ()
        state = {key: value.detach().cpu().clone() if isinstance(value, Tensor) else value for key, value in held}
        return _reloaded, (self.source, state, self._identity())

    def _identity(self) -> dict[str, Any]:
        return {
            "the code that makes it": self.code,
            "its weights or file": self.fingerprint,
            "its denoiser": self.denoiser_fingerprint,
            "its metadata": self.facts,
        }


def _reloaded(source: ModelSource, state: dict[str, Any], identity: dict[str, Any]) -> Loaded:
    """Load a pickled model. Raises if the model has changed, because a run must not mix rows of two models."""
    made = source.load(state)
    changed = [what for what, value in made._identity().items() if value != identity[what]]
    if changed:
        raise source.changed(" and ".join(changed))
    return made


def _hash(model: Model | None) -> str | None:
    """A hash of the weights of a torch module; None for other callables."""
    if not isinstance(model, nn.Module):
        return None
    with guarded("the weights of the model cannot be read", error=ModelError):
        return digest_of_module(model)


def _program_files(source: str, path: Path) -> list[Path]:
    """The file of a program, and the files of its weights."""
    return onnx.files_of(path) if source == "onnx" else [path]


def _digest_of_program(source: str, path: Path) -> str:
    """A hash of the file of a program, or of all its files."""
    digests = {file.name: digest_of_file(file) for file in _program_files(source, path)}
    return _joined([*digests.items()]) if len(digests) > 1 else digests[path.name]


def _joined(values: list[Any]) -> str:
    """A hash of several hashes or settings in their order."""
    return hashlib.sha256(json.dumps(values).encode()).hexdigest()


def python(name: str, rest: str) -> tuple[Model, ModelFacts]:
    """Import the torch module ``MODULE:NAME``, or call the function ``MODULE:NAME``, which returns a model."""
    named = imported(name, rest, error=ModelError)
    made = called(name, named, error=ModelError) if callable(named) and not isinstance(named, nn.Module) else named
    if not callable(made):
        raise ModelError(f"{name}: it returned {type(made).__name__}; expected a module or a callable on batches")
    model: Model = made
    return model, ModelFacts()


def routed(name: str, rest: str) -> tuple[Model, ModelFacts]:
    """Raise: a routed classifier is no single model, and ``lvmrs certify`` loads its networks one by one."""
    raise ModelError(
        f"{name}: a routed classifier is several networks with a sigma each, which only lvmrs certify takes; name one "
        "of its networks"
    )
