"""The command that the tests of clusters run, and what its run must be."""

import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from lvmrs.record import Run
from tests.runs.helpers import lines

__all__ = ["CERTIFY", "INPUTS", "check_same", "lvmrs", "prepare"]

INPUTS = 12
CERTIFY = [
    *("certify", "--model", "python:slow_net.py:net", "--data", "npz:inputs.npz", "--sigma", "0.5", "--batch", "50"),
    *("--n0", "50", "--n", "450", "--no-fast", "--max", str(INPUTS), "--keep-scores"),
]
_SCORES = ("scores-selection.npy", "scores-certification.npy")


def prepare(place: Path) -> None:
    """Put the network and its inputs into the folder in which commands run."""
    shutil.copy(Path(__file__).with_name("slow_net.py"), place)
    inputs = np.random.default_rng(0).random((INPUTS, 64), dtype=np.float32)
    np.savez(place / "inputs.npz", x_test=inputs, y_test=np.arange(INPUTS) % 10)


def lvmrs(*words: str, place: Path, environment: Mapping[str, str]) -> "subprocess.CompletedProcess[str]":
    """Run a command of lvmrs to its end."""
    return subprocess.run(  # noqa: S603
        [sys.executable, "-m", "lvmrs", *words],
        cwd=place,
        env=dict(environment),
        capture_output=True,
        text=True,
        check=False,
    )


def check_same(run: Run, alone: Run) -> None:
    """Every input has one row, with the bytes of the other run, and its scores have the same bytes."""
    header, *rows, end = lines(run)
    assert [header, *sorted(rows, key=lambda line: int(line.split("\t")[0])), end] == lines(alone)
    for name in _SCORES:
        assert (run.directory / name).read_bytes() == (alone.directory / name).read_bytes()
    assert not run.manifest.difference(alone.manifest)
