"""Models and data that were loaded by name go to a fresh process with another working directory, and back."""

import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch
from PIL import Image

from lvmrs import data, models
from lvmrs.errors import DataError, ModelError
from lvmrs.kernel.sampler import evaluating
from lvmrs.models import Loaded, ModelFacts, ready
from lvmrs.models.trained import save
from tests.models.test_load import network, write_onnx

X = torch.rand(3, 1, 8, 8, generator=torch.Generator().manual_seed(0))

CODE = """
import torch
from torch import nn
from lvmrs.data import Dataset

class Own(nn.Module):
    def __init__(self):
        super().__init__()
        self.last = nn.Linear(64, 3)  # random weights

    def forward(self, x):
        return self.last(x.flatten(1))

def make():
    return Own()

def steady():
    return lambda x: x.flatten(1)[:, :3]

def weaker(sigma):
    return lambda x: x / (1 + sigma)

class Greys(Dataset):
    def __init__(self, split):
        self.split = split

    def __len__(self):
        return 3

    def __getitem__(self, index):
        return torch.full((1, 8, 8), index / 2), index

    def fingerprint(self):
        return f"greys {self.split}"
"""

# The other process. For each folder that it reads from its input, a child of it, which has not imported any code of the
# user's, answers with what it makes of a pickled model or data set, or with the refusal.
OTHER = """
import os, pickle, sys, torch
from pathlib import Path
from lvmrs.data import Dataset
from lvmrs.errors import LvmrsError
from lvmrs.models import Loaded
from lvmrs.kernel.sampler import evaluating
torch.set_num_threads(1)

def answer(folder):
    os.chdir(folder)
    try:
        got = pickle.loads(Path("sent").read_bytes())
    except LvmrsError as error:
        return f"{type(error).__name__}: {error}"
    if isinstance(got, Dataset):
        return got.name, got.split, got.facts, got.fingerprint(), got.many(range(len(got)))
    with torch.no_grad(), evaluating(got.model):
        return got.name, got.fingerprint, got.code, got.facts, got.denoiser_fingerprint, got.model(torch.load("x"))

for line in sys.stdin:
    child = os.fork()
    if not child:
        try:
            Path(line.strip(), "answer").write_bytes(pickle.dumps(answer(line.strip())))
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    print("done", flush=True)
"""


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Path], None]]:
    """It looks at what is in a folder."""
    place = tmp_path_factory.mktemp("other")
    with subprocess.Popen(  # noqa: S603
        [sys.executable, "-c", OTHER], cwd=place, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        asked, answered = process.stdin, process.stdout

        def look(folder: Path) -> None:
            print(folder, file=asked, flush=True)
            assert answered.readline() == "done\n"

        yield look
        asked.close()


@pytest.fixture
def elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: Callable[[Path], None]
) -> Callable[[object], Any]:
    """The working directory is a new one here; what is sent is looked at in another process and directory."""
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "own_code_here", raising=False)  # as an earlier test imported it
    Path("own_code_here.py").write_text(CODE)
    torch.save(X, there / "x")

    def send(thing: object) -> Any:
        (there / "sent").write_bytes(pickle.dumps(thing))
        (there / "answer").unlink(missing_ok=True)
        other(there)
        return pickle.loads((there / "answer").read_bytes())  # noqa: S301

    return send


def check(elsewhere: Callable[[object], Any], loaded: Loaded) -> None:
    """The other process has the same model."""
    *told, answer = elsewhere(loaded)
    assert told == [loaded.name, loaded.fingerprint, loaded.code, loaded.facts, loaded.denoiser_fingerprint]
    with torch.no_grad(), evaluating(loaded.model):
        torch.testing.assert_close(answer, loaded.model(X), rtol=0, atol=1e-6)


def test_ready_networks_with_and_without_weights(elsewhere: Callable[[object], Any]) -> None:
    safetensors.torch.save_file(ready.build("small_cnn").state_dict(), "w.safetensors")
    check(elsewhere, models.load("ready:small_cnn", weights="w.safetensors", mean=[0.5], std=[0.25]))
    check(elsewhere, models.load("ready:small_cnn"))
    loaded = models.load("ready:small_cnn", weights="w.safetensors")
    safetensors.torch.save_file(ready.build("small_cnn").state_dict(), "w.safetensors")
    check(elsewhere, loaded)  # the weights in memory count
    Path("w.safetensors").unlink()
    assert elsewhere(loaded) == f"ModelError: weights: {Path.cwd() / 'w.safetensors'} does not exist; give a " + (
        ".safetensors file or a state dict"
    )


def test_trained_files(elsewhere: Callable[[object], Any]) -> None:
    net = models.Preprocessed(ready.build("small_cnn"), [0.5], [0.25])
    save(Path("w.safetensors"), net, "ready:small_cnn", {"objective": "noise"})
    loaded = models.load("trained:w.safetensors")
    check(elsewhere, loaded)
    save(Path("w.safetensors"), net.model, "ready:small_cnn", {})  # type: ignore[arg-type]
    assert elsewhere(loaded).startswith(
        "ModelError: trained:w.safetensors: it is not the model that was pickled: its network"
    )
    Path("w.safetensors").unlink()
    assert elsewhere(loaded) == f"ModelError: trained:w.safetensors: {Path.cwd() / 'w.safetensors'} does not exist"


def test_python_code_with_random_weights(elsewhere: Callable[[object], Any]) -> None:
    for name in ("own_code_here.py:make", "own_code_here.py:steady"):
        check(elsewhere, models.load(f"python:{name}"))
    loaded = models.load("python:own_code_here.py:make", mean=[0.5], std=[0.25])
    check(elsewhere, loaded)
    with torch.no_grad():
        for parameter in loaded.model.parameters():  # type: ignore[attr-defined]
            parameter += 1
    assert elsewhere(loaded) == (
        "ModelError: python:own_code_here.py:make: it is not the model that was pickled: its weights or file changed; "
        "load it again"
    )
    loaded = models.load("python:own_code_here.py:make")
    Path("own_code_here.py").write_text(CODE + "\n# another version\n")
    assert elsewhere(loaded) == (
        "ModelError: python:own_code_here.py:make: it is not the model that was pickled: the code that makes it "
        "changed; load it again"
    )


def test_a_module_of_the_same_name_elsewhere_does_not_come_first(
    elsewhere: Callable[[object], Any], tmp_path: Path
) -> None:
    (tmp_path / "there" / "own_code_here.py").write_text("raise RuntimeError('the wrong file')")
    check(elsewhere, models.load("python:own_code_here.py:make"))


def test_onnx_files(elsewhere: Callable[[object], Any]) -> None:
    write_onnx(Path("net.onnx"), network(), 2)
    loaded = models.load("onnx:net.onnx")
    check(elsewhere, loaded)
    write_onnx(Path("net.onnx"), network(seed=1), 2)
    assert elsewhere(loaded) == (
        "ModelError: onnx:net.onnx: it is not the model that was pickled: its weights or file changed; load it again"
    )
    Path("net.onnx").unlink()
    assert elsewhere(loaded) == f"ModelError: onnx:net.onnx: {Path.cwd() / 'net.onnx'} does not exist"


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")  # from within torch.export
@pytest.mark.parametrize("dynamic", [True, False])
def test_exported_programs(elsewhere: Callable[[object], Any], dynamic: bool) -> None:
    shapes = ({0: torch.export.Dim("batch", min=1, max=1 << 20)},) if dynamic else None
    torch.export.save(torch.export.export(network(), (X[:2],), dynamic_shapes=shapes), "net.pt2")
    check(elsewhere, models.load("export:net.pt2", mean=[0.5], std=[0.25]))


def test_denoised_models(elsewhere: Callable[[object], Any]) -> None:
    save(Path("d.safetensors"), ready.build("dncnn,channels=1"), "ready:dncnn,channels=1", {})
    write_onnx(Path("net.onnx"), network(), "n")
    for denoiser in ("trained:d.safetensors", "python:own_code_here.py:weaker"):
        loaded = models.load("onnx:net.onnx", denoiser=denoiser, sigma=0.5)
        assert loaded.facts.denoiser is not None
        assert loaded.facts.denoiser.name == denoiser
        check(elsewhere, loaded)
    check(elsewhere, models.load("ready:small_cnn", denoiser="trained:d.safetensors", sigma=0.5))


def test_a_model_without_a_source_is_pickled_as_it_is() -> None:
    model = network()
    loaded = Loaded.of(model, "mine")
    again = pickle.loads(pickle.dumps(loaded))  # noqa: S301
    assert (again.name, again.source, again.facts) == ("mine", None, ModelFacts(takes_pixels=True))
    assert torch.equal(again.model(X), model(X))


def test_sources_are_plain_and_say_where_paths_begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    source = models.load("ready:small_cnn", mean=[0.5], std=[1]).source
    assert source == models.ModelSource("ready:small_cnn", None, (0.5,), (1.0,), None, 0.0, tmp_path)
    assert data.load("digits").data_source == data.DataSource("digits", "test", None, None, tmp_path)
    with pytest.raises(ModelError, match="mean and std go together; give both"):
        models.ModelSource("ready:small_cnn", mean=(0.5,)).load()


# ---- data


def same_data(elsewhere: Callable[[object], Any], dataset: data.Dataset) -> None:
    name, split, facts, fingerprint, (inputs, labels) = elsewhere(dataset)
    assert (name, split, facts, fingerprint) == (
        dataset.name,
        dataset.split,
        dataset.facts,
        dataset.fingerprint(),
    )
    here, numbers = dataset.many(range(len(dataset)))
    assert torch.equal(inputs, here)
    assert torch.equal(labels, numbers)


def test_data_sets_go_to_another_process(elsewhere: Callable[[object], Any]) -> None:
    np.savez("a.npz", x=np.zeros((2, 4, 4, 3), np.uint8), y=[0, 1])
    Path("pictures/7").mkdir(parents=True)
    Image.new("RGB", (6, 6), (1, 2, 3)).save("pictures/7/a.png")
    for dataset in (data.load("npz:a.npz"), data.load("imagefolder:pictures", size=4)):
        same_data(elsewhere, dataset)


def test_data_by_ones_own_class_are_named_again(elsewhere: Callable[[object], Any]) -> None:
    dataset = data.load("python:own_code_here.py:Greys", split="val")
    same_data(elsewhere, dataset)
    Path("own_code_here.py").write_text(CODE.replace("greys {", "other greys {"))
    assert elsewhere(dataset) == (
        "DataError: python:own_code_here.py:Greys: the data have changed since they were pickled; load them again"
    )
    Path("own_code_here.py").unlink()
    assert "own_code_here.py cannot be imported" in elsewhere(dataset)
    with pytest.raises(DataError, match="the data have changed since they were pickled"):
        data.DataSource("digits").load_again("digits", "another")
