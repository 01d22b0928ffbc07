"""A job derives its manifest, refuses what cannot be run, and makes the same rows in another process."""

import json
import os
import pickle
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from lvmrs import Cohen, Deterministic, Duels, Planner, Votes, models, runs
from lvmrs.data import Arrays, load
from lvmrs.engine.way import Way
from lvmrs.errors import DataError, InvalidArgumentError, LvmrsError, ModelError
from lvmrs.kernel.terms import Choice, Terms
from lvmrs.planners import settings as method_settings
from lvmrs.record import Run, Selection
from lvmrs.smoothed import SmoothedClassifier
from tests.runs.helpers import DATA, INPUTS, fill, job_of, lines
from tests.tiny_models import RowByRow


def test_the_manifest_is_derived_from_what_is_run() -> None:
    job = job_of(Duels(0.5), Selection(INPUTS, skip=2), keep=True, alpha=0.02, n0=30, n=200, seed=7)
    made = job.manifest(Way(64), "typed")
    assert (made.method.name, made.method.settings, made.method.scope) == ("Duels", {"width": 0.5}, "all inputs")
    assert made.method.classifier is not None
    assert "soft duels of width 0.5 under Gaussian noise of σ = 0.5" in made.method.classifier
    terms = made.terms
    assert (terms.sigma, terms.alpha, terms.n0, terms.n, terms.seed, terms.lipschitz) == (0.5, 0.02, 30, 200, 7, 3.0)
    assert terms.rounding is not None
    assert 0 < terms.rounding < 1e-4
    assert (terms.noise, terms.distance) == ("gaussian", "the Euclidean distance")
    assert (made.data.name, made.data.split, made.data.hash) == ("tiny", "test", DATA.fingerprint())
    assert (made.selection, made.batch, made.keeps_scores, made.origin.command) == (job.selection, 64, True, "typed")
    certain = job_of(Deterministic()).manifest(Way(64))
    assert (certain.terms.alpha, certain.terms.n0, certain.terms.n, certain.terms.samples) == (0.0, 0, 0, False)


def test_what_cannot_be_run_is_refused_when_the_job_is_made() -> None:
    job = job_of()
    other = SmoothedClassifier(RowByRow(), 0.5)
    cases: list[tuple[dict[str, Any], str]] = [
        ({"smoothed": other}, "the smoothed classifier is not made of python:tests.models:RowByRow"),
        ({"method": "lvm"}, "method must be a Planner such as Duels"),
        (
            {"method": Deterministic(), "keeps_scores": True},
            "scores cannot be kept, since Deterministic takes no samples",
        ),
        ({"selection": Selection(INPUTS + 1)}, "the selection is for 13 inputs, and tiny has 12"),
        ({"selection": Selection(INPUTS, shard=13, shards=13)}, "tiny: 13 shards for 12 inputs; take fewer"),
    ]
    for changed, sentence in cases:
        with pytest.raises(LvmrsError, match=sentence):
            replace(job, **changed)
    unknown = SmoothedClassifier(job.model.model, 0.5)
    with pytest.raises(InvalidArgumentError, match="lipschitz is not known and Deterministic needs it"):
        replace(job, smoothed=unknown, method=Deterministic())


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"alpha": 2}, "alpha must lie strictly between 0 and 1, got 2"),
        ({"n0": 0}, "n0 must be a whole number of at least 1"),
        ({"n": 1}, "n must be a whole number of at least 2"),
        ({"seed": -1}, "seed must be a whole number from 0"),
    ],
)
def test_bad_numbers(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidArgumentError, match=sentence):
        runs.Sampling(**settings)


def test_labels_that_the_model_does_not_know(tmp_path: Path) -> None:
    digits = load("digits")
    loaded = models.Loaded.of(lambda x: x.flatten(1)[:, :3], "three classes")
    smoothed = SmoothedClassifier(loaded.model, 0.5, batch=8)
    job = runs.Job(loaded, digits, smoothed, Cohen(), runs.Sampling(n0=5, n=10), Selection(len(digits)))
    with pytest.raises(DataError, match="digits, test, has label 9, but the model has 3 classes"):
        runs.certify(job, tmp_path / "a")
    assert not (tmp_path / "a").exists()


class Counted:
    """A model that counts how often it is called."""

    def __init__(self) -> None:
        self.batches: list[int] = []

    def __call__(self, x: Tensor) -> Tensor:
        self.batches.append(len(x))
        return torch.stack([x[:, 0], 1 - x[:, 0], x[:, 1]], dim=1)


def test_the_model_is_checked_and_tuned_once(tmp_path: Path) -> None:
    """After the first row is begun, only samples, the answer without noise, and a few rows to be compared are run."""
    model = Counted()
    before: list[int] = []
    job = job_of(Cohen(), Selection(INPUTS, max=2), model=model, batch=None, n0=10, n=100)
    runs.certify(job, tmp_path / "a", on_begin=lambda estimate: before.append(len(model.batches)))
    batch = Run(tmp_path / "a").manifest.batch
    assert batch == job.smoothed.batch
    spent = model.batches[before[0] :]
    assert 0 <= sum(spent) - 2 * (10 + 100 + 1) <= 2 * 8
    checks = [size for size in model.batches[: before[0]] if size == 3]  # a part of the 8 copies, in another order
    assert len(checks) == 1


def test_the_outlook_is_told_before_the_first_row(tmp_path: Path) -> None:
    told: list[runs.RunEstimate] = []
    three = Selection(INPUTS, max=3)
    fill(tmp_path / "a", selection=three, keep=True)
    runs.certify(job_of(keep=True, selection=three), tmp_path / "a", resume=True, on_begin=told.append)
    (estimate,) = told
    assert (estimate.inputs, estimate.done, estimate.samples_each, estimate.classes) == (0, 3, 350, 3)
    assert estimate.scores_bytes == 3 * 350 * 3 * 4
    assert estimate.rate > 0
    assert estimate.seconds == 0


class Plain(Planner):
    """A planner that is no dataclass."""

    def __init__(self, strength: float, inner: object = None) -> None:
        self.strength, self.inner = strength, inner

    def choose(self, logits: Any, terms: Terms) -> Choice:
        return Cohen().choose(logits, terms)


def test_settings_of_a_planner_that_is_no_dataclass_are_recorded(tmp_path: Path) -> None:
    run = fill(tmp_path / "a", planner=Plain(0.5, Cohen()), selection=Selection(INPUTS, max=1))
    settings = run.manifest.method.settings
    assert settings["strength"] == 0.5
    assert settings["inner"]["type"] == "lvmrs.planners.cohen.Cohen"
    assert set(run.manifest.method.own_code) >= {"tests.runs.test_job.Plain"}
    with pytest.raises(LvmrsError, match=r"cannot be resumed: method settings: "):
        fill(tmp_path / "a", planner=Plain(0.75, Cohen()), selection=Selection(INPUTS, max=1), resume=True)
    with pytest.raises(InvalidArgumentError, match=r"Plain.inner is a function, which a manifest cannot hold"):
        method_settings.settings(Plain(1.0, lambda: None))


@dataclass(frozen=True)
class Wrap(Planner):
    """A planner around another one."""

    inner: Planner

    def choose(self, logits: Any, terms: Terms) -> Choice:
        return self.inner.choose(logits, terms)


class Longer(Cohen):
    """Derived from a dataclass, and none itself."""

    __slots__ = ("slotted",)

    def __init__(self, k: int) -> None:
        super().__init__()
        object.__setattr__(self, "k", k)
        object.__setattr__(self, "slotted", -k)


def test_no_setting_is_lost() -> None:
    assert method_settings.settings(Wrap(Votes())) == {"inner": {"type": "lvmrs.planners.votes.Votes"}}
    assert method_settings.settings(Wrap(Cohen())) != method_settings.settings(Wrap(Votes()))
    assert method_settings.settings(Longer(3)) == {"k": 3, "slotted": -3}
    assert method_settings.settings(Plain(1.0, {"b", "a"})) == method_settings.settings(Plain(1.0, {"a", "b"}))
    with pytest.raises(InvalidArgumentError, match=r"Plain.strength is -inf, which a manifest cannot hold"):
        method_settings.settings(Plain(float("-inf")))


def test_only_own_code_that_takes_part_is_recorded() -> None:
    assert job_of(Cohen()).manifest(Way(8)).method.own_code == {}
    own = job_of(Longer(1)).manifest(Way(8)).method.own_code
    assert list(own) == ["tests.runs.test_job.Longer"]


def test_weights_that_were_changed_are_refused() -> None:
    loaded, digits = models.load("ready:small_cnn"), load("digits")
    smoothed = SmoothedClassifier(loaded.model, 0.5, batch=8)
    job = runs.Job(loaded, digits, smoothed, Cohen(), runs.Sampling(n0=5, n=10), Selection(len(digits)))
    job.manifest(Way(8))
    with torch.no_grad():
        next(loaded.model.parameters()).add_(1.0)  # type: ignore[attr-defined]
    with pytest.raises(LvmrsError, match="its weights were changed after it was loaded"):
        job.manifest(Way(8))


def test_a_model_under_the_hash_of_another_is_refused() -> None:
    loaded, other, digits = models.load("ready:small_cnn"), models.load("ready:small_cnn,width=2"), load("digits")
    mixed = replace(loaded, model=other.model)
    smoothed = SmoothedClassifier(other.model, 0.5, batch=8)
    job = runs.Job(mixed, digits, smoothed, Cohen(), runs.Sampling(n0=5, n=10), Selection(len(digits)))
    with pytest.raises(LvmrsError, match="its weights were changed after it was loaded"):
        job.manifest(Way(8))


@pytest.mark.parametrize("name", ["sigma", "lipschitz", "noise", "compiled", "model", "precision", "device"])
def test_a_smoothed_classifier_stays_what_the_run_records(name: str) -> None:
    smoothed = SmoothedClassifier(torch.nn.Identity(), 0.5, batch=8)
    with pytest.raises(AttributeError, match=f"cannot be changed; make another one with another {name}"):
        setattr(smoothed, name, 1.0)
    assert smoothed.sigma == 0.5


def test_data_with_odd_attributes_do_not_make_a_run_that_cannot_be_read(tmp_path: Path) -> None:
    odd = Arrays("odd", "test", DATA.inputs, DATA.labels)
    odd.classes = ("a", 1, "c")  # type: ignore[assignment]
    with pytest.raises(LvmrsError, match="the manifest of this run, data, classes, is damaged: expected a list"):
        runs.certify(replace(job_of(), data=odd), tmp_path / "a")
    assert not (tmp_path / "a" / "manifest.json").exists()


OWN = """
import torch
from lvmrs import Cohen, Planner

class Mine(Planner):
    def __init__(self, word="a"):
        self.word = word

    def choose(self, logits, terms):
        return Cohen().choose(logits, terms)

def network():
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))
"""
THERE = """
import pickle, sys
from pathlib import Path
from lvmrs import runs as jobs
for number in range(2):
    try:
        job = pickle.loads(Path(f"{sys.argv[1]}-{number}.pickle").read_bytes())
        jobs.certify(job, f"{sys.argv[1]}-there-{number}", resume=True)
    except Exception as error:
        print(error, file=sys.stderr)
"""


def test_a_pickled_job_makes_the_same_rows_in_another_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user's model and planner are in a file that the other process has never seen, in another directory."""
    from lvmrs.cli.setup import chosen_method

    monkeypatch.chdir(tmp_path)
    Path("mine_there.py").write_text(OWN)
    planner = chosen_method("python:mine_there.py:Mine")
    assert planner is not None
    digits, here = load("digits"), list[Run]()
    for number, model in enumerate(("python:mine_there.py:network", "ready:small_cnn")):
        loaded = models.load(model)
        job = runs.Job(
            loaded,
            digits,
            SmoothedClassifier(loaded.model, 0.5, batch=32),
            planner,
            runs.Sampling(0.05, 20, 100),
            Selection(len(digits), max=4),
        )
        here.append(runs.certify(job, tmp_path / f"here-{number}"))
        Path(f"job-{number}.pickle").write_bytes(pickle.dumps(job))
    (tmp_path / "elsewhere").mkdir()
    assert elsewhere(tmp_path) == ""
    for number, run in enumerate(here):
        there = Run(tmp_path / f"job-there-{number}")
        assert lines(there) == lines(run)
        assert not there.manifest.difference(run.manifest)
    Path("mine_there.py").unlink()
    sentences = elsewhere(tmp_path).splitlines()
    assert len(sentences) == 2
    for sentence in sentences:
        assert "mine_there.py cannot be imported here (FileNotFoundError" in sentence


def elsewhere(place: Path) -> str:
    """What is said on stderr by a process in another directory that certifies the two pickled jobs."""
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", THERE, str(place / "job")],
        cwd=place / "elsewhere", env={**os.environ}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_a_run_allows_for_one_rounding_and_records_it(tmp_path: Path) -> None:
    whole = fill(tmp_path / "a", planner=Duels(0.5), keep=True, n=100, n0=20)
    recorded = whole.manifest.terms.rounding
    assert recorded is not None
    assert recorded > 0
    again = runs.recertify(whole, tmp_path / "again", Duels(0.5))
    first, kept = again.rows()[0], whole.rows()[0]
    assert replace(first, time=kept.time, scores=kept.scores) == kept
    assert again.manifest.terms.rounding == recorded
    shard = Selection(INPUTS, shard=2, shards=3)
    assert job_of(Duels(0.5), shard, keep=True).manifest(Way(64)).terms.rounding == recorded
    assert job_of(Duels()).manifest(Way(64)).terms.rounding is None
    settled = job_of(Duels(0.5))
    settled.settle_rounding(0.125)
    copy: runs.Job = pickle.loads(pickle.dumps(settled))  # noqa: S301 (our own bytes)
    assert copy.manifest(Way(64)).terms.rounding == 0.125
    assert settled.smoothed.certify(DATA[0][0], Duels(0.5), n0=20, n=100).rounding == 0.125


def test_a_resumed_run_keeps_the_rounding_that_it_has(tmp_path: Path) -> None:
    fill(tmp_path / "a", planner=Duels(0.5), n=100, n0=20, selection=Selection(INPUTS, max=3))
    manifest = tmp_path / "a" / "manifest.json"
    stored = json.loads(manifest.read_text())
    stored["terms"]["rounding"] = 0.25
    manifest.write_text(json.dumps(stored))
    file = tmp_path / "a" / "certificates.tsv"
    file.write_text("".join(f"{line}\n" for line in file.read_text().split("\n")[:2]))
    resumed = fill(tmp_path / "a", planner=Duels(0.5), n=100, n0=20, selection=Selection(INPUTS, max=3), resume=True)
    assert resumed.manifest.terms.rounding == 0.25
    by_hand = job_of(Duels(0.5), n=100, n0=20)
    by_hand.settle_rounding(0.25)
    assert [row.radius for row in resumed.rows()][1:] == [by_hand.row(index).radius for index in (1, 2)]


class OnlyFloat32(RowByRow):
    """A model that cannot run in float64."""

    def __call__(self, x: Tensor) -> Tensor:
        return super().__call__(x).float()


def test_a_run_that_cannot_measure_rounding_records_no_constant(tmp_path: Path) -> None:
    """Hard duels need no constant, so it runs; its scores cannot be certified with the constant later."""
    run = fill(tmp_path / "a", planner=Duels(), keep=True, n=100, n0=20, model=OnlyFloat32())
    assert (run.manifest.terms.rounding, run.manifest.terms.lipschitz) == (None, None)
    with pytest.raises(InvalidArgumentError, match="the run was made without a Lipschitz constant"):
        runs.recertify(run, tmp_path / "b", Duels("chosen"))
    with pytest.raises(ModelError, match=r"rounds to torch\.float32 inside"):
        fill(tmp_path / "c", planner=Duels("chosen"), n=100, n0=20, model=OnlyFloat32())
    assert not (tmp_path / "c").exists()
