"""The record of one smoothed classifier: network, noise, and method with all its settings.

``lvmrs calibrate`` writes it to a file, and every run has one in its manifest. It says which classifier was certified,
so that it can be asked for answers: what is loaded later is compared with it. It names no code that could be run.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from lvmrs import _checks, _disk
from lvmrs._paths import check_kind
from lvmrs.errors import InvalidArgumentError, RunError
from lvmrs.runs.manifest import DataRecord, Manifest, MethodRecord, ModelRecord, Origin, TermsRecord
from lvmrs.runs.records import parsed, plain, read_record
from lvmrs.runs.selection import Selection

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
        _checks.instance("manifest", manifest, Manifest, "the Manifest of a run")
        if manifest.origin.imported is not None:
            raise RunError("the run was imported from another project, and does not say which classifier it is about")
        return cls(manifest.model, manifest.method, manifest.terms, origin=manifest.origin)

    def to_json(self) -> str:
        """The record as JSON, without loss, indented for readers."""
        return json.dumps({"format": FORMAT, **plain(self)}, indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    @classmethod
    def read(cls, file: str | Path) -> ClassifierRecord:
        """Read the record in a file; a RunError says in one sentence what is wrong with it."""
        _checks.instance("file", file, (str, Path), "the name of a file")
        try:
            check_kind(place := _disk.place(file))
            with place.open("rb") as opened:
                text = opened.read(_LARGEST + 1).decode()
        except FileNotFoundError:
            raise RunError(f"{file} does not exist; lvmrs calibrate writes such files") from None
        except UnicodeDecodeError as error:
            raise RunError(f"{file} is not a file of settings, or is damaged ({error})") from error
        except OSError as error:
            raise RunError(f"{file} cannot be read: {error.strerror}") from error
        if len(text) > _LARGEST:
            raise RunError(f"{file} is not a file of settings: it is too large")
        return cls.parse(text, str(file))

    @classmethod
    def parse(cls, text: str, where: str) -> ClassifierRecord:
        """The record in a text; ``where`` names it in the sentence that says what is wrong with it."""
        try:
            stored = parsed(_checks.text("text", text))
        except (ValueError, RecursionError) as error:
            raise RunError(f"{where} is not a file of settings, or is damaged ({error})") from error
        found = stored.pop("format", None) if isinstance(stored, dict) else None
        if type(found) is not int or found != FORMAT:
            raise RunError(
                f"{where} has format {found!r:.20}, and this version of lvmrs reads settings of format {FORMAT}; "
                "write it with lvmrs calibrate"
            )
        record = read_record(cls, stored, where)
        if record.calibration is None:
            raise RunError(f"{where} is damaged: calibration is missing")
        return record
