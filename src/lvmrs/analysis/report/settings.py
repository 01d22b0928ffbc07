"""Formats the settings of a run for a report, and states in sentences what its certificates guarantee."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lvmrs.kernel import checks
from lvmrs.kernel.method import map_settings, smoothed_classifier, smoothed_with
from lvmrs.record import Manifest, Row, Run
from lvmrs.record.manifest import MethodRecord
from lvmrs.registry import FORMS, MAPS, METHODS, NOISES

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
        "known about the model": [] if model.facts is None else list(model.facts.sentences()),
        "normalisation": model.normalisation,
        "denoiser": None if model.denoiser is None else model.denoiser.name,
        "data": data.name,
        "split": data.split,
        "hash of the data": (data.hash or "")[:_SHOWN_DIGITS],
        "known about the data": [] if data.facts is None else list(data.facts.sentences()),
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


def kinds_of_rows(run: Run) -> list[Row]:
    """One row of each kind that ``guarantee`` distinguishes."""
    return run.one_of_each("map", "form", "scope")


def guarantee(manifest: Manifest, rows: Sequence[Row]) -> str:
    """The guarantee of each row of a run, and its assumptions. ``rows`` are its rows, or one of each kind."""
    terms = manifest.terms
    if manifest.origin.imported is not None:
        return "Taken from another project's file: what is guaranteed is what that project says."
    constant = terms.lipschitz
    if not terms.samples:
        classifier = manifest.method.classifier or "the classifier itself"
        rounding = any(row.rounding for row in rows)  # none if the user stated that there is no rounding
        rounded = ", and rounding moves each of them by no more than each row says" if rounding else ""
        return (
            f"If {constant:g} is a Lipschitz constant of the logits for pixels in [0, 1]{rounded}, each "
            f"certificate is certain: no point closer than the radius changes the answer of {classifier}."
        )
    goal = terms.goal
    said = [
        f"Each certificate is right with probability at least 1 − {terms.alpha:g} over its sampling: no point closer "
        f"than the radius (in {terms.distance} of pixels in [0, 1]) changes the answer of "
        f"{_classifier(manifest, rows)}.",
        f"Choices were made on {terms.n0} samples{' of each part' if manifest.routed else ''}, "
        f"and proved on {'' if goal is None else 'at most '}{terms.n} others.",
    ]
    if goal is not None and goal.limited:
        said.append(
            f"Sampling for an input stopped {goal.words}. The number was chosen on the samples for choices, too."
        )
    elif goal is not None:
        said.append(
            f"Sampling for an input stopped {goal.words}; certificates hold at any such moment. The radius that the "
            f"exact means would give is above the limit in its row with probability at most {goal.beta:g}."
        )
    if constant is not None and any(_uses_constant(row) for row in rows):
        least = f"by no more than each row says, which is {terms.rounding or 0.0:.2g} or more"
        rounded = f", and on rounding moving them {least}" if terms.rounding else ""
        said.append(f"That relies on {constant:g} being a Lipschitz constant of the logits{rounded}.")
    if terms.noise.partition(":")[0] in NOISES.having("rounds"):
        said.append("Radii are around the inputs as points of the grid that the noise rounds to.")
    return " ".join(said)


def _classifier(manifest: Manifest, rows: Sequence[Row]) -> str:
    """The classifier of the method, if the rows have the scope of the method; else a description from the rows."""
    method, scopes = manifest.method, {row.scope for row in rows}
    noise, one = manifest.terms.noise_words or "noise", scopes == {"all inputs"}
    unnamed = smoothed_classifier(noise, "all inputs" if one else "this input")
    said = method.classifier if scopes == {method.scope} and method.classifier is not None else unnamed
    if one and said == unnamed:
        said = _named(noise, rows) or said
    said = f"one classifier for all inputs: {said}" if one and said != unnamed else said
    precision = manifest.model.precision
    return said if precision is None else f"{said}, with the network {checks.in_precision(precision)}"


def _named(noise: str, rows: Sequence[Row]) -> str | None:
    """The classifier with the simplex map that all rows share; None if there is no such map."""
    name, temperature, mass = rows[0].map, rows[0].temperature, rows[0].mass
    if name not in MAPS.having("simplex") or {(row.map, row.temperature, row.mass) for row in rows} != {
        (name, temperature, mass)
    }:
        return None
    return smoothed_with(noise, name, map_settings(temperature if name in MAPS.having("tempered") else None, mass))


def _uses_constant(row: Row) -> bool:
    """Whether the radius may depend on a Lipschitz constant: false only if its form or its map is known to use none."""
    may_use = row.form not in FORMS or row.form in FORMS.having("uses_constant")
    return may_use and row.map not in MAPS.having("binary")
