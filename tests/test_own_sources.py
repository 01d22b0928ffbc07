"""A source of models or data is a function and a line in the registry: both recipes, followed."""

import pickle
import re

import pytest
import torch

from lvmrs import data, models
from lvmrs.errors import DataError, ModelError
from lvmrs.registry import DATA, MODELS, Entry, Names
from tests.cli.helpers import run as command
from tests.own_sources import Threshold


def add(monkeypatch: pytest.MonkeyPatch, names: Names, name: str, entry: Entry) -> None:
    """The line in the registry, for the time of a test."""
    monkeypatch.setitem(names._entries, name, entry)


def test_a_model_source(monkeypatch: pytest.MonkeyPatch) -> None:
    add(monkeypatch, MODELS, "threshold", Entry("tests.own_sources:threshold", "light or dark", "NUMBER"))
    loaded = models.load("threshold:0.25", mean=[0.5], std=[0.5])
    assert isinstance(loaded.model, models.Preprocessed)
    assert isinstance(loaded.model.model, Threshold)
    assert loaded.model(torch.full((1, 1, 2, 2), 0.75)).tolist() == [[-0.25, 0.25]]
    assert loaded.assumed == ("normalised with mean 0.5 and std 0.5, as given",)
    assert pickle.loads(pickle.dumps(loaded)).fingerprint == loaded.fingerprint  # noqa: S301
    for name, sentence in {
        "threshold": "threshold: a name is missing after the colon; write threshold:NUMBER",
        "threshold:x": "threshold:x: x is not a number",
        "other:1": f"no model of that name; write one of {re.escape(MODELS.listed)}$",
    }.items():
        with pytest.raises(ModelError, match=sentence):
            models.load(name)
    with pytest.raises(ModelError, match="only python: and ready: modules take weights; leave weights out"):
        models.load("threshold:1", weights="w.safetensors")


def test_a_data_source(monkeypatch: pytest.MonkeyPatch) -> None:
    add(monkeypatch, DATA, "ramp", Entry("tests.own_sources:ramp", "from dark to light", "COUNT"))
    ramp = data.load("ramp:5")
    assert (len(ramp), ramp.name, ramp.split) == (5, "ramp:5", "test")
    assert [ramp[index][1] for index in range(5)] == [0, 0, 0, 1, 1]
    with pytest.raises(DataError, match=r"no data set of that name; write one of .*, ramp:COUNT$"):
        data.load("slope:5")
    with pytest.raises(DataError, match="only imagefolder, images, hf take an image size; leave it out"):
        data.load("ramp:5", size=3)


def test_both_on_the_command_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    add(monkeypatch, MODELS, "threshold", Entry("tests.own_sources:threshold", "light or dark", "NUMBER"))
    add(monkeypatch, DATA, "ramp", Entry("tests.own_sources:ramp", "from dark to light", "COUNT"))
    code, out, err = command("predict --model threshold:0.5 --data ramp:6 --sigma 0.1 --n 200", capsys)
    assert code == 0, err
    assert [line.split("\t")[2] for line in out.splitlines()[1:]] == ["0", "0", "0", "1", "1", "1"]
    assert "model  threshold:0.5; it takes pixels in [0, 1] as they are\n" in err
