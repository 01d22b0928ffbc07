"""Scores that are kept on disk, so that an input that was sampled once can be certified in many ways.

There is one NumPy file for each stage, of shape (inputs, samples, classes). Files are read through a memory map, and
written with plain writes: so a full disk is an error that can be handled, and not a signal that kills the process.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from numpy.lib import format as npy
from numpy.typing import NDArray
from torch import Tensor

from lvmrs.errors import RunError
from lvmrs.noise import Noise, Stage, Stream
from lvmrs.runs.whole_writes import disk_errors
from lvmrs.scores import Scores, scores_of

__all__ = ["ScoresWriter", "kept_logits", "kept_scores", "read_scores"]

# Number of samples in a batch that is read.
_ROWS = 4096


def _path(directory: Path, stage: Stage) -> Path:
    return directory / f"scores-{stage}.npy"


class ScoresWriter:
    """Writes the scores of the inputs of a run, each at its place in the files.

    Args:
        directory: the directory of the run.
        inputs: how many inputs the run has.
        samples: how many samples each stage has.
    """

    def __init__(self, directory: Path, inputs: int, samples: dict[Stage, int]) -> None:
        self.directory, self.inputs, self.samples = directory, inputs, samples
        self.files: dict[Stage, BinaryIO] = {}
        self.offset: dict[Stage, int] = {}
        self.position, self.written = 0, dict.fromkeys(samples, 0)

    def begin(self, position: int) -> None:
        """Begin the input at this position in the selection of the run."""
        self.position, self.written = position, dict.fromkeys(self.samples, 0)

    def add(self, stage: Stage, logits: Tensor) -> None:
        """Write the next batch of logits of the present input, in the model's precision and at least in float32."""
        rows = logits.detach().cpu()
        rows = rows if rows.dtype == torch.float64 else rows.to(torch.float32)
        array = np.ascontiguousarray(rows.numpy())
        place = (self.position * self.samples[stage] + self.written[stage]) * array.shape[1]
        with disk_errors(self.directory):
            file = self._opened(stage, array)
            file.seek(self.offset[stage] + place * array.itemsize)
            file.write(array.data)
        self.written[stage] += len(array)

    def flush(self) -> None:
        """Wait until everything that was written is on the disk."""
        with disk_errors(self.directory):
            for file in self.files.values():
                file.flush()
                os.fsync(file.fileno())

    def close(self) -> None:
        """Close the files."""
        with disk_errors(self.directory):
            for file in self.files.values():
                file.close()

    def _opened(self, stage: Stage, array: NDArray[Any]) -> BinaryIO:
        if stage not in self.files:
            path = _path(self.directory, stage)
            shape = (self.inputs, self.samples[stage], array.shape[1])
            file = path.open("r+b" if path.exists() else "w+b")
            npy.write_array_header_1_0(
                file, {"descr": npy.dtype_to_descr(array.dtype), "fortran_order": False, "shape": shape}
            )
            self.offset[stage] = file.tell()
            file.truncate(file.tell() + int(np.prod(shape)) * array.itemsize)  # sparse, until the run fills it
            self.files[stage] = file
        return self.files[stage]


def read_scores(directory: Path, stage: Stage) -> NDArray[Any]:
    """Open all scores of one stage as a memory map of shape (inputs, samples, classes)."""
    path = _path(directory, stage)
    if not path.exists():
        raise RunError(f"{directory} has no {path.name}; its scores were not kept")
    try:
        return npy.open_memmap(path, mode="r")
    except ValueError as error:
        raise RunError(f"{path} is damaged: {error}") from error


def kept_scores(directory: Path, position: int, stream: Stream, noise: Noise, sigma: float, count: int) -> Scores:
    """Make Scores of one input from those that a run kept.

    Args:
        directory: the directory of the run.
        position: position of the input in the selection of the run.
        stream: the stream that the run sampled this input with.
        noise: the noise of the run.
        sigma: the σ of the run.
        count: how many samples to take, from the first on.
    """
    return scores_of(stream, noise, sigma, count, kept_logits(directory, position, stream.stage, count))


def kept_logits(directory: Path, position: int, stage: Stage, count: int) -> Iterator[Tensor]:
    """The first ``count`` kept logits of one input, in batches; a file that holds fewer is refused."""
    scores = read_scores(directory, stage)
    if scores.ndim != 3 or position >= len(scores) or scores.shape[1] < count:
        raise RunError(
            f"{_path(directory, stage)} is damaged: it holds scores of shape {scores.shape}, and needs {count} samples "
            f"for input number {position}"
        )
    for start in range(0, count, _ROWS):
        yield torch.from_numpy(np.array(scores[position, start : min(start + _ROWS, count)]))
