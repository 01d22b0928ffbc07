"""Files of models that are damaged, odd or made to do harm: each is refused in one sentence, and nothing is run."""

import hashlib
import io
import json
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import safetensors.torch
import torch
from onnx import TensorProto, helper
from torch import nn
from transformers import ResNetConfig, ResNetForImageClassification

from lvmrs import models
from lvmrs.errors import LvmrsError, ModelError
from lvmrs.models import ready
from lvmrs.models.onnx import outside_files
from lvmrs.models.trained import save
from tests.hostile.commands import limited

TRACE = Path("code-was-run")


class Evil:
    """Leaves a trace where it is unpickled."""

    def __reduce__(self) -> Any:
        return os.mkdir, (str(TRACE),)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def refused(name: str, sentence: str, **options: Any) -> None:
    with pytest.raises(LvmrsError) as caught:
        models.load(name, **options)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not TRACE.exists()


# ---- weights and their metadata

NETWORK = "ready:small_cnn,classes=3"


def told(**changes: Any) -> str:
    return json.dumps({"network": NETWORK, "normalisation": None, "training": {}, **changes})


METADATA: dict[str, tuple[str, str]] = {
    "no JSON": ("hello", "does not say which network it is for"),
    "deep": ("[" * 100_000, "does not say which network it is for"),
    "list": ("[]", "does not say which network it is for"),
    "network": (told(network=3), "does not say which network it is for"),
    "code": (told(network="python:evil.py:make"), "its network is python:evil.py:make; load that with"),
    "unknown": (told(network="ready:nothing"), "there is no network of that name"),
    "setting": (told(network="ready:small_cnn,odd=3"), "has no setting 'odd'"),
    "wide": (told(network=f"ready:small_cnn,width={10**9}"), "width must be positive and at most 10000"),
    "large": (told(network="ready:small_cnn,width=10000,side=4096"), "more than the memory of this machine"),
    "deep network": (told(network=f"ready:dncnn,depth={10**9}"), "depth must be positive and at most 2000"),
    "many classes": (told(network=f"ready:small_cnn,classes={10**12}"), "classes must be positive and at most 1e+06"),
    "long number": (told(network=f"ready:small_cnn,width={'9' * 5000}"), "width must be a whole number"),
    "gamma": (told(network="ready:sandwich_small,gamma=inf"), "gamma must be positive and at most 1e+30, got inf"),
    "NaN": (told(network="ready:sandwich_small,gamma=nan"), "gamma must be positive"),
    "training": (told(training=[1]), "its record of the training is [1]"),
    "objective": (told(training={"objective": {"a": 1}}), "its record of the training is {'objective'"),
    "normalisation": (told(normalisation=3), "its normalisation is 3; expected a mean and a std"),
    "mean": (told(normalisation={"mean": [0.5]}), "expected a mean and a std for each channel"),
    "text": (told(normalisation={"mean": ["a"], "std": [1]}), "expected a mean and a std for each channel"),
    "no number": (told(normalisation={"mean": [None], "std": [1]}), "expected a mean and a std for each channel"),
    "lengths": (told(normalisation={"mean": [1], "std": [1, 2]}), "expected a mean and a std for each channel"),
    "zero": (told(normalisation={"mean": [1], "std": [0]}), "expected a mean and a std for each channel"),
    "infinite": (told(normalisation={"mean": [float("inf")], "std": [1]}), "expected a mean and a std for each"),
    "huge": (told(normalisation={"mean": [10**400], "std": [1]}), "expected a mean and a std for each"),
    "empty": (told(normalisation={"mean": [], "std": []}), "expected a mean and a std for each channel"),
}


@pytest.mark.parametrize("case", METADATA)
def test_metadata_of_weights(case: str) -> None:
    Path("evil.py").write_text(f"import os\nos.mkdir({str(TRACE)!r})\n")
    text, sentence = METADATA[case]
    state = ready.build("small_cnn,classes=3").state_dict()
    safetensors.torch.save_file(state, "w.safetensors", metadata={"lvmrs": text})
    refused("trained:w.safetensors", sentence)
    if "normalisation" in sentence or "mean" in sentence:
        refused(NETWORK, sentence, weights="w.safetensors")


WEIGHTS: dict[str, tuple[Callable[[], Any], str]] = {
    "code": (Evil, "is refused: it contains more than tensors, which could run code"),
    "code within": (lambda: {"state_dict": {"a": Evil()}}, "is refused"),
    "module": (lambda: nn.Linear(2, 2), "is refused"),
    "numbers": (lambda: {"a": 3}, "is not a state dict"),
    "numbers as names": (lambda: {3: torch.zeros(1)}, "is not a state dict"),
    "sparse": (lambda: {"a": torch.zeros(2, 2).to_sparse()}, "is not a state dict"),
    "complex": (lambda: {"a": torch.zeros(2, dtype=torch.complex64)}, "is not a state dict"),
    "list": (list, "is not a state dict"),
    "text": (lambda: "hello", "is not a state dict"),
    "other": (lambda: {"a": torch.zeros(2)}, "does not fit the model"),
}


@pytest.mark.parametrize("case", WEIGHTS)
def test_weights(case: str) -> None:
    make, sentence = WEIGHTS[case]
    torch.save(make(), "w.pth")
    refused(NETWORK, sentence, weights="w.pth")
    torch.save(make(), "w.pth", _use_new_zipfile_serialization=False)
    refused(NETWORK, sentence, weights="w.pth")


def test_files_that_were_cut_or_changed() -> None:
    rng = np.random.default_rng(0)
    module = ready.build("small_cnn,classes=3")
    save(Path("w.safetensors"), module, NETWORK, {})
    torch.save(module.state_dict(), "w.pth")
    for name in ("trained:w.safetensors", "w.pth"):
        file = Path(name.partition(":")[2] or name)
        whole = file.read_bytes()
        for _ in range(60):
            place = int(rng.integers(min(len(whole), 3_000)))
            file.write_bytes(
                whole[:place] + (b"" if rng.random() < 0.3 else bytes([rng.integers(256)])) + whole[place + 1 :]
            )
            try:
                models.load(name) if ":" in name else models.load(NETWORK, weights=file)
            except LvmrsError as error:
                one_line = "\n" not in str(error)
                assert one_line


@pytest.mark.parametrize("name", ["a\0b", "n" * 5000, "~nobody-of-that-name/a", "/dev/null", "/", "\ud800"])
def test_odd_names(name: str) -> None:
    for kind in ("trained", "onnx", "export"):
        refused(f"{kind}:{name}", "")
    refused(f"trained:{name}.safetensors", "")
    refused(NETWORK, "weights: ", weights=name)
    refused(NETWORK, "", denoiser=f"trained:{name}")


# ---- programs


class Small(nn.Module):
    """Batches are normalised, so that there are buffers, too."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(inplace=True), nn.Flatten())
        self.last = nn.Linear(72, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.layers(x))  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A file of torch.export whose batches have any size."""
    file = tmp_path_factory.mktemp("program") / "p.pt2"
    sizes = {"x": {0: torch.export.Dim("n")}}
    torch.export.save(torch.export.export(Small().eval(), (torch.rand(2, 1, 8, 8),), dynamic_shapes=sizes), file)
    return file.read_bytes()


def evil_pickle() -> bytes:
    buffer = io.BytesIO()
    torch.save(Evil(), buffer)
    return buffer.getvalue()


def graph(change: Callable[[Any], None]) -> Callable[[str, bytes], bytes]:
    def changed(part: str, content: bytes) -> bytes:
        if part != "models/model.json":
            return content
        stored = json.loads(content)
        change(stored)
        return json.dumps(stored).encode()

    return changed


def node(stored: Any) -> Any:
    return stored["graph_module"]["graph"]["nodes"][-1]


def calling(target: str, argument: str) -> Callable[[str, bytes], bytes]:
    def change(stored: Any) -> None:
        node(stored).update(target=target, inputs=[{"name": "a", "arg": {"as_string": argument}, "kind": 1}])

    return graph(change)


def size(text: str) -> Callable[[str, bytes], bytes]:
    def change(stored: Any) -> None:
        stored["graph_module"]["graph"]["tensor_values"]["x"]["sizes"][0]["as_expr"]["expr_str"] = text

    return graph(change)


def pickled_weight(part: str, content: bytes) -> bytes:
    if part == "data/weights/weight_0":
        return evil_pickle()
    if part != "data/weights/model_weights_config.json":
        return content
    stored = json.loads(content)
    next(payload for payload in stored["config"].values() if payload["path_name"] == "weight_0")["use_pickle"] = True
    return json.dumps(stored).encode()


def opaque_constant(part: str, content: bytes) -> bytes:
    if part != "data/constants/model_constants_config.json":
        return content
    payload = {"path_name": "opaque_obj_0", "is_param": False, "use_pickle": True, "tensor_meta": None}
    return json.dumps({"config": {"a": payload}}).encode()


RUN = f"__import__('os').mkdir('{TRACE}')"
SYMBOL = "Symbol('s77', positive=True, integer=True)"
PROGRAMS: dict[str, tuple[Callable[[str, bytes], bytes], str]] = {
    "inputs": (lambda part, content: evil_pickle() if part.endswith("inputs/model.pt") else content, "UnpicklingError"),
    "weight": (pickled_weight, "is not a plain tensor"),
    "constant": (opaque_constant, "'a' is not a plain tensor"),
    "size": (size(f"{RUN} or {SYMBOL}"), "it could run code: it has expr_str"),
    "size by attribute": (size("Symbol('s1').__class__.__mro__"), "it has expr_str"),
    "large size": (size("Integer(9999999999999999999)"), "it has expr_str"),
    "guard": (graph(lambda stored: stored.update(guards_code=[f"{RUN} is None"])), "it has guards_code"),
    "function": (calling("torch.serialization.os.mkdir", str(TRACE)), "it calls 'torch.serialization.os.mkdir'"),
    "operator": (calling("_operator.methodcaller", "mkdir"), "it calls '_operator.methodcaller'"),
    "dunder": (calling("torch.ops.aten.__class__.__init__", "a"), "it calls 'torch.ops.aten.__class__"),
    "file": (calling("torch.ops.aten.from_file.default", str(TRACE)), "it calls 'torch.ops.aten.from_file.default'"),
    "file by another": (calling("torch.ops.aten.relu.default", str(TRACE)), "it has as_string 'code-was-run'"),
    "library": (calling("torch.ops.load_library", str(TRACE)), "it calls 'torch.ops.load_library'"),
    "name": (graph(lambda stored: node(stored).update(name=f"a = {RUN}")), "it has name"),
    "output": (graph(lambda stored: node(stored)["outputs"][0].update(as_tensor={"name": f"({RUN})"})), "it has name"),
    "argument": (
        graph(lambda s: s["graph_module"]["module_call_graph"][0]["signature"].update(forward_arg_names=[f"x={RUN}"])),
        "it has forward_arg_names",
    ),
    "container": (
        graph(lambda s: s["graph_module"]["module_call_graph"][0]["signature"].update(
            out_spec='[1, {"type": "os.system", "context": "null", "children_spec": []}]')),
        "it has out_spec",
    ),
    "named tuples": (
        graph(lambda s: s["graph_module"].update(treespec_namedtuple_fields={"os.a": {"field_names": ["b"]}})),
        "it takes or returns named tuples",
    ),
    "no graph": (graph(lambda stored: stored.clear()), "is not a program saved by torch.export.save (KeyError"),
    "no JSON": (lambda part, content: b"{" if part.endswith("model.json") else content, "(JSONDecodeError"),
    "short weight": (lambda part, content: b"" if part.endswith("weight_0") else content, "has no values)"),
}  # fmt: skip


def rewritten(program: bytes, change: Callable[[str, bytes], bytes], **more: bytes) -> None:
    with zipfile.ZipFile(io.BytesIO(program)) as source, zipfile.ZipFile("p.pt2", "w") as out:
        for info in source.infolist():
            out.writestr(info.filename, change(info.filename.partition("/")[2], source.read(info)))
        root = source.namelist()[0].partition("/")[0]
        for part, content in more.items():
            out.writestr(f"{root}/{part}", content)


@pytest.mark.parametrize("case", PROGRAMS)
def test_programs(program: bytes, case: str) -> None:
    change, sentence = PROGRAMS[case]
    rewritten(program, change)
    refused("export:p.pt2", sentence)


@pytest.mark.parametrize(
    "part", ["data/aotinductor/model/a.so", "data/constants/opaque_obj_0", "version", "../a", "models/b.json", "xl/a"]
)
def test_programs_with_other_parts(program: bytes, part: str) -> None:
    rewritten(program, lambda _, content: content, **{part: b"{}"})
    refused("export:p.pt2", f"it could run code: it holds {part!r}")


def test_plain_programs_are_the_same_function(program: bytes) -> None:
    rewritten(program, lambda _, content: content)
    x = torch.rand(5, 1, 8, 8)
    loaded: Any = models.load("export:p.pt2")
    assert torch.equal(loaded.model(x), torch.export.load(io.BytesIO(program)).module()(x))


def write_onnx(path: str, location: str | None, **more: str) -> None:
    weight = helper.make_tensor("w", TensorProto.FLOAT, [4, 2], [0.0] * 8)
    if location is not None:
        weight.ClearField("float_data")
        weight.data_location = TensorProto.EXTERNAL
        for key, value in {"location": location, **more}.items():
            weight.external_data.add(key=key, value=value)
    sizes = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", width]) for name, width in (("x", 4), ("y", 2))
    ]
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", sizes[:1], sizes[1:], [weight])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    Path(path).write_bytes(made.SerializeToString())


@pytest.mark.parametrize(
    "location", ["../w.bin", "/etc/passwd", "a/w.bin", "..", ".", "", "*/_ORT_MEM_ADDR_/*", "l.bin"]
)
def test_onnx_weights_are_read_from_the_same_folder_only(location: str, tmp_path: Path) -> None:
    (tmp_path / "in" / "a").mkdir(parents=True)
    for place in ("w.bin", "in/w.bin", "in/a/w.bin"):
        Path(place).write_bytes(bytes(32))
    Path("in/l.bin").symlink_to("../w.bin")
    write_onnx("in/a.onnx", location)
    refused("onnx:in/a.onnx", f"it keeps weights in other files ({location!r}) that are not in its folder")


def test_onnx_weights_in_the_same_folder_are_a_part_of_the_model(tmp_path: Path) -> None:
    Path("in").mkdir()
    write_onnx("in/a.onnx", "w.bin", offset="4", length="32")
    refused("onnx:in/a.onnx", f"it keeps weights in {tmp_path}/in/w.bin, which does not exist; copy it there")
    seen = set()
    for first in (1.0, 2.0):
        np.array([7.0, first, *[0.0] * 7], np.float32).tofile("in/w.bin")
        loaded = models.load("onnx:in/a.onnx")
        assert loaded.model(torch.eye(4)[:1]).tolist() == [[first, 0.0]]
        seen.add(loaded.fingerprint)
    assert len(seen) == 2
    assert loaded.source is not None
    assert {path.name for path in loaded.source.files} == {"a.onnx", "w.bin"}
    Path("link.onnx").symlink_to("in/a.onnx")
    refused("onnx:link.onnx", "w.bin, which does not exist")
    write_onnx("b.onnx", None)
    assert models.load("onnx:b.onnx").fingerprint == hashlib.sha256(Path("b.onnx").read_bytes()).hexdigest()


@pytest.mark.parametrize(("offset", "length"), [("0", "64"), ("5", "32"), ("1000000", "32"), ("-4", "32"), ("0", "16")])
def test_onnx_weights_beyond_their_file(offset: str, length: str) -> None:
    Path("w.bin").write_bytes(bytes(32))
    write_onnx("a.onnx", "w.bin", offset=offset, length=length)
    refused("onnx:a.onnx", "onnx:a.onnx: onnxruntime cannot run it")


def test_tensors_are_found_wherever_they_are() -> None:
    outside = TensorProto(name="t", data_type=TensorProto.FLOAT, dims=[1], data_location=TensorProto.EXTERNAL)
    outside.external_data.add(key="location", value="w.bin")
    inner = helper.make_graph([], "inner", [], [], [outside])
    nodes = [
        helper.make_node("Constant", [], ["a"], value=outside),
        helper.make_node("If", ["a"], ["b"], then_branch=inner, else_branch=inner),
        helper.make_node("Odd", [], ["c"], values=[outside]),
        helper.make_node("Sparse", [], ["d"], value=helper.make_sparse_tensor(outside, outside, [1])),
    ]
    for made in nodes:
        stored = helper.make_model(helper.make_graph([made], "g", [], [])).SerializeToString()
        assert set(outside_files(stored)) == {"w.bin"}, made.op_type
    function = helper.make_function("d", "f", [], ["a"], nodes[:1], [helper.make_opsetid("", 13)])
    stored = helper.make_model(helper.make_graph([], "g", [], []), functions=[function]).SerializeToString()
    assert outside_files(stored) == ["w.bin"]
    assert outside_files(onnx.ModelProto().SerializeToString()) == []


def test_damaged_onnx_files() -> None:
    write_onnx("a.onnx", None)
    whole = Path("a.onnx").read_bytes()
    for length in range(0, len(whole) - 1, 5):
        Path("b.onnx").write_bytes(whole[:length])
        refused("onnx:b.onnx", "onnx:b.onnx: ")


# ---- folders


def save_classifier(folder: str) -> None:
    config = ResNetConfig(embedding_size=4, hidden_sizes=[4], depths=[1], num_labels=3)  # type: ignore[call-arg]
    ResNetForImageClassification(config).save_pretrained(folder)  # type: ignore[no-untyped-call]
    Path(folder, "preprocessor_config.json").write_text(json.dumps({"image_mean": [0.5] * 3, "image_std": [0.5] * 3}))


def changed(file: Path, **values: Any) -> None:
    file.write_text(json.dumps({**json.loads(file.read_text()), **values}))


def test_a_folder_with_code_of_its_own_runs_none() -> None:
    save_classifier("net")
    Path("net/evil.py").write_text(f"import os\nos.mkdir({str(TRACE)!r})\nclass Config: pass\nclass Net: pass\n")
    changed(
        Path("net/config.json"),
        model_type="evil",
        auto_map={"AutoConfig": "evil.Config", "AutoModelForImageClassification": "evil.Net"},
    )
    refused("hf:net", "hf:net: it cannot be loaded")


def test_a_folder_with_pickled_weights_runs_no_code() -> None:
    save_classifier("net")
    Path("net/model.safetensors").unlink()
    torch.save({"a": Evil()}, "net/pytorch_model.bin")
    refused("hf:net", "hf:net: it cannot be loaded")


@pytest.mark.parametrize("file", ["config.json", "model.safetensors", "preprocessor_config.json"])
def test_a_folder_with_a_pipe_is_refused_and_not_waited_for(file: str) -> None:
    save_classifier("net")
    Path("net", file).unlink()
    os.mkfifo(Path("net", file))
    sentence = f"net/{file} is a device or a pipe, not a file; remove it"
    with limited(20):
        refused("hf:net", sentence)
        refused(NETWORK, sentence, denoiser="diffusers:net", sigma=0.5)


PROCESSORS: dict[str, dict[str, Any]] = {
    "mean": {"image_mean": "a"},
    "none": {"image_mean": [None]},
    "std": {"image_std": [0, 0, 0]},
    "factor": {"rescale_factor": "a"},
    "size": {"size": {"height": 10**6, "width": 10**6}},
    "text": {"size": {"height": "a", "width": "b"}},
    "negative": {"size": {"height": -3, "width": 4}},
    "channels": {"image_mean": [0.5] * 3, "image_std": [0.5]},
}


@pytest.mark.parametrize("case", PROCESSORS)
def test_image_processors(case: str) -> None:
    save_classifier("net")
    changed(Path("net/preprocessor_config.json"), **PROCESSORS[case])
    refused("hf:net", "")


def test_a_diffusion_folder_names_no_pipeline_to_run() -> None:
    Path("pipe").mkdir()
    Path("pipe/pipeline.py").write_text(f"import os\nos.mkdir({str(TRACE)!r})\n")
    index = {"_class_name": ["pipeline", "Evil"], "unet": ["pipeline", "Evil"], "scheduler": ["pipeline", "Evil"]}
    Path("pipe/model_index.json").write_text(json.dumps(index))
    for part in ("unet", "scheduler"):
        Path("pipe", part).mkdir()
        Path("pipe", part, "config.json").write_text(json.dumps({"_class_name": "Evil", "auto_map": {"a": "b.C"}}))
    torch.save({"a": Evil()}, "pipe/unet/diffusion_pytorch_model.bin")
    refused(NETWORK, "neither a DDPMPipeline nor a UNet2DModel", denoiser="diffusers:pipe", sigma=0.5)


def test_sizes_are_refused_before_memory_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lvmrs.models.ready.memory", lambda: 1_000)
    with pytest.raises(ModelError, match=r"resnet8: it has [\d,]+ bytes of weights, more than the memory"):
        ready.build("resnet8")
