"""Names, values and places that somebody could choose badly, or to do harm."""

import csv
import io
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from lvmrs.analysis.tables import formatted
from lvmrs.cli import main, options
from lvmrs.cli.console import command_line
from lvmrs.errors import InvalidArgumentError

ROWS = "idx\tlabel\tpredict\tradius\n0\t1\t1\t0.5\n1\t1\t0\t0.25\n"
Lvmrs = Callable[..., tuple[int, str, str]]


@pytest.fixture
def lvmrs(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lvmrs:
    """Takes the words one by one, so that they can hold spaces."""
    monkeypatch.chdir(tmp_path)

    def call(*words: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as end:
            main(words)
        shown = capsys.readouterr()
        return int(end.value.code or 0), shown.out, shown.err

    return call


NAMES = [
    "\x1b[31mred",
    "a\nb",
    "=cmd|' /C calc'!A0",
    "+1+1",
    "@SUM(A1)",
    "-2+3",
    "<script>",
    "[x](http:a)",
    "*",
    "\u202e",
]


@pytest.mark.parametrize("form", ["table", "markdown", "latex", "csv", "json"])
@pytest.mark.parametrize("name", [name.replace("/", "") for name in NAMES])
def test_names_of_runs_in_tables(lvmrs: Lvmrs, form: str, name: str) -> None:
    Path(name).write_text(ROWS)
    code, out, err = lvmrs("analyze", "--format", form, "--", name)
    assert (code, err) == (0, "")
    assert all(line.isprintable() for line in out.split("\n"))
    if form == "csv":
        cells = [row[0] for row in csv.reader(io.StringIO(out))]
        assert all(cell[0] not in "=+-@" for cell in cells)
    if form == "markdown":
        assert "<" not in out
        assert "\n| [" not in out
    if form == "latex":
        assert "\n*" not in out
        assert "\n[" not in out
    if form == "json":
        assert json.loads(out)[0]["run"] == name
    code, _, err = lvmrs("compare", "--", name, "nowhere\x1b[0m")
    assert (code, err) == (1, "lvmrs: nowhere\\x1b[0m does not exist; give a run directory or a TSV file\n")
    assert lvmrs("plot", "-o", "a.svg", "--", name)[0] == 0
    ElementTree.parse("a.svg")  # noqa: S314 (ours)


def test_numbers_in_csv_stay_numbers() -> None:
    assert formatted([["a"], ["-0.5"], ["+1e-3"], ["-"], ["-inf"], ["=1"]], "csv") == "a\n-0.5\n+1e-3\n-\n-inf\n'=1"


def test_a_command_to_type_again_holds_no_controls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["lvmrs", "analyze", "a b", "it's\x1b\\", "\udcff"])
    assert command_line() == "lvmrs analyze 'a b' $'it\\'s\\x1b\\\\' $'\\xff'"


@pytest.mark.parametrize(
    "text",
    ["0:inf:1", "0:inf:inf", "nan:1:1", "0:nan:1", "0:1:nan", "inf:inf:1", "-inf:0:1", "0:1:1e-320", "0:1e308:1e-308",
     "", ",", ":", "::", "0:1", "0:1:1:1", "0:1:0", "0:1:-1", "inf", "nan", "-1", "1e400", "x", "0:1e9:1",
     ",".join(["1"] * 10_001), "9" * 5000 + ":1:1", "\udcff", "1;2"],
)  # fmt: skip
def test_radii_that_cannot_be_meant(text: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        options.radii(text)
    assert "radii" in str(caught.value)
    assert len(str(caught.value)) < 250


@pytest.mark.parametrize(
    "text", ["0/0", "0/1", "2/1", "1/0", "-1/2", "1", "1/", "/1", "", "a/b", "1/2/3", "٣/٤", "1" * 5000 + "/2", "1/1e3"]
)
def test_shards_that_cannot_be_meant(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match="shard must be like 2/8"):
        options.shard(text)
    assert options.shard("2/8") == (2, 8)


MODEL = ["--model", "ready:small_cnn", "--data", "digits", "--sigma", "0.5"]


@pytest.mark.parametrize(
    "device",
    ["cuda:99", "meta", "xpu", "", "cpu:-1", "hpu", "tpu", "cuda:" + "9" * 30, "x" * 100_000, "\udcff", "opengl"],
)
def test_devices_that_are_not_there(lvmrs: Lvmrs, device: str) -> None:
    for line in (["certify", *MODEL, "--out", "a"], ["train", *MODEL, "--out", "a.safetensors"]):
        code, out, err = lvmrs(*line, "--device", device)
        assert (code, out) == (2, "")
        assert err.startswith("lvmrs: device ")
        assert "cannot be used here" in err
        assert err.count("\n") == 1
        assert len(err) < 2_100
    assert os.listdir() == []  # noqa: PTH208


@pytest.mark.parametrize("value", ["x" * 100_000, "\udcff", "a\x1b[31mb", "a/" * 2000])
@pytest.mark.parametrize(
    "line",
    [
        "analyze VALUE",
        "report VALUE",
        "merge VALUE --out a",
        "import VALUE --sigma 1 --out a",
        "recertify VALUE --out a",
        "certify --model VALUE --data digits --sigma 1 --out a",
        "certify --model ready:small_cnn --data VALUE --sigma 1 --out a",
        "certify --model ready:small_cnn --data digits --sigma VALUE --out a",
        "certify --model ready:small_cnn --data digits --sigma 1 --n 10 --max 1 --out VALUE/nowhere.tsv\0",
    ],
)
def test_odd_values(lvmrs: Lvmrs, line: str, value: str) -> None:
    code, out, err = lvmrs(*(word.replace("VALUE", value) for word in line.split(" ")))
    assert code in (1, 2), err
    assert out == ""
    assert "Traceback" not in err
    assert "internal error" not in err
    assert all(text.isprintable() and len(text) < 2_100 for text in err.split("\n"))


def test_a_failed_write_leaves_what_was_there(lvmrs: Lvmrs, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("a.tsv").write_text(ROWS)
    assert lvmrs("import", "a.tsv", "--sigma", "0.5", "--out", "a")[0] == 0
    Path("old.html").write_text("old")
    Path("link.html").symlink_to("old.html")

    def full(file: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        for line in ("report a -o old.html", "report a -o new.html", "plot a -o new.svg"):
            code, out, err = lvmrs(*line.split())
            assert (code, out) == (1, "")
            assert err.endswith("cannot be written to (No space left on device); choose another file\n")
    assert Path("old.html").read_text() == "old"
    assert sorted(os.listdir()) == ["a", "a.tsv", "link.html", "old.html"]  # noqa: PTH208
    assert lvmrs("report", "a", "-o", "link.html")[0] == 0
    assert Path("link.html").is_symlink()
    assert "Taken from another project" in Path("old.html").read_text()
    assert lvmrs("report", "a", "-o", "/dev/null")[0] == 0
    assert not Path("/dev/null").is_file()


def test_a_file_without_rows_among_others(lvmrs: Lvmrs) -> None:
    Path("a.tsv").write_text(ROWS)
    Path("b.tsv").write_text(ROWS.partition("\n")[0] + "\n")
    code, out, err = lvmrs("analyze", "a.tsv", "b.tsv")
    assert code == 3
    assert out.splitlines()[1].startswith("a.tsv")
    assert err == "left out: b.tsv has no rows, only a header; there is nothing to analyse\n"
    code, out, err = lvmrs("plot", "b.tsv", "a.tsv", "-o", "a.png")
    assert (code, err.splitlines()[1:]) == (3, ["wrote a.png"])
    for line in ("analyze b.tsv", "analyze b.tsv b.tsv"):
        code, out, err = lvmrs(*line.split())
        assert (code, out, err) == (1, "", "lvmrs: b.tsv has no rows, only a header; there is nothing to analyse\n")
