"""Networks that come with lvmrs, by name; files that say which network they are; checkpoints of others."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from torch import nn

from lvmrs import models
from lvmrs.errors import ModelError
from lvmrs.models import Preprocessed, ResNet, ready
from lvmrs.models.trained import save, training_record
from lvmrs.models.weights import load_weights
from lvmrs.registry import NETWORKS


@pytest.mark.parametrize("name", list(NETWORKS))
def test_every_network_answers(name: str) -> None:
    made = ready.build(f"{name},channels=1" + (",side=8" if "sandwich" in name or name == "small_cnn" else "")).eval()
    x = torch.rand(2, 1, 8, 8)
    with torch.inference_mode():
        answer = made(x)
    assert answer.shape == ((2, 1, 8, 8) if name == "dncnn" else (2, 10))
    assert ready.build(name)  # with its defaults


@pytest.mark.parametrize(("depth", "expected"), [(20, 269_722), (56, 853_018), (110, 1_727_962)])
def test_residual_networks_have_the_published_sizes(depth: int, expected: int) -> None:
    """He et al. (2016) list .27, .85 and 1.7 million parameters."""
    assert sum(p.numel() for p in ResNet(depth).parameters()) == expected


def test_names_are_taken_apart_and_filled_in() -> None:
    assert ready.parsed("sandwich_small,gamma=5,width=2") == ("sandwich_small", {"gamma": 5.0, "width": 2})
    facts = {"channels": 1, "side": 8, "classes": 7}
    assert ready.fitted("small_cnn,classes=3", facts) == "small_cnn,channels=1,side=8,classes=3"
    assert ready.fitted("resnet8", facts) == "resnet8,channels=1,classes=7"
    wide = ready.build("sandwich_medium,side=8,classes=3")
    assert sum(p.numel() for p in wide.parameters()) > 2 * sum(
        p.numel() for p in ready.build("sandwich_small,side=8,classes=3").parameters()
    )


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("ready:resnet21", "resnet21: there is no network of that name; choose one of small_cnn, fast_cnn, fast_"),
        ("ready:resnet20,depth=3", "resnet20 has no setting 'depth'; it has channels, classes, width, stride"),
        ("ready:resnet20,width=wide", "width must be a whole number, got 'wide'"),
        ("ready:resnet20,width=-1", "width must be positive and at most 10000, got -1"),
        ("ready:sandwich_small,gamma=x", "gamma must be a number, got 'x'"),
        ("ready:sandwich_small,side=30", "cannot be divided by 2"),
        ("trained:nowhere.safetensors", "nowhere.safetensors does not exist"),
    ],
)
def test_wrong_names_get_one_sentence(name: str, sentence: str) -> None:
    with pytest.raises(ModelError, match=sentence):
        models.load(name)


# ---- checkpoints of others


def renamed(state: dict[str, Any], change: Callable[[str], str]) -> dict[str, Any]:
    return {change(key): value for key, value in state.items()}


@pytest.mark.parametrize(
    ("network", "change", "behind"),
    [
        ("cifar_resnet20", lambda key: f"1.{key}", True),  # behind a normalisation, as Cohen et al. save them
        ("cifar_resnet20", lambda key: f"module.1.{key}", True),
        ("cifar_resnet20", lambda key: f"1.module.{key}", True),
        ("resnet20", lambda key: f"module.{key}".replace("fc", "linear"), False),
        ("cifar_resnet20", lambda key: key.replace("fc", "linear").replace("downsample", "shortcut"), False),
        ("fast_cnn", lambda key: key, False),  # whose own names begin with numbers
    ],
)
def test_checkpoints_with_an_arch_load(
    tmp_path: Path, network: str, change: Callable[[str], str], behind: bool
) -> None:
    torch.manual_seed(0)
    there = ready.build(network)
    state = renamed(there.state_dict(), change)
    file = tmp_path / "checkpoint.pth.tar"
    torch.save({"epoch": 90, "arch": network, "state_dict": state, "optimizer": {"lr": 0.1}}, file)
    x = torch.rand(2, 3, 32, 32)
    names: list[tuple[str, dict[str, Any]]] = [(f"trained:{file}", {}), (f"ready:{network}", {"weights": file})]
    for name, options in names:
        if behind:
            with pytest.raises(
                ModelError, match="it was trained behind a normalisation that is not in its file; give mean and std"
            ):
                models.load(name, **options)
            options = {**options, "mean": [0.5, 0.4, 0.3], "std": [0.2, 0.2, 0.3]}
        here: Any = models.load(name, **options).model
        seen = Preprocessed(there, [0.5, 0.4, 0.3], [0.2, 0.2, 0.3]) if behind else there
        assert torch.equal(here.eval()(x), seen.eval()(x))
        if name.startswith("trained:"):
            assert models.load(name, **options).assumed[0] == f"the network is {network}, as the checkpoint says"


def test_checkpoints_that_do_not_fit_name_the_keys(tmp_path: Path) -> None:
    file = tmp_path / "w.pth"
    state = ready.build("resnet20").state_dict()
    state["fc.weight"] = torch.zeros(7, 64)
    del state["conv1.weight"]
    state["extra"] = torch.zeros(1)
    torch.save({"arch": "resnet20", "state_dict": state}, file)
    with pytest.raises(ModelError) as caught:
        models.load(f"trained:{file}")
    assert str(caught.value) == (
        f"weights: {file} does not fit the model: conv1.weight is missing; extra is not in the model; "
        "fc.weight is (7, 64) and should be (10, 64)"
    )


def test_an_unknown_arch_and_code_in_a_pickle_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "w.pth"
    torch.save({"arch": "vgg16", "state_dict": {"a": torch.zeros(1)}}, file)
    with pytest.raises(ModelError, match="does not name a network of lvmrs \\(arch is 'vgg16'\\)"):
        models.load(f"trained:{file}")
    torch.save({"arch": ["vgg16"], "state_dict": {"a": torch.zeros(1)}}, file)
    with pytest.raises(ModelError, match="does not name a network of lvmrs"):
        models.load(f"trained:{file}")
    for content in (b"", b"just some text"):
        file.write_bytes(content)
        with pytest.raises(ModelError, match="or is not a checkpoint; save"):
            models.load(f"trained:{file}")
    torch.save({"arch": "resnet20", "state_dict": nn.Linear(1, 1)}, file)
    with pytest.raises(ModelError, match="is refused: it contains more than tensors, which could run code"):
        models.load(f"trained:{file}")


# ---- files of our own


def test_a_trained_file_knows_its_network(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = ready.build("small_cnn,classes=3")
    file = tmp_path / "w.safetensors"
    save(file, model, "ready:small_cnn,classes=3", {"epochs": 2})
    loaded = models.load(f"trained:{file}")
    assert training_record(file)["training"] == {"epochs": 2}
    assert loaded.assumed[0] == "the network is small_cnn,classes=3, as the file says"
    x = torch.rand(2, 1, 8, 8)
    made: Any = loaded.model
    assert torch.equal(made(x), model(x))
    save(file, Preprocessed(model, [0.5], [0.25]), "ready:small_cnn,classes=3", {})
    normalised: Any = models.load(f"trained:{file}").model
    assert torch.equal(normalised(x), model((x - 0.5) / 0.25))
    with pytest.raises(ModelError, match="has its own normalisation"):
        models.load(f"trained:{file}", mean=[0.5], std=[0.5])
    with pytest.raises(ModelError, match="only python: and ready: modules take weights"):
        models.load(f"trained:{file}", weights=file)
    other = ready.build("small_cnn,classes=3")
    load_weights(other, file)  # and its weights serve elsewhere
    assert torch.equal(other(x), model(x))


def test_a_file_does_not_choose_code_to_run(tmp_path: Path) -> None:
    file = tmp_path / "w.safetensors"
    text = json.dumps({"network": "python:os:abort", "normalisation": None, "training": {}})
    safetensors.torch.save_file({"a": torch.zeros(1)}, file, metadata={"lvmrs": text})
    with pytest.raises(ModelError, match=f"its network is python:os:abort; load that with {file} as its weights"):
        models.load(f"trained:{file}")
    safetensors.torch.save_file({"a": torch.zeros(1)}, file)
    with pytest.raises(ModelError, match="does not say which network it is for"):
        models.load(f"trained:{file}")
    for text in ("[]", "{}", '{"network": 3}'):
        safetensors.torch.save_file({"a": torch.zeros(1)}, file, metadata={"lvmrs": text})
        with pytest.raises(ModelError, match="does not say which network it is for"):
            models.load(f"trained:{file}")
    file.write_bytes(b"nothing")
    with pytest.raises(ModelError, match="is not a safetensors file"):
        models.load(f"trained:{file}")
