"""Kept scores on disk."""

from pathlib import Path

import numpy as np

from tests.runs.helpers import INPUTS, fill


def test_scores_are_a_plain_numpy_file(tmp_path: Path) -> None:
    fill(tmp_path / "a", keep=True)
    scores = np.load(tmp_path / "a" / "scores-certification.npy", mmap_mode="r")
    assert scores.shape == (INPUTS, 300, 3)
    assert isinstance(scores, np.memmap)
