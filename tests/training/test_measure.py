"""What is measured at the end of a training."""

import json
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from lvmrs import training
from lvmrs.training.measure import measured
from tests.training.helpers import fresh, some_digits


def test_classifiers_are_measured_without_and_with_noise() -> None:
    model, data = fresh(), some_digits(100)
    found = measured(model, data, training.Gaussian(0.5), seed=2)
    assert found == {
        "split": "train",
        "inputs": 100,
        "sigma": 0.5,
        "clean accuracy": training.accuracy(model, data),
        "noisy accuracy": training.accuracy(model, data, 0.5, seed=2),
    }
    x, y = data.many(range(100))
    with torch.no_grad():
        assert found["clean accuracy"] == float((model(x).argmax(dim=1) == y).double().mean())


def test_denoisers_are_measured_by_their_error() -> None:
    found = measured(nn.Identity(), some_digits(100), training.Denoising(0.5), seed=2)
    assert list(found) == ["split", "inputs", "sigma", "mean squared error"]
    assert found["mean squared error"] == pytest.approx(0.25, rel=0.05)


def test_what_is_measured_can_be_written_as_json() -> None:
    sigma: Any = np.float32(0.5)
    found = measured(fresh(), some_digits(10), training.Gaussian(sigma), seed=0)
    assert json.loads(json.dumps(found)) == found
