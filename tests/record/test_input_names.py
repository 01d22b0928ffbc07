"""Names of inputs in rows: any text, one field, read as it was written."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from lvmrs import analysis, data, runs
from lvmrs.data import Arrays
from lvmrs.errors import DataError, RunError
from lvmrs.record import Run, RunWriter, Selection
from lvmrs.record.result_file import escaped, unescaped
from tests.runs.helpers import DATA, INPUTS, fill, job_of

ODD = [
    "-",
    " a ",
    "a\tb",
    "a\nb",
    "a\r",
    "\\x41",
    "\\",
    "a\x00",
    "\x1b[31m",
    "\u2028",
    "é",
    "\udcff",
    "\U000e0001",
    "=1+1",
    "日本",
]


@given(st.text(min_size=1) | st.sampled_from(ODD))
def test_any_name_is_read_as_it_was_written(name: str) -> None:
    text = escaped(name)
    assert unescaped(text) == name
    assert text.isprintable()
    assert text != "-"
    text.encode()


def test_odd_names_in_rows(tmp_path: Path) -> None:
    run = fill(tmp_path / "a")
    rows = [replace(row, name=name) for row, name in zip(run.rows(), ODD, strict=False)]
    with RunWriter(tmp_path / "b", run.manifest) as writer:
        writer.append(*rows)
    assert Run(tmp_path / "b").rows() == rows
    assert len(analysis.results_of(Run(tmp_path / "b"))) == INPUTS
    text = writer.run.file.read_text()
    writer.run.file.write_text(text.replace("a\\x09b", "a\\qb"))
    with pytest.raises(RunError, match=r"name of input 2 is .* cannot be read: a backslash must begin an escape"):
        Run(tmp_path / "b").rows()


class Named(Arrays):
    """Data whose inputs have names."""

    def input_name(self, index: int) -> str | None:
        return f"cats/{index}.png"


def test_rows_have_the_names_of_the_data(tmp_path: Path) -> None:
    named = Named("tiny", "test", DATA.inputs, DATA.labels)
    one = Selection(INPUTS, max=1)
    run = runs.certify(replace(job_of(selection=one, keep=True), data=named), tmp_path / "a")
    assert [row.name for row in run.rows()] == ["cats/0.png"]
    assert [row.name for row in runs.recertify(run, tmp_path / "b", job_of().method).rows()] == ["cats/0.png"]
    assert [row.name for row in fill(tmp_path / "c", selection=one).rows()] == [None]
    answers = runs.predict(job_of().smoothed, named, one, n0=10, n=20)
    assert [answer.name for answer in answers] == ["cats/0.png"]

    class Numbered(Named):
        def input_name(self, index: int) -> str:
            return index  # type: ignore[return-value]

    numbered = Numbered("tiny", "test", DATA.inputs, DATA.labels)
    with pytest.raises(DataError, match="the name of an input is 0; expected a text or None"):
        runs.certify(replace(job_of(selection=one), data=numbered), tmp_path / "d")


def test_which_data_have_names(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / "images" / "test" / name).mkdir(parents=True)
        Image.new("L", (8, 8)).save(tmp_path / "images" / "test" / name / f"{name} 1.png")
    folder = data.load(f"imagefolder:{tmp_path / 'images'}", split="test")
    assert [folder.input_name(k) for k in range(2)] == ["a/a 1.png", "b/b 1.png"]
    x, y = np.zeros((2, 1, 2, 2), np.uint8), np.array([0, 1])
    np.savez(tmp_path / "a.npz", x_test=x, y_test=y, names_test=np.array(["one", "two"]))
    np.savez(tmp_path / "b.npz", x=x, y=y, names=np.array([b"one", b"two"]))
    np.savez(tmp_path / "c.npz", x=x, y=y)
    np.savez(tmp_path / "d.npz", x=x, y=y, names=np.array(["one"]))
    for file in "ab":
        assert [data.load(f"npz:{tmp_path}/{file}.npz").input_name(k) for k in range(2)] == ["one", "two"]
    assert data.load(f"npz:{tmp_path}/c.npz").input_name(0) is None
    with pytest.raises(DataError, match="the names of the inputs must be texts, one for each input"):
        data.load(f"npz:{tmp_path}/d.npz")
    assert data.load("digits").input_name(0) is None
