"""What a run is: everything that decides its rows, and where it came from."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from lvmrs.errors import InvalidArgumentError, RunError

__all__ = ["FORMAT", "Manifest", "Selection"]

FORMAT = 1
_NEEDED = ("model", "method", "sigma", "alpha", "n0", "n", "split")


@dataclass(frozen=True)
class Selection:
    """Which inputs of a data set: every ``skip``-th below index ``max``, and of these the share of one shard."""

    size: int
    """How many inputs the data set has."""
    skip: int = 1
    max: int | None = None
    shard: int = 1
    shards: int = 1
    only: list[int] | None = None
    """If given, just these: for results of other projects."""

    def __post_init__(self) -> None:
        for name in ("skip", "shards", "shard", "max"):
            value = getattr(self, name)
            if not (isinstance(value, int) and value >= 1) and not (name == "max" and value is None):
                raise InvalidArgumentError(f"{name} must be a whole number of at least 1, got {value!r}")
        if self.shard > self.shards:
            raise InvalidArgumentError(f"shard {self.shard} of {self.shards} does not exist; they are numbered from 1")

    @property
    def indices(self) -> Sequence[int]:
        """The indices in the data set, in the order in which they are certified."""
        if self.only is not None:
            return self.only
        stop = self.size if self.max is None else min(self.size, self.max)
        return range(0, stop, self.skip)[self.shard - 1 :: self.shards]


@dataclass(frozen=True)
class Manifest:
    """``settings`` and ``selection`` decide the rows, ``batch`` their last digits; the rest is for readers."""

    settings: dict[str, Any]
    selection: Selection
    batch: int | None
    keeps_scores: bool = False
    about: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> str:
        """One object, indented for readers."""
        return json.dumps({"format": FORMAT, **dataclasses.asdict(self)}, indent=2, ensure_ascii=False) + "\n"

    @classmethod
    def read(cls, file: Path) -> Manifest:
        """The manifest in a file, or one sentence about what is wrong with it."""
        try:
            stored = json.loads(file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise RunError(f"{file.parent} is not a run: it has no {file.name}") from None
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            raise RunError(f"{file} is damaged ({error}); the run cannot be read without it") from error
        found = stored.pop("format", None) if isinstance(stored, dict) else None
        if found != FORMAT:
            raise RunError(
                f"{file} has format {found!r}, and this version of lvmrs reads format {FORMAT}; read it with the "
                "version that wrote it"
            )
        lacking = [name for name in _NEEDED if name not in stored.get("settings", {})]
        if lacking:
            raise RunError(f"{file} is damaged: its settings have no {lacking[0]}")
        stored = _migrated(stored)
        try:
            return cls(**{**stored, "selection": Selection(**stored["selection"])})
        except (TypeError, KeyError, InvalidArgumentError) as error:
            raise RunError(f"{file} is damaged: {error}") from error

    def difference(self, other: Manifest) -> list[str]:
        """What decides the rows and is not the same, in words: first as it is here, then as it is there."""
        mine, theirs = ({**m.settings, **dataclasses.asdict(m.selection)} for m in (self, other))
        mine["keep scores"], theirs["keep scores"] = self.keeps_scores, other.keeps_scores
        return [
            f"{name}: {_text(mine.get(name))}, now {_text(theirs.get(name))}"
            for name in dict.fromkeys((*mine, *theirs))
            if mine.get(name) != theirs.get(name)
        ]


def _migrated(stored: dict[str, Any]) -> dict[str, Any]:
    """What earlier versions wrote, as this one writes it: methods without samples, and what certificates are about."""
    settings, about = dict(stored["settings"]), dict(stored.get("about") or {})
    method = settings["method"] if isinstance(settings["method"], dict) else {}
    if method.get("procedure") == "deterministic":
        settings |= {"method": {"planner": "Deterministic"}, "alpha": 0.0, "n0": 0, "n": 0}
        about.setdefault("classifier", "the classifier itself")
    if (settings.get("lvmrs"), settings["method"]) in _SAME_ROWS:
        settings["lvmrs"] = version("lvmrs")
    if (scope := _SCOPES.get(method.get("planner", ""))) is not None:
        smoothed = f"the classifier smoothed with Gaussian noise of σ = {settings['sigma']}"
        about.setdefault("classifier", f"{smoothed}, with its map {scope}")
    return {**stored, "settings": settings, "about": about}


# Versions whose rows by a method are those of this version, so that their runs can be resumed.
_SAME_ROWS = [("0.1.0", {"planner": "Cohen"}), ("0.1.0", {"planner": "Deterministic"})]
# Whether the map was the same for all inputs: earlier versions did not write it down.
_SCOPES = {
    "LVM": "chosen for each input",
    "Paper": "chosen for each input",
    "Cohen": "the same for all inputs",
    "Fixed": "the same for all inputs",
    "Lipschitz": "the same for all inputs",
}


def _text(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 70 else f"{text[:67]}…"
