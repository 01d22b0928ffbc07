"""Rows that are computed again stand, also where logits round otherwise; rows that were altered do not."""

from __future__ import annotations

import itertools
import math
import shutil
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import hypergeom
from torch import Tensor

from lvmrs import Deterministic, Duels, Fixed, Votes, runs
from lvmrs.errors import InvalidArgumentError, ModelError, RunError
from lvmrs.kernel import radius
from lvmrs.kernel.bounds import clopper_pearson
from lvmrs.kernel.exact_noise import ExactGaussian
from lvmrs.kernel.maps import SoftDuel
from lvmrs.kernel.method import Method
from lvmrs.kernel.model_check import ModelCheck
from lvmrs.planners import LVM, Cohen, Lipschitz, Paper
from lvmrs.record import Row, Run, Selection
from lvmrs.record.scores import Checksum, KeptScores
from lvmrs.runs.rebuild import ChangedError
from lvmrs.runs.verify import RowVerdict, Verification, forged_rows_found, other_batch, verify
from tests.runs.helpers import DATA, INPUTS, LEVELS, ON_GRID, fill, job_of
from tests.runs.named_runs import altered_manifest
from tests.tiny_models import RowByRow

pytestmark = pytest.mark.usefixtures("no_measuring")
FOUR = Selection(INPUTS, max=4)
SEARCH = LVM(temperatures=(0.3, 1.0, 3.0))


def repr_of(method: Method) -> str:
    return repr(method)[:40]


class RoundedByBatch(RowByRow):
    """Single precision, with another rounding in each batch size, as networks have; ``units`` of the last place."""

    def __init__(self, units: float = 20.0) -> None:
        super().__init__()
        self.units = units

    def __call__(self, x: Tensor) -> Tensor:
        exact = super().__call__(x)
        noise = torch.sin(1e6 * exact + len(x))
        rounded = exact + self.units * 2.0**-24 * exact.abs().amax(dim=1, keepdim=True) * noise
        return exact if x.dtype == torch.float64 else rounded.float()


class Majority(RowByRow):
    """In large batches it answers each input with the class that most of them have."""

    def __call__(self, x: Tensor) -> Tensor:
        logits = super().__call__(x)
        return logits.mean(dim=0, keepdim=True).expand_as(logits).clone() if len(x) > 8 else logits


@pytest.fixture(scope="module")
def duels(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run in which input 1 is certified correctly."""
    run = fill(tmp_path_factory.mktemp("runs") / "duels", planner=Duels(), selection=FOUR)
    assert (run.rows()[1].predict, run.rows()[1].label) == (1, 1)
    return run


def again(run: Run, **given: Any) -> runs.Job:
    """Its job, in another batch size."""
    given = {"model": job_of().model, "batch": other_batch(run), **given}
    return runs.job_of_run(run, data=DATA, **given)


def verified(run: Run, rows: int | None = None, **given: Any) -> Verification:
    return verify(run, again(run, **given), rows=rows)


def rewritten(run: Run, change: Callable[[list[Row]], list[Row]]) -> Run:
    """The run after its rows were edited by hand."""
    head = run.file.read_text().partition("\n")[0]
    lines = [row.text(run.columns) for row in change(run.rows())]
    run.file.write_text("\n".join([head, *lines, ""]))
    return Run(run.directory)


def altered(run: Run, **fields: Any) -> Run:
    """The run with other fields in its row of input 1."""
    return rewritten(run, lambda rows: [replace(row, **fields) if row.idx == 1 else row for row in rows])


@pytest.mark.parametrize(
    "method",
    [
        SEARCH,
        Cohen(),
        Paper(temperatures=(0.3, 1.0)),
        Votes(),
        Duels(),
        Duels(0.5),
        Duels("chosen"),
        Lipschitz("both"),
        Lipschitz("ramp"),
        Fixed("sparsemax", 0.5, mass=2.0),
        Fixed("hardmax", bounds=("betting",)),
        Deterministic(),
    ],
    ids=repr_of,
)
def test_rows_are_equal_whatever_the_batch_size(tmp_path: Path, method: Method) -> None:
    run = fill(tmp_path / "a", planner=method, selection=FOUR)
    seen: list[RowVerdict] = []
    found = verify(run, again(run), on_row=seen.append)
    assert [(row.idx, row.verdict, row.why) for row in seen] == [(k, "equal", None) for k in range(4)]
    assert found.rows == tuple(seen)
    assert (found.stands, found.inputs, found.missing, found.computed) == (True, 4, 0, 4)
    assert (found.batch, found.recorded_batch) == (32, 64)
    assert (found.largest("radius"), found.largest("logits")) == (0.0, None)


@pytest.mark.parametrize("method", [Duels(0.5), Duels(), SEARCH, Deterministic()], ids=repr_of)
def test_other_roundings_of_the_logits_are_told_apart_from_changes(tmp_path: Path, method: Method) -> None:
    made = job_of(method, FOUR, model=RoundedByBatch())
    run = runs.certify(made, tmp_path / "a")
    model = made.model
    found = verified(run, model=model)
    verdicts = {row.verdict for row in found.rows}
    assert verdicts <= {"equal", "rounding"}
    if method == Duels(0.5):
        assert verdicts == {"rounding"}
        assert 0 < (found.largest("p_lower") or 0) < 1e-5  # also the allowance for rounding is measured in each batch
        assert 0 < (found.largest("radius") or 0) < 1e-5
        # A change that is a thousand times as large does not stand, though the row is consistent after it.
        p, slopes = run.rows()[1].p_lower + 0.001, SoftDuel(0.5).slopes(3.0)
        grown = radius.ramp(p, 1 - p, sigma=0.5, lipschitz=slopes.vector, class_lipschitz=slopes.one)
        lie = altered(run, p_lower=p, p_upper=1 - p, radius=float(grown))
        assert [row.verdict == "different" for row in verified(lie, model=model).rows] == [False, True, False, False]


def test_a_model_that_looks_around_in_its_batch_does_not_stand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is refused before a run; had it made one, the rows would not stand."""
    made = job_of(Duels(), FOUR, model=Majority())
    with pytest.raises(ModelError, match="depends on the other inputs in its batch"):
        runs.certify(made, tmp_path / "a")
    monkeypatch.setattr(ModelCheck, "require", lambda *_: None)
    run = runs.certify(job_of(Duels(), FOUR, model=Majority()), tmp_path / "a")
    found = verified(run, model=made.model, batch=8)
    assert found.count("different") == 4


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"radius": 0.9}, "its radius is 0.9, and its bounds give "),
        ({"predict": 0, "correct": 0}, "its class is 0, with top class "),
        ({"correct": 0}, "correct is 0, with label 1 and class 1"),
        ({"label": 2, "correct": 0}, "its label is 2, and tiny has 1"),
        ({"name": "other"}, "its name is other, and tiny has None"),
        ({"p_lower": 0.9999, "p_upper": 0.0001}, "its radius is "),
        ({"p_lower": 1.2}, "its bounds are 1.2 and "),
        ({"p_lower": 0.9, "p_upper": 0.2}, "its bounds are 0.9 and 0.2, and scores sum to 1"),
        ({"p_lower": 0.9, "p_upper": 0.05}, "its bounds are 0.9 and 0.05, and those of duels sum to 1"),
        ({"risk_groups": "0.02"}, "it spends a risk of 0.02, and the run has 0.01"),
        ({"risk_groups": "x"}, "the risk of its rivals is x"),
        ({"groups": "-"}, "its rivals are -, with a risk of 0.01"),
        ({"risk_groups": "-"}, "its bounds have the risks 0 and 0"),
        ({"mass": 2.0}, "mass must be 1 for a duel, got 2"),
        ({"form": "deterministic"}, "its form is deterministic, and the run took samples"),
        ({"form": "mine", "radius": 9.0}, "its form is 'mine', which is not known"),
        ({"map": "-", "radius": 9.0}, "its map is '-', which is not known"),
        ({"bound": "mine", "p_lower": 0.999, "p_upper": 0.001}, "its bound is 'mine', which is not known"),
        ({"scores": 32 * "0"}, "it has a checksum of kept scores, and the run says that it keeps none"),
    ],
    ids=str,
)
def test_an_altered_row_is_found_without_computing_it(
    tmp_path: Path, duels: Run, fields: dict[str, Any], why: str
) -> None:
    shutil.copytree(duels.directory, tmp_path / "a")
    lie = altered(Run(tmp_path / "a"), **fields)
    found = verify(lie, again(lie), rows=1, seed=0)
    first, drawn = found.rows
    assert (first.idx, first.verdict, first.radius) == (1, "different", None)
    assert why in str(first.why)
    assert (drawn.idx != 1, drawn.verdict, found.computed, found.stands) == (True, "equal", 1, False)


def test_the_number_of_forged_rows_that_a_draw_finds() -> None:
    """All draws are counted; the chance does not depend on which rows are forged."""
    for rows in range(1, 9):
        for computed in range(1, rows + 1):
            draws = list(itertools.combinations(range(rows), computed))
            missed = [Fraction(sum(min(draw) >= forged for draw in draws), len(draws)) for forged in range(1, rows + 1)]
            for risk in (0.001, 0.05, 0.3, 0.5, 0.75):
                least = forged_rows_found(rows, computed, risk)
                assert least == next(k for k, chance in enumerate(missed, 1) if chance <= risk), (rows, computed, risk)
    assert forged_rows_found(10**6, 5 * 10**5, 0.001) == 10  # 2⁻¹⁰ < 0.001
    assert forged_rows_found(10**6, 1000, 0.001) == 6881
    assert hypergeom.pmf(0, 10**6, 6881, 1000) < 0.001 < hypergeom.pmf(0, 10**6, 6880, 1000)
    with pytest.raises(InvalidArgumentError, match="computed must be at most the number of rows, 3, got 4"):
        forged_rows_found(3, 4, 0.1)


def test_it_is_said_how_many_forged_rows_may_have_been_missed(tmp_path: Path) -> None:
    """A row that is consistent in itself is found only if it is drawn."""
    run = fill(tmp_path / "a", planner=Votes())
    row = run.rows()[1]
    p = float(clopper_pearson.lower(299, 300, row.risk_top))
    lie = altered(run, p_lower=p, p_upper=1 - p, radius=float(radius.r2(p, 1 - p, sigma=0.5)))
    found = [verify(lie, again(lie), rows=1, seed=seed) for seed in range(20)]
    assert {each.stands for each in found} == {each.rows[0].idx != 1 for each in found} == {True, False}
    assert (found[3].computed, found[3].seed, found[3].risk, found[3].forged_rows_found) == (1, 3, 0.01, 12)
    assert found[3].reach == (
        "1 of 12 rows were drawn with seed 3: a run with 12 or more forged rows (100 %) would have been found with "
        "probability at least 1 − 0.01, if its author did not know the seed; fewer may have been missed"
    )
    whole = verified(lie)
    assert (whole.stands, whole.seed, whole.forged_rows_found) == (False, None, 1)
    assert whole.reach == "all 12 rows were computed again, so no forged row can have been missed"
    assert verified(fill(tmp_path / "b", planner=Deterministic(), selection=FOUR), 1).risk == 0.001


def test_rows_are_drawn_anew_each_time(duels: Run) -> None:
    """Whoever knew the seed would forge the other rows."""
    seeds = {verified(duels, 1).seed for _ in range(3)}
    assert len(seeds) == 3


def test_an_altered_row_is_found_when_it_is_computed(tmp_path: Path, duels: Run) -> None:
    shutil.copytree(duels.directory, tmp_path / "a")
    lie = altered(Run(tmp_path / "a"), radius=0.9)
    assert [row.verdict for row in verified(lie).rows] == ["equal", "different", "equal", "equal"]


def test_bounds_of_votes_are_those_of_a_count(tmp_path: Path) -> None:
    run = fill(tmp_path / "a", planner=Votes(), selection=FOUR)
    assert verified(run).stands
    row = run.rows()[1]
    for change, why in ((0.001, "no number of 300 votes has that bound"), (0.5, "more than 300 samples can show")):
        p = min(row.p_lower + change, 0.999)
        lie = altered(run, p_lower=p, p_upper=1 - p, radius=float(radius.r2(p, 1 - p, sigma=0.5)))
        assert why in str(verified(lie).rows[1].why)
    # The bound of another count is consistent. It is found when the row is drawn.
    p = float(clopper_pearson.lower(299, 300, row.risk_top))
    lie = altered(run, p_lower=p, p_upper=1 - p, radius=float(radius.r2(p, 1 - p, sigma=0.5)))
    found = verified(lie).rows[1]
    assert (found.verdict, str(found.why).split(":")[0]) == ("different", "p_lower")


def test_rows_that_were_exchanged_or_have_another_seed_do_not_stand(tmp_path: Path) -> None:
    run = fill(tmp_path / "a", planner=Duels(0.5), selection=FOUR)

    def exchanged(rows: list[Row]) -> list[Row]:
        one, two = rows[0], rows[3]  # both have label 0
        return [replace(two, idx=0), *rows[1:3], replace(one, idx=3)]

    assert [row.verdict for row in verified(rewritten(run, exchanged)).rows] == ["different", "equal", "equal", "different"]  # fmt: skip  # noqa: E501
    other = altered_manifest(
        fill(tmp_path / "b", planner=Duels(0.5), selection=FOUR), lambda stored: stored["terms"].update(seed=1)
    )
    assert verified(other).count("different") == 4
    wider = fill(tmp_path / "c", planner=Duels(0.5), selection=FOUR)
    file = wider.directory / "manifest.json"
    file.write_text(file.read_text().replace('"sigma": 0.5', '"sigma": 0.6'))
    with pytest.raises(ChangedError, match=r'noise words: "Gaussian noise of σ = 0\.5", now "Gaussian noise '):
        verified(Run(wider.directory))
    file.write_text(file.read_text().replace("σ = 0.5", "σ = 0.6"))
    wider = Run(wider.directory)
    certified = {row.idx for row in run.rows() if row.radius > 0}  # others abstain
    assert len(certified) >= 2
    assert {row.idx for row in verified(wider, 1).rows if "its bounds give" in str(row.why)} == certified


def test_other_choices_do_not_stand(tmp_path: Path) -> None:
    run = fill(tmp_path / "a", planner=SEARCH, selection=FOUR)
    row = run.rows()[1]
    lie = altered(run, scope="all inputs" if row.scope == "this input" else "this input")
    assert verified(lie).rows[1].why == f"scope: {lie.rows()[1].scope}, now {row.scope}"
    wrong = altered(run, clean=(row.clean or 0) + 1, scope=row.scope)
    assert str(verified(wrong).rows[1].why).startswith("clean: ")


def test_kept_scores_are_compared(tmp_path: Path) -> None:
    made = job_of(Duels(0.5), FOUR, model=RoundedByBatch(), keep=True)
    run = runs.certify(made, tmp_path / "a")
    found = verified(run, model=made.model)
    assert found.stands
    assert 0 < (found.largest("logits") or 0) < 1e-4
    file = tmp_path / "a" / "scores-certification.npy"
    scores = np.load(file)
    scores[1, 17] += 0.25
    np.save(file, scores)
    assert "do not fit their checksum" in str(verified(run, model=made.model).rows[1].why)
    lie = altered(run, scores=Checksum.of(KeptScores.of(run).files, 1, {"selection": 50, "certification": 300}))
    assert "its kept scores are up to 0.2" in str(verified(lie, model=made.model).rows[1].why)


def test_runs_of_every_kind(tmp_path: Path) -> None:
    shards = [
        fill(tmp_path / str(k), keep=True, planner=Duels(), selection=Selection(INPUTS, max=4, shard=k, shards=2))
        for k in (1, 2)
    ]
    merged = runs.merge(shards, tmp_path / "merged")
    recertified = runs.recertify(merged, tmp_path / "again", SEARCH, n=100)
    assert [verified(run).count("equal") for run in (shards[1], merged, recertified)] == [2, 4, 4]
    cut = rewritten(recertified, lambda rows: rows[:3])
    assert (verified(cut).missing, verified(cut).stands) == (1, True)
    with pytest.raises(RunError, match="has no rows yet; there is nothing to verify"):
        verified(rewritten(cut, lambda rows: []))
    earlier = altered_manifest(merged, lambda stored: stored.update(rows_of="0.1.0"))
    with pytest.raises(RunError, match=r"has rows as version 0\.1\.0 defines them"):
        verified(earlier)
    imported = altered_manifest(recertified, lambda stored: stored["origin"].update(imported="other.tsv"))
    with pytest.raises(RunError, match="was imported from another project's file; there is nothing to verify it with"):
        verify(imported, again(merged))


def test_what_is_told(tmp_path: Path) -> None:
    run = fill(tmp_path / "a", planner=Duels("chosen"), selection=FOUR)
    notes = verified(altered_manifest(run, lambda stored: stored.update(torch="1.0")), 1).notes
    assert [note.split(",")[0] for note in notes] == [
        "the run was made with torch 1.0",
        "the run has no hash of the weights of its model; only its rows can be compared",
        "rows rely on the Lipschitz constant 3",
    ]
    elsewhere = altered_manifest(run, lambda stored: stored["model"].update(device="cuda"))
    with pytest.raises(RunError, match="was made on cuda, whose noise or 16-bit operations differ from those of cpu"):
        verified(elsewhere, device="cpu")
    with pytest.raises(ChangedError, match="seed"):
        verify(run, job_of(Duels("chosen"), FOUR, seed=5))
    with pytest.raises(InvalidArgumentError, match="rows must be a whole number of at least 1"):
        verify(run, job_of(Duels("chosen"), FOUR), rows=0)


def test_runs_with_exact_noise_may_use_several_kinds_of_devices(tmp_path: Path) -> None:
    def filled(name: str, **given: Any) -> Run:
        return fill(tmp_path / name, planner=Duels(), noise=ExactGaussian(LEVELS), **given)

    def elsewhere(run: Run) -> Run:
        return altered_manifest(run, lambda stored: stored["model"].update(device="cuda:99"))

    run = elsewhere(filled("a", selection=FOUR))
    job = runs.job_of_run(run, model=job_of().model, data=ON_GRID, batch=other_batch(run))
    found = verify(run, job)
    assert (found.stands, found.computed) == (True, 4)
    assert "the run says that it was made on cuda:99, and it is verified on cpu" in found.notes
    half = filled("b", selection=replace(FOUR, shard=1, shards=2))
    other = elsewhere(filled("c", selection=replace(FOUR, shard=2, shards=2)))
    assert runs.merge([half, other], tmp_path / "d").complete
    lines = run.file.read_text().splitlines(keepends=True)
    run.file.write_text("".join(lines[:-1]))
    assert filled("a", selection=FOUR, resume=True).complete
    with pytest.raises(RunError, match='model device: "cuda:99", now "cpu"'):
        fill(elsewhere(fill(tmp_path / "e", selection=FOUR)).directory, selection=FOUR, resume=True)


def test_other_batch(tmp_path: Path) -> None:
    run = fill(tmp_path / "a", planner=Cohen(), selection=FOUR)
    for batch, other in ((64, 32), (3, 1), (1, 3), (None, None)):
        way = None if batch is None else {"batch": batch, "folded": False, "channels_last": False, "compiled": False}
        run = altered_manifest(run, partial(dict.update, running=way))
        assert other_batch(run) == other
    assert math.isfinite(verified(run, 1, batch=5).largest("radius") or 0.0)


def test_a_choice_that_hangs_by_a_hair_stands(tmp_path: Path) -> None:
    """Of two temperatures that differ in the seventh digit, rounding decides which is forecast to be better."""
    method = LVM(maps=("softmax",), temperatures=(0.5, 0.5 * (1 + 1e-7)), bounds=("betting",))
    made = job_of(method, Selection(INPUTS, skip=2), model=RoundedByBatch())
    run = runs.certify(made, tmp_path / "a")
    job = again(run, model=made.model)
    changed = [row.idx for row in run.rows() if job.row(row.idx).temperature != row.temperature]
    assert 0 < len(changed) < 6
    assert verify(run, job).count("rounding") == 6


def test_a_rounding_that_was_made_smaller_by_hand_is_different(tmp_path: Path) -> None:
    """Whoever certifies the kept scores again relies on it."""
    run = fill(tmp_path / "a", planner=Votes(), keep=True, selection=FOUR, model=RoundedByBatch())
    model = job_of(model=RoundedByBatch()).model
    known, least = run.rows()[1].rounding, run.manifest.terms.rounding
    assert known is not None
    assert least is not None
    assert verified(run, model=model).stands
    run = altered_manifest(run, lambda stored: stored["terms"].update(rounding=1e-12))
    for factor, stands in ((0.7, True), (0.3, False)):
        found = verified(altered(run, rounding=factor * known), model=model)
        assert found.stands == stands, found
    (why,) = [row.why for row in found.rows if row.why]
    assert why.startswith(f"its rounding is {0.3 * known:g}, and ")
    assert why.endswith(" is measured now")
    run = altered_manifest(run, lambda stored: stored["terms"].update(rounding=least))
    below = verified(altered(run, rounding=least / 2), model=model)
    assert [row.why for row in below.rows if row.why] == [
        f"its rounding is {least / 2:g}, and the run has {least:g} at least"
    ]


def test_scores_of_another_version_are_not_compared_with_noise_of_this_one(tmp_path: Path) -> None:
    """The streams of noise are others, so that every row would seem to be different."""
    kept = fill(tmp_path / "kept", planner=Cohen(), keep=True, selection=FOUR)
    assert verified(runs.recertify(kept, tmp_path / "b", Votes())).stands
    altered_manifest(kept, lambda stored: stored.update(rows_of="0.1.0"))
    other = Run(kept.directory)
    with pytest.raises(RunError, match=r"rows as version 0\.1\.0 defines them, and this version has those of 0\.4\.0"):
        verified(other)
    with pytest.raises(RunError, match=r"scores as version 0\.1\.0 sampled them, and this version samples as 0\.4\.0"):
        runs.recertify(other, tmp_path / "a", Cohen())
