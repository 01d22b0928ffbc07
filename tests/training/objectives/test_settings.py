"""Objectives by name with their settings, and what is recorded of them."""

import dataclasses
import json
from typing import Any

import numpy as np
import pytest
import torch

from lvmrs import training
from lvmrs.errors import InvalidArgumentError
from lvmrs.registry import OBJECTIVES
from lvmrs.training.objectives import description, objective, record
from tests.training.own_objectives import Clipped, Demanding, Half, Returning, Silent, Smoothed


def test_objectives_by_name() -> None:
    classes = [training.Gaussian, training.SmoothAdv, training.Consistency, training.SmoothMix, training.MACER]
    classes += [training.Margin, training.Denoising]
    assert [OBJECTIVES.find(name) for name in OBJECTIVES] == classes
    assert [type(objective(name, 0.25)) for name in OBJECTIVES] == classes
    assert all(OBJECTIVES.words(name) for name in OBJECTIVES)
    made = objective("smoothadv", 0.25, epsilon=1.5, steps=None, samples=4, margin=None)
    assert made == training.SmoothAdv(0.25, epsilon=1.5, samples=4)
    assert objective("margin", 0.25, margin=0.0) == training.Margin(0.25, margin=0.0)  # 0 is a choice


def test_objectives_of_your_own(monkeypatch: pytest.MonkeyPatch) -> None:
    assert objective(Clipped, 0.25, samples=3) == Clipped(0.25, 3)
    assert vars(objective(Smoothed, 0.25, margin=0.3))["margin"] == 0.3
    monkeypatch.setattr(OBJECTIVES, "_added", {})
    named = type("Named", (Clipped,), {"name": "clipped"})
    assert OBJECTIVES.add(named) is named
    assert type(objective("clipped", 0.25)) is named
    with pytest.raises(InvalidArgumentError, match=r"Half has no method loss; write it: see lvmrs\.training\.objectiv"):
        OBJECTIVES.add(type("Half", (Half,), {"name": "half"}))


@pytest.mark.parametrize(
    ("name", "settings", "sentence"),
    [
        (
            "fgsm",
            {},
            "objective must be one of gaussian, smoothadv, consistency, smoothmix, macer, margin, denoise, got 'fgsm'",
        ),
        ("gaussian", {"epsilon": 1.0}, "epsilon is not a setting of objective gaussian; leave it out"),
        ("consistency", {"steps": 3}, "steps is not a setting of objective consistency; leave it out"),
        ("denoise", {"margin": 1.0}, "margin is not a setting of objective denoise; leave it out"),
        ("margin", {"steps": 3}, "steps is not a setting of objective margin; leave it out"),
        (Clipped, {"epsilon": 1.0}, "epsilon is not a setting of objective Clipped; leave it out"),
        (Silent, {}, "sigma is not a setting of objective Silent; give the class a parameter sigma"),
        (Demanding, {}, "objective Demanding needs teacher; give it, or give the class a default"),
        ("smoothadv", {"steps": 1.5}, "steps must be a whole number of at least 1, got 1.5"),
    ],
)
def test_what_cannot_be_chosen(name: Any, settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidArgumentError) as refusal:
        objective(name, 0.25, **settings)
    assert str(refusal.value) == sentence


def test_published_settings_are_those_of_the_nearest_sigma() -> None:
    assert [training.Consistency(sigma).lbd for sigma in (0, 0.12, 0.25, 0.4, 0.5, 1.0, 2.0)] == [20] * 3 + [10] * 4
    assert [training.MACER(sigma).lbd for sigma in (0, 0.25, 0.3, 0.5, 1.0)] == [12] * 3 + [4, 12]
    assert [training.SmoothMix(sigma).step_size for sigma in (0.25, 0.5, 1.0)] == [0.5, 1.0, 2.0]
    assert training.Consistency(0.25, lbd=0.0).lbd == 0  # 0 is a choice


def test_descriptions_are_the_same_in_every_process() -> None:
    for made in (training.Gaussian(0.25), training.SmoothAdv(0.5), training.Diffusion([0.9, 0.5]), Clipped(0.25)):
        assert description(made) == repr(made)  # as checkpoints have it
    assert description(Smoothed(0.25)) == "Smoothed(sigma=0.25, margin=0.1, criterion=<function cross_entropy>)"


def test_records_are_plain_json() -> None:
    assert record(training.SmoothAdv(0.5)) == {"sigma": 0.5, "epsilon": 0.5, "steps": 2, "samples": 2}
    settings = {"sigma": 0.25, "samples": 2, "lbd": 20.0, "eta": 0.5}  # the number that is used, not None
    assert record(training.Consistency(0.25)) == settings
    assert description(training.MACER(1)) == "MACER(sigma=1, samples=16, lbd=12.0, beta=16.0, gamma=8.0)"
    assert record(training.SmoothMix(0.25))["step_size"] == 0.5
    assert record(training.Diffusion([0.9, 0.5])) == {"kept": [0.9, 0.5], "sigma": 0.0}
    assert record(Smoothed(0.25)) == {"sigma": 0.25, "margin": 0.1, "criterion": "<function cross_entropy>"}
    odd = record(Returning(torch.ones(2), sigma=float(np.float32(0.5))))
    assert odd == {"sigma": 0.5, "answer": "tensor([1., 1.])"}
    assert record(Returning(float("nan")))["answer"] == "nan"
    assert json.dumps(odd, allow_nan=False)


def test_what_is_derived_from_a_dataclass_and_is_none_has_its_attributes_too() -> None:
    @dataclasses.dataclass
    class Plain(training.Objective):
        sigma: float

        loss = Smoothed.loss

    class More(Plain):
        def __init__(self, sigma: float, pull: float) -> None:
            super().__init__(sigma)
            self.pull, self._seen = pull, 0

    assert record(More(0.25, 2.0)) == {"sigma": 0.25, "pull": 2.0}
    assert record(Plain(0.25)) == {"sigma": 0.25}
