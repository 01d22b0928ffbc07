"""The manifest of a run: a typed record of everything that decides its rows, and of how the run was made.

``lvmrs.runs`` derives it from the job that runs. When a run is resumed, each field is compared with the new job, unless
the field is only a note for readers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from lvmrs._util import files as _disk
from lvmrs._util.facts import DataFacts, ModelFacts
from lvmrs.engine.way import Way
from lvmrs.errors import InvalidArgumentError
from lvmrs.kernel.goals import Goal
from lvmrs.kernel.method import Scope
from lvmrs.record.records import differences, json_of, read_json, text_of
from lvmrs.record.selection import Selection

__all__ = [
    "FORMAT", "ROWS_OF", "DataRecord", "DenoiserRecord", "Manifest", "MethodRecord", "ModelRecord", "Origin",
    "TermsRecord",
]  # fmt: skip

FORMAT = 4
ROWS_OF = "0.4.0"
"""The last version that changed the content of rows. Whoever changes it raises this, so that no run mixes two."""

# A field that is only for readers and decides no row.
_NOTE: dict[str, str] = {"compared": "never"}
# A field that decides no row and that reports state: it is compared when a run is verified.
_STATED: dict[str, str] = {"compared": "when verified"}
# The same for a number that a run may overstate, since that makes certificates smaller.
_STATED_AT_LEAST: dict[str, str] = {"compared": "when verified, at least"}
# The same for a number that each machine measures anew: only whether it is known is compared.
_STATED_IF_KNOWN: dict[str, str] = {"compared": "when verified, if known"}
# A field whose numbers are the same if 9 digits are: machines compute grids of settings with other last digits.
_NINE_DIGITS: dict[str, str] = {"compared": "to nine digits"}
# A field whose values are compared, and not the names that they have.
_VALUES: dict[str, str] = {"compared": "values"}


@dataclass(frozen=True)
class DenoiserRecord:
    """The denoiser before the classifier."""

    name: str
    weights_hash: str | None = None


@dataclass(frozen=True)
class ModelRecord:
    """The classifier, and how it is run."""

    name: str
    weights_hash: str | None = None
    """A hash of its weights; None if they are not known."""
    code_hash: str | None = None
    """A hash of the user's file of Python code that makes it, if there is one."""
    normalisation: dict[str, list[float]] | None = None
    """Mean and std of each channel, if it is behind a normalisation."""
    denoiser: DenoiserRecord | None = None
    facts: ModelFacts | None = None
    """What its source states, or what was assumed."""
    compiled: bool | None = None
    """Whether it was asked to run through torch.compile."""
    device: str | None = None
    """The kind of device, such as cpu: noise is the same on devices of one kind."""
    precision: str | None = None
    """The 16-bit type that it runs in, if any."""


@dataclass(frozen=True)
class DataRecord:
    """The data set."""

    split: str
    name: str | None = field(default=None, metadata=_NOTE)
    """The name that it was loaded by. It is a note, since data may be moved; the hash is compared."""
    hash: str | None = None
    """A hash of inputs and labels; None if it is not known."""
    image_size: int | None = None
    """The size that images are scaled and cropped to, if any."""
    facts: DataFacts | None = None
    """What its source states, or what was assumed."""
    classes: list[str] | None = field(default=None, metadata=_STATED)
    """The names of the classes."""

    def __post_init__(self) -> None:
        if self.image_size is not None and self.image_size < 1:
            _refuse("image_size", "at least 1", self.image_size)


@dataclass(frozen=True)
class MethodRecord:
    """The method of certifying, with all its settings."""

    name: str
    """The name of its class; for imported results, the name that was given for them."""
    settings: dict[str, Any] = field(default_factory=dict, metadata=_NINE_DIGITS)
    own_code: dict[str, str] = field(default_factory=dict, metadata=_VALUES)
    """Hashes of the files of the user's own classes, by the names of the classes."""
    scope: Scope | None = field(default=None, metadata=_STATED)
    """Whether the map is chosen for each input or is the same for all; the rows say it too. None if it is not known."""
    classifier: str | None = field(default=None, metadata=_STATED)
    """The classifier that the certificates are about, in words."""


@dataclass(frozen=True)
class TermsRecord:
    """Noise, risk and samples.

    For a method that takes no samples, alpha, n0 and n are 0, and sigma is None unless a denoiser was made for it. For
    imported results alpha, n0 and n may be None: not known.
    """

    sigma: float | None
    """The scale of the noise; None where there is none."""
    alpha: float | None
    """The risk of each certificate."""
    n0: int | None
    """Samples to plan on."""
    n: int | None
    """Samples to prove on."""
    seed: int | None = None
    lipschitz: float | None = None
    """The Lipschitz constant of the logits that certificates may rely on; None if there is none."""
    noise: str = "gaussian"
    """The noise as ``lvmrs.kernel.noise.noise_named`` takes it: its name in the registry, and its setting if it has one."""
    dimensions: int | None = field(default=None, metadata=_STATED_AT_LEAST)
    """How many numbers an input has at most; by this, noise that takes a share of the risk counts it."""
    distance: str = field(default="the Euclidean distance", metadata=_STATED)
    """The distance in which radii are measured, in words."""
    noise_words: str | None = field(default=None, metadata=_STATED)
    """The noise in words, such as Gaussian noise of σ = 0.5."""
    rounding: float | None = field(default=None, metadata=_STATED_IF_KNOWN)
    """How far rounding may move the logits, as measured; None if nothing relies on it.

    Machines measure different numbers, so a resumed run keeps this one.
    """
    goal: Goal | None = None
    """When sampling for an input stops before n samples; None if all n are taken."""

    def __post_init__(self) -> None:
        if self.sigma is None:
            if self.n != 0:
                _refuse("sigma", "known where samples were taken", self.sigma)
        elif not self.sigma > 0:
            _refuse("sigma", "positive", self.sigma)
        if self.alpha is not None and not 0 <= self.alpha < 1:
            _refuse("alpha", "from 0 to less than 1", self.alpha)
        if self.lipschitz is not None and not self.lipschitz > 0:
            _refuse("lipschitz", "positive", self.lipschitz)
        if self.rounding is not None and not self.rounding >= 0:
            _refuse("rounding", "at least 0", self.rounding)
        for name in ("n0", "n", "seed", "dimensions"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < 1 << 63:
                _refuse(name, "from 0 to 2⁶³ − 1", value)
        if (self.alpha == 0) != (self.n == 0):
            _refuse("alpha", "0 if nothing was sampled, otherwise positive", self.alpha)

    @property
    def samples(self) -> bool:
        """Whether the method takes samples."""
        return self.n != 0


@dataclass(frozen=True)
class Origin:
    """When, how and from what a run was made. It decides no row."""

    command: str = ""
    """What the user typed."""
    begun: str | None = None
    """When the run was begun."""
    versions: dict[str, str] = field(default_factory=dict)
    """Versions of the software."""
    threads: int | None = None
    """How many threads torch used."""
    scores_of: str | None = None
    """The run whose kept scores it was made from."""
    shards: list[str] | None = None
    """The runs that it was merged from."""
    imported: str | None = None
    """The file of another project that it was imported from."""


@dataclass(frozen=True)
class Manifest:
    """The record of a run."""

    model: ModelRecord
    data: DataRecord
    method: MethodRecord
    terms: TermsRecord
    selection: Selection
    running: Way | None = field(default=None, metadata=_NOTE)
    """How the model is run. The last digits of logits may depend on it, so a resumed run keeps it."""
    keeps_scores: bool = False
    """Whether the logits of all samples are kept on disk."""
    rows_of: str | None = None
    """The version of lvmrs that defines noise and rows; None for imported results."""
    torch: str | None = None
    """The version of torch."""
    origin: Origin = field(default_factory=Origin, metadata=_NOTE)

    def __post_init__(self) -> None:
        terms = self.terms
        if self.origin.imported is None and None in (terms.alpha, terms.n0, terms.n, terms.seed):
            raise InvalidArgumentError("alpha, n0, n and seed may be unknown only for imported results")
        if terms.n == 0 and terms.lipschitz is None:
            raise InvalidArgumentError("a run without samples needs a Lipschitz constant")

    @property
    def batch(self) -> int | None:
        """Samples in a forward pass, if they are known."""
        return None if self.running is None else self.running.batch

    def to_json(self) -> str:
        """The manifest as JSON, indented for readers."""
        return json_of(self, FORMAT)

    @classmethod
    def read(cls, file: Path) -> Manifest:
        """Read the manifest in a file; a RunError says in one sentence what is wrong with it."""
        file = _disk.place(file)
        text = text_of(file, "a manifest", absent=f"{file.parent} is not a run: it has no {file.name}")
        return cls.parse(text, str(file))

    @classmethod
    def parse(cls, text: str, where: str) -> Manifest:
        """The manifest in a text; ``where`` names it in the sentence that says what is wrong with it."""
        return read_json(cls, text, where, "a manifest", FORMAT)

    def difference(self, other: Manifest, *, verifying: bool = False) -> list[str]:
        """The fields that differ, in words: first the value here, then that of ``other``.

        Args:
            other: another manifest.
            verifying: compare all fields that reports state, and not only those that decide rows.
        """
        return differences(self, other, verifying=verifying)


def _refuse(name: str, rule: str, value: object) -> NoReturn:
    raise InvalidArgumentError(f"{name} must be {rule}, got {value!r}")
