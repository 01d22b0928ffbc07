"""Decides which models and data a run may name itself: those whose loading merely reads files. The user names others.

A run may come from someone else, so a file must not choose code to run. docs/security.md has the rule.
"""

from __future__ import annotations

from lvmrs.record.manifest import DataRecord, DenoiserRecord, ModelRecord
from lvmrs.registry import DATA, DENOISERS, MODELS, Names

__all__ = ["why_not_data", "why_not_denoiser", "why_not_model"]


def why_not_data(made: DataRecord) -> str | None:
    """Why the user must name the data of a run; None if the run may name them, or names none."""
    if made.name is None:
        return None
    if (why_not := _could_run_code(DATA, made.name)) is not None:
        return why_not
    if made.hash is None:
        return f"the run has no hash of {made.name:.200}, by which its data could be recognised; name the data yourself"
    if made.facts is not None and made.facts.labels == "class index file":
        return f"the labels of {made.name:.200} are from a class index file; name the data and that file"
    return None


def why_not_model(made: ModelRecord) -> str | None:
    """Why the user must name the model of a run; None if the run may name it."""
    return _could_run_code(MODELS, made.name) or _without_hash(made)


def why_not_denoiser(made: DenoiserRecord) -> str | None:
    """Why the user must name the denoiser of a run; None if the run may name it."""
    return _could_run_code(DENOISERS, made.name) or _without_hash(made)


def _could_run_code(names: Names, name: str) -> str | None:
    if name.partition(":")[0] in names.having("inert"):
        return None
    return f"{name:.200} could run code, and a run must not choose code; if you trust it, name it yourself"


def _without_hash(made: ModelRecord | DenoiserRecord) -> str | None:
    if made.weights_hash is not None:
        return None
    return f"the run has no hash of {made.name:.200}, by which its weights could be recognised; name it yourself"
