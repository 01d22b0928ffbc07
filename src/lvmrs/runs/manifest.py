"""What a run is: everything that decides its rows, and where it came from."""

from __future__ import annotations

import dataclasses
import json
import math
import platform
import time
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from lvmrs import _checks
from lvmrs.data import Dataset
from lvmrs.errors import InvalidArgumentError, RunError
from lvmrs.methods import description
from lvmrs.models import Loaded
from lvmrs.plan import Terms
from lvmrs.planners import Planner
from lvmrs.sampling import Stream
from lvmrs.smooth import SmoothedClassifier

__all__ = ["FORMAT", "Manifest", "Selection", "about", "about_data", "settings_of"]

FORMAT = 1


@dataclass(frozen=True)
class Selection:
    """Which inputs of a data set: every ``skip``-th below index ``max``, and of these the share of one shard."""

    size: int
    """How many inputs the data set has."""
    skip: int = 1
    max: int | None = None
    shard: int = 1
    shards: int = 1

    def __post_init__(self) -> None:
        for name in ("skip", "shards", "shard"):
            _checks.whole(name, getattr(self, name), least=1)
        if self.max is not None:
            _checks.whole("max", self.max, least=1)
        if self.shard > self.shards:
            raise InvalidArgumentError(f"shard {self.shard} of {self.shards} does not exist; they are numbered from 1")

    @property
    def indices(self) -> range:
        """The indices in the data set, in the order in which they are certified."""
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


def _text(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 70 else f"{text[:67]}…"


def about(command: str, **more: Any) -> dict[str, Any]:
    """When, how and with which software a run was begun."""
    libraries = {name: version(name) for name in ("lvmrs", "numpy", "scipy", "torch")}
    return {
        "begun": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "command": command,
        "versions": {"python": platform.python_version(), **libraries},
        "threads": torch.get_num_threads(),
        **more,
    }


def about_data(data: Dataset) -> dict[str, Any]:
    """Where the inputs are, and what their classes are called."""
    return {"data": data.name, "classes": None if data.classes is None else list(data.classes)}


def settings_of(
    loaded: Loaded,
    data: Dataset,
    smoothed: SmoothedClassifier,
    planner: Planner,
    *,
    alpha: float,
    n0: int,
    n: int,
    seed: int,
) -> dict[str, Any]:
    """Everything that decides the rows of a run, for its manifest; refused here, before a directory is made of it."""
    smoothed.check_planner(planner)
    terms = Terms(smoothed.sigma, alpha, n)
    return {
        "model": loaded.name,
        "weights": loaded.fingerprint,
        "model assumed": list(loaded.assumed),
        "lipschitz": smoothed.lipschitz if math.isfinite(smoothed.lipschitz) else None,
        "split": data.split,
        "data": data.fingerprint(),
        "data assumed": list(data.assumed),
        "method": description(planner),
        "sigma": terms.sigma,
        "alpha": terms.alpha,
        "n0": int(_checks.single("n0", _checks.whole("n0", n0, least=1))),
        "n": terms.n,
        "seed": Stream(seed, 0, "selection").seed,
        "device": smoothed.kind_of_device,
        "autocast": None if smoothed.autocast is None else str(smoothed.autocast).removeprefix("torch."),
        "lvmrs": version("lvmrs"),
        "torch": version("torch"),
    }
