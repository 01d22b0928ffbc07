"""What a report says of how a run was made. Nothing else in the report looks into a manifest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lvmrs.registry import METHODS
from lvmrs.runs import Manifest

__all__ = ["MadeWith", "made_with"]

# Hashes are shown by their beginning.
_SHOWN_DIGITS = 12
_OF_SAMPLING = ("alpha", "n0", "n", "seed", "sigma")


@dataclass(frozen=True)
class MadeWith:
    """Data, noise and risk of a run; None for what is not known."""

    data: str | None
    """The name that loads its inputs."""
    data_hash: str | None
    split: str
    image_size: int | None
    classes: list[str] | None
    """What the classes are called."""
    imported: bool
    """Whether the rows are those of another project."""
    classifier: str | None
    """What the certificates are about, in words of the version that began the run."""
    sigma: float
    alpha: float | None
    n0: int | None
    n: int | None
    """How many samples the proofs had; 0 if nothing was sampled."""
    lipschitz: float | None
    shown: dict[str, str]
    """All that decides the rows, by name, in words."""


def made_with(manifest: Manifest) -> MadeWith:
    """What the manifest of a run says."""
    settings, about = manifest.settings, manifest.about
    return MadeWith(
        data=about.get("data"),
        data_hash=settings.get("data"),
        split=settings["split"],
        image_size=settings.get("image size"),
        classes=about.get("classes"),
        imported="imported" in about,
        classifier=about.get("classifier"),
        sigma=settings["sigma"],
        alpha=settings["alpha"],
        n0=settings["n0"],
        n=settings["n"],
        lipschitz=settings.get("lipschitz"),
        shown=_shown(settings, about),
    )


def _shown(settings: dict[str, Any], about: dict[str, Any]) -> dict[str, str]:
    hidden = {"method", "data", "weights", *(_OF_SAMPLING if settings["n"] == 0 else ())}
    shown = {
        "data": about.get("data"),
        "hash of the data": (settings.get("data") or "")[:_SHOWN_DIGITS],
        "hash of the weights": (settings.get("weights") or "")[:_SHOWN_DIGITS],
        **_method(settings["method"]),
        **{name: value for name, value in settings.items() if name not in hidden},
    }
    return {name: _words(value) for name, value in shown.items() if value not in (None, "", [])}


def _method(described: dict[str, Any]) -> dict[str, Any]:
    """The method by the name that is typed for it and by what it does; then the settings that the name leaves open."""
    settings = {name: value for name, value in described.items() if name != "planner"}
    name = METHODS.name_of(described["planner"], settings)
    if name is None:  # a method of a user's own, or of another project
        return {"method": described["planner"], **settings}
    said = METHODS.settings(name)
    return {
        "method": f"{name}: {METHODS.words(name)}",
        **{key: value for key, value in settings.items() if key not in said},
    }


def _words(value: object) -> str:
    if isinstance(value, list) and len(value) > 5 and all(isinstance(part, float) for part in value):
        return f"{len(value)} values from {value[0]:g} to {value[-1]:g}"
    return "; ".join(map(str, value)) if isinstance(value, list) else str(value)
