"""Runs survive: kills, torn lines, full disks, other settings, other processes."""

import json
import os
import random
import resource
import shutil
import signal
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import Tensor

from lvmrs import Deterministic, Duels, Votes, analysis, jobs
from lvmrs.errors import InvalidArgumentError, LvmrsError, ModelError, RunError
from lvmrs.method_settings import made_again
from lvmrs.planners import LVM, Cohen, Lipschitz, Paper
from lvmrs.runs import COLUMNS, Manifest, Row, Run, RunWriter, Selection
from tests.models import RowByRow
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
    assert run.columns == COLUMNS
    assert run.file.read_text().splitlines() == ["\t".join(COLUMNS), *(row.text() for row in rows)]


def test_the_scope_and_the_answer_without_noise_are_read_as_they_were_written(tmp_path: Path) -> None:
    run = fill(tmp_path / "a")
    assert {row.clean for row in run.rows()} == {None}
    rows = [replace(row, scope="all inputs", clean=None if row.idx % 2 else row.label) for row in run.rows()]
    with RunWriter.begin(tmp_path / "b", run.manifest) as writer:
        for row in rows:
            writer.append(row)
    assert writer.run.rows() == rows
    assert analysis.results_of(writer.run).clean is None  # not measured for each
    with RunWriter.begin(tmp_path / "c", run.manifest) as writer:
        for row in rows:
            writer.append(replace(row, clean=row.label))
    found = analysis.results_of(writer.run)
    assert found.clean is not None
    assert found.clean.tolist() == found.label.tolist()


def test_rows_say_how_each_input_was_certified(tmp_path: Path) -> None:
    rows = fill(tmp_path / "a").rows()
    assert {row.bound for row in rows} <= {"betting", "bernstein", "hoeffding", "clopper_pearson"}
    for row in rows:
        assert (row.groups == "-") == (row.risk_groups == "-")
        risk = 0.0 if row.risk_groups == "-" else float(row.risk_groups)
        assert 0 < row.risk_top + risk <= 0.01 * (1 + 1e-9)
    one = Selection(INPUTS, max=1)
    (row,) = fill(tmp_path / "b", planner=Deterministic(), selection=one).rows()
    assert (row.bound, row.form, row.risk_top) == ("none", "deterministic", 0.0)
    (row,) = fill(tmp_path / "c", planner=Duels(), selection=one).rows()
    assert (row.map, row.bound, row.form, row.risk_top) == ("duel", "clopper_pearson", "r3", 0.0)
    assert (row.groups, row.risk_groups) == ("each", "0.01")
    (row,) = fill(tmp_path / "d", planner=Duels(0.5), selection=one).rows()
    assert (row.map, row.temperature, row.bound, row.form) == ("soft-duel", 0.5, "betting", "ramp")


def test_twenty_kills_lose_nothing(tmp_path: Path) -> None:
    whole = fill(tmp_path / "whole", keep=True)
    moments = random.Random(0)  # noqa: S311
    kills = 0
    for attempt in range(400):
        out = tmp_path / f"killed-{attempt // 20}"
        ended = in_child(partial(fill, out, resume=True, keep=True), moments.uniform(0.001, 0.12))
        assert ended in (0, -signal.SIGKILL)
        kills += ended == -signal.SIGKILL
        if ended == 0:
            assert lines(Run(out)) == lines(whole)
            for stage in ("selection", "certification"):
                name = f"scores-{stage}.npy"
                assert (out / name).read_bytes() == (whole.directory / name).read_bytes()
        if ended == 0 and kills >= 20:
            break
    assert kills >= 20


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
    with pytest.raises(RunError, match=r"is not resumed with these: alpha: 0.01, now 0.05; seed: 0, now 7"):
        fill(tmp_path / "a", resume=True, alpha=0.05, seed=7)
    with pytest.raises(RunError, match="max: null, now 5"):
        fill(tmp_path / "a", resume=True, selection=Selection(INPUTS, max=5))
    with pytest.raises(RunError, match=r'method name: "LVM", now "Cohen"; method settings: '):
        fill(tmp_path / "a", resume=True, planner=Cohen())
    with pytest.raises(RunError, match="keeps scores: false, now true"):
        fill(tmp_path / "a", resume=True, keep=True)


def test_two_writers_are_not_let_into_one_directory(tmp_path: Path) -> None:
    manifest = job_of().manifest(64)
    with (
        RunWriter.begin(tmp_path / "a", manifest),
        pytest.raises(RunError, match="another process is writing to"),
    ):
        RunWriter.begin(tmp_path / "a", manifest, resume=True)
    with RunWriter.begin(tmp_path / "a", manifest, resume=True) as writer:
        assert writer.pending == list(range(INPUTS))


def damaged(run: Run, kind: str) -> str:
    """Damage the run in one way, and say what the sentence about it must have in it."""
    manifest, text = run.directory / "manifest.json", run.file.read_text()
    rows = text.split("\n")
    if kind == "another format":
        manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "format": 99}))
        return "has format 99, and this version of lvmrs reads formats 1 and 2"
    if kind == "no manifest":
        manifest.unlink()
        return "it has no manifest.json"
    if kind == "torn manifest":
        manifest.write_text("{")
        return "manifest.json is damaged"
    if kind == "manifest of something else":
        manifest.write_text('{"format": 1, "name": 3}')
        return "manifest.json is damaged"
    if kind == "missing column":
        run.file.write_text("\n".join("\t".join(row.split("\t")[:3] + row.split("\t")[4:]) for row in rows))
        return "column radius is missing"
    if kind == "short line":
        run.file.write_text("\n".join([*rows[:2], "3\t1", *rows[2:]]))
        return "certificates.tsv, line 3 has 2 columns instead of 19; it is damaged"
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
        run.file.write_text(text.replace("\tclean\n", "\tprice\n", 1))
        return "column price is not known to this version of lvmrs; use the version that wrote it"
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
    with pytest.raises(RunError, match="there is no such directory"):
        Run(tmp_path / "nowhere")
    (tmp_path / "rows").mkdir()
    (tmp_path / "rows" / "certificates.tsv").write_text("mine")
    with pytest.raises(RunError, match="it is not a run, choose another directory"):
        fill(tmp_path / "rows")
    assert (tmp_path / "rows" / "certificates.tsv").read_text() == "mine"
    (tmp_path / "locked").mkdir(mode=0o555)

    def as_nobody() -> None:
        if os.geteuid() == 0:
            os.seteuid(65534)
        with pytest.raises(RunError, match=r"cannot be written to \(Permission denied\)"):
            fill(tmp_path / "locked")

    assert in_child(as_nobody) == 0


def test_shards_merge_into_the_whole_run(tmp_path: Path) -> None:
    whole = fill(tmp_path / "whole", keep=True)
    parts = [fill(tmp_path / f"{k}", keep=True, selection=Selection(INPUTS, shard=k, shards=5)) for k in range(1, 6)]
    merged = jobs.merge(parts[::-1], tmp_path / "merged")
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
        jobs.merge([first], tmp_path / "m")
    with pytest.raises(RunError, match="a shard is given twice"):
        jobs.merge([first, second, second], tmp_path / "m")
    with pytest.raises(RunError, match=r"is no shard of the same run as .*: seed: 0, now 5"):
        jobs.merge([first, other], tmp_path / "m")
    text = second.file.read_text()
    second.file.write_text(text[: text.rstrip().rfind("\n") + 1])
    with pytest.raises(RunError, match=r"is not finished \(1 inputs missing\); resume it first"):
        jobs.merge([first, Run(tmp_path / "2")], tmp_path / "m")
    with pytest.raises(RunError, match="no shards were given"):
        jobs.merge([], tmp_path / "m")
    assert not (tmp_path / "m").exists()


def test_recertifying_equals_certifying(tmp_path: Path) -> None:
    source = fill(tmp_path / "a", keep=True)
    planners = [LVM(), Cohen(), Paper(), Lipschitz("ramp"), Votes(), Duels(), Duels(0.5), Duels("chosen")]
    for name, planner in ((str(k), planner) for k, planner in enumerate(planners)):
        again = jobs.recertify(source, tmp_path / name, planner)
        assert lines(again) == lines(fill(tmp_path / f"{name}-fresh", planner=planner))
    spread = jobs.recertify(source, tmp_path / "spread", LVM(), processes=2)
    assert lines(spread) == lines(source)
    risky = jobs.recertify(source, tmp_path / "risky", LVM(), alpha=0.2)
    assert lines(risky) == lines(fill(tmp_path / "risky-fresh", alpha=0.2))
    fewer = jobs.recertify(source, tmp_path / "fewer", LVM(), n0=20, n=100)
    assert lines(fewer) == lines(fill(tmp_path / "fewer-fresh", n0=20, n=100))
    assert fewer.manifest.origin.scores_of == str(source.directory)


GOLDEN = Path(__file__).parent.parent / "golden"


def earlier(run: Run) -> list[str]:
    """Its lines with the columns that the first version wrote."""
    return ["\t".join(line.split("\t")[:-2]) for line in lines(run)]


@pytest.mark.parametrize("batch", [1, 7, 64, 1000])
def test_rows_of_cohen_are_those_of_the_first_version(tmp_path: Path, batch: int) -> None:
    """Byte for byte but for the time that each took, for any batch size and order of inputs."""
    golden = Run(GOLDEN / "cohen-format-1")
    made = fill(tmp_path / "a", planner=Cohen(), keep=True, n=200, n0=40, batch=batch)
    assert earlier(made) == lines(golden)
    for stage in ("selection", "certification"):
        name = f"scores-{stage}.npy"
        assert (made.directory / name).read_bytes() == (golden.directory / name).read_bytes()
    parts = [
        fill(
            tmp_path / str(k), planner=Cohen(), keep=True, n=200, n0=40, selection=Selection(INPUTS, shard=k, shards=3)
        )
        for k in (3, 1, 2)
    ]
    assert earlier(jobs.merge(parts, tmp_path / "merged")) == lines(golden)


def test_runs_of_the_first_version_are_read_resumed_and_recertified(tmp_path: Path) -> None:
    golden = Run(GOLDEN / "cohen-format-1")
    assert {(row.scope, row.clean) for row in golden.rows()} == {("-", None)}
    assert earlier(jobs.recertify(golden, tmp_path / "cohen", Cohen())) == lines(golden)
    duels = jobs.recertify(golden, tmp_path / "duels", Duels())
    assert lines(duels) == lines(fill(tmp_path / "fresh", planner=Duels(), n=200, n0=40))
    assert "map the same for all inputs" in str(golden.manifest.method.classifier)
    torn = tmp_path / "torn"
    shutil.copytree(golden.directory, torn)
    (torn / "certificates.tsv").write_bytes((torn / "certificates.tsv").read_bytes()[:-300])
    resumed = fill(torn, planner=Cohen(), keep=True, n=200, n0=40, resume=True)
    assert lines(resumed) == lines(golden)
    assert resumed.columns == COLUMNS[:-2]
    shutil.copytree(GOLDEN / "lvm-format-1", tmp_path / "lvm")
    with pytest.raises(RunError, match=r'is not resumed with these: rows of: "0.1.0", now "0.2.0"'):
        fill(tmp_path / "lvm", planner=LVM(), n=200, n0=40, selection=Selection(INPUTS, max=4), resume=True)
    chosen = Run(GOLDEN / "lvm-format-1")
    assert "map chosen for each input" in str(chosen.manifest.method.classifier)
    assert len(analysis.results_of(chosen)) == len(chosen.rows()) == 4
    certain = Run(GOLDEN / "deterministic-format-1")
    assert (certain.manifest.method.name, certain.manifest.method.settings) == ("Deterministic", {})
    assert certain.manifest.terms.alpha == 0
    again = fill(tmp_path / "certain", planner=Deterministic(), selection=Selection(INPUTS, max=4))
    assert earlier(again) == lines(certain)
    assert not again.manifest.difference(certain.manifest)


def test_recertifying_an_unfinished_run_certifies_what_is_there(tmp_path: Path) -> None:
    source = fill(tmp_path / "a", keep=True)
    text = source.file.read_text().split("\n")
    source.file.write_text("\n".join(text[:5]) + "\n")
    again = jobs.recertify(Run(tmp_path / "a"), tmp_path / "b", Cohen())
    assert len(again.rows()) == 4
    assert not again.complete


def test_what_cannot_be_recertified(tmp_path: Path) -> None:
    kept, without = fill(tmp_path / "a", keep=True), fill(tmp_path / "b")
    cases: list[tuple[Run, dict[str, object], str]] = [
        (without, {}, "has no scores-selection.npy; its scores were not kept"),
        (kept, {"n": 301}, "n = 301 is more than the 300 scores that were kept"),
        (kept, {"n0": 51}, "n0 = 51 is more than the 50 scores that were kept"),
        (kept, {"alpha": 1.5}, "alpha must lie strictly between 0 and 1"),
        (kept, {"planner": Deterministic()}, "Deterministic needs the network, not its scores under noise"),
    ]
    for run, options, sentence in cases:
        with pytest.raises(LvmrsError) as caught:
            jobs.recertify(run, tmp_path / "c", **{"planner": LVM(), **options})  # type: ignore[arg-type]
        assert sentence in str(caught.value)
        assert not (tmp_path / "c").exists()
    (tmp_path / "a" / "scores-selection.npy").write_bytes(b"nothing")
    with pytest.raises(RunError, match=r"scores-selection.npy is damaged"):
        jobs.recertify(kept, tmp_path / "c", LVM())


def test_scores_are_a_plain_numpy_file(tmp_path: Path) -> None:
    fill(tmp_path / "a", keep=True)
    scores = np.load(tmp_path / "a" / "scores-certification.npy", mmap_mode="r")
    assert scores.shape == (INPUTS, 300, 3)
    assert isinstance(scores, np.memmap)


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        (Selection(10), list(range(10))),
        (Selection(10, skip=4), [0, 4, 8]),
        (Selection(10, skip=4, max=8), [0, 4]),
        (Selection(10, max=100), list(range(10))),
        (Selection(10, skip=2, shard=2, shards=3), [2, 8]),
    ],
)
def test_which_inputs(selection: Selection, expected: list[int]) -> None:
    assert list(selection.indices) == expected


def test_shards_cover_everything_once() -> None:
    for shards in (1, 2, 3, 7, 20):
        parts = [list(Selection(17, skip=2, shard=k, shards=shards).indices) for k in range(1, shards + 1)]
        assert sorted(index for part in parts for index in part) == list(range(0, 17, 2))
    with pytest.raises(InvalidArgumentError, match="shard 4 of 3 does not exist"):
        Selection(10, shard=4, shards=3)


def test_a_full_disk_while_keeping_scores(tmp_path: Path) -> None:
    whole = fill(tmp_path / "whole", keep=True)

    def limited() -> None:
        size = (whole.directory / "scores-certification.npy").stat().st_size // 2
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
        with pytest.raises(RunError, match="cannot be written to"):
            fill(tmp_path / "a", keep=True)

    assert in_child(limited) == 0
    assert lines(fill(tmp_path / "a", keep=True, resume=True)) == lines(whole)


def test_recertifying_again_goes_on_where_it_stopped(tmp_path: Path) -> None:
    source = fill(tmp_path / "a", keep=True)
    made = jobs.recertify(source, tmp_path / "b", Cohen())
    expected = lines(made)
    made.file.write_bytes(made.file.read_bytes()[:-400])
    assert lines(jobs.recertify(source, tmp_path / "b", Cohen())) == expected
    with pytest.raises(RunError, match="was begun with other settings"):
        jobs.recertify(source, tmp_path / "b", LVM())


def test_a_model_that_fails_on_one_input_names_it(tmp_path: Path) -> None:
    good = RowByRow()

    def fails(x: Tensor) -> Tensor:
        if len(x) == 64 and x[0, 0] > 0.9:
            raise ValueError("no such day\nin the calendar")
        return good(x)

    with pytest.raises(ModelError, match=r"input \d+: the model fails with ValueError: no such day$"):
        fill(tmp_path / "a", model=fails)


@pytest.mark.parametrize(
    ("name", "settings", "sentence"),
    [
        ("python:evil.py:Evil", {}, "method python:evil.py:Evil is not one of lvmrs"),
        ("LVM", {"foo": 1}, "method LVM has no setting foo"),
        ("LVM", {"maps": ["python:evil.py:Evil"]}, "maps must be one of hardmax"),
    ],
)
def test_what_a_manifest_names_is_not_run(name: str, settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidArgumentError, match=sentence):
        made_again(name, settings)


@pytest.mark.parametrize(
    ("method", "sentence"),
    [
        ("python:evil.py:Evil", "method, is damaged: expected an object, got 'python:evil.py:Evil'"),
        ({"map": "softmax"}, "method, name, is damaged: expected a text, got None"),
    ],
)
def test_an_old_manifest_that_does_not_name_its_method(tmp_path: Path, method: object, sentence: str) -> None:
    shutil.copytree(GOLDEN / "cohen-format-1", tmp_path / "a")
    file = tmp_path / "a" / "manifest.json"
    stored = json.loads(file.read_text())
    stored["settings"]["method"] = method
    file.write_text(json.dumps(stored))
    with pytest.raises(RunError, match=sentence):
        Run(tmp_path / "a")
