"""Kept scores are certified again, with no network."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from lvmrs import Deterministic, Duels, Votes, runs
from lvmrs.data import Arrays
from lvmrs.errors import InvalidArgumentError, LvmrsError, RunError
from lvmrs.kernel.method import Method
from lvmrs.models import Loaded
from lvmrs.planners import LVM, Cohen, Lipschitz, Paper
from lvmrs.record import Run, Selection
from lvmrs.runs.workers import Processes
from lvmrs.smoothed import SmoothedClassifier
from tests.kernel.test_rounding import SaysItUsesNone
from tests.runs.helpers import INPUTS, QUICK, fill, lines


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
        again = runs.recertify(source, tmp_path / name, planner)
        assert lines(again) == lines(fill(tmp_path / f"{name}-fresh", planner=planner, selection=some))
    spread = runs.recertify(source, tmp_path / "spread", QUICK, workers=Processes(2))
    assert lines(spread) == lines(Run(tmp_path / "0-fresh"))
    risky = runs.recertify(source, tmp_path / "risky", QUICK, alpha=0.2)
    assert lines(risky) == lines(fill(tmp_path / "risky-fresh", alpha=0.2, selection=some))
    fewer = runs.recertify(source, tmp_path / "fewer", QUICK, n0=20, n=100)
    assert lines(fewer) == lines(fill(tmp_path / "fewer-fresh", n0=20, n=100, selection=some))
    assert fewer.manifest.origin.scores_of == str(source.directory)


def test_recertifying_an_unfinished_run_certifies_what_is_there(tmp_path: Path) -> None:
    source = fill(tmp_path / "a", keep=True)
    text = source.file.read_text().split("\n")
    source.file.write_text("\n".join(text[:5]) + "\n")
    again = runs.recertify(Run(tmp_path / "a"), tmp_path / "b", Cohen())
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
            runs.recertify(run, tmp_path / "c", **{"planner": LVM(), **options})  # type: ignore[arg-type]
        assert sentence in str(caught.value)
        assert not (tmp_path / "c").exists()
    (tmp_path / "a" / "scores-selection.npy").write_bytes(b"nothing")
    with pytest.raises(RunError, match=r"scores-selection.npy is damaged"):
        runs.recertify(kept, tmp_path / "c", LVM())


@pytest.mark.parametrize("column", ["label", "clean"])
def test_a_class_that_the_scores_do_not_have_is_refused(tmp_path: Path, column: str) -> None:
    source = fill(tmp_path / "a", keep=True, selection=Selection(INPUTS, max=3))
    header, *rows = (line.split("\t") for line in source.file.read_text().splitlines())
    rows[1][header.index(column)] = "3"
    source.file.write_text("".join("\t".join(line) + "\n" for line in (header, *rows)))
    with pytest.raises(RunError, match=f"{column} of input 1 is 3, but its scores are of 3 classes; correct the row"):
        runs.recertify(source, tmp_path / "b", Cohen())
    assert not (tmp_path / "b").exists()


def test_recertifying_again_goes_on_where_it_stopped(tmp_path: Path) -> None:
    source = fill(tmp_path / "a", keep=True)
    made = runs.recertify(source, tmp_path / "b", Cohen())
    expected = lines(made)
    made.file.write_bytes(made.file.read_bytes()[:-400])
    assert lines(runs.recertify(source, tmp_path / "b", Cohen())) == expected
    with pytest.raises(RunError, match="was begun with other settings"):
        runs.recertify(source, tmp_path / "b", LVM())


class Coarse(nn.Module):
    """Rounds to bfloat16 by the precision of its weights: the more, the larger its input is."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(2, 2, bias=False)
        with torch.no_grad():
            self.inner.weight.copy_(torch.eye(2))
        self.inner.bfloat16()

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.inner(x.to(self.inner.weight.dtype)).to(x.dtype)
        return logits


def coarse(method: Method, *, keep: bool = False, **settings: Any) -> runs.Job:
    """A dark input, and then a bright one that is close to a tie."""
    inputs = np.array([[0.001, 0.0], [100.26 / 128, 99.74 / 128]], np.float32)
    loaded = Loaded.of(Coarse(), "coarse")
    smoothed = SmoothedClassifier(loaded.model, 1e-4, 1.0, batch=50, **settings)
    sampling = runs.Sampling(alpha=0.01, n0=50, n=400)
    return runs.Job(
        loaded, Arrays("two", "test", inputs, np.zeros(2, int)), smoothed, method, sampling, Selection(2), keep
    )


def test_kept_scores_allow_for_the_rounding_of_their_own_input(tmp_path: Path) -> None:
    """The value of the run is that of its dark first input, which is far too small for the bright one."""
    source = runs.certify(coarse(Votes(), keep=True), tmp_path / "a")
    dark, bright = source.rows()
    assert source.manifest.terms.rounding is not None
    assert dark.rounding is not None
    assert bright.rounding is not None
    assert bright.rounding > 10 * source.manifest.terms.rounding
    assert dark.rounding >= source.manifest.terms.rounding
    for number, planner in enumerate((Duels(0.01), Duels("chosen"), Lipschitz("ramp"))):
        again = runs.recertify(source, tmp_path / f"again {number}", planner)
        fresh = runs.certify(coarse(planner), tmp_path / f"fresh {number}")
        assert lines(again) == lines(fresh)
        assert again.rows()[1].radius <= (100.26 - 99.74) / 128 / 2**0.5  # where the exact network has a tie


def test_rows_of_merged_shards_know_their_rounding(tmp_path: Path) -> None:
    whole = fill(tmp_path / "whole", keep=True, planner=Votes())
    parts = [
        fill(tmp_path / str(k), keep=True, planner=Votes(), selection=Selection(INPUTS, shard=k, shards=2))
        for k in (1, 2)
    ]
    merged = runs.merge(parts, tmp_path / "merged")
    assert [row.rounding for row in merged.rows()] == [row.rounding for row in whole.rows()]
    assert all(row.rounding for row in whole.rows())
    assert lines(runs.recertify(merged, tmp_path / "b", Duels(0.5))) == lines(
        runs.recertify(whole, tmp_path / "c", Duels(0.5))
    )


def test_merged_shards_allow_for_what_each_of_them_does(tmp_path: Path) -> None:
    """Machines measure different numbers: that of the merged run is the least."""
    parts = []
    for k in (1, 2):
        run = fill(tmp_path / str(k), planner=Duels(0.5), selection=Selection(INPUTS, shard=k, shards=2))
        changed(run, rounding=k / 8)
        parts.append(Run(run.directory))
    assert runs.merge(parts[::-1], tmp_path / "merged").manifest.terms.rounding == 1 / 8


def changed(run: Run, **terms: object) -> None:
    manifest = run.directory / "manifest.json"
    stored = json.loads(manifest.read_text())
    stored["terms"] |= terms
    manifest.write_text(json.dumps(stored))


def without_rounding(run: Run) -> None:
    """Make rows that do not say how far rounding moves logits, as those of models where it cannot be measured."""
    header, *rows = (line.split("\t") for line in run.file.read_text().splitlines())
    place = header.index("rounding")
    lines = [header, *([*row[:place], "-", *row[place + 1 :]] for row in rows)]
    run.file.write_text("".join("\t".join(line) + "\n" for line in lines))


def test_scores_whose_rounding_is_not_known_are_refused_where_the_constant_is_used(tmp_path: Path) -> None:
    source = fill(tmp_path / "a", keep=True)
    without_rounding(source)
    for planner in (QUICK, Duels("chosen"), Lipschitz("both")):
        with pytest.raises(RunError) as caught:
            runs.recertify(source, tmp_path / "b", planner)
        assert str(caught.value) == (
            f"{source.directory} does not say how far rounding moves the logits of {source.count} inputs (the first is "
            f"0), on which {type(planner).__name__} relies; certify them again, give rounding if you know it, or take "
            "a method that does not use the constant, such as hard duels or votes"
        )
        assert not (tmp_path / "b").exists()
    assert len(runs.recertify(source, tmp_path / "votes", Votes()).rows()) == source.count
    stated = runs.recertify(source, tmp_path / "stated", Duels(0.5), rounding=0.01)
    assert stated.manifest.terms.rounding == 0.01
    assert {row.rounding for row in stated.rows()} == {0.01}
    without = runs.recertify(source, tmp_path / "without", Duels(0.5), rounding=0)
    assert all(less.p_lower <= more.p_lower for less, more in zip(stated.rows(), without.rows(), strict=True))
    for wrong in (-1.0, float("inf"), "much"):
        with pytest.raises(InvalidArgumentError, match="rounding must be"):
            runs.recertify(source, tmp_path / "c", Duels(0.5), rounding=wrong)  # type: ignore[arg-type]


def test_what_is_stated_counts_only_if_it_is_more(tmp_path: Path) -> None:
    source = runs.certify(coarse(Votes(), keep=True), tmp_path / "a")
    less = runs.recertify(source, tmp_path / "less", Duels(0.01), rounding=1e-9)
    assert lines(less) == lines(runs.recertify(source, tmp_path / "same", Duels(0.01)))
    more = runs.recertify(source, tmp_path / "more", Duels(0.01), rounding=1.0)
    assert {row.radius for row in more.rows()} == {0.0}
    with pytest.raises(RunError, match=r"was begun with a rounding of 1\.0, and cannot be resumed with 2\.0; choose"):
        runs.recertify(source, tmp_path / "more", Duels(0.01), rounding=2.0)
    assert lines(runs.recertify(source, tmp_path / "more", Duels(0.01), rounding=1.0)) == lines(more)


@pytest.mark.parametrize("rounding", [None, 0.5])
def test_scores_of_autocast_are_never_certified_with_the_constant(rounding: float | None, tmp_path: Path) -> None:
    """A rounding that was stated used to bring the constant into the run."""
    run = runs.certify(coarse(Votes(), keep=True, precision="bfloat16", rounding=rounding), tmp_path / "a")
    assert (run.manifest.terms.lipschitz, run.manifest.terms.rounding) == (None, None)
    assert {row.rounding for row in run.rows()} == {None}
    with pytest.raises(InvalidArgumentError, match="the run was made without a Lipschitz constant"):
        runs.recertify(run, tmp_path / "b", Duels("chosen"))
    changed(run, lipschitz=1.0, rounding=0.5)  # as runs were recorded before
    with pytest.raises(RunError, match="was made in autocast-bfloat16, which rounds inside of the model, so Duels"):
        runs.recertify(Run(tmp_path / "a"), tmp_path / "b", Duels("chosen"), rounding=1.0)
    assert len(runs.recertify(Run(tmp_path / "a"), tmp_path / "b", Duels()).rows()) == 2


def test_an_input_that_cannot_be_measured_has_no_rounding(tmp_path: Path) -> None:
    """Its scores cannot be certified with the constant; those of the others, which are measured, could be."""
    source = runs.certify(coarse(Votes(), keep=True), tmp_path / "a")
    text = source.file.read_text().splitlines()
    source.file.write_text("\n".join([*text[:-1], text[-1].rpartition("\t")[0] + "\t-"]) + "\n")
    with pytest.raises(RunError, match=r"of 1 inputs \(the first is 1\), on which Duels relies"):
        runs.recertify(source, tmp_path / "b", Duels("chosen"))


def test_a_planner_cannot_rely_on_the_constant_without_an_allowance(tmp_path: Path) -> None:
    """It says that it uses no constant, and then there is none for it."""
    source = fill(tmp_path / "a", keep=True)
    without_rounding(source)
    again = runs.recertify(Run(tmp_path / "a"), tmp_path / "b", SaysItUsesNone())
    assert {row.form for row in again.rows()} == {"r3"}
