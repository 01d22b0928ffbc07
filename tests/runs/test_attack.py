"""Attacks on runs: what they write, how they go on, and what they find."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from lvmrs import Cohen, Deterministic, Duels, SmoothedClassifier, analysis, runs
from lvmrs.attacks import Search
from lvmrs.data import Arrays
from lvmrs.errors import DataError, InvalidArgumentError, ModelError, RunError
from lvmrs.kernel.method import Method
from lvmrs.models import Loaded
from lvmrs.record import Run, Selection
from lvmrs.record.attacks import Attack, AttackRow, AttackWriter
from lvmrs.runs.attack import certified_rows

pytestmark = pytest.mark.usefixtures("no_measuring")

SIGMA, INPUTS = 0.25, 4
QUICK = Search(steps=3, samples=8, n=1000)


def linear_job(method: Method | None = None, *, gradients: bool = True, keep: bool = False) -> runs.Job:
    """Four inputs of a network of one layer; the last is at a tie, and is not certified."""
    network = nn.Linear(6, 3)
    with torch.no_grad():
        network.weight.copy_(torch.eye(3, 6))
        network.bias.zero_()
    inputs = np.zeros((INPUTS, 6), np.float32)
    inputs[[0, 1, 2], [0, 1, 2]] = [1.0, 0.8, 0.6]
    loaded = Loaded.of(network if gradients else Without(network), "mine")
    smoothed = SmoothedClassifier(loaded.model, SIGMA, float(np.float32(1.0001)), batch=100)
    dataset = Arrays("corners", "test", inputs, np.arange(INPUTS) % 3)
    sampling = runs.Sampling(alpha=0.01, n0=50, n=1000)
    return runs.Job(loaded, dataset, smoothed, method or Duels(), sampling, Selection(INPUTS), keep)


class Without(nn.Module):
    """A network that gives no gradients, as one in another program."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            return self.network(x)  # type: ignore[no-any-return]


@pytest.fixture
def job() -> runs.Job:
    return linear_job()


@pytest.fixture
def run(job: runs.Job, tmp_path: Path) -> Run:
    return runs.certify(job, tmp_path / "run")


def altered(run: Run, **changed: Any) -> Run:
    """The run after its rows were edited by hand."""
    head, *lines = run.file.read_text().splitlines()
    names = head.split("\t")
    fields = [dict(zip(names, line.split("\t"), strict=True)) for line in lines]
    rows = [row | {name: str(change(row)) for name, change in changed.items()} for row in fields]
    run.file.write_text("\n".join([head, *("\t".join(row.values()) for row in rows)]) + "\n")
    return Run(run.directory)


def untimed(attack: Attack) -> list[AttackRow]:
    return [dataclasses.replace(row, seconds=0.0) for row in attack.rows()]


def test_each_certificate_has_an_upper_bound_beside_it(job: runs.Job, run: Run) -> None:
    begun: list[tuple[int, int]] = []
    seen: list[AttackRow] = []
    attack = runs.attack(job, run, QUICK, on_begin=lambda *counts: begun.append(counts), on_row=seen.append)
    assert (begun, attack.rows(), attack.directory) == ([(3, 0)], seen, run.directory)
    for row, known, truth in zip(attack.rows(), run.rows(), np.array([1.0, 0.8, 0.6]) / np.sqrt(2), strict=False):
        assert (row.idx, row.label, row.predict, row.radius) == (known.idx, known.label, known.predict, known.radius)
        assert row.distance is not None
        assert row.radius <= truth <= row.distance <= truth + 0.4 * SIGMA
        assert (row.broken, row.rival in {0, 1, 2} - {row.predict}, row.samples > 1000) == (0, True, True)
    assert not list(run.directory.glob("attack-*.npy"))
    assert attack.record.beta == QUICK.beta
    assert sorted(path.name for path in run.directory.iterdir()) == [
        "attack.json", "attack.tsv", "certificates.tsv", "manifest.json",
    ]  # fmt: skip


def test_certificates_that_were_made_larger_by_hand_are_broken_and_the_points_show_it(job: runs.Job, run: Run) -> None:
    false = altered(run, radius=lambda row: 1.5 * float(row["radius"]))
    attack = runs.attack(job, false, QUICK)
    assert [row.broken for row in attack.rows()] == [1, 1, 1]
    for row in attack.rows():
        point, (x, _) = torch.from_numpy(np.load(attack.point(row.idx))), job.input(row.idx)
        assert row.distance is not None
        assert row.distance == pytest.approx(float((point.double() - x.double()).norm()))
        assert row.distance < row.radius
        assert job.smoothed.predict(point, n=4000, alpha=0.01, seed=7) != row.predict
        assert job.smoothed.answer(point) == row.rival
    summary = analysis.attack_summary(analysis.results_of(false), [])
    assert summary is not None
    assert (summary.broken, summary.by_chance) == (3, 1)


def test_all_points_are_kept_if_that_is_asked_for(job: runs.Job, run: Run) -> None:
    attack = runs.attack(job, run, QUICK, keep=True, most=1)
    (row,) = attack.rows()
    assert row.distance == pytest.approx(float(np.linalg.norm(np.load(attack.point(0)) - job.input(0)[0].numpy())))


def test_it_goes_on_where_it_was_stopped(job: runs.Job, run: Run, tmp_path: Path) -> None:
    whole = runs.attack(job, run, QUICK, out=tmp_path / "whole")

    def stop(row: AttackRow) -> None:
        raise KeyboardInterrupt

    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            runs.attack(job, run, QUICK, on_row=stop)
    assert len(Attack(run).rows()) == 2
    with Attack(run).file.open("a") as file:
        file.write("2\t2\t2\t0.5")  # the process was killed within a line
    begun: list[tuple[int, int]] = []
    attack = runs.attack(job, run, QUICK, on_begin=lambda *counts: begun.append(counts))
    assert begun == [(1, 2)]
    assert untimed(attack) == untimed(whole)
    with pytest.raises(RunError, match=r"holds an attack with other settings \(steps: 3, now 4\); choose another"):
        runs.attack(job, run, dataclasses.replace(QUICK, steps=4))


def test_another_order_and_number_of_inputs_change_no_row(job: runs.Job, run: Run, tmp_path: Path) -> None:
    first = runs.attack(job, run, QUICK, most=2)
    assert [row.idx for row in first.rows()] == [0, 1]
    assert [row.idx for row in runs.attack(job, run, QUICK, skip=2).rows()] == [0, 1, 2]
    alone = runs.attack(job, run, QUICK, skip=3, out=tmp_path / "alone")
    assert untimed(alone) == untimed(first)[:1]
    assert [row.idx for row in certified_rows(run, skip=2)] == [0, 2]


def test_a_second_process_is_kept_out_and_a_failure_leaves_nothing(job: runs.Job, run: Run, tmp_path: Path) -> None:
    attack = runs.attack(job, run, QUICK, most=1, out=tmp_path / "other")
    with (
        AttackWriter(run, attack.directory, attack.record),
        pytest.raises(RunError, match="another process is writing"),
    ):
        runs.attack(job, run, QUICK, out=tmp_path / "other")
    before = sorted(run.directory.iterdir())
    foreign = linear_job(gradients=False)
    for out in (None, tmp_path / "new"):
        with pytest.raises(ModelError, match="input 0: the model has no gradients, which an attack needs"):
            runs.attack(foreign, run, QUICK, out=out)
    assert sorted(run.directory.iterdir()) == before
    assert not (tmp_path / "new").exists()


def test_certificates_of_votes_maps_and_of_the_network_itself_are_attacked(tmp_path: Path) -> None:
    for name, method in (("votes", Cohen()), ("network", Deterministic()), ("soft", Duels(0.3))):
        job = linear_job(method)
        attack = runs.attack(job, runs.certify(job, tmp_path / name), QUICK)
        rows = attack.rows()
        assert len(rows) == 3
        assert not any(row.broken for row in rows)
        assert all(row.distance is not None and row.radius < row.distance < 1.3 for row in rows)
        assert attack.record.beta == (0.0 if name == "network" else QUICK.beta)


def test_a_run_without_certificates_or_of_other_classes_is_refused(job: runs.Job, run: Run) -> None:
    stranger = altered(run, predict=lambda row: 7 if row["idx"] == "1" else row["predict"])
    with pytest.raises(RunError, match="input 1 is certified as class 7, and the model has 3 classes"):
        runs.attack(job, stranger, QUICK)
    altered(run, predict=lambda row: 1 if row["idx"] == "1" else row["predict"], label=lambda row: 0)
    with pytest.raises(DataError, match="input 1 has label 1, and its row says 0; these are other data"):
        runs.attack(job, Run(run.directory), QUICK)
    altered(run, map=lambda row: "magic", label=lambda row: int(row["idx"]) % 3)
    with pytest.raises(InvalidArgumentError, match=r"map must be one of .* got 'magic'"):
        runs.attack(job, Run(run.directory), QUICK)
    altered(run, predict=lambda row: -1, radius=lambda row: 0.0)
    with pytest.raises(RunError, match="has no certificates; there is nothing to attack"):
        runs.attack(job, Run(run.directory), QUICK)
