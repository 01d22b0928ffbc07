"""The network that a name and the data give, and whether it fits them."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from lvmrs import training
from lvmrs.data.arrays import Arrays
from lvmrs.errors import DataError, InvalidArgumentError, LvmrsError, ModelError
from lvmrs.models import trained
from lvmrs.models.preprocessing import Preprocessed
from lvmrs.training.network import check_fit, network_for
from tests.training.helpers import fresh, some_digits, weights

GAUSSIAN, DENOISING = training.Gaussian(0.25), training.Denoising(0.25)


def colours(labels: list[int], classes: tuple[str, ...] | None = None) -> Arrays:
    return Arrays("colours", "train", np.zeros((len(labels), 3, 12, 12), np.uint8), np.array(labels), classes=classes)


@pytest.mark.parametrize(
    ("name", "data", "whole"),
    [
        ("ready:small_cnn", some_digits(), "ready:small_cnn,channels=1,side=8,classes=10"),
        ("ready:small_cnn,width=3", colours([0, 4]), "ready:small_cnn,channels=3,side=12,classes=5,width=3"),
        ("ready:small_cnn,classes=7", colours([0, 4]), "ready:small_cnn,channels=3,side=12,classes=7"),
        ("ready:small_cnn", colours([0], tuple("abc")), "ready:small_cnn,channels=3,side=12,classes=3"),
        ("ready:dncnn,width=4", colours([0]), "ready:dncnn,channels=3,width=4"),
        ("python:lvmrs.models.networks:small_cnn", some_digits(), "python:lvmrs.models.networks:small_cnn"),
    ],
)
def test_the_data_fill_in_what_the_name_leaves_open(name: str, data: Arrays, whole: str) -> None:
    network = network_for(data, name)
    assert network.name == network.origin["model"] == whole
    assert network.parameters == sum(p.numel() for p in network.module.parameters()) > 0
    check_fit(network.module, data, DENOISING if "dncnn" in name else GAUSSIAN)


def test_first_weights_depend_on_the_seed_alone() -> None:
    data, state = some_digits(20), torch.get_rng_state()
    first, again, other = (network_for(data, "ready:small_cnn", seed=seed) for seed in (3, 3, 4))
    assert torch.equal(torch.get_rng_state(), state)
    assert first.origin == again.origin
    assert first.origin["first weights"] != other.origin["first weights"]
    expected = weights(fresh("small_cnn", seed=3))
    assert all(torch.equal(value, expected[key]) for key, value in weights(first.module).items())


def test_a_trained_file_goes_on_under_its_own_name(tmp_path: Path) -> None:
    data, file = some_digits(20), tmp_path / "a.safetensors"
    model = Preprocessed(fresh("small_cnn,width=3"), [0.3], [0.4])
    trained.save(file, model, "ready:small_cnn,width=3", {})
    network = network_for(data, f"trained:{file}")
    assert network.name == "ready:small_cnn,channels=1,side=8,classes=10,width=3"
    assert isinstance(network.module, Preprocessed)
    assert network.module.normalisation == model.normalisation
    assert all(torch.equal(value, weights(model)[key]) for key, value in weights(network.module).items())
    given = network_for(data, "ready:small_cnn,width=3", weights=file)
    assert given.origin == network.origin


@pytest.mark.parametrize("name", ["hf:somebody/something", "onnx:net.onnx", "trained:net.pth"])
def test_other_names_cannot_be_trained(name: str) -> None:
    with pytest.raises(InvalidArgumentError) as refusal:
        network_for(some_digits(20), name)
    sentence = f"model: {name} cannot be trained; give ready:NAME, python:MODULE:FUNCTION or trained:FILE"
    assert str(refusal.value) == sentence


def test_a_file_does_not_choose_code_to_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("evil.py").write_text("import os\nos.mkdir('code-was-run')\ndef net(): pass\n")
    trained.save(Path("w.safetensors"), nn.Linear(1, 1), "python:evil.py:net", {})
    with pytest.raises(InvalidArgumentError) as refusal:
        network_for(some_digits(20), "trained:w.safetensors")
    assert str(refusal.value) == (
        "model: the network of trained:w.safetensors is code, python:evil.py:net; if you trust it, give that as the "
        "model with w.safetensors as its weights"
    )
    assert not Path("code-was-run").exists()
    with pytest.raises(ModelError, match=r"nowhere\.safetensors does not exist"):
        network_for(some_digits(20), "trained:nowhere.safetensors")


def test_a_network_without_parameters_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match=r"model: python:torch\.nn:Flatten has no parameters to train; give"):
        network_for(some_digits(20), "python:torch.nn:Flatten")


class Answers(nn.Module):
    """Answers as it is told."""

    def __init__(self, answer: object) -> None:
        super().__init__()
        self.answer = answer

    def forward(self, x: Tensor) -> object:
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


@pytest.mark.parametrize(
    ("model", "objective", "kind", "sentence"),
    [
        (
            Answers(KeyError("lost")), GAUSSIAN, ModelError,
            "the model fails on train inputs of shape (1, 8, 8) (KeyError: 'lost')",
        ),
        (
            Answers(SystemExit(0)), GAUSSIAN, ModelError,
            "the model fails on train inputs of shape (1, 8, 8) (it calls sys.exit)",
        ),
        (Answers(DataError("as it is")), GAUSSIAN, DataError, "as it is"),
        (Answers((1, 2)), GAUSSIAN, ModelError, "the model returns tuple; expected a tensor"),
        (
            Answers(torch.zeros(1, 9)), DENOISING, ModelError,
            "the model turns shape (1, 8, 8) into (9,); a denoiser keeps the shape",
        ),
        (
            nn.Identity(), GAUSSIAN, ModelError,
            "the model returns images: it is a denoiser, and Gaussian trains classifiers; "
            "choose objective denoise",
        ),
        (
            Answers(torch.zeros(1, 10, 1)), GAUSSIAN, ModelError,
            "the model returns shape (10, 1) for one input; expected one logit for each class",
        ),
        (
            Answers(torch.zeros(1, 9)), GAUSSIAN, DataError,
            "some digits, train, has label 9, but the model has 9 classes; labels may begin at 1: lvmrs check tells "
            "more",
        ),
    ],
)  # fmt: skip
def test_what_does_not_fit(
    model: nn.Module, objective: training.Objective, kind: type[LvmrsError], sentence: str
) -> None:
    with pytest.raises(kind) as refusal:
        check_fit(model, some_digits(), objective)
    assert str(refusal.value) == sentence


def test_what_fits() -> None:
    check_fit(Answers(torch.zeros(1, 10)), some_digits(), GAUSSIAN)
    check_fit(nn.Identity(), some_digits(), DENOISING)
