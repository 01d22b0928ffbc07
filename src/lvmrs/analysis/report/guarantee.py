"""States in sentences what the certificates of a run guarantee."""

from __future__ import annotations

from collections.abc import Sequence

from lvmrs.kernel.method import map_settings, smoothed_classifier, smoothed_with
from lvmrs.record import Manifest, Row, Run
from lvmrs.registry import FORMS, MAPS, NOISES

__all__ = ["guarantee", "kinds_of_rows"]


def kinds_of_rows(run: Run) -> list[Row]:
    """One row of each kind that ``guarantee`` distinguishes."""
    return run.one_of_each("map", "form", "scope")


def guarantee(manifest: Manifest, rows: Sequence[Row]) -> str:
    """The guarantee of each row of a run, and its assumptions.

    Args:
        manifest: The manifest of the run.
        rows: Its rows, or one of each kind: they record whether the map was chosen for each input.
    """
    terms = manifest.terms
    if manifest.origin.imported is not None:
        return "Taken from another project's file: what is guaranteed is what that project says."
    constant = terms.lipschitz
    if not terms.samples:
        classifier = manifest.method.classifier or "the classifier itself"
        return (
            f"If {constant:g} is a Lipschitz constant of the logits for pixels in [0, 1]{_rounded(rows)}, each "
            f"certificate is certain: no point closer than the radius changes the answer of {classifier}."
        )
    relies = constant is not None and any(_uses_constant(row) for row in rows)
    least = f"by no more than each row says, which is {terms.rounding:.2g} or more" if terms.rounding else ""
    rounded = f", and on rounding moving them {least}" if least else ""
    number = f"{terms.n} others" if terms.goal is None else f"at most {terms.n} others"
    known = f" That relies on {constant:g} being a Lipschitz constant of the logits{rounded}." if relies else ""
    return (
        f"Each certificate is right with probability at least 1 − {terms.alpha:g} over its sampling: no point closer "
        f"than the radius (in {terms.distance} of pixels in [0, 1]) changes the answer of "
        f"{_classifier(manifest, rows)}. Choices were made on {terms.n0} samples, and proved on {number}."
        f"{_stopped(manifest)}{known}{_of_inputs(terms.noise)}"
    )


def _stopped(manifest: Manifest) -> str:
    """When sampling stopped, and the guarantee of the limits."""
    goal = manifest.terms.goal
    if goal is None:
        return ""
    if goal.limited:
        return f" Sampling for an input stopped {goal.words}. The number was chosen on the samples for choices, too."
    return (
        f" Sampling for an input stopped {goal.words}; certificates hold at any such moment. The radius that the "
        "exact means would give is above the limit in its row with probability at most "
        f"{goal.beta:g}."
    )


def _rounded(rows: Sequence[Row]) -> str:
    if not any(row.rounding for row in rows):  # the user stated that there is no rounding
        return ""
    return ", and rounding moves each of them by no more than each row says"


def _of_inputs(noise: str) -> str:
    """The centres of the radii, if they are not exactly the inputs."""
    if noise.partition(":")[0] not in NOISES.having("rounds"):
        return ""
    return " Radii are around the inputs as points of the grid that the noise rounds to."


def _classifier(manifest: Manifest, rows: Sequence[Row]) -> str:
    """The classifier of the method, if the rows have the scope of the method; else a description from the rows."""
    method, scopes = manifest.method, {row.scope for row in rows}
    noise, one = manifest.terms.noise_words or "noise", scopes == {"all inputs"}
    unnamed = smoothed_classifier(noise, "all inputs" if one else "this input")
    said = method.classifier if scopes == {method.scope} and method.classifier is not None else unnamed
    if one and said == unnamed:
        said = _named(noise, rows) or said
    return f"one classifier for all inputs: {said}" if one and said != unnamed else said


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
