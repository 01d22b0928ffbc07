"""What the certificates of a run say together, in words."""

from __future__ import annotations

from collections.abc import Sequence

from lvmrs.registry import MAPS
from lvmrs.runs import Manifest, Row
from lvmrs.runs.result_file import UNKNOWN

__all__ = ["guarantee"]


def guarantee(manifest: Manifest, rows: Sequence[Row]) -> str:
    """What holds for each row of a run, and on what it relies.

    Args:
        manifest: How the run was made.
        rows: Its rows, at least one: they say whether the map was chosen for each input.
    """
    terms = manifest.terms
    if manifest.origin.imported is not None:
        return "Taken from another project's file: what is guaranteed is what that project says."
    constant = terms.lipschitz
    if not terms.samples:
        classifier = manifest.method.classifier or "the classifier itself"
        return (
            f"If {constant:g} is a Lipschitz constant of the logits for pixels in [0, 1], each certificate is certain: "
            f"no point closer than the radius changes the answer of {classifier}."
        )
    known = "" if constant is None else f" That relies on {constant:g} being a Lipschitz constant of the logits."
    return (
        f"Each certificate is right with probability at least 1 − {terms.alpha:g} over its sampling: no point closer "
        f"than the radius (in {terms.distance} of pixels in [0, 1]) changes the answer of "
        f"{_classifier(manifest, rows)}. Choices were made on {terms.n0} samples, and proved on {terms.n} others."
        f"{known}"
    )


def _classifier(manifest: Manifest, rows: Sequence[Row]) -> str:
    smoothed = f"the classifier smoothed with {manifest.terms.noise_words or 'noise'}"
    scopes = {row.scope for row in rows}
    if UNKNOWN in scopes:  # written by an earlier version
        return manifest.method.classifier or smoothed
    if scopes != {"all inputs"}:
        return f"{smoothed}, with its map chosen for each input"
    maps = {_map(row) for row in rows}
    return f"one classifier for all inputs: {smoothed}{f' and {maps.pop()}' if len(maps) == 1 else ''}"


def _map(row: Row) -> str:
    at = f" at temperature {row.temperature:.4g}" if row.map in MAPS.having("tempered") else ""
    means = f" ({MAPS.words(row.map)})" if row.map in MAPS else ""
    return f"the map {row.map}{at}{means}"
