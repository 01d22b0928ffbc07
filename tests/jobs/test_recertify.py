"""Kept scores are certified again, with no network."""

from pathlib import Path

import pytest

from lvmrs import Deterministic, Duels, Votes, jobs
from lvmrs.errors import LvmrsError, RunError
from lvmrs.planners import LVM, Cohen, Lipschitz, Paper
from lvmrs.runs import Run, Selection
from tests.jobs.helpers import INPUTS, QUICK, fill, lines


def test_recertifying_equals_certifying(tmp_path: Path) -> None:
    some = Selection(INPUTS, max=6)
    source = fill(tmp_path / "a", keep=True, selection=some)
    planners = [
        QUICK,
        LVM(temperatures=(0.3,)),
        Cohen(),
        Paper(temperatures=(0.1, 1.0)),
        Lipschitz("ramp"),
        Votes(),
        Duels(),
        Duels(0.5),
        Duels("chosen"),
    ]
    for name, planner in ((str(k), planner) for k, planner in enumerate(planners)):
        again = jobs.recertify(source, tmp_path / name, planner)
        assert lines(again) == lines(fill(tmp_path / f"{name}-fresh", planner=planner, selection=some))
    spread = jobs.recertify(source, tmp_path / "spread", QUICK, processes=2)
    assert lines(spread) == lines(Run(tmp_path / "0-fresh"))
    risky = jobs.recertify(source, tmp_path / "risky", QUICK, alpha=0.2)
    assert lines(risky) == lines(fill(tmp_path / "risky-fresh", alpha=0.2, selection=some))
    fewer = jobs.recertify(source, tmp_path / "fewer", QUICK, n0=20, n=100)
    assert lines(fewer) == lines(fill(tmp_path / "fewer-fresh", n0=20, n=100, selection=some))
    assert fewer.manifest.origin.scores_of == str(source.directory)


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
        (without, {}, "has no scores-selection.npy or scores-certification.npy; its scores were not kept"),
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


def test_recertifying_again_goes_on_where_it_stopped(tmp_path: Path) -> None:
    source = fill(tmp_path / "a", keep=True)
    made = jobs.recertify(source, tmp_path / "b", Cohen())
    expected = lines(made)
    made.file.write_bytes(made.file.read_bytes()[:-400])
    assert lines(jobs.recertify(source, tmp_path / "b", Cohen())) == expected
    with pytest.raises(RunError, match="was begun with other settings"):
        jobs.recertify(source, tmp_path / "b", LVM())
