"""Assembles a model from its network, weights, normalisation and denoiser."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from torch import nn

from lvmrs._util.facts import ModelFacts
from lvmrs._util.settings import absolute, parse_name
from lvmrs._util.user_code import source_hash
from lvmrs.errors import ModelError, guarded
from lvmrs.kernel.sampler import Model
from lvmrs.models.denoised import Denoised
from lvmrs.models.denoiser_sources import load_denoiser
from lvmrs.models.preprocessing import Preprocessed
from lvmrs.models.trained import Normalisation, normalisation_of
from lvmrs.models.weights import digest_of_file, digest_of_module, load_weights
from lvmrs.registry import MODELS

__all__ = ["Assembled", "assemble", "hash_of"]


@dataclass(frozen=True)
class Assembled:
    """A model, and the parts that its fingerprints are computed from."""

    model: Model
    """Denoiser, normalisation and network in one callable on pixels in [0, 1]."""
    facts: ModelFacts
    network: Model | Path
    """The network alone, or the file of an exported program."""
    code: str | None
    """A hash of the user's Python file that makes the network, if there is one."""
    denoiser: Model | None = None

    @property
    def fingerprint(self) -> str | None:
        """A hash of the network's weights or file; None for a callable that is not a torch module and has no file."""
        return digest_of_file(self.network) if isinstance(self.network, Path) else hash_of(self.network)

    @property
    def denoiser_fingerprint(self) -> str | None:
        """A hash of the denoiser's weights; None without a denoiser, or if the denoiser is not a torch module."""
        return None if self.denoiser is None else hash_of(self.denoiser)


def hash_of(model: Model) -> str | None:
    """A hash of the weights of a torch module; None for other callables."""
    if not isinstance(model, nn.Module):
        return None
    with guarded("the weights of the model cannot be read", error=ModelError):
        return digest_of_module(model)


def assemble(
    name: str,
    weights: str | None,
    normalisation: Normalisation | None,
    denoiser: str | None,
    sigma: float,
    directory: Path,
) -> Assembled:
    """Assemble a model; ``lvmrs.models.load`` explains the arguments.

    ``directory`` is the base of relative paths.
    """
    source, rest = parse_name(MODELS, name, directory, error=ModelError)
    file = None if weights is None else absolute(weights, directory)
    with guarded(f"{name}: it cannot be loaded", error=ModelError):
        network, facts = MODELS.find(source)(name, rest)
    code = source_hash(rest) if source in MODELS.having("code") else None
    if file is not None:
        facts = _with_weights(name, source, network, facts, file)
    model, facts = _with_normalisation(name, network, facts, normalisation, file)
    identity = Path(rest) if source in MODELS.having("program") else network
    if denoiser is None:
        return Assembled(model, facts, identity, code)
    before, known = load_denoiser(denoiser, sigma, directory)
    return Assembled(Denoised(before, model), replace(facts, denoiser=known), identity, code, before)


def _with_weights(name: str, source: str, network: Model, facts: ModelFacts, file: Path) -> ModelFacts:
    takers = MODELS.having("weights")
    if not isinstance(network, nn.Module) or source not in takers:
        kinds = " and ".join(f"{taker}:" for taker in takers)
        raise ModelError(f"{name}: only {kinds} modules take weights; leave weights out")
    return replace(facts, normalisation_lost=load_weights(network, file), random_weights=False)


def _with_normalisation(
    name: str, network: Model, facts: ModelFacts, given: Normalisation | None, file: Path | None
) -> tuple[Model, ModelFacts]:
    """Put the given normalisation, or the one in the file of weights, before the network."""
    kept = None if given is not None or file is None else normalisation_of(file)
    if kept is not None:
        mean, std = kept
        return Preprocessed(network, mean, std), replace(facts, mean=mean, std=std, normalised_by="training")
    if given is not None:
        if isinstance(network, Preprocessed):
            which = f" ({facts.normalisation})" if facts.normalisation else ""
            raise ModelError(f"{name}: it has its own normalisation{which}; leave mean and std out")
        mean, std = given
        return Preprocessed(network, mean, std), replace(facts, mean=mean, std=std, normalised_by="given")
    if facts.normalisation_lost:
        raise ModelError(f"{name}: it was trained behind a normalisation that is not in its file; give mean and std")
    return network, replace(facts, takes_pixels=not isinstance(network, Preprocessed))
