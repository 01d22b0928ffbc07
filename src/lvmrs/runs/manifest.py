"""What a run is: everything that decides its rows, and where it came from. A typed record, checked field by field.

``lvmrs.jobs`` derives it from what is run. A field is compared when a run is resumed, unless it is a note for readers.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NoReturn

from lvmrs.errors import InvalidArgumentError, RunError
from lvmrs.runs import format_1
from lvmrs.runs.records import plain, read_record
from lvmrs.runs.selection import Selection

__all__ = [
    "FORMAT", "ROWS_OF", "DataRecord", "DenoiserRecord", "Manifest", "MethodRecord", "ModelRecord", "Origin",
    "TermsRecord",
]  # fmt: skip

FORMAT = 2
ROWS_OF = "0.2.0"
"""The last version that changed what stands in a row. Whoever changes rows raises it: no run may mix two kinds."""

# A field that readers want to know and that decides nothing.
_NOTE: dict[str, str] = {"compared": "never"}
# A field that runs of format 1 do not have.
_NEW: dict[str, str] = {"compared": "where both know it"}


@dataclass(frozen=True)
class DenoiserRecord:
    """A denoiser before the classifier."""

    name: str
    weights_hash: str | None = None


@dataclass(frozen=True)
class ModelRecord:
    """The classifier, and how it is run."""

    name: str
    weights_hash: str | None = None
    """A hash of its weights; None if they are not known."""
    code_hash: str | None = None
    """A hash of the file of the user's code that makes it, if there is one."""
    normalisation: dict[str, list[float]] | None = None
    """Mean and std of each channel, where it stands behind a normalisation."""
    denoiser: DenoiserRecord | None = None
    facts: dict[str, Any] | None = field(default=None, metadata=_NEW)
    """What its source said or left to be assumed; see ``lvmrs.models.facts``."""
    compiled: bool | None = None
    device: str | None = None
    """The kind of device, such as cpu: noise is the same on devices of one kind."""
    precision: str | None = None
    """The 16-bit type that it runs in, if any."""


@dataclass(frozen=True)
class DataRecord:
    """The data set."""

    split: str
    name: str | None = field(default=None, metadata=_NOTE)
    """Where it was: data may move."""
    hash: str | None = None
    """A hash of inputs and labels; None if it is not known."""
    image_size: int | None = None
    facts: dict[str, Any] | None = field(default=None, metadata=_NEW)
    """What its source said or left to be assumed; see ``lvmrs.data.facts``."""
    classes: list[str] | None = field(default=None, metadata=_NOTE)
    """What the labels are called."""


@dataclass(frozen=True)
class MethodRecord:
    """The method of certifying, with all its settings."""

    name: str
    """The name of its class; of imported results, what they are said to be made with."""
    settings: dict[str, Any] = field(default_factory=dict)
    own_code: dict[str, str] = field(default_factory=dict)
    """Hashes of the files of the user's own classes that take part."""
    scope: Literal["this input", "all inputs"] | None = field(default=None, metadata=_NOTE)
    """Whether what is smoothed is chosen for each input; the rows say it too. None if it is not known."""
    classifier: str | None = field(default=None, metadata=_NOTE)
    """The classifier that the certificates are about, in words."""


@dataclass(frozen=True)
class TermsRecord:
    """Noise, risk and samples. Without samples alpha, n0 and n are 0; of imported results they may be unknown."""

    sigma: float
    alpha: float | None
    n0: int | None
    n: int | None
    seed: int | None = None
    lipschitz: float | None = None
    """A Lipschitz constant of the logits, if one is relied on."""
    noise: str = "gaussian"
    distance: str = field(default="the Euclidean distance", metadata=_NOTE)
    """The distance in which radii are measured, in words."""
    noise_words: str | None = field(default=None, metadata=_NOTE)
    """The noise in words, such as Gaussian noise of σ = 0.5."""

    def __post_init__(self) -> None:
        if not self.sigma > 0:
            _refuse("sigma", "positive", self.sigma)
        if self.alpha is not None and not 0 <= self.alpha < 1:
            _refuse("alpha", "from 0 to less than 1", self.alpha)
        if self.lipschitz is not None and not self.lipschitz > 0:
            _refuse("lipschitz", "positive", self.lipschitz)
        for name in ("n0", "n", "seed"):
            value = getattr(self, name)
            if value is not None and value < 0:
                _refuse(name, "at least 0", value)

    @property
    def samples(self) -> bool:
        """Whether anything was sampled."""
        return self.n != 0


@dataclass(frozen=True)
class Origin:
    """When, how and of what a run was made. It decides nothing."""

    command: str = ""
    begun: str | None = None
    versions: dict[str, str] = field(default_factory=dict)
    threads: int | None = None
    scores_of: str | None = None
    """The run whose kept scores it was made from."""
    shards: list[str] | None = None
    """The runs that it was merged from."""
    imported: str | None = None
    """The file of another project that it was made from."""


@dataclass(frozen=True)
class Manifest:
    """The record of a run."""

    model: ModelRecord
    data: DataRecord
    method: MethodRecord
    terms: TermsRecord
    selection: Selection
    batch: int | None = field(default=None, metadata=_NOTE)
    """Samples in a forward pass, on which the last digits of a network may depend; a resumed run keeps it."""
    keeps_scores: bool = False
    rows_of: str | None = None
    """The version of lvmrs that defines the rows: another may choose or bound in another way."""
    torch: str | None = None
    origin: Origin = field(default_factory=Origin, metadata=_NOTE)

    def __post_init__(self) -> None:
        if self.batch is not None and self.batch < 1:
            _refuse("batch", "at least 1", self.batch)

    def to_json(self) -> str:
        """One object, indented for readers."""
        return json.dumps({"format": FORMAT, **plain(self)}, indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    @classmethod
    def read(cls, file: Path) -> Manifest:
        """The manifest in a file; one sentence says what is wrong with it."""
        try:
            stored = json.loads(file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise RunError(f"{file.parent} is not a run: it has no {file.name}") from None
        except (ValueError, RecursionError) as error:  # not JSON, or not text
            raise RunError(f"{file} is damaged ({error}); the run cannot be read without it") from error
        except OSError as error:
            raise RunError(f"{file} cannot be read: {error.strerror}") from error
        found = stored.pop("format", None) if isinstance(stored, dict) else None
        if found == format_1.FORMAT:
            stored = format_1.migrated(stored, str(file), ROWS_OF)
        elif found != FORMAT:
            raise RunError(
                f"{file} has format {found!r:.20}, and this version of lvmrs reads formats {format_1.FORMAT} and "
                f"{FORMAT}; read it with the version that wrote it"
            )
        return read_record(cls, stored, str(file))

    def difference(self, other: Manifest) -> list[str]:
        """What decides the rows and is not the same, in words: first as it is here, then as it is there."""
        return [
            f"{name}: {_text(mine)}, now {_text(theirs)}"
            for name, mine, theirs in _compared(self, other)
            if mine != theirs
        ]


def _compared(one: Any, other: Any, of: str = "") -> Iterator[tuple[str, Any, Any]]:
    """The fields of two records that decide rows, by name."""
    for entry in dataclasses.fields(one):
        mine, theirs = getattr(one, entry.name), getattr(other, entry.name)
        rule = entry.metadata.get("compared", "always")
        if rule == "never" or (rule == "where both know it" and None in (mine, theirs)):
            continue
        if dataclasses.is_dataclass(mine) and dataclasses.is_dataclass(theirs):
            yield from _compared(mine, theirs, "" if entry.name in ("terms", "selection") else f"{of}{entry.name} ")
        else:
            yield f"{of}{entry.name}".replace("_", " "), mine, theirs


def _text(value: object) -> str:
    shown = plain(value) if dataclasses.is_dataclass(value) else value
    text = json.dumps(shown, ensure_ascii=False)
    return text if len(text) <= 70 else f"{text[:67]}…"


def _refuse(name: str, rule: str, value: object) -> NoReturn:
    raise InvalidArgumentError(f"{name} must be {rule}, got {value!r}")
