"""Files of kept scores: plain NumPy files of shape (inputs, samples, classes), and checksums of the scores of an input.

Nothing in a file is trusted. Its first line is compared with the only form that lvmrs writes, before anything is read
or any memory is taken. Data are read with plain reads, so that a file that is cut meanwhile is an error and no signal.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from lvmrs._paths import check_kind
from lvmrs.errors import RunError
from lvmrs.noise import Stage
from lvmrs.runs.directory import SCORES

__all__ = ["Checksum", "DamagedScoresError", "ScoresFile", "header", "scores_path"]

# The most samples and bytes that are read at once.
_ROWS, _BYTES = 4096, 1 << 26
# More classes than any classifier has: a file that says so is damaged.
_MOST_CLASSES = 1 << 24
_MAGIC = b"\x93NUMPY\x01\x00"
_FORM = re.compile(
    rb"\{'descr': '(<f[48])', 'fortran_order': False, 'shape': \((\d{1,18}), (\d{1,18}), (\d{1,18})\), \} *\n"
)


class DamagedScoresError(RunError):
    """Kept scores are missing, or are not those that were written."""


def scores_path(directory: Path, stage: Stage) -> Path:
    """The file of the scores of one stage."""
    return directory / SCORES[stage]


def header(dtype: np.dtype[Any], shape: tuple[int, int, int]) -> bytes:
    """The first bytes of a file with scores of this type and shape."""
    out = io.BytesIO()
    npy.write_array_header_1_0(out, {"descr": npy.dtype_to_descr(dtype), "fortran_order": False, "shape": shape})
    return out.getvalue()


@dataclass(frozen=True)
class ScoresFile:
    """A file of scores whose first line was checked."""

    path: Path
    dtype: np.dtype[Any]
    shape: tuple[int, int, int]
    """(inputs, samples, classes)."""
    start: int
    """The place of the first score in the file."""

    @classmethod
    def open(cls, path: Path, inputs: int, samples: int) -> ScoresFile:
        """Check the first line of the file of a run with so many inputs, and samples for each."""
        with _reading(path), path.open("rb") as file:
            begin = file.read(len(_MAGIC) + 2)
            line = file.read(int.from_bytes(begin[len(_MAGIC) :], "little"))
        found = _FORM.fullmatch(line) if begin[: len(_MAGIC)] == _MAGIC else None
        if found is None:
            raise DamagedScoresError(
                f"{path.name} is damaged: it does not begin as a file of float32 or float64 scores does"
            )
        shape = (int(found[2]), int(found[3]), int(found[4]))
        if shape[:2] != (inputs, samples) or not 0 < shape[2] <= _MOST_CLASSES:
            raise DamagedScoresError(
                f"{path.name} is damaged: its shape is {shape}, and the run has {inputs} inputs with {samples} samples"
            )
        return cls(path, np.dtype(found[1].decode()), shape, len(begin) + len(line))

    @property
    def size(self) -> int:
        """The length that the file must have, in bytes."""
        inputs, samples, classes = self.shape
        return self.start + inputs * samples * classes * self.dtype.itemsize

    def check_size(self) -> None:
        """Refuse a file that was cut, or that something was added to."""
        with _reading(self.path):
            found = self.path.stat().st_size
        if found != self.size:
            raise DamagedScoresError(f"{self.path.name} is damaged: it has {found} bytes instead of {self.size}")

    def logits(self, position: int, count: int | None = None, first: int = 0) -> Iterator[NDArray[Any]]:
        """Read scores of one input in portions of shape (samples, classes).

        Args:
            position: the position of the input among those of the run.
            count: how many to read; None for all from the first on.
            first: the number of the first one.
        """
        _, samples, classes = self.shape
        each = classes * self.dtype.itemsize
        count = samples - first if count is None else count
        with _reading(self.path), self.path.open("rb") as file:
            if os.fstat(file.fileno()).st_size < self.start + (position + 1) * samples * each:
                raise self._ends_too_early()
            file.seek(self.start + (position * samples + first) * each)
            step = max(1, min(_ROWS, _BYTES // each))
            for done in range(0, count, step):
                rows = np.empty((min(step, count - done), classes), self.dtype)
                if file.readinto(rows.view(np.uint8).data) != rows.nbytes:
                    raise self._ends_too_early()
                yield rows

    def _ends_too_early(self) -> DamagedScoresError:
        return DamagedScoresError(f"{self.path.name} is damaged: it ends before the scores of this input do")


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        check_kind(path)
        yield
    except FileNotFoundError:
        raise DamagedScoresError(f"{path.name} is missing") from None
    except OSError as error:
        raise DamagedScoresError(f"{path.name} cannot be read ({error.strerror})") from error


class Checksum:
    """The checksum of the kept scores of one input, of all stages; it does not depend on the sizes of the batches."""

    def __init__(self) -> None:
        self._stages: dict[Stage, hashlib.blake2b] = {}
        self._samples: dict[Stage, int] = {}

    def add(self, stage: Stage, logits: NDArray[Any]) -> None:
        """Add the next scores of a stage, of shape (samples, classes)."""
        if stage not in self._stages:
            self._stages[stage] = hashlib.blake2b(f"{logits.dtype.str} {logits.shape[1]}\n".encode())
        self._stages[stage].update(np.ascontiguousarray(logits).data)
        self._samples[stage] = self._samples.get(stage, 0) + len(logits)

    def text(self) -> str:
        """The checksum, in 32 hexadecimal digits."""
        found = hashlib.blake2b(digest_size=16)
        for stage, part in sorted(self._stages.items()):
            found.update(f"{stage} {self._samples[stage]} {part.hexdigest()}\n".encode())
        return found.hexdigest()

    @classmethod
    def of(cls, files: Mapping[Stage, ScoresFile], position: int, counts: Mapping[Stage, int]) -> str:
        """The checksum of the first scores that files hold for one input: so many of each stage."""
        found = cls()
        for stage, file in files.items():
            for logits in file.logits(position, counts[stage]):
                found.add(stage, logits)
        return found.text()
