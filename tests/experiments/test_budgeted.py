"""Networks that are trained for the same processor time: their steps, their record and their place in the cache."""

import dataclasses
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch

import ensembles_compared
import lab.budgeted
import lab.commands
import training_objectives
from lab import record
from lab.budgeted import POINTS, Trained, share_of_time
from lab.settings import Lab
from lvmrs import data
from lvmrs.training import Gaussian, Settings
from lvmrs.training.objectives import Objective

BUDGET = 0.3


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """A lab in which a Gaussian step is said to cost 10 ms, and a step of another objective 30 ms."""
    costs = {"Gaussian": 0.01, "_GaussianFirst": 0.01}

    def cost(name: str, inputs: object, chosen: Objective, settings: Settings) -> float:
        return costs.get(type(chosen).__name__, 0.03)

    monkeypatch.setattr(lab.budgeted, "_seconds_of_a_step", cost)
    (tmp_path / "results").mkdir()
    return Lab("digits", tmp_path / "cache", tmp_path / "results", 0, None, None, "", "", None, None,
               training_minutes=BUDGET / 60)  # fmt: skip


@pytest.mark.parametrize(
    ("name", "first", "steps", "gaussian"),
    [("gaussian", 0.0, 30, 0), ("smoothmix", 0.0, 10, 0), ("smoothmix", 0.2, 6 + 8, 6)],
)
def test_the_time_and_the_cost_of_a_step_give_the_number_of_steps(
    small: Lab, name: str, first: float, steps: int, gaussian: int
) -> None:
    about = Trained(small, name, 0.5, 0, {}, first).about
    batch = 64 if name == "gaussian" else 32  # two noisy copies of each input
    assert (about["steps"], about["first"]["steps"], about["settings"]["batch"]) == (steps, gaussian, batch)
    assert about["epochs"] == steps * batch / 1437
    points = about["curve"]
    assert len(points) == POINTS
    assert points[-1]["steps"] == steps
    assert all(0 < one["seconds"] <= other["seconds"] for one, other in pairwise(points))
    assert about["seconds"] >= points[-1]["seconds"]


def test_the_cost_of_a_step_is_that_of_its_objective() -> None:
    inputs = data.load("digits", split="train")

    class Slow(Gaussian):
        def loss(self, *given: Any) -> torch.Tensor:
            for _ in range(20):
                super().loss(*given)
            return super().loss(*given)

    fast, slow = (
        lab.budgeted._seconds_of_a_step("ready:small_cnn", inputs, chosen, Settings(batch=64, epochs=1))
        for chosen in (Gaussian(0.5), Slow(0.5))
    )
    assert 0 < 2 * fast < slow


def test_a_network_is_trained_once_and_other_settings_have_another_file(
    small: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = Trained(small, "gaussian", 0.5, 0)
    file = one.file
    others = [
        Trained(small, "gaussian", 1.0, 0),
        Trained(small, "gaussian", 0.5, 1),
        Trained(small, "gaussian", 0.5, 0, first=0.5),
        Trained(small, "gaussian", 0.5, 0, first=0.5, then=0.1),
        Trained(small, "macer", 0.5, 0),
        Trained(small, "macer", 0.5, 0, {"samples": 8}),
        Trained(dataclasses.replace(small, training_minutes=1.0), "gaussian", 0.5, 0),
    ]
    assert len({one._code, *(other._code for other in others)}) == 8

    def refused(*given: object) -> None:
        raise AssertionError("the cache has this already")

    monkeypatch.setattr(lab.budgeted, "_make", refused)
    assert Trained(small, "gaussian", 0.5, 0).file == file


def test_the_first_steps_are_gaussian_and_no_others() -> None:
    class Zero(Objective):
        sigma = 0.5

        def loss(self, model: object, x: torch.Tensor, y: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
            return torch.zeros(())

    sizes = []

    def model(x: torch.Tensor) -> torch.Tensor:
        sizes.append(len(x))
        return x.flatten(1)[:, :2]

    chosen = lab.budgeted._GaussianFirst(2, 3, Zero())
    losses = [
        float(chosen.loss(model, torch.rand(4, 1, 2, 2), torch.zeros(4, dtype=torch.long), torch.Generator()))
        for _ in range(4)
    ]
    assert sizes == [12, 12]
    assert min(losses[:2]) > 0
    assert losses[2:] == [0, 0]


def test_the_learning_rate_follows_the_time() -> None:
    plain = Settings(lr=1.0)
    timed = lab.budgeted._ByTime(lr=1.0, first_steps=0.8, first_time=0.2)
    assert timed.rate(0.8) == plain.rate(0.2)
    assert timed.rate(0.9) == pytest.approx(plain.rate(0.6))
    assert timed.rate(1.0) == plain.rate(1.0)
    smaller = dataclasses.replace(timed, then=0.1)
    assert smaller.rate(0.7) == timed.rate(0.7)
    assert smaller.rate(0.9) == pytest.approx(timed.rate(0.9) / 10)
    shares = [share_of_time(done / 100, 0.8, 0.2) for done in range(101)]
    assert shares == sorted(shares)
    assert share_of_time(0.3, 0.0, 0.0) == 0.3


def test_an_epoch_of_repeated_data_takes_every_input_as_often() -> None:
    inner = data.load("digits", split="train")
    twice = lab.budgeted._Repeated(inner, 2 * len(inner))
    x, y = twice.many([3, len(inner) + 3])
    assert torch.equal(x[0], x[1])
    assert y[0] == y[1] == inner[3][1]
    assert twice.fingerprint() != inner.fingerprint()


def test_both_experiments_find_what_their_pages_show(small: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training_objectives, "SIGMAS", (0.5,))
    found = {
        module.__name__: json.loads(record.write(small, module.__name__, module.measure).read_text(encoding="utf-8"))
        for module in (training_objectives, ensembles_compared)
    }
    objectives, averaged = found["training_objectives"], found["ensembles_compared"]
    rows = objectives["sigmas"]["0.5"]["rows"]
    assert set(rows) == {"gaussian", "smoothadv", "macer", "consistency", "smoothmix"}
    assert rows["gaussian"]["gap"] == [0, 0, 0]
    assert all(row["seconds"] >= row["curve"][-1]["seconds"] for row in rows.values())  # of training, not certifying
    assert all(row["gap"][0] == pytest.approx(row["average"] - rows["gaussian"]["average"]) for row in rows.values())
    page = training_objectives.shown(objectives)
    assert all(f"{row['average']:.4f}" in page for row in rows.values())
    assert "published average radius" not in page, "those are of CIFAR-10"
    assert set(training_objectives.drawn(objectives)) == {"training-0.5"}

    assert [(row["networks"], row["n"]) for row in averaged["rows"]] == [(1, 200), (3, 200), (3, 66), (5, 200), (5, 40)]
    alone = averaged["members"]["averages"]
    assert averaged["rows"][0]["average"] == alone[0], "the first network is a member"
    assert averaged["rows"][0]["to the first"] == [0, 0, 0]
    assert averaged["members"]["average"] == pytest.approx(sum(alone) / 5)
    assert "| 5 | 40 | 1 × |" in ensembles_compared.shown(averaged)
    assert str(small.cache) not in page + ensembles_compared.shown(averaged)
    assert str(small.cache) not in training_objectives.brief(objectives) + ensembles_compared.brief(averaged)

    low, high = (f"{bound:.4f}" for bound in rows["macer"]["interval"][1:])
    assert f"{rows['macer']['average']:.4f} ({low} to {high})" in page
    for row in [*rows.values(), *averaged["rows"], averaged["members"]]:
        del row["interval"]  # as in files of earlier versions
    assert f"({low} to {high})" not in training_objectives.shown(objectives)
    assert "| 5 | 40 | 1 × |" in ensembles_compared.shown(averaged)


def test_pages_say_by_the_numbers_whether_what_was_wanted_is_reached() -> None:
    def at(best: float) -> dict[str, Any]:
        gap = [best - 0.5, best - 0.51, best - 0.49]
        return {"rows": {"gaussian": {"average": 0.5, "gap": [0, 0, 0]}, "macer": {"average": best, "gap": gap}}}

    told = training_objectives._against_wanted({"sigmas": {"0.5": at(0.56), "1": at(0.54)}}).replace("\n", " ")
    assert "MACER at σ = 0.5, +12.0 % (+10.0 to +14.0): reached; " in told
    assert "MACER at σ = 1, +8.0 % (+6.0 to +10.0): not reached (reached at 1 of 2 σ)." in told

    def ensemble(average: float, n: int) -> dict[str, Any]:
        return {"networks": 3, "n": n, "average": average, "to members": [average - 0.4, average - 0.42, average]}

    rows = [ensemble(0.44, 300), ensemble(0.41, 100)]
    told = ensembles_compared._against_wanted({"members": {"average": 0.4}, "rows": rows}).replace("\n", " ")
    assert "+10.0 % (+5.0 to +110.0) at n = 300, reached; " in told
    assert "+2.5 % (-2.5 to +102.5) at n = 100, not reached." in told
