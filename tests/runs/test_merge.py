"""Shards become one run, or are refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lvmrs import Cohen, runs
from lvmrs.errors import RunError
from lvmrs.record import Run, Selection
from tests.runs.helpers import INPUTS, fill, lines


def test_shards_merge_into_the_whole_run(tmp_path: Path) -> None:
    whole = fill(tmp_path / "whole", keep=True)
    parts = [fill(tmp_path / f"{k}", keep=True, selection=Selection(INPUTS, shard=k, shards=5)) for k in range(1, 6)]
    merged = runs.merge(parts[::-1], tmp_path / "merged")
    assert lines(merged) == lines(whole)
    assert not merged.manifest.difference(whole.manifest)
    for stage in ("selection", "certification"):
        name = f"scores-{stage}.npy"
        assert (merged.directory / name).read_bytes() == (whole.directory / name).read_bytes()
    assert merged.complete


def test_shards_that_do_not_belong_together(tmp_path: Path) -> None:
    def shard(k: int, name: str = "", **changed: Any) -> Run:
        return fill(tmp_path / f"{name}{k}", selection=Selection(INPUTS, shard=k, shards=2), **changed)

    first, second, other = shard(1), shard(2), shard(2, "other", seed=5)
    with pytest.raises(RunError, match="shard 2 of 2 is missing"):
        runs.merge([first], tmp_path / "m")
    with pytest.raises(RunError, match="a shard is given twice"):
        runs.merge([first, second, second], tmp_path / "m")
    with pytest.raises(RunError, match=r"and .* are not shards of the same run: seed: 0, now 5"):
        runs.merge([first, other], tmp_path / "m")
    text = second.file.read_text()
    second.file.write_text(text[: text.rstrip().rfind("\n") + 1])
    with pytest.raises(RunError, match=r"is not finished \(1 inputs missing\); resume it first"):
        runs.merge([first, Run(tmp_path / "2")], tmp_path / "m")
    with pytest.raises(RunError, match="no shards were given"):
        runs.merge([], tmp_path / "m")
    assert not (tmp_path / "m").exists()


def test_a_shard_whose_scores_are_cut_is_refused(tmp_path: Path) -> None:
    """Scores that are gone must not become zeros."""
    parts = [fill(tmp_path / f"{k}", keep=True, selection=Selection(INPUTS, shard=k, shards=2)) for k in (1, 2)]
    for name, sentence in (
        ("scores-certification.npy", r"its shape is \(6, 1, 3\), and the run has 6 inputs with 300 samples"),
        ("scores-selection.npy", r"its shape is \(6, 1, 3\), and the run has 6 inputs with 50 samples"),
    ):
        file = tmp_path / "1" / name
        whole = file.read_bytes()
        np.save(file, np.load(file)[:, :1])
        with pytest.raises(RunError, match=f"{name} is damaged: {sentence}"):
            runs.merge(parts, tmp_path / "merged")
        with pytest.raises(RunError, match=f"{name} is damaged: {sentence}"):
            runs.recertify(parts[0], tmp_path / f"again-{name}", Cohen())
        file.write_bytes(whole)
    assert runs.merge(parts, tmp_path / "merged").complete
