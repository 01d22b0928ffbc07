"""The manifest of a run: a typed record of every setting that affects its rows, and of how the run was made.

``lvmrs.runs`` derives it from the job. When a run is resumed, each field is compared with that of the new job, except
notes for readers.
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
"""The last version that changed the content of rows. Raise it with every such change, so that no run mixes versions."""

# A note for readers, which affects no row.
_NOTE: dict[str, str] = {"compared": "never"}
# A field that affects no row but appears in reports: it is compared when a run is verified.
_STATED: dict[str, str] = {"compared": "when verified"}
# The same for a number that a run may overstate, since a larger number makes certificates smaller.
_STATED_AT_LEAST: dict[str, str] = {"compared": "when verified, at least"}
# The same for a number that each machine measures: only its presence is compared.
_STATED_IF_KNOWN: dict[str, str] = {"compared": "when verified, if known"}
# Numbers are compared to 9 digits: machines compute grids of settings with other last digits.
_NINE_DIGITS: dict[str, str] = {"compared": "to nine digits"}
# A table whose values are compared, but not its keys.
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
    """Hash of the weights; None if unknown."""
    code_hash: str | None = None
    """Hash of the user's Python file that makes the model, if there is one."""
    normalisation: dict[str, list[float]] | None = None
    """Mean and std of each channel, if the model normalises its inputs."""
    denoiser: DenoiserRecord | None = None
    facts: ModelFacts | None = None
    """Facts that the source of the model states, and assumptions."""
    compiled: bool | None = None
    """Whether torch.compile was requested."""
    device: str | None = None
    """The kind of device, such as cpu: noise is the same on devices of one kind."""
    precision: str | None = None
    """The 16-bit type in which the model runs, if any."""


@dataclass(frozen=True)
class DataRecord:
    """The data set."""

    split: str
    name: str | None = field(default=None, metadata=_NOTE)
    """The name with which the data set was loaded. Not compared, since data may be moved; the hash is."""
    hash: str | None = None
    """Hash of inputs and labels; None if unknown."""
    image_size: int | None = None
    """The size that images are scaled and cropped to, if any."""
    facts: DataFacts | None = None
    """Facts that the source of the data states, and assumptions."""
    classes: list[str] | None = field(default=None, metadata=_STATED)
    """The names of the classes."""

    def __post_init__(self) -> None:
        if self.image_size is not None and self.image_size < 1:
            _refuse("image_size", "at least 1", self.image_size)


@dataclass(frozen=True)
class MethodRecord:
    """The certification method, with all its settings."""

    name: str
    """The name of the class of the method; for imported results, the name that the user gave."""
    settings: dict[str, Any] = field(default_factory=dict, metadata=_NINE_DIGITS)
    own_code: dict[str, str] = field(default_factory=dict, metadata=_VALUES)
    """Hashes of the files of the user's own classes, by class name."""
    scope: Scope | None = field(default=None, metadata=_STATED)
    """Whether the map is chosen for each input or is the same for all; rows record it too. None if unknown."""
    classifier: str | None = field(default=None, metadata=_STATED)
    """The classifier that the certificates are about, for people."""


@dataclass(frozen=True)
class TermsRecord:
    """Noise, risk and samples.

    For a method without samples, alpha, n0 and n are 0, and sigma is None unless a denoiser was loaded for a σ. For
    imported results alpha, n0 and n may be None: unknown.
    """

    sigma: float | None
    """Scale of the noise; None without noise."""
    alpha: float | None
    """The risk of each certificate."""
    n0: int | None
    """Number of selection samples, for the plan."""
    n: int | None
    """Number of certification samples, for the proof."""
    seed: int | None = None
    lipschitz: float | None = None
    """The Lipschitz constant of the logits on which certificates may rely; None if there is none."""
    noise: str = "gaussian"
    """Spelling of the noise for ``lvmrs.registry.noise_named``: its registered name, and its setting if it has one."""
    dimensions: int | None = field(default=None, metadata=_STATED_AT_LEAST)
    """Maximum number of values of an input; noise that uses a part of the risk computes that part from it."""
    distance: str = field(default="the Euclidean distance", metadata=_STATED)
    """The distance in which radii are measured, for people."""
    noise_words: str | None = field(default=None, metadata=_STATED)
    """The noise for people, such as Gaussian noise of σ = 0.5."""
    rounding: float | None = field(default=None, metadata=_STATED_IF_KNOWN)
    """Measured upper bound on the change of the logits by rounding; None if no certificate relies on it.

    Machines measure different numbers, so a resumed run keeps this one.
    """
    goal: Goal | None = None
    """When sampling for an input stops before n samples; None takes all n."""

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
    """When, how and from which files a run was made. It affects no row."""

    command: str = ""
    """The command line of the user."""
    begun: str | None = None
    """When the run was begun."""
    versions: dict[str, str] = field(default_factory=dict)
    """Versions of the software."""
    threads: int | None = None
    """Number of threads of torch."""
    scores_of: str | None = None
    """The run whose kept scores were certified."""
    shards: list[str] | None = None
    """The merged runs."""
    imported: str | None = None
    """The imported file of another project."""


@dataclass(frozen=True)
class Manifest:
    """The record of a run."""

    model: ModelRecord
    data: DataRecord
    method: MethodRecord
    terms: TermsRecord
    selection: Selection
    running: Way | None = field(default=None, metadata=_NOTE)
    """How the model is run. The last digits of logits may depend on it, so a resumed run keeps this value."""
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
        """Samples in a forward pass, if known."""
        return None if self.running is None else self.running.batch

    def to_json(self) -> str:
        """The manifest as JSON, indented for readers."""
        return json_of(self, FORMAT)

    @classmethod
    def read(cls, file: Path) -> Manifest:
        """Read the manifest in a file; raises a RunError with one sentence if the file is wrong."""
        file = _disk.place(file)
        text = text_of(file, "a manifest", absent=f"{file.parent} is not a run: it has no {file.name}")
        return cls.parse(text, str(file))

    @classmethod
    def parse(cls, text: str, where: str) -> Manifest:
        """Parse the manifest in a text; ``where`` names the text in error messages."""
        return read_json(cls, text, where, "a manifest", FORMAT)

    def difference(self, other: Manifest, *, verifying: bool = False) -> list[str]:
        """The differing fields, one phrase each: first the value here, then that of ``other``.

        Args:
            other: another manifest.
            verifying: compare also the fields that affect no row but appear in reports.
        """
        return differences(self, other, verifying=verifying)


def _refuse(name: str, rule: str, value: object) -> NoReturn:
    raise InvalidArgumentError(f"{name} must be {rule}, got {value!r}")
