"""The record of one smoothed classifier: network, noise, and method with all its settings.

``lvmrs calibrate`` writes it to a file, and the manifest of every run contains one. A classifier that is loaded later
is compared with the record before it predicts. The record names no code to run.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from lvmrs._util import files as _disk
from lvmrs.errors import InvalidArgumentError, RunError
from lvmrs.kernel import checks
from lvmrs.record.manifest import DataRecord, Manifest, MethodRecord, ModelRecord, Origin, TermsRecord
from lvmrs.record.records import json_of, read_json, text_of
from lvmrs.record.selection import Selection

__all__ = ["FORMAT", "CalibrationRecord", "ClassifierRecord"]

FORMAT = 1
# Larger files are not files of settings; reading stops at this number of bytes.
_LARGEST = 1 << 20


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
class ClassifierRecord:
    """A network, a noise and a method; in a file of settings, also their calibration."""

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
        if manifest.origin.imported is not None:
            raise RunError("the run was imported from another project, and does not say which classifier it is about")
        return cls(manifest.model, manifest.method, manifest.terms, origin=manifest.origin)

    def to_json(self) -> str:
        """The record as JSON, without loss, indented for readers."""
        return json_of(self, FORMAT)

    @classmethod
    def read(cls, file: str | Path) -> ClassifierRecord:
        """Read the record in a file; raises a RunError with one sentence if the file is wrong."""
        checks.instance("file", file, (str, Path), "the name of a file")
        absent = f"{file} does not exist; lvmrs calibrate writes such files"
        return cls.parse(text_of(_disk.place(file), "a file of settings", absent=absent, largest=_LARGEST), str(file))

    @classmethod
    def parse(cls, text: str, where: str) -> ClassifierRecord:
        """Parse the record in a text; ``where`` names the text in error messages."""
        record = read_json(cls, text, where, "a file of settings", FORMAT)
        if record.calibration is None:
            raise RunError(f"{where} is damaged: calibration is missing")
        return record
