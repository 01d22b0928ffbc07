"""Models by name: each through its real library, on a tiny model saved in the real format."""

import builtins
import dataclasses
import json
import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.helper
import onnx.numpy_helper
import pytest
import safetensors.torch
import torch
import transformers
from torch import Tensor, nn

from lvmrs import SmoothedClassifier, models
from lvmrs.errors import LvmrsError, ModelError
from lvmrs.models import Preprocessed
from lvmrs.models.fixed_batch import InParts
from lvmrs.models.weights import digest_of_module, load_weights, read_weights

X = torch.rand(5, 1, 8, 8, generator=torch.Generator().manual_seed(0))
NAME = "python:lvmrs.models.networks:small_cnn"


def network(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 6), nn.ReLU(), nn.Linear(6, 3)).eval()


def answers(model: Any, x: Tensor = X) -> Tensor:
    with torch.inference_mode():
        logits: Tensor = model(x)
    return logits


# ---- python: and weights


def demo_network() -> nn.Module:
    made: Any = models.load(NAME).model
    assert isinstance(made, nn.Module)
    return made


@pytest.mark.parametrize("form", ["safetensors", "plain", "checkpoint", "parallel", "snapshots"])
def test_weights_from_every_form(tmp_path: Path, form: str) -> None:
    torch.manual_seed(1)
    trained = demo_network()
    state = trained.state_dict()
    file = tmp_path / ("w.safetensors" if form == "safetensors" else "w.pth")
    if form == "safetensors":
        safetensors.torch.save_file(state, file)
    else:
        stored: dict[str, Any] = {
            "plain": state,
            "checkpoint": {"arch": "cnn", "epoch": 3, "state_dict": state},
            "parallel": {"state_dict": {f"module.{key}": value for key, value in state.items()}},
            "snapshots": {"state_dict": [state, {}]},
        }
        torch.save(stored[form], file)
    loaded = models.load(NAME, weights=file)
    assert torch.equal(answers(loaded.model), answers(trained))
    assert loaded.fingerprint == digest_of_module(trained)
    assert loaded.assumed == ("it takes pixels in [0, 1] as they are",)


def test_the_hash_sees_a_change_of_one_weight() -> None:
    first, second = network(), network()
    assert digest_of_module(first) == digest_of_module(second)
    with torch.no_grad():
        second[1].weight[0, 0] += 1e-6  # type: ignore[index]
    assert digest_of_module(first) != digest_of_module(second)


class Evil:
    def __reduce__(self) -> Any:
        return (builtins.print, ("code was run",))


def test_weights_with_code_in_them_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torch.save({"state_dict": Evil()}, tmp_path / "new.pth")
    (tmp_path / "old.pth").write_bytes(pickle.dumps(Evil(), protocol=2))
    for name in ("new.pth", "old.pth"):
        with pytest.raises(ModelError, match="is refused: it contains more than tensors, which could run code"):
            read_weights(tmp_path / name)
    assert "code was run" not in capsys.readouterr().out


def test_weights_that_do_not_fit_say_which(tmp_path: Path) -> None:
    state = demo_network().state_dict()
    first = next(iter(state))
    cases = {
        "missing": ({k: v for k, v in state.items() if k != first}, f"{first} is missing"),
        "unknown": ({**state, "odd": torch.zeros(1)}, "odd is not in the model"),
        "shape": ({**state, first: torch.zeros(2)}, f"{first} is (2,) and should be (16, 1, 3, 3)"),
    }
    for name, (stored, sentence) in cases.items():
        torch.save(stored, tmp_path / name)
        with pytest.raises(ModelError) as caught:
            models.load(NAME, weights=tmp_path / name)
        assert "does not fit the model" in str(caught.value)
        assert sentence in str(caught.value)


def test_normalisation_is_part_of_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine_for_models.py").write_text(
        "import torch\nnet = torch.nn.Flatten()\nnet.lipschitz = 1.0\ndef plain():\n    return lambda x: x.flatten(1)\n"
    )
    monkeypatch.chdir(tmp_path)
    loaded = models.load("python:mine_for_models.py:net", mean=[0.5], std=[0.25])
    assert torch.allclose(answers(loaded.model), (X.flatten(1) - 0.5) / 0.25)
    assert SmoothedClassifier(loaded.model, 0.5).lipschitz == 4.0  # in pixels, a step is four times as large inside
    assert loaded.assumed == ("normalised with mean 0.5 and std 0.25, as given",)
    plain = models.load("python:mine_for_models.py:plain")
    assert plain.fingerprint is None
    assert torch.equal(answers(plain.model), X.flatten(1))
    Path("normalised_already.py").write_text(
        "import torch\nfrom lvmrs.models import Preprocessed\nnet = Preprocessed(torch.nn.Flatten(), [0.5], [0.25])\n"
    )
    assert models.load("python:normalised_already.py:net").assumed == ()
    with pytest.raises(ModelError, match="it has its own normalisation; leave mean and std out"):
        models.load("python:normalised_already.py:net", mean=[0.5], std=[0.25])


# ---- onnx: and export:


def write_onnx(path: Path, module: nn.Module, batch: int | str) -> None:
    first, second = module[1], module[3]  # type: ignore[index]
    tensors = [
        onnx.numpy_helper.from_array(value.detach().numpy(), name)
        for name, value in (("w1", first.weight), ("b1", first.bias), ("w2", second.weight), ("b2", second.bias))
    ]
    nodes = [
        onnx.helper.make_node("Flatten", ["x"], ["flat"]),
        onnx.helper.make_node("Gemm", ["flat", "w1", "b1"], ["h"], transB=1),
        onnx.helper.make_node("Relu", ["h"], ["r"]),
        onnx.helper.make_node("Gemm", ["r", "w2", "b2"], ["logits"], transB=1),
    ]
    one = onnx.TensorProto.FLOAT
    graph = onnx.helper.make_graph(
        nodes,
        "net",
        [onnx.helper.make_tensor_value_info("x", one, [batch, 1, 8, 8])],
        [onnx.helper.make_tensor_value_info("logits", one, [batch, 3])],
        tensors,
    )
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), path)


@pytest.mark.parametrize("batch", ["n", 1, 4])
def test_onnx(tmp_path: Path, batch: int | str) -> None:
    module = network()
    write_onnx(tmp_path / "net.onnx", module, batch)
    loaded = models.load(f"onnx:{tmp_path / 'net.onnx'}")
    assert torch.allclose(answers(loaded.model), answers(module), atol=1e-6)
    fixed = () if batch == "n" else (f"run in batches of {batch}, as the file fixes it",)
    assert loaded.assumed == ("logits are the output 'logits'", *fixed, "it takes pixels in [0, 1] as they are")
    assert loaded.facts == models.ModelFacts(
        output="logits", file_batch=None if batch == "n" else int(batch), takes_pixels=True
    )
    certificate = SmoothedClassifier(loaded.model, 0.25, batch=50).certify(X[0], n0=100, n=300)
    reference = SmoothedClassifier(module, 0.25, batch=50).certify(X[0], n0=100, n=300)
    assert certificate.radius == pytest.approx(reference.radius, abs=1e-3)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")  # from within torch.export
@pytest.mark.parametrize("dynamic", [True, False])
def test_export(tmp_path: Path, dynamic: bool) -> None:
    module = network()
    shapes = ({0: torch.export.Dim("batch", min=1, max=1 << 20)},) if dynamic else None
    program = torch.export.export(module, (X[:2],), dynamic_shapes=shapes)
    torch.export.save(program, tmp_path / "net.pt2")
    loaded = models.load(f"export:{tmp_path / 'net.pt2'}")
    assert torch.allclose(answers(loaded.model), answers(module), atol=1e-6)
    assert (loaded.assumed[0] == "run in batches of 2, as the file fixes it") != dynamic
    assert isinstance(loaded.model, InParts) != dynamic
    assert SmoothedClassifier(loaded.model, 0.25).certify(X[0], n0=100, n=300).n == 300


# ---- hf:


def save_classifier(folder: Path, **processor: Any) -> nn.Module:
    torch.manual_seed(0)
    config = transformers.ResNetConfig(
        num_channels=3,
        embedding_size=8,
        hidden_sizes=[8, 16],
        depths=[1, 1],
        layer_type="basic",
        num_labels=4,  # type: ignore[call-arg]
    )
    model: nn.Module = transformers.ResNetForImageClassification(config).eval()  # type: ignore[no-untyped-call]
    model.save_pretrained(folder)  # type: ignore[operator]
    settings = {
        "image_processor_type": "ConvNextImageProcessor",
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": [0.5, 0.4, 0.3],
        "image_std": [0.2, 0.25, 0.1],
        **processor,
    }
    (folder / "preprocessor_config.json").write_text(json.dumps(settings))
    return model


def test_a_transformers_classifier_with_its_image_processor(tmp_path: Path) -> None:
    model = save_classifier(tmp_path, size={"height": 16, "width": 16})
    loaded = models.load(f"hf:{tmp_path}")
    x = torch.rand(2, 3, 16, 16)
    mean, std = torch.tensor([0.5, 0.4, 0.3]).view(3, 1, 1), torch.tensor([0.2, 0.25, 0.1]).view(3, 1, 1)
    with torch.inference_mode():
        expected = model(pixel_values=(x - mean) / std).logits
    loaded_module: Any = loaded.model
    assert torch.allclose(answers(loaded_module.eval(), x), expected, atol=1e-5)
    assert loaded.assumed == (
        "normalised with mean 0.5, 0.4, 0.3 and std 0.2, 0.25, 0.1, from its image processor",
        "inputs of another size are resized to 16 × 16 within the model",
    )
    assert (loaded.facts.mean, loaded.facts.std) == ((0.5, 0.4, 0.3), (0.2, 0.25, 0.1))
    assert (loaded.facts.normalised_by, loaded.facts.resized_to) == ("image processor", (16, 16))
    assert json.loads(json.dumps(dataclasses.asdict(loaded.facts)))["resized_to"] == [16, 16]
    assert answers(loaded_module, torch.rand(2, 3, 40, 30)).shape == (2, 4)
    with pytest.raises(ModelError, match="it has its own normalisation"):
        models.load(f"hf:{tmp_path}", mean=[0.0], std=[1.0])


@pytest.mark.parametrize(
    ("processor", "mean", "std"),
    [
        ({"do_normalize": False}, [0.0] * 3, [1.0] * 3),
        ({"do_normalize": False, "do_rescale": False}, [0.0] * 3, [1 / 255] * 3),
        ({"rescale_factor": 1 / 127.5, "image_mean": 1.0, "image_std": 0.5}, [0.5] * 3, [0.25] * 3),
    ],
)
def test_image_processors_that_rescale_otherwise(
    tmp_path: Path, processor: dict[str, Any], mean: list[float], std: list[float]
) -> None:
    save_classifier(tmp_path, **processor)
    model = models.load(f"hf:{tmp_path}").model
    assert isinstance(model, Preprocessed)
    assert model.mean.flatten().tolist() == pytest.approx(mean)
    assert model.std.flatten().tolist() == pytest.approx(std)
    assert model.size is None


def test_models_that_cannot_be_loaded_get_one_clear_sentence(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no model")
    (tmp_path / "hf").mkdir()
    save_classifier(tmp_path / "offset", rescale_offset=True)
    save_classifier(tmp_path / "no_mean", image_mean=None)
    torch.save({"a": 3}, tmp_path / "numbers.pth")
    np.save(tmp_path / "array.npy", np.zeros(3))
    cases: dict[str, tuple[dict[str, Any], str]] = {
        "resnet50": (
            {},
            "no model of that name; write one of python:MODULE:FUNCTION, ready:NAME, trained:FILE, timm",
        ),
        "net.onnx": ({}, "no model of that name; did you mean onnx:net.onnx?"),
        "ts.pt": ({}, "give a network with ts.pt as its weights, such as ready:NAME or python:MODULE:FUNCTION; for a"),
        "onnx:": ({}, "a name is missing after the colon; write onnx:FILE"),
        "onnx:/nowhere.onnx": ({}, "/nowhere.onnx does not exist"),
        f"onnx:{tmp_path / 'text'}": ({}, "onnxruntime cannot run it"),
        f"export:{tmp_path / 'text'}": ({}, "not a program saved by torch.export.save"),
        f"export:{tmp_path / 'numbers.pth'}": ({}, "not a program saved by torch.export.save"),
        f"hf:{tmp_path / 'hf'}": ({}, "cannot be loaded"),
        f"hf:{tmp_path / 'offset'}": ({}, "shifts pixels (rescale_offset)"),
        f"hf:{tmp_path / 'no_mean'}": ({}, "gives no image_mean"),
        "timm:resnet18": ({}, "pip install 'lvmrs[timm]'"),
        "torchvision:resnet18": ({}, "pip install 'lvmrs[torchvision]'"),
        "python:math:pi": ({}, "it returned float; expected a module"),
        NAME: ({"weights": tmp_path / "numbers.pth"}, "is not a state dict"),
        f"{NAME} ": ({}, "there is no small_cnn  in lvmrs.models.networks"),
        "python:lvmrs.models.networks:fast_cnn": ({"mean": [0.5]}, "mean and std go together"),
        "python:lvmrs.models.networks:small_cnn": ({"mean": [0.5], "std": [0.0]}, "std must be positive and finite"),
    }
    for name, (options, sentence) in cases.items():
        with pytest.raises(LvmrsError) as caught:
            models.load(name, **options)
        assert sentence in str(caught.value), name
        assert "\n" not in str(caught.value), name
    for weights, sentence in (
        ("nowhere", "does not exist"),
        ("text", "is refused"),
        ("array.npy", "is refused"),
    ):
        with pytest.raises(ModelError) as caught_weights:
            models.load(NAME, weights=tmp_path / weights)
        assert sentence in str(caught_weights.value)


def test_old_and_wrapped_checkpoints_fit(tmp_path: Path) -> None:
    module = nn.ModuleDict({"submodule": nn.BatchNorm1d(3), "last": nn.Linear(3, 2)})
    state = module.state_dict()
    old = {f"module.{key}": value for key, value in state.items() if not key.endswith("num_batches_tracked")}
    compiled = {f"_orig_mod.{key}": value for key, value in state.items()}
    for name, stored in (("old", old), ("compiled", compiled)):
        torch.save(stored, tmp_path / name)
        fresh = nn.ModuleDict({"submodule": nn.BatchNorm1d(3), "last": nn.Linear(3, 2)})
        load_weights(fresh, tmp_path / name)
        assert digest_of_module(fresh) == digest_of_module(module)
    old.pop("module.last.bias")
    torch.save(old, tmp_path / "short")
    with pytest.raises(ModelError, match=r"does not fit the model: last\.bias is missing$"):
        load_weights(fresh, tmp_path / "short")


def test_channels_must_be_those_of_the_normalisation() -> None:
    model = Preprocessed(nn.Flatten(), [0.5] * 3, [0.5] * 3)
    assert model(torch.rand(2, 3, 4, 4)).shape == (2, 48)
    with pytest.raises(ModelError, match="the inputs have 1 channels and the model's normalisation has 3"):
        model(torch.rand(2, 1, 4, 4))


def test_a_network_without_its_classifier_is_refused(tmp_path: Path) -> None:
    save_classifier(tmp_path)
    state = safetensors.torch.load_file(tmp_path / "model.safetensors")
    kept = {key: value for key, value in state.items() if not key.startswith("classifier")}
    safetensors.torch.save_file(kept, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError, match=r"weights are missing .* it is not a trained image classifier"):
        models.load(f"hf:{tmp_path}")


def test_the_code_of_a_model_has_a_hash(tmp_path: Path) -> None:
    file = tmp_path / "mine_with_code.py"
    hashes = []
    for text in ("import torch\nnet = torch.nn.Flatten()\n", "import torch\nnet = torch.nn.Flatten(2)\n"):
        file.write_text(text)
        hashes.append(models.load(f"python:{file}:net").code)
    assert None not in hashes
    assert hashes[0] != hashes[1]


def test_torchscript_is_named_with_the_ways_that_work(tmp_path: Path) -> None:
    network = nn.Sequential(nn.Flatten(), nn.Linear(4, 2))
    with warnings.catch_warnings(action="ignore"):  # torch.jit is deprecated
        torch.jit.save(torch.jit.trace(network, torch.zeros(1, 4)), tmp_path / "a.pt")  # type: ignore[no-untyped-call]
    for name, weights in ((f"export:{tmp_path / 'a.pt'}", None), ("ready:small_cnn", tmp_path / "a.pt")):
        with pytest.raises(ModelError, match="is a TorchScript program, which lvmrs does not read; save the network"):
            models.load(name, weights=weights)
