"""Settings of a training: schedules, and one sentence for each that cannot be."""

import json
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest

from lvmrs import training
from lvmrs.errors import InvalidArgumentError


def test_schedules() -> None:
    one = training.Settings(lr=2.0, schedule="one-cycle")
    assert [one.rate(done) for done in (0.0, 0.3, 1.0)] == pytest.approx([0.08, 2.0, 0.0])
    rates = [one.rate(done) for done in np.linspace(0, 1, 50)]
    assert max(rates) <= 2.0
    cosine = training.Settings(lr=2.0, schedule="cosine")
    assert [cosine.rate(done) for done in (0.0, 0.5, 1.0)] == pytest.approx([2.0, 1.0, 0.0])


def test_numbers_of_numpy_are_kept_as_plain_ones() -> None:
    """They are written as JSON after the training."""
    numbers: dict[str, Any] = {"epochs": np.int64(3), "batch": np.int32(7), "lr": np.float32(0.5)}
    made = training.Settings(**numbers, weight_decay=np.float64(0.25))
    assert json.loads(json.dumps(asdict(made)))["lr"] == 0.5
    assert made == training.Settings(epochs=3, batch=7, lr=0.5, weight_decay=0.25)


def test_steps_of_an_epoch() -> None:
    settings = training.Settings(batch=30)
    assert [settings.steps(inputs) for inputs in (1, 29, 30, 59, 60)] == [1, 1, 1, 1, 2]


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: training.Settings(epochs=0), "epochs must be"),
        (lambda: training.Settings(lr=-1), "lr must be positive"),
        (lambda: training.Settings(optimizer="lbfgs"), "optimizer must be one of adam, sgd, got 'lbfgs'"),
        (lambda: training.Settings(schedule="steps"), "schedule must be one of one-cycle, cosine"),
        (lambda: training.Settings(augment="flip"), "augment must be one of none, shift, shift-mirror"),
        (lambda: training.Settings(autocast="float8"), "autocast must be one of float32, bfloat16, float16"),
        (lambda: training.Settings(weight_decay=-1), "weight_decay must be at least 0"),
    ],
)
def test_wrong_settings_get_one_sentence(make: Any, sentence: str) -> None:
    with pytest.raises(InvalidArgumentError, match=sentence):
        make()
