"""The manifest of a run: a typed record of every setting that affects its rows, and of how the run was made.

``lvmrs.runs`` derives it from the job. When a run is resumed, each field is compared with that of the new job, except
notes for readers. A part of it, the ``ClassifierRecord``, describes one smoothed classifier: network, noise, and method
with all its settings. ``lvmrs calibrate`` writes it to a file, and a classifier that is loaded later is compared with
it before it predicts.

A manifest may come from someone else, so it must not choose code to run. ``why_not_data`` and ``why_not_network``
decide which data and models a run may name itself: those whose loading merely reads files (docs/security.md).
"""

from __future__ import annotations

import dataclasses
import itertools
import platform
import time
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from lvmrs._util import files
from lvmrs._util.facts import DataFacts, ModelFacts
from lvmrs._util.settings import member_names
from lvmrs.engine.way import Way
from lvmrs.errors import InvalidArgumentError, RunError, shown
from lvmrs.kernel import checks
from lvmrs.kernel.method import Goal, Scope
from lvmrs.record.records import FileRecord
from lvmrs.registry import DATA, NOISES, Names

FORMAT = 4
ROWS_OF = "0.4.0"
"""The last version that changed the content of rows. Raise it with every such change, so that no run mixes versions."""
ROUTED = "RoutedClassifier"
"""The name of the method in the manifest of a routed classifier."""
TIME = "%Y-%m-%dT%H:%M:%S%z"
"""The format of times in records."""

# A larger file is not a file of settings; reading stops at this number of bytes.
_LARGEST = 1 << 20
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
# Indices of inputs below this number are exact in files of floats, too.
_MOST = 1 << 53


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
    """The kind of device, such as cpu. It is compared unless rows may be made on any kind (``any_device``)."""
    precision: str | None = None
    """The 16-bit type in which the model runs, if any; after "autocast-" if it runs in it under torch's autocast."""


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
            raise InvalidArgumentError(f"image_size must be at least 1, got {self.image_size!r}")


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
        sizes = {name: getattr(self, name) for name in ("n0", "n", "seed", "dimensions")}
        for name, rule, holds in (
            ("sigma", "known where samples were taken", self.sigma is not None or self.n == 0),
            ("sigma", "positive", self.sigma is None or self.sigma > 0),
            ("alpha", "from 0 to less than 1", self.alpha is None or 0 <= self.alpha < 1),
            ("lipschitz", "positive", self.lipschitz is None or self.lipschitz > 0),
            ("rounding", "at least 0", self.rounding is None or self.rounding >= 0),
            *((name, "from 0 to 2⁶³ − 1", size is None or 0 <= size < 1 << 63) for name, size in sizes.items()),
            ("alpha", "0 if nothing was sampled, otherwise positive", (self.alpha == 0) == (self.n == 0)),
        ):
            if not holds:
                raise InvalidArgumentError(f"{name} must be {rule}, got {getattr(self, name)!r}")

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
class Selection:
    """Every ``skip``-th input below index ``max``; of these, the inputs of one shard.

    >>> list(Selection(size=10, skip=2).indices)
    [0, 2, 4, 6, 8]
    >>> list(Selection(size=10, skip=2, shard=2, shards=2).indices)
    [2, 6]
    """

    size: int
    """Number of inputs of the data set."""
    skip: int = 1
    """Take every ``skip``-th input."""
    max: int | None = None
    """Take only inputs below this index; None for all."""
    shard: int = 1
    """The number of this shard, from 1 to ``shards``."""
    shards: int = 1
    """Number of shards. Inputs are assigned to shards round-robin."""
    only: list[int] | None = None
    """If given, take exactly these indices; imported results need this."""

    def __post_init__(self) -> None:
        for name in ("skip", "shards", "shard", "max"):
            value = getattr(self, name)
            whole = isinstance(value, int) and not isinstance(value, bool)
            if not (whole and value >= 1) and not (name == "max" and value is None):
                raise InvalidArgumentError(f"{name} must be a whole number of at least 1, got {shown(value)}")
        if not isinstance(self.size, int) or not 0 <= self.size < _MOST:
            raise InvalidArgumentError(f"size must be a whole number from 0 to 2⁵³ − 1, got {shown(self.size)}")
        if self.only is not None and (self.shards > 1 or not _rising(self.only, self.size)):
            raise InvalidArgumentError("only must list indices of the data set in order, each once, without shards")
        if self.shard > self.shards:
            raise InvalidArgumentError(f"shard {self.shard} of {self.shards} does not exist; they are numbered from 1")

    @property
    def indices(self) -> Sequence[int]:
        """The indices in the data set, in the order in which they are certified."""
        if self.only is not None:
            return self.only
        stop = self.size if self.max is None else min(self.size, self.max)
        return range(0, stop, self.skip)[self.shard - 1 :: self.shards]

    def position(self, index: int) -> int:
        """The position of an index in ``indices``, without a linear search."""
        indices = self.indices
        found = indices.index(index) if isinstance(indices, range) else bisect_left(indices, index)
        if found == len(indices) or indices[found] != index:
            raise ValueError(f"{index} is not in the selection")
        return found

    def has(self, idx: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether each of these indices is selected."""
        indices = self.indices
        if isinstance(indices, range):
            found = (idx >= indices.start) & (idx < indices.stop) & ((idx - indices.start) % indices.step == 0)
            return np.asarray(found, bool)
        return np.isin(idx, np.array(indices, np.int64))


def _rising(indices: object, size: int) -> bool:
    """Whether these are strictly increasing whole numbers from 0 to below ``size``."""
    if not isinstance(indices, list) or not all(type(k) is int for k in indices):
        return False
    return all(a < b for a, b in itertools.pairwise((-1, *indices, size)))


@dataclass(frozen=True)
class Manifest(FileRecord):
    """The record of a run."""

    format, what = FORMAT, "a manifest"

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
    def any_device(self) -> bool:
        """Whether rows may be made on any kind of device: all draw the same noise and run the same function.

        What torch's autocast computes in 16 bits depends on the device.
        """
        autocast = (self.model.precision or "").startswith(checks.AUTOCAST)
        return self.terms.noise.partition(":")[0] in NOISES.having("same_everywhere") and not autocast

    def difference(self, other: Self, *, verifying: bool = False) -> list[str]:
        """The differing fields, one phrase each; not the kind of device if rows may be made on any."""
        if self.any_device:
            other = replace(other, model=replace(other.model, device=self.model.device))
        return super().difference(other, verifying=verifying)

    @property
    def routed(self) -> bool:
        """Whether the rows are certificates of a routed classifier."""
        return self.method.name == ROUTED and self.model.name.startswith("routed:")

    def check_not_routed(self, where: object) -> None:
        """Raise if the run, which ``where`` names, is of a routed classifier."""
        if self.routed:
            raise RunError(
                f"{where} is of a routed classifier, which only lvmrs certify can run again; to check its rows, "
                "certify the inputs once more with another seed, and compare"
            )

    @property
    def batch(self) -> int | None:
        """Samples in a forward pass, if known."""
        return None if self.running is None else self.running.batch

    @classmethod
    def read(cls, file: Path) -> Manifest:
        """Read the manifest in a file; raises a RunError with one sentence if the file is wrong."""
        file = files.place(file)
        return cls.from_file(file, absent=f"{file.parent} is not a run: it has no {file.name}")


@dataclass(frozen=True)
class CalibrationRecord:
    """The inputs and the objective of a calibration."""

    data: DataRecord
    selection: Selection
    objective: Literal["average radius", "accuracy"] | None = None
    """The objective; None for the width of duels."""
    epsilon: float | None = None
    """The radius of the objective "accuracy"."""

    def __post_init__(self) -> None:
        if (self.epsilon is None) != (self.objective != "accuracy"):
            raise InvalidArgumentError("epsilon is for the objective accuracy, which needs it")
        if self.epsilon is not None and not self.epsilon >= 0:
            raise InvalidArgumentError(f"epsilon must be at least 0, got {self.epsilon}")


@dataclass(frozen=True)
class ClassifierRecord(FileRecord):
    """A network, a noise and a method; in a file of settings, also their calibration."""

    format, what = 1, "a file of settings"

    model: ModelRecord
    method: MethodRecord
    terms: TermsRecord
    """Noise, σ and Lipschitz constant, and the risk and samples of the calibration or of the certificates."""
    calibration: CalibrationRecord | None = None
    """None for the classifier of a run."""
    origin: Origin = field(default_factory=Origin)

    @classmethod
    def of_run(cls, manifest: Manifest) -> ClassifierRecord:
        """The classifier that a run certified. Raises for imported results, which do not record it."""
        checks.instance("manifest", manifest, Manifest, "the Manifest of a run")
        manifest.check_not_routed("the run")
        if manifest.origin.imported is not None:
            raise RunError("the run was imported from another project, and does not say which classifier it is about")
        return cls(manifest.model, manifest.method, manifest.terms, origin=manifest.origin)

    @classmethod
    def read(cls, file: str | Path) -> ClassifierRecord:
        """Read the record in a file; raises a RunError with one sentence if the file is wrong."""
        checks.instance("file", file, (str, Path), "the name of a file")
        absent = f"{file} does not exist; lvmrs calibrate writes such files"
        return cls.from_file(files.place(file), absent=absent, largest=_LARGEST)

    @classmethod
    def parse(cls, text: str, where: str) -> Self:
        """Parse the record in a text; ``where`` names the text in error messages."""
        record = super().parse(text, where)
        if record.calibration is None:
            raise RunError(f"{where} is damaged: calibration is missing")
        return record


def origin(command: str, **more: Any) -> Origin:
    """The origin of a run that this command begins now; ``more`` holds further fields of ``Origin``."""
    import torch  # not above: what only reads runs does without it

    libraries = {name: version(name) for name in ("lvmrs", "numpy", "scipy", "torch")}
    return Origin(
        command=command,
        begun=time.strftime(TIME),
        versions={"python": platform.python_version(), **libraries},
        threads=torch.get_num_threads(),
        **more,
    )


def written_origin(command: str) -> dict[str, Any]:
    """The origin as a dictionary for JSON, without unknown fields."""
    return {name: value for name, value in dataclasses.asdict(origin(command)).items() if value is not None}


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


def why_not_network(names: Names, made: ModelRecord | DenoiserRecord) -> str | None:
    """Why the user must name the model or denoiser of a run, one of these names; None if the run may name it."""
    if (why_not := _could_run_code(names, made.name)) is not None or made.weights_hash is not None:
        return why_not
    return f"the run has no hash of {made.name:.200}, by which its weights could be recognised; name it yourself"


def _could_run_code(names: Names, name: str) -> str | None:
    if only_reads_files(names, name):
        return None
    return f"{name:.200} could run code, and a run must not choose code; if you trust it, name it yourself"


def only_reads_files(names: Names, name: str) -> bool:
    """Whether loading a model or data merely reads files, so that a file may name them."""
    inert = names.having("inert")
    return all(member.partition(":")[0] in inert for member in member_names(names, name))
