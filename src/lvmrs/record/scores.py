"""Scores that are kept on disk, so that an input that was sampled once can be certified in many ways.

The row of each input holds a checksum of its scores. Whoever reads scores compares them with it first, so that scores
that are missing or changed cannot become a certificate.

Files are plain NumPy files of shape (inputs, samples, classes). Nothing in a file is trusted. Its first line is
compared with the only form that lvmrs writes, before anything is read or any memory is taken. Data are read with plain
reads, so that a file that is cut meanwhile is an error and no signal.
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
import torch
from numpy.lib import format as npy
from numpy.typing import NDArray
from torch import Tensor

from lvmrs._util import files as _disk
from lvmrs._util.files import check_kind
from lvmrs.errors import RunError
from lvmrs.kernel.noise import Stage, Stream
from lvmrs.kernel.scores import Scores, scores_of
from lvmrs.kernel.terms import Terms
from lvmrs.record.directory import SCORES, Run
from lvmrs.record.result_file import UNKNOWN
from lvmrs.record.rows import Row
from lvmrs.record.selection import Selection
from lvmrs.record.writer import disk_errors
from lvmrs.registry import MAPS

__all__ = [
    "Checksum",
    "DamagedScoresError",
    "KeptScores",
    "ScoresFile",
    "ScoresWriter",
    "as_kept",
    "damaged_inputs",
    "refusal",
    "refusing",
    "score_statistics",
]


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


def _scores_path(directory: Path, stage: Stage) -> Path:
    """The file of the scores of one stage."""
    return directory / SCORES[stage]


def _header(dtype: np.dtype[Any], shape: tuple[int, int, int]) -> bytes:
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

    def logits(self, position: int, count: int | None = None) -> Iterator[NDArray[Any]]:
        """Read scores of one input in portions of shape (samples, classes).

        Args:
            position: the position of the input among those of the run.
            count: how many to read, from the first on; None for all.
        """
        _, samples, classes = self.shape
        each = classes * self.dtype.itemsize
        count = samples if count is None else count
        with _reading(self.path), self.path.open("rb") as file:
            if os.fstat(file.fileno()).st_size < self.start + (position + 1) * samples * each:
                raise self._ends_too_early()
            file.seek(self.start + position * samples * each)
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


def _samples_of(run: Run) -> dict[Stage, int]:
    """How many samples of an input a run takes in each stage."""
    terms = run.manifest.terms
    return {"selection": terms.n0 or 0, "certification": terms.n or 0}


def as_kept(logits: Tensor) -> NDArray[Any]:
    """Logits as they are kept: in the model's precision, and at least in float32."""
    rows = logits.detach().cpu()
    rows = rows if rows.dtype == torch.float64 else rows.to(torch.float32)
    return np.ascontiguousarray(rows.numpy())


class ScoresWriter:
    """Writes the scores of the inputs of a run, each at its place in the files.

    Args:
        run: the run.
        anew: whether the files hold nothing of value, so that they may get another type or number of classes.

    Plain writes are used: a full disk is then an error that can be handled, and not a signal that kills the process.
    """

    def __init__(self, run: Run, *, anew: bool) -> None:
        self._directory, self._anew = run.directory, anew
        self._inputs, self._samples = len(run.manifest.selection.indices), _samples_of(run)
        self._files: dict[Stage, tuple[int, ScoresFile]] = {}
        self.begin(0)

    def begin(self, position: int) -> None:
        """Begin the input at this position in the selection of the run."""
        self._position, self._written, self._checksum = position, dict.fromkeys(self._samples, 0), Checksum()

    def add(self, stage: Stage, logits: Tensor | NDArray[Any]) -> None:
        """Write the next batch of logits of the present input; arrays are from ``as_kept``."""
        array = as_kept(logits) if isinstance(logits, Tensor) else logits
        with disk_errors(self._directory):
            file, form = self._opened(stage, array)
            place = (self._position * self._samples[stage] + self._written[stage]) * array.shape[1]
            _disk.write(file, array.data, at=form.start + place * array.itemsize)
        self._checksum.add(stage, array)
        self._written[stage] += len(array)

    def finish(self) -> str:
        """Wait until the scores of the present input are on the disk, and give their checksum."""
        with disk_errors(self._directory):
            for file, _ in self._files.values():
                _disk.sync(file)
        return self.checksum

    @property
    def checksum(self) -> str:
        """The checksum of the scores of the present input so far."""
        return self._checksum.text()

    def mend_ends(self) -> None:
        """Give files that were cut, or that something was added to, the length that they had."""
        with disk_errors(self._directory):
            for stage in self._samples:
                self._mend_end(stage)

    def _mend_end(self, stage: Stage) -> None:
        path = _scores_path(self._directory, stage)
        try:
            form = ScoresFile.open(path, self._inputs, self._samples[stage])
        except DamagedScoresError:  # it is made anew
            return
        file = _disk.open_file(path)
        try:
            if _disk.size(file) != form.size:
                _disk.truncate(file, form.size)
                _disk.sync(file)
        finally:
            _disk.close(file)

    def close(self) -> None:
        """Close the files."""
        with disk_errors(self._directory):
            for file, _ in self._files.values():
                _disk.close(file)

    def discard(self) -> None:
        """Remove the files; only where no row knows them."""
        with disk_errors(self._directory):
            for stage in self._samples:
                _disk.remove(_scores_path(self._directory, stage))

    def _opened(self, stage: Stage, array: NDArray[Any]) -> tuple[int, ScoresFile]:
        if stage not in self._files:
            path = _scores_path(self._directory, stage)
            shape = (self._inputs, self._samples[stage], array.shape[1])
            try:
                form = ScoresFile.open(path, *shape[:2])
            except DamagedScoresError:
                form = None
            same = form is not None and (form.dtype, form.shape) == (array.dtype, shape)
            if not same and not self._anew:
                raise RunError(
                    f"{path} does not hold {array.dtype} scores of {array.shape[1]} classes, which the model gives; "
                    "resume the run with the model that it was begun with"
                )
            file = _disk.open_file(path)
            self._files[stage] = file, form if same and form is not None else _begun(path, file, array, shape)
            if _disk.size(file) != self._files[stage][1].size:
                _disk.truncate(file, self._files[stage][1].size)  # sparse, until the run fills it
            _disk.sync_directory(self._directory)
        return self._files[stage]


def _begun(path: Path, file: int, array: NDArray[Any], shape: tuple[int, int, int]) -> ScoresFile:
    first = _header(array.dtype, shape)
    _disk.truncate(file, 0)
    _disk.write(file, first, at=0)
    return ScoresFile(path, array.dtype, shape, len(first))


@dataclass(frozen=True)
class KeptScores:
    """The kept scores of a run, to be read. ``of`` makes one; it can be pickled."""

    files: dict[Stage, ScoresFile]
    selection: Selection
    """The selection of the run."""
    unequal: bool = False
    """Whether inputs have different numbers of certification scores, which their rows say."""

    @classmethod
    def of(cls, run: Run, *, whole: bool = True) -> KeptScores:
        """Check the files of a run.

        Args:
            run: a run that keeps its scores.
            whole: whether to refuse files that were cut, or that something was added to.
        """
        if not run.manifest.keeps_scores:
            raise RunError(f"{run.directory} has no {' or '.join(SCORES.values())}; its scores were not kept")
        inputs = len(run.manifest.selection.indices)
        files = {
            stage: ScoresFile.open(_scores_path(run.directory, stage), inputs, samples)
            for stage, samples in _samples_of(run).items()
        }
        first, second = files.values()
        if (first.dtype, first.shape[2]) != (second.dtype, second.shape[2]):
            raise DamagedScoresError(
                f"{' and '.join(SCORES.values())} do not belong together: their type or classes differ"
            )
        for file in files.values() if whole else ():
            file.check_size()
        return cls(files, run.manifest.selection, run.manifest.terms.goal is not None)

    @property
    def classes(self) -> int:
        """The number of classes of the network that was sampled."""
        return next(iter(self.files.values())).shape[2]

    def count(self, row: Row, stage: Stage) -> int:
        """How many scores of an input were kept."""
        room = self.files[stage].shape[1]
        if not self.unequal or stage != "certification":
            return room
        if row.samples is None or not 0 < row.samples <= room:
            raise DamagedScoresError(f"the row of input {row.idx} does not say how many scores of it were kept")
        return row.samples

    def check(self, row: Row) -> None:
        """Refuse the scores of an input if they are not those that its row knows."""
        if row.scores == UNKNOWN:
            raise DamagedScoresError(f"the row of input {row.idx} has no checksum of its scores")
        counts = {stage: self.count(row, stage) for stage in self.files}
        if Checksum.of(self.files, self.selection.position(row.idx), counts) != row.scores:
            names = " or ".join(SCORES.values())
            raise DamagedScoresError(f"{names} is damaged: the scores of input {row.idx} do not fit their checksum")

    def logits(self, index: int, stage: Stage, count: int | None = None) -> Iterator[Tensor]:
        """The first ``count`` logits of an input, or all, in batches; ``check`` them before."""
        for logits in self.files[stage].logits(self.selection.position(index), count):
            yield torch.from_numpy(logits)

    def scores(self, stream: Stream, terms: Terms, count: int) -> Scores:
        """Make Scores of an input; ``check`` its row first.

        Args:
            stream: the stream that the run sampled this input with.
            terms: the noise, σ and dimensions of the run.
            count: how many samples to take, from the first on.
        """
        batches = self.logits(stream.index, stream.stage, count)
        return scores_of(stream, terms.noise, terms.sigma, terms.dimensions, count, batches)


def damaged_inputs(run: Run) -> dict[int, str]:
    """The inputs that have a row and whose kept scores are missing or damaged, and what is wrong with each."""
    rows = run.rows()
    try:
        kept = KeptScores.of(run, whole=False)
    except DamagedScoresError as error:
        return {row.idx: str(error) for row in rows}
    found = {}
    for row in rows:
        try:
            kept.check(row)
        except DamagedScoresError as error:
            found[row.idx] = str(error)
    return found


def refusal(run: Run, damaged: Mapping[int, str], reason: str = "") -> RunError:
    """The error about damaged scores of a run: it names the inputs, and says what to do.

    Args:
        run: the run.
        damaged: what ``damaged_inputs`` found.
        reason: what is wrong, if it is not about single inputs.
    """
    first = list(damaged)[:5]
    inputs = f"input{'s' if len(damaged) > 1 else ''} {', '.join(map(str, first))}{', …' if len(damaged) > 5 else ''}"
    what = f"the kept scores of {len(damaged)} of {len(run.rows())} rows ({inputs})" if damaged else "the kept scores"
    why = reason or next(iter(damaged.values()), "")
    return RunError(
        f"{run.directory}: {what} are missing or damaged: {why}; put the files back, or resume the run with resample "
        "to sample these inputs again"
    )


@contextmanager
def refusing(run: Run) -> Iterator[None]:
    """Turn an error about scores into the one that names all damaged inputs of the run, and says what to do."""
    try:
        yield
    except DamagedScoresError as error:
        raise refusal(run, damaged_inputs(run), str(error)) from error


def score_statistics(run: Run) -> Iterator[tuple[str, float, float]]:
    """Compute margin and variance of the scores of each row, for a run that keeps its scores.

    Returns:
        For each row the name of its map, the margin of the top class over the next in mean score, and the variance of
        the score of the top class. For duels, margin and variance are those of the hardest duel.
    """
    with refusing(run):
        kept = KeptScores.of(run)
    none = torch.tensor([], dtype=torch.long)
    for row in run.rows():
        with refusing(run):
            kept.check(row)
            logits = torch.cat(list(kept.logits(row.idx, "certification", kept.count(row, "certification"))))
        rivals = torch.tensor([k for k in range(logits.shape[1]) if k != row.top])
        smoothed = MAPS.find(row.map)(row.temperature, row.mass)
        columns = smoothed.columns(logits, row.top, rivals, none).double()
        mean, variance = columns.mean(dim=0), columns.var(dim=0)
        if smoothed.paired:
            hardest = int(mean.argmin())
            yield row.map, float(2 * mean[hardest] - 1), float(variance[hardest])
        else:
            yield row.map, float(mean[0] - mean[1:].max()), float(variance[0])
