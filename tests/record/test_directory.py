"""A run directory survives torn lines, full disks, other settings and other processes; damage is named."""

import json
import os
import resource
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lvmrs import analysis
from lvmrs.engine.way import Way
from lvmrs.errors import LvmrsError, RunError
from lvmrs.kernel.terms import Choice, Terms
from lvmrs.planners import Cohen, Planner
from lvmrs.record import COLUMNS, Manifest, Row, Run, RunWriter, Selection
from lvmrs.record.directory import SCORES
from lvmrs.record.result_file import OF_A_GOAL, OF_ROUTED
from tests.manifests import manifest
from tests.runs.helpers import INPUTS, fill, in_child, job_of, lines


def test_a_run_is_a_manifest_and_rows(tmp_path: Path) -> None:
    run = fill(tmp_path / "a")
    rows = run.rows()
    assert run.complete
    assert [row.idx for row in rows] == list(range(INPUTS))
    assert [row.label for row in rows] == [k % 3 for k in range(INPUTS)]
    assert all(row.correct == (row.predict == row.label) for row in rows)
    assert COLUMNS[:6] == ("idx", "label", "predict", "radius", "correct", "time")
    assert Run(tmp_path / "a").manifest == run.manifest
    assert Manifest.read(tmp_path / "a" / "manifest.json").terms.n == 300
    assert repr(run) == f"<Run {tmp_path / 'a'}: 12 of 12 inputs>"
    columns = tuple(name for name in COLUMNS if name not in OF_A_GOAL | OF_ROUTED)
    assert run.columns == columns
    assert run.file.read_text().splitlines() == ["\t".join(columns), *(row.text(columns) for row in rows)]


def test_the_scope_and_the_answer_without_noise_are_read_as_they_were_written(tmp_path: Path) -> None:
    run = fill(tmp_path / "a")
    assert all(row.clean in (0, 1, 2) for row in run.rows())
    assert {row.scope for row in run.rows()} == {"this input"}
    rows = [replace(row, scope="all inputs", clean=None if row.idx % 2 else row.label) for row in run.rows()]
    with RunWriter(tmp_path / "b", run.manifest) as writer:
        for row in rows:
            writer.append(row)
    assert writer.run.rows() == rows
    assert analysis.results_of(writer.run).clean is None  # not measured for each
    with RunWriter(tmp_path / "c", run.manifest) as writer:
        for row in rows:
            writer.append(replace(row, clean=row.label))
    found = analysis.results_of(writer.run)
    assert found.clean is not None
    assert found.label is not None
    assert found.clean.tolist() == found.label.tolist()


@pytest.mark.parametrize("cut", [0, 1, 60, -1, -20])
def test_a_file_cut_anywhere_is_mended(tmp_path: Path, cut: int) -> None:
    whole = fill(tmp_path / "a")
    expected = lines(whole)
    text = whole.file.read_bytes()
    whole.file.write_bytes(text[:cut])
    assert lines(fill(tmp_path / "a", resume=True)) == expected


def test_an_unfinished_last_line_is_not_read_as_a_row(tmp_path: Path) -> None:
    run = fill(tmp_path / "a")
    run.file.write_bytes(run.file.read_bytes()[:-1])
    assert len(Run(tmp_path / "a").rows()) == INPUTS - 1
    assert analysis.results_of(Run(tmp_path / "a")).missing == 1


def test_only_whole_lines_are_kept_when_the_disk_is_full(tmp_path: Path) -> None:
    whole = fill(tmp_path / "whole")
    room = len(whole.file.read_bytes()) // 2
    assert in_child(lambda: full_after_rows(tmp_path / "a", room)) == 0
    rows = (tmp_path / "a" / "certificates.tsv").read_bytes()
    assert rows.endswith(b"\n")
    assert 1 < rows.count(b"\n") < INPUTS
    assert lines(fill(tmp_path / "a", resume=True)) == lines(whole)


def full_after_rows(out: Path, size: int) -> None:
    def limit(row: Row) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    with pytest.raises(RunError, match=r"cannot be written to .* rows already written are safe"):
        fill(out, on_row=limit)


def test_other_settings_are_refused_with_the_difference(tmp_path: Path) -> None:
    fill(tmp_path / "a")
    with pytest.raises(RunError, match="holds a run already; resume it"):
        fill(tmp_path / "a")
    with pytest.raises(RunError, match=r"cannot be resumed: alpha: 0.01, now 0.05; seed: 0, now 7"):
        fill(tmp_path / "a", resume=True, alpha=0.05, seed=7)
    with pytest.raises(RunError, match="max: null, now 5"):
        fill(tmp_path / "a", resume=True, selection=Selection(INPUTS, max=5))
    with pytest.raises(RunError, match=r'method name: "LVM", now "Cohen"; method settings: '):
        fill(tmp_path / "a", resume=True, planner=Cohen())
    with pytest.raises(RunError, match="keeps scores: false, now true"):
        fill(tmp_path / "a", resume=True, keep=True)


def test_two_writers_are_not_let_into_one_directory(tmp_path: Path) -> None:
    made = job_of().manifest(Way(64))
    with (
        RunWriter(tmp_path / "a", made),
        pytest.raises(RunError, match="another process is writing to"),
    ):
        RunWriter(tmp_path / "a", made, resume=True)
    with RunWriter(tmp_path / "a", made, resume=True) as writer:
        assert writer.pending == list(range(INPUTS))


def damaged(run: Run, kind: str) -> str:
    """Damage the run in one way, and say what the sentence about it must have in it."""
    manifest, text = run.directory / "manifest.json", run.file.read_text()
    rows = text.split("\n")
    if kind == "another format":
        manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "format": 99}))
        return "has format 99, and this version of lvmrs reads format 4"
    if kind == "no manifest":
        manifest.unlink()
        return "it has no manifest.json"
    if kind == "torn manifest":
        manifest.write_text("{")
        return "manifest.json is not a manifest, or is damaged (Expecting property name"
    if kind == "manifest of something else":
        manifest.write_text('{"format": 4, "name": 3}')
        return "manifest.json is damaged"
    if kind == "missing column":
        run.file.write_text("\n".join("\t".join(row.split("\t")[:3] + row.split("\t")[4:]) for row in rows))
        return "certificates.tsv is damaged: its column 4 is 'correct', and must be 'radius'"
    if kind == "short line":
        run.file.write_text("\n".join([*rows[:2], "3\t1", *rows[2:]]))
        return "certificates.tsv, line 3 has 2 columns instead of 22; it is damaged"
    if kind == "no number":
        run.file.write_text("\n".join([*rows[:2], rows[2].replace("\t", "\tx", 1), *rows[3:]]))
        return "certificates.tsv, line 3 is damaged: label is 'x1', and must be a whole number"
    if kind == "twice":
        run.file.write_text("\n".join([*rows[:2], rows[1], *rows[2:]]))
        return "input 0 has two rows"
    if kind == "another data set":
        run.file.write_text(text.replace("\n1\t", "\n1000\t", 1))
        return "input 1000 does not belong to this run"
    if kind == "unknown column":
        run.file.write_text(text.replace("\tclean\t", "\tprice\t", 1))
        return "its column 19 is 'price', and must be 'clean'"
    if kind == "infinite radius":
        run.file.write_text(
            "\n".join([*rows[:2], "\t".join([*rows[2].split("\t")[:3], "inf", *rows[2].split("\t")[4:]]), *rows[3:]])
        )
        return "the radius of input 1 is inf, and must be a finite number from 0"
    run.file.write_bytes(b"\xff\xfe\n" + text.encode())
    return "certificates.tsv is not a text file"


@pytest.mark.parametrize(
    "kind",
    ["another format", "no manifest", "torn manifest", "manifest of something else", "missing column", "short line",
     "no number", "twice", "another data set", "unknown column", "infinite radius", "not text"],
)  # fmt: skip
def test_damage_is_named(tmp_path: Path, kind: str) -> None:
    sentence = damaged(fill(tmp_path / "a"), kind)
    for reading in (Run.rows, analysis.results_of):  # one reader, one sentence
        with pytest.raises(RunError) as caught:
            reading(Run(tmp_path / "a"))
        assert sentence in str(caught.value)
        assert "\n" not in str(caught.value)
    if kind != "no manifest":
        with pytest.raises(RunError):
            fill(tmp_path / "a", resume=True)


def test_places_where_no_run_can_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="is a file, and a run needs a directory"):
        fill(tmp_path / "file")
    with pytest.raises(RunError, match="the directory does not exist"):
        Run(tmp_path / "nowhere")
    (tmp_path / "rows").mkdir()
    (tmp_path / "rows" / "certificates.tsv").write_text("mine")
    with pytest.raises(RunError, match="it is not a run, choose another directory"):
        fill(tmp_path / "rows")
    assert (tmp_path / "rows" / "certificates.tsv").read_text() == "mine"
    (tmp_path / "scores").mkdir()  # of a run whose manifest and rows were not copied, or of someone else
    (tmp_path / "scores" / "scores-certification.npy").write_text("mine")
    with pytest.raises(RunError, match=r"has scores-certification\.npy but no manifest\.json; it is not a run"):
        fill(tmp_path / "scores")
    assert (tmp_path / "scores" / "scores-certification.npy").read_text() == "mine"
    (tmp_path / "locked").mkdir(mode=0o555)

    def as_nobody() -> None:
        if os.geteuid() == 0:
            os.seteuid(65534)
        with pytest.raises(RunError, match=r"cannot be written to \(Permission denied\)"):
            fill(tmp_path / "locked")

    assert in_child(as_nobody) == 0


class NotYet(Planner):
    """Fails on each input."""

    def choose(self, logits: Any, terms: Terms) -> Choice:
        list(logits)
        raise ValueError("not yet")


def test_a_run_that_failed_before_its_first_row_is_begun_anew(tmp_path: Path) -> None:
    """The corrected command is the same directory, with other settings, and needs no resumption."""

    out = tmp_path / "a"
    for keep in (False, True):
        with pytest.raises(LvmrsError, match=r"NotYet\.choose fails \(ValueError: not yet\)"):
            fill(out, planner=NotYet(), keep=keep, seed=3)
        assert not list(out.glob("scores-*"))
    assert lines(fill(out)) == lines(fill(tmp_path / "b"))
    assert Run(out).manifest.terms.seed == 0
    with pytest.raises(RunError, match="holds a run already"):
        fill(out)


class Killed(Planner):
    """Ends the process while the first input is certified."""

    def choose(self, logits: Any, terms: Terms) -> Choice:
        list(logits)
        os._exit(9)


@pytest.mark.parametrize("keep", [False, True])
def test_a_run_that_was_killed_in_its_first_input_is_begun_anew(tmp_path: Path, keep: bool) -> None:
    """The scores that it left belong to no row. They go, and no other file does."""
    out = tmp_path / "a"
    assert in_child(lambda: fill(out, planner=Killed(), keep=True, seed=3)) == 9
    assert Run(out).count == 0
    assert [path.name for path in out.glob("scores-*")] == ["scores-selection.npy"]
    (out / "scores-mine.npy").write_bytes(b"of the user")
    assert lines(fill(out, keep=keep)) == lines(fill(tmp_path / "b", keep=keep))
    assert Run(out).manifest.terms.seed == 0
    assert {path.name for path in out.glob("scores-*")} == {"scores-mine.npy", *(SCORES.values() if keep else ())}


def test_what_holds_no_run_of_ours_is_not_begun_anew(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "manifest.json").write_text('{"name": "a page of the web"}')
    with pytest.raises(RunError, match="has format None"):
        fill(tmp_path / "a")
    assert "page" in (tmp_path / "a" / "manifest.json").read_text()
    run = fill(tmp_path / "b", keep=True)
    run.file.unlink()  # scores without rows may be of value to somebody
    with pytest.raises(RunError, match="holds a run already"):
        fill(tmp_path / "b", keep=True)


@pytest.mark.parametrize(
    ("column", "value", "sentence"),
    [
        ("time", "nan", "time of input 1 is nan, and must be a finite number"),
        ("time", "inf", "time of input 1 is inf, and must be a finite number"),
        ("p_lower", "-inf", "p_lower of input 1 is -inf, and must be a finite number"),
        ("mass", "inf", "mass of input 1 is inf, and must be a finite number"),
        ("label", "nan", "label is 'nan', and must be a whole number"),
        ("label", "1e300", "label is '1e300', and must be a whole number"),
        ("top", "inf", "column top must hold whole numbers"),
        ("clean", "nan", "clean is 'nan', and must be a whole number"),
        ("radius", "nan", "the radius of input 1 is nan"),
        ("scores", "abc", "scores of input 1 is 'abc', and must be a checksum or -"),
        ("scope", "nan", "scope is 'nan', and must be one of"),
        ("rounding", "-0.5", "rounding of input 1 is -0.5, and must be at least 0"),
        ("rounding", "nan", "rounding is 'nan', and must be a number, or -"),
        ("rounding", "inf", "rounding is 'inf', and must be a number, or -"),
        ("rounding", "", "rounding is '', and must be a number, or -"),
    ],
)
def test_fields_that_no_run_has(tmp_path: Path, column: str, value: str, sentence: str) -> None:
    run = one_row(tmp_path / "a")
    rows = [line.split("\t") for line in run.file.read_text().split("\n")[:-1]]
    rows[2][COLUMNS.index(column)] = value
    run.file.write_text("".join("\t".join(row) + "\n" for row in rows))
    with pytest.raises(RunError) as caught:
        Run(tmp_path / "a").rows()
    assert sentence in str(caught.value)


def one_row(out: Path) -> Run:
    """A run that nobody sampled."""
    with RunWriter(out, manifest(2)) as writer:
        for index in range(2):
            row = Row(index, 0, 0, 0.5, 1, 0.1, 0.5, 0.5, 0, "softmax", 0.5, 1.0, "betting", "r1", 0.5, "-", "-")
            writer.append(row)
    return writer.run


def test_the_lock_leaves_no_file(tmp_path: Path) -> None:
    assert {file.name for file in one_row(tmp_path / "a").directory.iterdir()} == {"certificates.tsv", "manifest.json"}
