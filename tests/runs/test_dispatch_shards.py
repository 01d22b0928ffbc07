"""Shards agree on how the model is run: the first that asks decides."""

import json
from pathlib import Path

import pytest
from torch import nn

from lvmrs.engine.way import Way
from lvmrs.errors import RunError
from lvmrs.runs.dispatch import way_of_shards
from tests.runs.helpers import job_of


def test_the_first_decides(tmp_path: Path, no_measuring: None) -> None:
    chosen = way_of_shards(job_of(batch=32, model=nn.Linear(12, 3)), tmp_path / "runs" / "a")
    assert chosen.batch == 32
    file = tmp_path / "runs" / "a-way.json"
    stored = json.loads(file.read_text())
    assert Way(**stored["way"]) == chosen
    assert sorted(path.name for path in file.parent.iterdir()) == ["a-way.json"], "the lock is gone"


def test_the_others_follow(tmp_path: Path, no_measuring: None) -> None:
    model = nn.Linear(12, 3)
    job = job_of(batch=None, model=model)
    file = tmp_path / "a-way.json"
    file.write_text(json.dumps({"weights": job.model.fingerprint, "way": {"batch": 7, "channels_last": True}}))
    assert way_of_shards(job, tmp_path / "a") == Way(7, channels_last=True)
    assert job.smoothed.batch is None, "the job stays as it is"
    with pytest.raises(RunError, match="about a model with other weights; choose another directory, or delete it"):
        way_of_shards(job_of(batch=None, model=nn.Linear(12, 3)), tmp_path / "a")


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"weights": 1, "way": {"batch": 0}}', '{"weights": 1, "way": {"x": 1}}']
)
def test_a_damaged_file_is_refused(text: str, tmp_path: Path, no_measuring: None) -> None:
    (tmp_path / "a-way.json").write_text(text)
    with pytest.raises(RunError, match="does not say how a model is run; delete it"):
        way_of_shards(job_of(), tmp_path / "a")
