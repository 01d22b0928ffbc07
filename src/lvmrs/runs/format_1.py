"""Conversion of manifests of format 1, which versions 0.1 and 0.2 wrote, to the present format."""

from __future__ import annotations

from typing import Any

from lvmrs.errors import RunError
from lvmrs.scope import CHOSEN, Scope, smoothed_classifier

__all__ = ["FORMAT", "migrated"]

FORMAT = 1

_NEEDED = ("model", "method", "sigma", "alpha", "n0", "n", "split")
_KNOWN = {
    *_NEEDED, "weights", "code", "model assumed", "denoiser", "normalisation", "compiled", "lipschitz", "data",
    "image size", "data assumed", "seed", "device", "autocast", "lvmrs", "torch",
}  # fmt: skip
# The scope of each method, which version 0.1.0 did not write.
_SCOPES: dict[str, Scope] = {
    "LVM": "this input",
    "Paper": "this input",
    "Cohen": "all inputs",
    "Fixed": "all inputs",
    "Lipschitz": "all inputs",
    "Deterministic": "all inputs",
    "Votes": "all inputs",
    "Duels": "all inputs",
}
# The text that was written in place of a hash that is not known.
_NOT_SEEN = " unknown: not a torch module"


def migrated(stored: dict[str, Any], where: str) -> dict[str, Any]:
    """Convert a manifest to the fields of the present format, whose types ``read_record`` then checks.

    Args:
        stored: the JSON object of format 1.
        where: what is being read, for errors.
    """
    settings, about = (_object(name, stored.get(name), where) for name in ("settings", "about"))
    if odd := sorted(set(settings) - _KNOWN):
        raise RunError(f"{where} is damaged: its setting {odd[0]} is not known")
    if lacking := [name for name in _NEEDED if name not in settings]:
        raise RunError(f"{where} is damaged: its settings have no {lacking[0]}")
    method = _object("method", settings["method"], where)
    if method.get("procedure") == "deterministic":
        method = {"planner": "Deterministic"}
        settings |= {"alpha": 0.0, "n0": 0, "n": 0}
        about.setdefault("classifier", "the classifier itself")
    return {
        "model": {
            "name": settings["model"],
            "weights_hash": _known(settings.get("weights")),
            "code_hash": settings.get("code"),
            "normalisation": settings.get("normalisation"),
            "denoiser": _denoiser(settings.get("denoiser")),
            "compiled": settings.get("compiled"),
            "device": settings.get("device"),
            "precision": settings.get("autocast"),
        },
        "data": {
            "split": settings["split"],
            "name": about.get("data"),
            "hash": settings.get("data"),
            "image_size": settings.get("image size"),
            "classes": about.get("classes"),
        },
        "method": _method(method, about, settings["sigma"], imported="imported" in about),
        "terms": {
            **{name: settings.get(name) for name in ("sigma", "alpha", "n0", "n", "seed", "lipschitz")},
            "noise_words": _noise(settings["sigma"]),
        },
        "selection": stored.get("selection"),
        "batch": stored.get("batch"),
        "keeps_scores": stored.get("keeps_scores", False),
        "rows_of": settings.get("lvmrs"),
        "torch": settings.get("torch"),
        "origin": {
            name: about[name]
            for name in ("command", "begun", "versions", "threads", "scores_of", "shards", "imported")
            if name in about
        },
    }  # fmt: skip


def _object(name: str, value: object, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise RunError(f"{where} is damaged: {name} must be an object, got {value!r:.40}")
    return dict(value)


def _known(name: object) -> object:
    """The hash, or None for the text that was written if it could not be computed."""
    return None if isinstance(name, str) and name.startswith("unknown") else name


def _denoiser(text: object) -> object:
    """Split the text of a denoiser, which holds its name, a space and its hash."""
    if not isinstance(text, str):
        return text
    if text.endswith(_NOT_SEEN):
        return {"name": text.removesuffix(_NOT_SEEN)}
    name, _, weights = text.rpartition(" ")
    return {"name": name, "weights_hash": weights}


def _noise(sigma: object) -> str:
    return f"Gaussian noise of σ = {sigma}"


def _method(method: dict[str, Any], about: dict[str, Any], sigma: object, *, imported: bool) -> dict[str, Any]:
    name = method.pop("planner", None)
    own = method.pop("own code", {})
    if name == "Fixed" and "radius" in method:
        method["form"] = method.pop("radius")
    if not own and name in ("LVM", "Fixed") and isinstance(method.get("bounds"), list):
        # Votes had the bound of Clopper and Pearson, whatever the bounds were; now the bounds say so.
        method["bounds"] = [*dict.fromkeys(["clopper_pearson", *map(str, method["bounds"])])]
    if not own and name == "Paper":
        method.setdefault("bound", "bernstein")
    words = about.get("classifier")
    scope = None
    if isinstance(words, str):
        scope = next((scope for scope, told in CHOSEN.items() if told in words), None)
    if scope is None and not own and not imported:
        scope = _SCOPES.get(str(name))
    if words is None and scope is not None:
        words = smoothed_classifier(_noise(sigma), scope)
    return {"name": name, "settings": method, "own_code": own, "scope": scope, "classifier": words}
