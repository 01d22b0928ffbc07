"""Certifying a data set: kills, full disks, models that fail; what a row says."""

import random
import resource
import signal
import time
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from lvmrs import Deterministic, Duels
from lvmrs.engine import samplers
from lvmrs.engine.tuning import Tuned
from lvmrs.errors import ModelError, RunError
from lvmrs.record import Row, Run, Selection
from lvmrs.record.directory import SCORES
from lvmrs.runs import certify
from tests.runs.helpers import DATA, INPUTS, fill, in_child, job_of, lines
from tests.tiny_models import RowByRow


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
    """At random moments of the time that a run takes here; after each four the run is completed and compared."""
    fill(tmp_path / "first", keep=True)  # what is loaded once does not count
    start = time.perf_counter()
    whole = fill(tmp_path / "whole", keep=True)
    pace = time.perf_counter() - start
    moments = random.Random(0)  # noqa: S311
    kills = 0
    for number in range(20):
        out = tmp_path / f"killed-{number}"
        work = partial(fill, out, resume=True, keep=True)
        for _ in range(4):
            ended = in_child(work, moments.uniform(0.001, pace))
            assert ended in (0, -signal.SIGKILL)
            kills += ended == -signal.SIGKILL
            pace *= 1.0 if ended else 0.7  # it was measured in a slower moment
        assert in_child(work) == 0
        assert lines(Run(out)) == lines(whole)
        for stage in ("selection", "certification"):
            name = f"scores-{stage}.npy"
            assert (out / name).read_bytes() == (whole.directory / name).read_bytes()
        if kills >= 20:
            break
    assert kills >= 20


def test_a_resumed_run_keeps_the_batch_size_that_trials_chose(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def chosen(size: int) -> None:
        monkeypatch.setattr(samplers, "chosen_way", lambda fast, *_: Tuned(fast.way(size), 1e-5))

    def stop(row: Row) -> None:
        if row.idx == 2:
            raise KeyboardInterrupt

    model = nn.Linear(12, 3)
    chosen(5)
    whole = fill(tmp_path / "whole", model=model, batch=None, keep=True)
    with pytest.raises(KeyboardInterrupt):
        fill(tmp_path / "stopped", model=model, batch=None, keep=True, on_row=stop)
    chosen(64)
    job = job_of(model=model, batch=None, keep=True)
    resumed = certify(job, tmp_path / "stopped", resume=True)
    assert job.smoothed.batch == 5
    assert lines(resumed) == lines(whole)
    for name in SCORES.values():
        assert (resumed.directory / name).read_bytes() == (whole.directory / name).read_bytes()


def test_a_model_that_fails_on_one_input_names_it(tmp_path: Path) -> None:
    good = RowByRow()

    def fails(x: Tensor) -> Tensor:
        if len(x) == 64 and (x.mean(dim=0).double() - torch.from_numpy(DATA.inputs[5])).norm() < 0.4:
            raise ValueError("no such day\nin the calendar")
        return good(x)

    with pytest.raises(ModelError, match=r"input 5: the model fails on a batch .* \(ValueError: no such day\)$"):
        fill(tmp_path / "a", model=fails)


def test_a_full_disk_while_keeping_scores(tmp_path: Path) -> None:
    whole = fill(tmp_path / "whole", keep=True)

    def limited() -> None:
        size = (whole.directory / "scores-certification.npy").stat().st_size // 2
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
        with pytest.raises(RunError, match="cannot be written to"):
            fill(tmp_path / "a", keep=True)

    assert in_child(limited) == 0
    assert lines(fill(tmp_path / "a", keep=True, resume=True)) == lines(whole)
