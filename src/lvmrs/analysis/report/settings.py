"""Formats the settings of a run for a report."""

from __future__ import annotations

from typing import Any

from lvmrs._util.facts import DataFacts, ModelFacts
from lvmrs.record import Manifest
from lvmrs.record.manifest import MethodRecord
from lvmrs.registry import METHODS

__all__ = ["settings_shown"]

# Number of shown digits of a hash.
_SHOWN_DIGITS = 12


def settings_shown(manifest: Manifest) -> dict[str, str]:
    """The settings by name, for people, without unknown and unused ones."""
    model, data, terms = manifest.model, manifest.data, manifest.terms
    noise = {"noise": terms.noise, "sigma": terms.sigma, "alpha": terms.alpha, "n0": terms.n0, "n": terms.n}
    shown = {
        "model": model.name,
        "hash of the weights": (model.weights_hash or "")[:_SHOWN_DIGITS],
        "hash of its code": (model.code_hash or "")[:_SHOWN_DIGITS],
        "known about the model": _facts(model.facts),
        "normalisation": model.normalisation,
        "denoiser": None if model.denoiser is None else model.denoiser.name,
        "data": data.name,
        "split": data.split,
        "hash of the data": (data.hash or "")[:_SHOWN_DIGITS],
        "known about the data": _facts(data.facts),
        "image size": data.image_size,
        **_method(manifest.method),
        "own code": {name: known[:_SHOWN_DIGITS] for name, known in manifest.method.own_code.items()},
        **({**noise, "seed": terms.seed} if terms.samples else {}),
        "sampling stops": None if terms.goal is None else terms.goal.words,
        "beta": None if terms.goal is None or terms.goal.limited else terms.goal.beta,
        "lipschitz": terms.lipschitz,
        "running": None if manifest.running is None else manifest.running.words,
        "device": model.device,
        "precision": model.precision,
        "compiled": model.compiled,
        "lvmrs": manifest.origin.versions.get("lvmrs"),
        "torch": manifest.torch,
    }
    return {
        name: _words(value) for name, value in shown.items() if value is not False and value not in (None, "", [], {})
    }


def _facts(facts: ModelFacts | DataFacts | None) -> list[str]:
    """Known facts and assumptions, one sentence each."""
    return [] if facts is None else list(facts.sentences())


def _method(method: MethodRecord) -> dict[str, Any]:
    """The method's registered name with its description, and the settings that the name does not fix."""
    name = METHODS.name_of(method.name, method.settings)
    if name is None:  # a method of the user, or of another project
        return {"method": method.name, **method.settings}
    said = METHODS.settings(name)
    return {
        "method": f"{name}: {METHODS.words(name)}",
        **{key: value for key, value in method.settings.items() if key not in said},
    }


def _words(value: object) -> str:
    if isinstance(value, list) and len(value) > 5 and all(isinstance(part, float) for part in value):
        return f"{len(value)} values from {value[0]:g} to {value[-1]:g}"
    if isinstance(value, dict):
        return "; ".join(f"{name} {_words(part)}" for name, part in value.items())
    return "; ".join(map(str, value)) if isinstance(value, list) else str(value)
