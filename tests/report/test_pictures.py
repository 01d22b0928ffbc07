"""Pictures of the inputs of a run, or the reason why there are none."""

from pathlib import Path

import pytest

from lvmrs.errors import DataError
from lvmrs.report import Pictures, pictures_of
from lvmrs.runs import Row, Run, RunWriter
from tests.manifests import manifest


def run_of(path: Path, data: str | None, data_hash: str | None = None) -> Run:
    with RunWriter.begin(path, manifest(data=data, data_hash=data_hash)) as writer:
        for index, label in enumerate((2, 9)):  # the first test digits are 2 and 3
            writer.append(
                Row(index, label, 1, 0.5, 1, 0.1, 0.9, 0.1, 1, "duel", 1.0, 1.0, "betting", "r3", 0.0, "each", "0.001")
            )
    return writer.run


def test_an_input_has_its_picture_if_its_label_is_the_same(tmp_path: Path) -> None:
    found = pictures_of(run_of(tmp_path / "a", "digits"))
    assert found.why_none is None
    assert (found.of(0) or "").startswith("data:image/png;base64,")
    assert found.of(1) is None
    assert found.of(100_000) is None


def test_why_there_are_none(tmp_path: Path) -> None:
    assert pictures_of(run_of(tmp_path / "a", None)).why_none is None  # nobody said where the data are
    assert Pictures().of(0) is None
    gone = run_of(tmp_path / "b", "npz:gone.npz")
    assert "gone.npz does not exist" in str(pictures_of(gone).why_none)
    assert pictures_of(gone).of(0) is None
    with pytest.raises(DataError, match=r"other\.npz does not exist"):
        pictures_of(gone, "npz:other.npz")
    other = pictures_of(run_of(tmp_path / "c", "digits", "another hash"))
    assert other == Pictures(other.of, "digits is not the data that the run was made with")
    assert other.of(0) is None
