"""A budget for many inputs: it is kept, spent where it helps, and the same in any batches."""

import resource
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor

from lvmrs import Certificate, Choice, Duels, Planner, SmoothedClassifier, Terms, runs
from lvmrs.engine import sources
from lvmrs.errors import InvalidArgumentError, ModelError, ProofError, RunError
from lvmrs.kernel.bounds.clopper_pearson import ClopperPearson
from lvmrs.kernel.maps import Duel
from lvmrs.kernel.method import Goal
from lvmrs.kernel.noise import Stage, Stream
from lvmrs.kernel.radius import R3
from lvmrs.models import Loaded
from lvmrs.record import Selection
from tests.quick import without_trials
from tests.runs.helpers import INPUTS as JOB_INPUTS
from tests.runs.helpers import fill, job_of, lines


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    without_trials(monkeypatch)


SURE = [torch.tensor([1.0 - 0.1 * k, 0.0, 0.0]) for k in range(5)]
TIED = [torch.tensor([0.5, 0.5, 0.0]) for _ in range(5)]


def certified(goal: Goal | None, batch: int = 64, n: int = 5000, n0: int = 32, **settings: Any) -> list[Certificate]:
    smoothed = SmoothedClassifier(torch.nn.Identity(), 0.5, batch=batch)
    return smoothed.certify_batch([*SURE, *TIED], Duels(), n0=n0, n=n, goal=goal, **settings)


def test_the_budget_is_kept_and_spent_where_it_helps() -> None:
    goal = Goal(budget=10 * 1000)
    found = certified(goal, n0=200)
    spent = [each.n for each in found]
    assert sum(spent) + 10 * 200 == 10_000
    assert min(spent[:5]) > max(spent[5:])  # a tie has no radius to gain
    even = certified(None, n=800, n0=200)  # the same bounds, and the same number for each
    assert {each.n for each in even} == {800}
    assert sum(each.radius for each in found) > sum(each.radius for each in even)
    assert certified(goal, batch=7, n0=200) == found


def test_samples_are_spent_on_right_answers() -> None:
    smoothed = SmoothedClassifier(torch.nn.Identity(), 0.5, batch=64)
    inputs = [(index, x, label) for index, (x, label) in enumerate(zip(SURE, [0, 2, 0, 1, 0], strict=True))]
    found = list(smoothed.certificates(inputs, Duels(), n0=64, n=5000, goal=Goal(budget=5000)))
    assert [found[1].n, found[3].n] == [32, 32]
    assert min(found[place].n for place in (0, 2, 4)) > 32
    assert sum(each.n + 64 for each in found) <= 5000


def test_numbers_are_settled_before_samples_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the samples of a proof show has no influence on how many there are."""

    def of(seed: int, index: int, stage: Stage) -> Stream:
        return Stream(7 if stage == "certification" else seed, index, stage)

    before = certified(Goal(budget=5000))
    monkeypatch.setattr(sources, "Stream", of)  # other samples to prove on
    after = certified(Goal(budget=5000))
    assert [each.n for each in before] == [each.n for each in after]
    assert [each.p_lower for each in before] != [each.p_lower for each in after]


def test_what_is_wrong_with_an_input_ends_the_spending() -> None:
    ran = []

    def model(x: Tensor) -> Tensor:
        ran.append(len(x))
        return torch.where(x[:, :1] > 50, x * float("nan"), x)

    smoothed = SmoothedClassifier(model, 0.5, batch=64)
    inputs = [*SURE, torch.tensor([100.0, 0.0, 0.0]), *TIED]
    with pytest.raises(ModelError, match="NaN or infinity"):
        smoothed.certify_batch(inputs, Duels(), n0=32, n=5000, goal=Goal(budget=50_000))
    assert sum(ran) < 5000  # the first looks, and the checks of the model


@pytest.mark.parametrize("goal", [Goal(budget=5000), Goal((0.2,)), None], ids=repr)
def test_a_failure_names_the_input(goal: Goal | None) -> None:
    job = job_of(Duels(), goal=goal)
    worst, _ = job.input(2)

    class Fails(torch.nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            logits: Tensor = job.model.model(x)
            far = (x - worst).flatten(1).norm(dim=1, keepdim=True) > 0.4  # the noise has a norm of 0.16
            return torch.where(far, logits, logits * float("nan"))

    loaded = Loaded.of(Fails(), "fails")
    smoothed = SmoothedClassifier(loaded.model, 0.02, batch=64)
    failing = runs.Job(loaded, job.data, smoothed, Duels(), job.sampling, job.selection)
    with pytest.raises(ModelError, match="input 2: "):
        list(failing.rows(job.selection.indices))


class Lazy(Planner):
    """Chooses without a look at what it is shown."""

    def choose(self, logits: Iterable[Tensor], terms: Terms) -> Choice:
        return Choice(top=0, classes=3, map=Duel(), bound=ClopperPearson(), form=R3(), risk_top=0.0,
                      risk_rival=terms.alpha)  # fmt: skip


def test_a_planner_need_not_read_its_logits() -> None:
    smoothed = SmoothedClassifier(torch.nn.Identity(), 0.5, batch=64)
    found = smoothed.certify_batch(SURE, Lazy(), n0=32, n=5000, goal=Goal(budget=5000))
    assert sum(each.n + 32 for each in found) == 5000


@dataclass(frozen=True)
class OneAtATime(R3):
    """A form that takes no arrays."""

    name: ClassVar[str] = "one_at_a_time"

    def radius(self, p_a: Any, p_b: Any, *, sigma: float, slopes: Any) -> Any:
        return super().radius(p_a, p_b, sigma=sigma, slopes=slopes) if p_a > p_b else np.asarray(0.0)


def test_a_forecast_that_fails_is_one_sentence() -> None:
    class Own(Lazy):
        def choose(self, logits: Iterable[Tensor], terms: Terms) -> Choice:
            return replace(super().choose(logits, terms), form=OneAtATime())

    smoothed = SmoothedClassifier(torch.nn.Identity(), 0.5, batch=64)
    assert smoothed.certify_batch(SURE, Own(), n0=32, n=100)
    with pytest.raises(ProofError, match="the forecast of a plan by Own fails"):
        smoothed.certify_batch(SURE, Own(), n0=32, n=5000, goal=Goal(budget=5000))


def test_inputs_that_share_a_budget_have_indices_of_their_own() -> None:
    smoothed = SmoothedClassifier(torch.nn.Identity(), 0.5, batch=64)
    with pytest.raises(InvalidArgumentError, match="two inputs that share a budget have the index 3"):
        list(smoothed.certificates([(3, SURE[0]), (3, SURE[1])], Duels(), n0=32, n=500, goal=Goal(budget=5000)))


def test_logits_cannot_be_watched() -> None:
    with pytest.raises(InvalidArgumentError, match="logits cannot be watched where inputs share a budget"):
        certified(Goal(budget=5000), watch=lambda stage, logits: None)


def test_a_budget_is_not_multiplied_by_shards() -> None:
    with pytest.raises(InvalidArgumentError, match="each shard would spend it"):
        job_of(Duels(), Selection(JOB_INPUTS, shard=1, shards=2), goal=Goal(budget=10_000))


def test_kept_scores_of_many_inputs_need_few_open_files(tmp_path: Path) -> None:
    source = fill(tmp_path / "kept", planner=Duels(), n=300, keep=True)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = len(list(Path("/proc/self/fd").iterdir()))
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + 10, before[1]))  # two files for each input would be too many
    try:
        found = runs.recertify(source, tmp_path / "out", Duels(), goal=Goal(budget=JOB_INPUTS * 200))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert found.count == JOB_INPUTS


def test_kept_scores_can_be_asked_with_a_budget(tmp_path: Path) -> None:
    source = fill(tmp_path / "kept", planner=Duels(), n=700, keep=True)
    goal, out = Goal(budget=JOB_INPUTS * 250), tmp_path / "replayed"
    sampled = fill(tmp_path / "sampled", planner=Duels(), n=700, goal=goal)
    assert lines(runs.recertify(source, out, Duels(), goal=goal)) == lines(sampled)
    text = (out / "certificates.tsv").read_text().split("\n")
    (out / "certificates.tsv").write_text("\n".join(text[:4]) + "\n")
    assert lines(runs.recertify(source, out, Duels(), goal=goal)) == lines(sampled)
    some = fill(tmp_path / "some", planner=Duels(), n=700, keep=True, goal=Goal((0.1,)))
    with pytest.raises(InvalidArgumentError, match="sampling was stopped by a goal"):
        runs.recertify(some, tmp_path / "no", goal=Goal(budget=10**4))


def test_rows_of_a_budget_are_the_same_after_a_stop(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"planner": Duels(), "n": 700, "goal": Goal(budget=JOB_INPUTS * 250)}
    whole = fill(tmp_path / "a", **settings)
    assert sum(row.samples or 0 for row in whole.rows()) + 50 * JOB_INPUTS <= JOB_INPUTS * 250
    text = whole.file.read_text().split("\n")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "manifest.json").write_bytes((tmp_path / "a" / "manifest.json").read_bytes())
    (tmp_path / "b" / "certificates.tsv").write_text("\n".join(text[:4]) + "\n")
    assert lines(fill(tmp_path / "b", resume=True, **settings)) == lines(whole)
    job = job_of(Duels(), n=700, goal=settings["goal"])
    with pytest.raises(RunError, match="shared a budget"):
        runs.verify(whole, job)


def test_what_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="budget must be at least 640 samples for a first look at 10 inputs"):
        certified(Goal(budget=639))
    with pytest.raises(InvalidArgumentError, match="scores cannot be kept, since inputs share a budget"):
        job_of(Duels(), keep=True, goal=Goal(budget=10_000))
    with pytest.raises(InvalidArgumentError, match="budget is for the average radius, and tolerance stops each input"):
        Goal(budget=100, tolerance=0.1)
    with pytest.raises(InvalidArgumentError, match="and target-radius decides each input after at most n samples"):
        Goal((0.5,), budget=100)
    with pytest.raises(InvalidArgumentError, match="budget must be a whole number"):
        Goal(budget=0)
    assert "which divides 100 samples among all inputs" in Goal(budget=100).words
