"""Keeps scores on disk, so that an input is sampled once and certified with many methods.

The row of each input holds a checksum of its scores. Readers compare scores with the checksum first, so that missing or
changed scores cannot become a certificate.

Files are plain NumPy files of shape (inputs, samples, classes), and are not trusted. The header is compared with the
only form that lvmrs writes, before data are read or memory is allocated. Data are read with plain reads, so that a file
that is truncated meanwhile causes an error and not a signal.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
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
from lvmrs.record.manifest import Selection
from lvmrs.record.result_file import UNKNOWN, Row
from lvmrs.record.writer import RunWriter, disk_errors
from lvmrs.registry import MAPS

# Maximum number of samples and bytes per read.
_ROWS, _BYTES = 4096, 1 << 26
# A file with more classes is damaged.
_MOST_CLASSES = 1 << 24
_MAGIC = b"\x93NUMPY\x01\x00"
_FORM = re.compile(
    rb"\{'descr': '(<f[48])', 'fortran_order': False, 'shape': \((\d{1,18}), (\d{1,18}), (\d{1,18})\), \} *\n"
)


class DamagedScoresError(RunError):
    """Kept scores are missing or were changed."""


def _header(dtype: np.dtype[Any], shape: tuple[int, int, int]) -> bytes:
    """The header of a file with scores of this type and shape."""
    out = io.BytesIO()
    npy.write_array_header_1_0(out, {"descr": npy.dtype_to_descr(dtype), "fortran_order": False, "shape": shape})
    return out.getvalue()


@dataclass(frozen=True)
class ScoresFile:
    """A file of scores with a checked header."""

    path: Path
    dtype: np.dtype[Any]
    shape: tuple[int, int, int]
    """(inputs, samples, classes)."""
    start: int
    """Offset of the first score in bytes."""

    @classmethod
    def open(cls, path: Path, inputs: int, samples: int) -> ScoresFile:
        """Check the header of a file of a run with this number of inputs, and of samples for each input."""
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
        """The correct length of the file in bytes."""
        inputs, samples, classes = self.shape
        return self.start + inputs * samples * classes * self.dtype.itemsize

    def check_size(self) -> None:
        """Raise if the file was truncated or extended."""
        with _reading(self.path):
            found = self.path.stat().st_size
        if found != self.size:
            raise DamagedScoresError(f"{self.path.name} is damaged: it has {found} bytes instead of {self.size}")

    def logits(self, position: int, count: int | None = None, start: int = 0) -> Iterator[NDArray[Any]]:
        """Read ``count`` scores (by default all) of the input at a position, in batches (samples, classes)."""
        _, samples, classes = self.shape
        each = classes * self.dtype.itemsize
        count = samples if count is None else count
        with _reading(self.path), self.path.open("rb") as file:
            if os.fstat(file.fileno()).st_size < self.start + (position + 1) * samples * each:
                raise self._ends_too_early()
            file.seek(self.start + (position * samples + start) * each)
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
    """The checksum of the kept scores of one input, over all stages. It does not depend on batch sizes."""

    def __init__(self) -> None:
        self._stages: dict[Stage, hashlib.blake2b] = {}
        self.samples: Counter[Stage] = Counter()
        """Number of added scores of each stage."""

    def add(self, stage: Stage, logits: NDArray[Any]) -> None:
        """Add the next scores of a stage, of shape (samples, classes)."""
        if stage not in self._stages:
            self._stages[stage] = hashlib.blake2b(f"{logits.dtype.str} {logits.shape[1]}\n".encode())
        self._stages[stage].update(np.ascontiguousarray(logits).data)
        self.samples[stage] += len(logits)

    def text(self) -> str:
        """The checksum, in 32 hexadecimal digits."""
        found = hashlib.blake2b(digest_size=16)
        for stage, part in sorted(self._stages.items()):
            found.update(f"{stage} {self.samples[stage]} {part.hexdigest()}\n".encode())
        return found.hexdigest()

    @classmethod
    def of(cls, files: Mapping[Stage, ScoresFile], position: int, counts: Mapping[Stage, int]) -> str:
        """The checksum of the first scores of one input: ``counts`` has the number of scores of each stage."""
        found = cls()
        for stage, file in files.items():
            for logits in file.logits(position, counts[stage]):
                found.add(stage, logits)
        return found.text()


def _samples_of(run: Run) -> dict[Stage, int]:
    """Number of samples of an input in each stage."""
    terms = run.manifest.terms
    return {"selection": terms.n0 or 0, "certification": terms.n or 0}


def as_kept(logits: Tensor) -> NDArray[Any]:
    """Logits in the type in which they are kept: that of the model, and at least float32."""
    rows = logits.detach().cpu()
    rows = rows if rows.dtype == torch.float64 else rows.to(torch.float32)
    return np.ascontiguousarray(rows.numpy())


class ScoresWriter:
    """Writes the scores of the inputs of a run, each at its offset in the files.

    Args:
        run: the run.
        anew: whether the files hold no usable scores, so that they may get another type or number of classes.

    Uses plain writes: a full disk then raises an error, and does not kill the process with a signal.
    """

    def __init__(self, run: Run, *, anew: bool) -> None:
        self._directory, self._selection, self._anew = run.directory, run.manifest.selection, anew
        self._inputs, self._samples = len(self._selection.indices), _samples_of(run)
        self._files: dict[Stage, tuple[int, ScoresFile]] = {}

    def begin(self, index: int) -> None:
        """Begin the scores of an input of the run."""
        self._position, self._checksum = self._selection.position(index), Checksum()

    def add(self, stage: Stage, logits: Tensor | NDArray[Any]) -> None:
        """Write the next batch of logits of the current input; arrays must come from ``as_kept``."""
        array = as_kept(logits) if isinstance(logits, Tensor) else logits
        with disk_errors(self._directory):
            file, form = self._opened(stage, array)
            place = (self._position * self._samples[stage] + self._checksum.samples[stage]) * array.shape[1]
            _disk.write(file, array.data, at=form.start + place * array.itemsize)
        self._checksum.add(stage, array)

    def finished(self, row: Row) -> Row:
        """The row of the current input, with the checksum of its scores."""
        return replace(row, scores=self._checksum.text())

    def keep(self, row: Row, scores: Iterable[tuple[Stage, Tensor | NDArray[Any]]]) -> Row:
        """Write all scores of the input of a row; returns the row with their checksum."""
        self.begin(row.idx)
        for stage, logits in scores:
            self.add(stage, logits)
        return self.finished(row)

    def sync(self) -> None:
        """Wait until all scores are on the disk."""
        with disk_errors(self._directory):
            for file, _ in self._files.values():
                _disk.sync(file)

    def mend_ends(self) -> None:
        """Restore the correct length of files that were truncated or extended."""
        for stage, samples in self._samples.items():
            path = self._directory / SCORES[stage]
            with suppress(DamagedScoresError), disk_errors(self._directory):  # a damaged file is begun anew
                form, file = ScoresFile.open(path, self._inputs, samples), _disk.open_file(path)
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
        """Remove the files. Call it only if no row has a checksum of their scores."""
        with disk_errors(self._directory):
            for stage in self._samples:
                _disk.remove(self._directory / SCORES[stage])

    def _opened(self, stage: Stage, array: NDArray[Any]) -> tuple[int, ScoresFile]:
        if stage not in self._files:
            path = self._directory / SCORES[stage]
            shape = (self._inputs, self._samples[stage], array.shape[1])
            form = None
            with suppress(DamagedScoresError):
                form = ScoresFile.open(path, *shape[:2])
            if form is not None and (form.dtype, form.shape) != (array.dtype, shape):
                form = None
            if form is None and not self._anew:
                raise RunError(
                    f"{path} does not hold {array.dtype} scores of {array.shape[1]} classes, which the model gives; "
                    "resume the run with the model that it was begun with"
                )
            file = _disk.open_file(path)
            if form is None:
                header = _header(array.dtype, shape)
                form = ScoresFile(path, array.dtype, shape, len(header))
                _disk.truncate(file, 0)
                _disk.write(file, header, at=0)
            self._files[stage] = file, form
            if _disk.size(file) != form.size:
                _disk.truncate(file, form.size)  # sparse, until scores are written
            _disk.sync_directory(self._directory)
        return self._files[stage]


@dataclass(frozen=True)
class KeptScores:
    """Reads the kept scores of a run. Use ``of`` to make one. It can be pickled."""

    files: dict[Stage, ScoresFile]
    selection: Selection
    """The selection of the run."""
    unequal: bool = False
    """Whether inputs have different numbers of certification scores, which are in their rows."""

    @classmethod
    def of(cls, run: Run, *, whole: bool = True) -> KeptScores:
        """Open the files of a run, and check them.

        Args:
            run: a run that keeps its scores.
            whole: raise if a file was truncated or extended.
        """
        if not run.manifest.keeps_scores:
            raise RunError(f"{run.directory} has no {' or '.join(SCORES.values())}; its scores were not kept")
        inputs = len(run.manifest.selection.indices)
        files = {
            stage: ScoresFile.open(run.directory / SCORES[stage], inputs, samples)
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
        """Number of classes of the sampled network."""
        return next(iter(self.files.values())).shape[2]

    def count(self, row: Row, stage: Stage) -> int:
        """Number of kept scores of an input."""
        room = self.files[stage].shape[1]
        if not self.unequal or stage != "certification":
            return room
        if row.samples is None or not 0 < row.samples <= room:
            raise DamagedScoresError(f"the row of input {row.idx} does not say how many scores were kept")
        return row.samples

    def check(self, row: Row) -> None:
        """Raise if the scores of an input do not match the checksum in its row."""
        if row.scores == UNKNOWN:
            raise DamagedScoresError(f"the row of input {row.idx} has no checksum of its scores")
        counts = {stage: self.count(row, stage) for stage in self.files}
        if Checksum.of(self.files, self.selection.position(row.idx), counts) != row.scores:
            names = " or ".join(SCORES.values())
            raise DamagedScoresError(f"{names} is damaged: the scores of input {row.idx} do not fit their checksum")

    def logits(self, index: int, stage: Stage, count: int | None = None, *, start: int = 0) -> Iterator[Tensor]:
        """Read ``count`` logits of an input (by default all), in batches. Call ``check`` before."""
        for logits in self.files[stage].logits(self.selection.position(index), count, start):
            yield torch.from_numpy(logits)

    def scores(self, stream: Stream, terms: Terms, count: int) -> Scores:
        """The first ``count`` Scores of an input, under the noise of the terms. Call ``check`` with its row before."""
        batches = self.logits(stream.index, stream.stage, count)
        return scores_of(stream, terms.noise, terms.sigma, terms.dimensions, count, batches)


def damaged_inputs(run: Run) -> dict[int, str]:
    """Inputs with a row whose kept scores are missing or damaged, each with the reason."""
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
    """The error about the ``damaged_inputs`` of a run, with the reason if it does not concern single inputs."""
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
    """Convert a DamagedScoresError into the error that names all damaged inputs of the run and the remedy."""
    try:
        yield
    except DamagedScoresError as error:
        raise refusal(run, damaged_inputs(run), str(error)) from error


def score_statistics(run: Run) -> Iterator[tuple[str, float, float]]:
    """Yield the name of the map, the margin and the variance of the scores of each row of a run that keeps its scores.

    The margin is the mean score of the top class minus the largest other mean; the variance is that of the score of the
    top class. For duels, both are those of the hardest duel.
    """
    kept = opened_scores(run)
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


@contextmanager
def keeping(writer: RunWriter, *, anew: bool) -> Iterator[ScoresWriter | None]:
    """Open a writer for the scores of a run, as ``ScoresWriter`` does; None if the run does not keep scores.

    If the block fails before the first row is written, the scores are removed, so that the run can be begun with other
    settings.
    """
    if not writer.run.manifest.keeps_scores:
        yield None
        return
    keeper = ScoresWriter(writer.run, anew=anew)
    try:
        yield keeper
    except BaseException:
        keeper.close()
        if not writer.done:
            keeper.discard()
        raise
    keeper.close()


def opened_scores(run: Run) -> KeptScores:
    """Open the kept scores of a run."""
    with refusing(run):
        return KeptScores.of(run)
