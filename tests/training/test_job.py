"""A training job from beginning to end: what it writes, exact resumption, and one sentence for each mistake."""

import hashlib
import pickle
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch

from lvmrs import models, training
from lvmrs._util import lock as _locking
from lvmrs.cli import demo as demo
from lvmrs.errors import DataError, InvalidArgumentError, LvmrsError, ModelError, RunError
from lvmrs.training import Epoch, Prepared, StoppedTrainingError, TrainingJob
from tests.training import own_objectives
from tests.training.helpers import record_of
from tests.training.own_objectives import Clipped, Smoothed

GAUSSIAN = training.Gaussian(0.25)


@pytest.fixture
def job(tmp_path: Path) -> TrainingJob:
    """Three epochs of a small network, in a few steps."""
    settings = training.Settings(epochs=3, batch=500, lr=0.01)
    return TrainingJob("ready:small_cnn", "digits", GAUSSIAN, tmp_path / "nets" / "a.safetensors", settings)


def same_weights(first: Path, second: Path) -> bool:
    a, b = (safetensors.torch.load_file(path) for path in (first, second))
    return a.keys() == b.keys() and all(torch.equal(value, b[key]) for key, value in a.items())


def test_a_job_does_everything_once(job: TrainingJob) -> None:
    begun: list[Prepared] = []
    epochs: list[Epoch] = []
    steps: list[int] = []
    done = training.run(job, on_begin=begun.append, on_epoch=epochs.append, on_step=steps.append)
    (prepared,) = begun
    assert prepared.network.name == done.network == "ready:small_cnn,channels=1,side=8,classes=10"
    assert (prepared.data.name, prepared.data.split) == ("digits", "train")
    assert steps == list(range(1, prepared.steps + 1)) == [1, 2, 3, 4, 5, 6]
    assert tuple(epochs) == done.history
    assert done.seconds == sum(epoch.seconds for epoch in epochs)
    assert [path.name for path in job.out.parent.iterdir()] == ["a.safetensors"]  # no checkpoint is left
    assert not done.model.training
    loaded = models.load(f"trained:{job.out}").model
    x, _ = prepared.data.many(range(5))
    with torch.no_grad():
        torch.testing.assert_close(done.model(x), loaded(x))
    record = record_of(job.out)
    assert record["network"] == done.network
    told = record["training"]
    assert told["objective"] == "Gaussian(sigma=0.25)"
    assert told["objective settings"] == {"sigma": 0.25}
    assert "objective code" not in told
    assert told["settings"] == asdict(job.settings)
    assert told["data"] == {"name": "digits", "split": "train", "fingerprint": prepared.data.fingerprint()}
    assert told["losses"] == [epoch.loss for epoch in epochs]
    assert told["measured"] == done.measured
    assert told["measured"]["inputs"] == 360
    assert told["command"] == ""


def test_a_training_has_begun_when_it_was_started_first(job: TrainingJob, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not when it ended, nor when it was resumed."""
    hours = iter(f"2026-01-01T{hour:02}:00:00+0000" for hour in range(24))  # each look at the clock is an hour later
    monkeypatch.setattr("time.strftime", lambda form: next(hours))

    def stop(epoch: Epoch) -> None:
        raise StoppedError

    with pytest.raises(StoppedError):
        training.run(job, on_epoch=stop)
    done = training.run(job, resume=True)
    assert [epoch.begun[11:13] for epoch in done.history] == ["00", "01", "02"]
    assert record_of(job.out)["training"]["begun"] == "2026-01-01T00:00:00+0000"


class StoppedError(Exception):
    """Somebody pulled the plug."""


@pytest.mark.parametrize(
    "objective", [GAUSSIAN, Clipped(0.25, samples=2), Smoothed(0.25)], ids=lambda o: type(o).__name__
)
def test_a_stopped_job_is_resumed_exactly(job: TrainingJob, objective: training.Objective, tmp_path: Path) -> None:
    job = replace(job, objective=objective)
    whole = training.run(replace(job, out=tmp_path / "whole.safetensors"))

    def stop(epoch: Epoch) -> None:
        raise StoppedError

    with pytest.raises(StoppedError):
        training.run(job, on_epoch=stop)
    assert job.checkpoint.is_file()
    assert not job.out.exists()
    with pytest.raises(StoppedTrainingError) as refusal:
        training.run(job)
    sentence = f"{job.checkpoint} is a training that was stopped; resume it, or delete the file to begin again"
    assert str(refusal.value) == sentence
    with pytest.raises(RunError, match=r"it was made with other settings \(lr was 0.01 and is 0.02\); use those, or"):
        training.run(replace(job, settings=replace(job.settings, lr=0.02)), resume=True)
    epochs: list[Epoch] = []
    done = training.run(job, resume=True, on_epoch=epochs.append)
    assert [epoch.number for epoch in epochs] == [2, 3]
    assert [epoch.loss for epoch in done.history] == [epoch.loss for epoch in whole.history]
    assert done.measured == whole.measured
    assert same_weights(job.out, whole.out)
    assert not job.checkpoint.exists()


def test_a_job_that_was_stopped_while_measuring_has_only_to_measure(
    job: TrainingJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object, **__: object) -> dict[str, Any]:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("lvmrs.training.job.measured", stop)
        with pytest.raises(KeyboardInterrupt):
            training.run(job)
    steps: list[int] = []
    done = training.run(job, resume=True, on_step=steps.append)
    assert (steps, len(done.history)) == ([], 3)
    assert job.out.is_file()


def test_the_settings_and_the_code_of_an_objective_of_your_own_are_recorded(job: TrainingJob, tmp_path: Path) -> None:
    code = hashlib.sha256(Path(str(own_objectives.__file__)).read_bytes()).hexdigest()
    for objective, text, settings in (
        (
            Clipped(0.25, samples=2),
            "Clipped(sigma=0.25, samples=2, reduction='mean')",
            {"sigma": 0.25, "samples": 2, "reduction": "mean"},
        ),
        (
            Smoothed(0.25, margin=0.3),
            "Smoothed(sigma=0.25, margin=0.3, criterion=<function cross_entropy>)",
            {"sigma": 0.25, "margin": 0.3, "criterion": "<function cross_entropy>"},
        ),
    ):
        out = tmp_path / f"{type(objective).__name__}.safetensors"
        training.run(replace(job, objective=objective, out=out, settings=replace(job.settings, epochs=1)))
        told = record_of(out)["training"]
        assert (told["objective"], told["objective settings"]) == (text, settings)
        assert told["objective code"] == code


def test_a_training_is_not_resumed_with_other_code(job: TrainingJob, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(epoch: Epoch) -> None:
        raise StoppedError

    job = replace(job, objective=Clipped(0.25))
    with pytest.raises(StoppedError):
        training.run(job, on_epoch=stop)
    monkeypatch.setattr("lvmrs.training.job.code_hash", lambda part: "of another file")
    with pytest.raises(RunError, match=r"objective code was '[0-9a-f]{64}' and is 'of another file'"):
        training.run(job, resume=True)


def test_a_job_can_be_sent_elsewhere(job: TrainingJob) -> None:
    assert pickle.loads(pickle.dumps(job)) == job  # noqa: S301


def test_the_home_directory_may_be_written_short(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    job = TrainingJob("ready:small_cnn", "digits", GAUSSIAN, Path("~/a.safetensors"))
    assert job.out == tmp_path / "a.safetensors"
    assert job.checkpoint == tmp_path / "a.safetensors.checkpoint"


def test_nothing_is_measured_without_a_test_split(job: TrainingJob) -> None:
    done = training.run(replace(job, test_split=None, settings=training.Settings(epochs=1)))
    assert done.measured == record_of(job.out)["training"]["measured"] == {}


class Unmeasured(Smoothed):
    """It has no sigma."""

    def __init__(self) -> None:
        super().__init__(0.5)
        del self.sigma


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"out": Path("a.pth")}, "out must end in .safetensors, got a.pth"),
        ({"objective": "gaussian"}, "objective must be an Objective such as Gaussian(0.5), got 'gaussian'"),
        ({"objective": Smoothed(-1.0)}, "sigma must be at least 0 and finite, got -1.0"),
        ({"objective": Unmeasured()}, "sigma must be a number or an array of numbers, got None"),
    ],
)
def test_jobs_that_cannot_be(job: TrainingJob, changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidArgumentError) as refusal:
        replace(job, **changes)
    assert str(refusal.value) == sentence


@pytest.mark.parametrize(
    ("changes", "kind", "sentence"),
    [
        ({"out": Path("there.safetensors")}, RunError, "there.safetensors exists already; choose another file"),
        ({"out": Path("there.safetensors/a.safetensors")}, RunError, "there.safetensors cannot be written to "),
        (
            {"data": "npz:all.npz"},
            DataError,
            "npz:all.npz: split 'test' is the training data; choose another test split",
        ),
        ({"data": "npz:no-test.npz"}, DataError, "; choose another test split, or none to measure nothing"),
        ({"data": "npz:other-test.npz"}, ModelError, "the model fails on test inputs of shape (3, 8, 8)"),
        ({"data": "npz:more-test.npz"}, DataError, "test, has label 9, but the model has 4 classes"),
        ({"split": "nowhere"}, DataError, "there is no split 'nowhere'"),
        ({"model": "hf:some/thing"}, InvalidArgumentError, "hf:some/thing cannot be trained"),
        ({"objective": training.Margin(0.25)}, ModelError, "margins are distances in networks of a known"),
        ({"objective": training.Denoising(0.25)}, ModelError, "a denoiser keeps the shape"),
        ({"workers": -1}, InvalidArgumentError, "workers must be"),
        ({"device": "abacus"}, InvalidArgumentError, "device 'abacus' cannot be used here"),
    ],
)
def test_mistakes_are_refused_before_the_first_step(
    job: TrainingJob,
    changes: dict[str, Any],
    kind: type[LvmrsError],
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    images, labels = np.zeros((4, 1, 8, 8), np.uint8), np.arange(4)
    np.savez("all.npz", x=images, y=labels)
    np.savez("no-test.npz", x_train=images, y_train=labels)
    np.savez("other-test.npz", x_train=images, y_train=labels, x_test=images.repeat(3, axis=1), y_test=labels)
    np.savez("more-test.npz", x_train=images, y_train=labels, x_test=images, y_test=labels + 6)
    Path("there.safetensors").write_text("mine")
    steps: list[int] = []
    with pytest.raises(kind) as refusal:
        training.run(replace(job, **changes), on_step=steps.append)
    assert sentence in str(refusal.value)
    assert "--" not in str(refusal.value)  # options are for the command line
    assert steps == []
    assert Path("there.safetensors").read_text() == "mine"


def test_resuming_without_a_checkpoint_begins_a_training(job: TrainingJob) -> None:
    done = training.run(job, resume=True)
    assert done.out.exists()


def test_a_finished_training_is_loaded_if_its_settings_agree(job: TrainingJob, tmp_path: Path) -> None:
    normalised = replace(job, mean=[0.4], std=[0.2])
    done, before = training.run(normalised), job.out.read_bytes()
    steps: list[int] = []
    again = training.run(normalised, resume=True, on_step=steps.append)
    assert (steps, job.out.read_bytes() == before, job.lock.exists()) == ([], True, False)
    assert (again.network, again.measured) == (done.network, done.measured)
    assert [epoch.loss for epoch in again.history] == [epoch.loss for epoch in done.history]
    x = torch.rand(2, 1, 8, 8)
    assert torch.equal(again.model(x), done.model(x))
    with pytest.raises(RunError, match=r"a\.safetensors exists already; choose another file"):
        training.run(normalised)
    for changed, what in (
        (job, "origin"),
        (replace(normalised, objective=training.Gaussian(0.3)), "objective"),
        (replace(normalised, settings=replace(job.settings, lr=0.02)), "settings"),
    ):
        with pytest.raises(RunError, match=f"exists already, and was made with another {what}; choose another file"):
            training.run(changed, resume=True)


def test_the_demo_trains_by_a_job_and_goes_on_if_it_was_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, cut = tmp_path / "whole.safetensors", tmp_path / "cut.safetensors"
    accuracy = demo.train(whole, sigma=0.5, epochs=2)
    assert accuracy == record_of(whole)["training"]["measured"]["noisy accuracy"]
    run = training.run

    def stopped(job: TrainingJob, **options: Any) -> training.Trained:
        def stop(epoch: Epoch) -> None:
            raise StoppedError

        return run(job, on_epoch=stop, **options)

    with monkeypatch.context() as patch:
        patch.setattr(training, "run", stopped)
        with pytest.raises(StoppedError):
            demo.train(cut, sigma=0.5, epochs=2)
    assert demo.train(cut, sigma=0.5, epochs=2) == accuracy
    assert same_weights(whole, cut)


def test_two_trainings_of_one_file_are_kept_apart(job: TrainingJob) -> None:
    """The second one is told so, at any moment of the first, and whether it would resume or not."""
    sentences: list[str] = []

    def second(*_: object) -> None:
        for resume in (False, True):
            with pytest.raises(RunError, match=r"another process is training .*a\.safetensors; wait for it") as caught:
                training.run(job, resume=resume)
            sentences.append(str(caught.value))

    job.out.parent.mkdir()
    training.run(job, on_begin=second, on_epoch=second)
    assert len(sentences) == 2 * (1 + job.settings.epochs)
    assert [path.name for path in job.out.parent.iterdir()] == ["a.safetensors"]


def test_a_training_that_was_stopped_after_its_last_step_is_finished(job: TrainingJob, tmp_path: Path) -> None:
    whole = training.run(replace(job, out=tmp_path / "whole.safetensors"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lvmrs._util.files.remove", _pull_the_plug)
        with pytest.raises(StoppedError):
            training.run(job)
    _locking._ours.clear()
    job.lock.unlink()
    assert job.out.exists()
    assert job.checkpoint.exists()
    training.run(job, resume=True)
    assert [path.name for path in job.out.parent.iterdir()] == ["a.safetensors"]
    assert same_weights(job.out, whole.out)


def _pull_the_plug(path: Path) -> None:
    raise StoppedError
