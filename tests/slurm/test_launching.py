"""What is refused before anything is submitted to Slurm."""

from pathlib import Path

import pytest

from lvmrs import jobs
from lvmrs.errors import InvalidArgumentError, RunError
from lvmrs.slurm import launch
from lvmrs.slurm.array import shard_directory
from tests.jobs.helpers import job_of


def test_a_complete_run_in_the_way_is_not_taken_for_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_measuring: None
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    jobs.certify(job_of(), tmp_path / "a")
    with pytest.raises(RunError, match="a holds a complete run already; choose another directory"):
        launch(["certify"], "a", shards=2, directory=tmp_path)
    with pytest.raises(RunError, match="there is no sbatch here"):
        launch(["certify"], "b", shards=2, directory=tmp_path)


@pytest.mark.parametrize("out", [".", "/", "..", "a/.."])
def test_shards_need_a_name(out: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="out must have a name, which shards are named after"):
        shard_directory(out, 1, 2)
    with pytest.raises(InvalidArgumentError, match="out must have a name"):
        launch(["certify"], out, shards=2, directory=tmp_path)
