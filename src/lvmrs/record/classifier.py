"""The record of one smoothed classifier: network, noise, and method with all its settings.

``lvmrs calibrate`` writes it to a file, and every run has one in its manifest. It says which classifier was certified,
so that it can be asked for answers: what is loaded later is compared with it. It names no code that could be run.
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
# Larger files are no settings; they are not read to their end.
_LARGEST = 1 << 20


@dataclass(frozen=True)
class CalibrationRecord:
    """The inputs that settings were found on, and what they were found for."""

    data: DataRecord
    selection: Selection
    objective: Literal["average radius", "accuracy"] | None = None
    """None for the width of duels."""
    epsilon: float | None = None
    """The radius of the objective "accuracy"."""

    def __post_init__(self) -> None:
        if (self.epsilon is None) != (self.objective != "accuracy"):
            raise InvalidArgumentError("epsilon is for the objective accuracy, which needs it")
        if self.epsilon is not None and not self.epsilon >= 0:
            raise InvalidArgumentError(f"epsilon must be at least 0, got {self.epsilon}")


@dataclass(frozen=True)
class ClassifierRecord:
    """A network, a noise and a method; for a file, also how its settings were found."""

    model: ModelRecord
    method: MethodRecord
    terms: TermsRecord
    """Noise, σ and Lipschitz constant; and the risk and samples that the settings were found with, or certified."""
    calibration: CalibrationRecord | None = None
    """None for the classifier of a run."""
    origin: Origin = field(default_factory=Origin)

    @classmethod
    def of_run(cls, manifest: Manifest) -> ClassifierRecord:
        """The classifier that a run certified; results of other projects do not say which it was."""
        checks.instance("manifest", manifest, Manifest, "the Manifest of a run")
        if manifest.origin.imported is not None:
            raise RunError("the run was imported from another project, and does not say which classifier it is about")
        return cls(manifest.model, manifest.method, manifest.terms, origin=manifest.origin)

    def to_json(self) -> str:
        """The record as JSON, without loss, indented for readers."""
        return json_of(self, FORMAT)

    @classmethod
    def read(cls, file: str | Path) -> ClassifierRecord:
        """Read the record in a file; a RunError says in one sentence what is wrong with it."""
        checks.instance("file", file, (str, Path), "the name of a file")
        absent = f"{file} does not exist; lvmrs calibrate writes such files"
        return cls.parse(text_of(_disk.place(file), "a file of settings", absent=absent, largest=_LARGEST), str(file))

    @classmethod
    def parse(cls, text: str, where: str) -> ClassifierRecord:
        """The record in a text; ``where`` names it in the sentence that says what is wrong with it."""
        record = read_json(cls, text, where, "a file of settings", FORMAT)
        if record.calibration is None:
            raise RunError(f"{where} is damaged: calibration is missing")
        return record
