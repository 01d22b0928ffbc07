"""``lvmrs train`` and ``lvmrs lipschitz``: from a command to certificates, and one sentence for each mistake."""

import dataclasses
import hashlib
import json
import re
import signal
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch

from lvmrs import training
from lvmrs.models.trained import training_record
from lvmrs.record import Run
from lvmrs.registry import OBJECTIVES
from tests.cli.helpers import commands, run
from tests.processes import running, until
from tests.training import own_objectives
from tests.training.helpers import record_of

OWN = Path(str(own_objectives.__file__))

SHORT = {
    "QUICK": "--data digits --sigma 0.25 --epochs 2",
    "CERTIFY": "--data digits --sigma 0.25 --n0 50 --n 100 --max 3 --batch 50 --out r",
    "AS_A": "--out a.safetensors",
}


class Command:
    """Runs commands."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys

    def __call__(self, line: str) -> tuple[int, str, str]:
        """Exit code, stdout and stderr."""
        for short, long in SHORT.items():
            line = line.replace(short, long)
        return run(line, self.capsys)


@pytest.fixture
def lvmrs(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """In a directory of its own."""
    monkeypatch.chdir(tmp_path)
    return Command(capsys)


@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("small_cnn", ""),
        ("resnet8,width=4", "--objective smoothadv --epsilon 0.3 --steps 1 --samples 2 --augment shift"),
        ("sandwich_small,gamma=5", "--objective margin --margin 0.3 --lr 0.002"),
    ],
)
def test_train_then_certify(lvmrs: Command, model: str, options: str) -> None:
    code, out, err = lvmrs(f"train --model ready:{model} QUICK {options} --out nets/a.safetensors")
    assert code == 0, err
    assert re.fullmatch(
        r"nets/a.safetensors: trained in \d+ (s|min), right on \d+\.\d % of 360 test inputs, on \d+\.\d % with noise\n",
        out,
    )
    assert "epoch 2/2  loss" in err
    assert [path.name for path in Path("nets").iterdir()] == ["a.safetensors"]
    code, out, err = lvmrs("certify --model trained:nets/a.safetensors CERTIFY")
    assert code == 0, err
    assert Run(Path("r")).manifest.terms.lipschitz == (5.0 if "sandwich" in model else None)
    assert ("\nlipschitz 5\n" in err) == ("sandwich" in model)
    assert Path("nets/a.safetensors").stat().st_mode & 0o777 == Path("r/manifest.json").stat().st_mode & 0o777
    told = training_record(Path("nets/a.safetensors"))
    assert told["network"].startswith(f"ready:{model.split(',')[0]},channels=1")
    assert told["training"]["settings"]["epochs"] == 2
    assert len(told["training"]["losses"]) == 2
    assert told["training"]["measured"]["inputs"] == 360
    assert told["training"]["data"]["name"] == "digits"


def test_a_denoiser_from_the_command_line(lvmrs: Command) -> None:
    code, out, err = lvmrs("train --model ready:dncnn,width=4 QUICK --objective denoise --out d.safetensors --json")
    assert code == 0, err
    assert 0 < json.loads(out)["mean squared error"] < 0.1
    lvmrs("train --model ready:small_cnn QUICK --out c.safetensors")
    code, _, err = lvmrs("certify --model trained:c.safetensors --denoiser trained:d.safetensors CERTIFY")
    assert code == 0, err
    assert "denoised by trained:d.safetensors: the network is dncnn,width=4" in err or "denoised by" in err
    denoiser = Run(Path("r")).manifest.model.denoiser
    assert denoiser is not None
    assert denoiser.name == "trained:d.safetensors"
    code, out, err = lvmrs(
        "predict --model trained:c.safetensors --denoiser trained:d.safetensors --data digits --sigma 0.25 --max 2"
    )
    assert code == 0, err
    code, _, err = lvmrs("certify --model trained:c.safetensors CERTIFY --resume")
    assert code == 1
    assert "denoiser" in err


def test_normalisation_and_first_weights_are_kept(lvmrs: Command) -> None:
    code, _, err = lvmrs(
        "train --model ready:small_cnn QUICK --mean 0.3 --std 0.4 --out a.safetensors --test-split none"
    )
    assert code == 0, err
    assert training_record(Path("a.safetensors"))["normalisation"]["std"] == [pytest.approx(0.4)]
    code, _, err = lvmrs(
        "train --model ready:small_cnn --weights a.safetensors --mean 0.3 --std 0.4 QUICK --lr 1e-9 --out b.safetensors"
    )
    assert code == 0, err
    first, second = (safetensors.torch.load_file(f"{name}.safetensors") for name in "ab")
    assert all(torch.allclose(value, second[key], atol=1e-6) for key, value in first.items())
    _, alone, _ = lvmrs("lipschitz --model trained:b.safetensors --shape 1,8,8 --json")
    _, given, err = lvmrs("lipschitz --model ready:small_cnn --weights b.safetensors --shape 1,8,8")
    assert json.loads(alone)["lipschitz"] == float(given)
    assert "normalised as in training" in err  # the file brings it, whichever way it is named


def test_training_goes_on_from_a_trained_file(lvmrs: Command) -> None:
    lvmrs("train --model ready:small_cnn QUICK --mean 0.3 --std 0.4 --out a.safetensors")
    code, _, err = lvmrs("train --model trained:a.safetensors QUICK --out b.safetensors --sigma 0.5")
    assert code == 0, err
    first, second = (training_record(Path(f"{name}.safetensors")) for name in "ab")
    assert first["network"] == second["network"] == "ready:small_cnn,channels=1,side=8,classes=10"
    assert second["normalisation"] == first["normalisation"]
    assert second["training"]["versions"]["torch"] == version("torch")


def test_a_checkpoint_of_another_normalisation_is_refused(lvmrs: Command) -> None:
    line = "train --model ready:small_cnn QUICK --out a.safetensors"
    lvmrs(f"{line} --mean 0.3 --std 0.3")
    parts: dict[str, Any] = {"settings": {}, "history": [], "state_dict": {}, "optimizer": {}, "scaler": {}}
    torch.save(parts, "b.safetensors.checkpoint")
    code, _, err = lvmrs("train --model ready:small_cnn QUICK --out b.safetensors --resume --mean 0.1 --std 0.9")
    assert code == 1
    assert "mean was None and is '[0.1]'; std was None and is '[0.9]'" in err


def test_lipschitz_is_rounded_up(lvmrs: Command) -> None:
    code, out, err = lvmrs("lipschitz --model ready:sandwich_small,channels=1,side=8,gamma=0.3333333333 --shape 1,8,8")
    assert (code, out) == (0, "0.333334\n"), err


def test_a_stopped_training_goes_on(lvmrs: Command) -> None:
    """The real command, interrupted as by Control-C; its result is that of one that was not."""
    line = "train --model ready:small_cnn --data digits --sigma 0.25 --epochs 16 --out"
    code, whole, err = lvmrs(f"{line} whole.safetensors")
    assert code == 0, err
    threads = str(torch.get_num_threads())  # sums depend on it in their last digits
    with running("-m", "lvmrs", *line.split(), "cut.safetensors", OMP_NUM_THREADS=threads) as process:
        until(Path("cut.safetensors.checkpoint").exists, process, seconds=120)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=300)
    assert process.returncode == 3, err
    assert "continue with:" in err
    assert "--resume" in err
    code, _, err = lvmrs(f"{line} cut.safetensors")
    assert code == 1
    assert (
        "is a training that was stopped; resume it, or delete the file to begin again (add --resume to resume it)"
        in err
    )
    code, resumed, err = lvmrs(f"{line} cut.safetensors --resume")
    assert code == 0, err
    first, second = (safetensors.torch.load_file(f"{name}.safetensors") for name in ("whole", "cut"))
    assert all(torch.equal(value, second[key]) for key, value in first.items())
    assert whole.split("right on ")[1] == resumed.split("right on ")[1]
    code, again, err = lvmrs(f"{line} cut.safetensors --resume")
    assert (code, again, err) == (0, resumed, "")


def test_an_objective_of_your_own(lvmrs: Command) -> None:
    Path("aims.py").write_text(OWN.read_text())
    code, out, err = lvmrs("train --model ready:small_cnn QUICK --objective python:aims.py:Clipped --samples 2 AS_A")
    assert code == 0, err
    assert "right on" in out
    told = record_of(Path("a.safetensors"))["training"]
    assert told["objective settings"] == {"sigma": 0.25, "samples": 2, "reduction": "mean"}
    assert told["objective code"] == hashlib.sha256(OWN.read_bytes()).hexdigest()
    code, _, err = lvmrs(
        "train --model ready:small_cnn QUICK --objective python:aims.py:Smoothed --margin 0.2 --out b.safetensors"
    )
    assert code == 0, err
    assert record_of(Path("b.safetensors"))["training"]["objective settings"]["margin"] == 0.2
    code, _, err = lvmrs("certify --model trained:a.safetensors CERTIFY")
    assert code == 0, err


@pytest.mark.parametrize(
    ("name", "options", "settings"),
    [
        ("consistency", "--lbd 5 --eta 0.1 --samples 3", {"samples": 3, "lbd": 5.0, "eta": 0.1}),
        (
            "smoothmix",
            "--steps 2 --step-size 0.3 --mix-step 1 --eta 2 --samples 1",
            {"samples": 1, "steps": 2, "step_size": 0.3, "eta": 2.0, "mix_step": 1},
        ),
        ("macer", "--samples 4 --beta 8 --gamma 4", {"samples": 4, "lbd": 12.0, "beta": 8.0, "gamma": 4.0}),
    ],
)
def test_settings_of_objectives_are_recorded(lvmrs: Command, name: str, options: str, settings: dict[str, Any]) -> None:
    code, _, err = lvmrs(f"train --model ready:small_cnn QUICK --objective {name} {options} AS_A")
    assert code == 0, err
    told = record_of(Path("a.safetensors"))["training"]
    assert told["objective"].startswith(f"{OBJECTIVES.find(name).__name__}(sigma=0.25, ")
    assert told["objective settings"] == {"sigma": 0.25, **settings}


OPTIONS = ("epsilon", "steps", "step_size", "mix_step", "samples", "lbd", "eta", "beta", "gamma", "margin")
BY_SIGMA = {"lbd": "by sigma", "step_size": "2 sigma"}  # what a default of None is


def test_objectives_in_help_and_docs_are_those_of_the_registry() -> None:
    command = commands()["train"]
    helps = {parameter.name: parameter.help for parameter in command.params}
    assert f"{', '.join(OBJECTIVES)}, or python:MODULE:CLASS" in helps["objective"]
    pages = Path(__file__).parents[2] / "docs"
    networks, listed = ((pages / f"{name}.md").read_text(encoding="utf-8") for name in ("networks", "commands"))
    for name in OBJECTIVES:
        assert f"| `{name}` | {OBJECTIVES.words(name)}" in networks, f"docs/networks.md does not describe {name}"
        passes = training.objective(name, 0.25).passes
        assert re.search(rf"\n\| `{name}` \| [^|]+ \| {passes} \| \w", networks), f"nor the passes of {name}"
    assert "one of [these](names.md#objectives), or `python:MODULE:CLASS`" in listed  # made from the registry
    fields = {
        name: {field.name: field.default for field in dataclasses.fields(OBJECTIVES.find(name))} for name in OBJECTIVES
    }
    assert {setting for defaults in fields.values() for setting in defaults} == {*OPTIONS, "sigma", "temperature"}
    for option in OPTIONS:  # what an option is for, and what it is if not given
        defaults = {name: defaults[option] for name, defaults in fields.items() if option in defaults}
        assert helps[option].startswith(f"For {', '.join(defaults)}: ")
        shown = BY_SIGMA.get(option) or ", ".join(f"{default:g}" for default in defaults.values())
        assert helps[option].endswith(f" Default: {shown}.")


MISTAKES: dict[str, tuple[int, str]] = {
    "train --model ready:resnet21 QUICK AS_A": (1, "resnet21: there is no network of that name; choose one of"),
    "train --model ready:small_cnn QUICK --out a.pth": (2, "out must end in .safetensors, got a.pth"),
    "train --model ready:small_cnn QUICK --out there.safetensors": (1, "there.safetensors exists already"),
    "train --model ready:small_cnn QUICK --out there.safetensors --resume": (
        1, "exists already, and there is no checkpoint to resume from",
    ),
    "train --model ready:small_cnn QUICK AS_A --objective fgsm": (
        2, "objective must be one of gaussian, smoothadv, consistency, smoothmix, macer, margin, denoise, got 'fgsm'",
    ),
    "train --model ready:small_cnn QUICK AS_A --lr 0": (2, "lr must be positive"),
    "train --model ready:small_cnn QUICK AS_A --sigma -1": (2, "sigma must be at least 0 and finite"),
    "train --model ready:small_cnn,side=9 QUICK AS_A": (1, "the model fails on train inputs of shape (1, 8, 8)"),
    "train --model ready:small_cnn,classes=3 QUICK AS_A": (1, "digits, train, has label 9, but the model"),
    "train --model ready:small_cnn QUICK AS_A --objective denoise": (1, "a denoiser keeps the shape"),
    "train --model ready:sandwich_small QUICK AS_A --split nowhere": (1, "there is no split 'nowhere'"),
    "train --model python:torch.nn:Flatten QUICK AS_A": (2, "has no parameters to train"),
    "train --model ready:small_cnn --weights code.pth QUICK AS_A": (1, "is refused: it contains more than tensors"),
    "train --model ready:small_cnn --weights there.safetensors QUICK AS_A": (
        1, "does not fit the model: 0.weight is missing; 0.bias is missing; 2.weight is missing, and 4 more",
    ),
    "lipschitz --model ready:resnet8 --shape 3": (1, "the network fails on inputs of shape (3,)"),
    "train --model ready:small_cnn QUICK --out there.safetensors/a.safetensors": (1, "cannot be written to"),
    "train --model ready:small_cnn QUICK AS_A --workers -1": (2, "workers must be"),
    "train --model ready:small_cnn --data npz:all.npz --sigma 0.25 AS_A": (1, "split 'test' is the training data"),
    "train --model hf:somebody/something QUICK AS_A": (2, "hf:somebody/something cannot be trained; give ready:NAME"),
    "train --model python:unknown.py:two QUICK AS_A": (1, "the model returns tuple; expected a tensor"),
    "train --model ready:small_cnn QUICK AS_A --epsilon 1": (
        2, "epsilon is not a setting of objective gaussian; leave it out",
    ),
    "train --model ready:small_cnn QUICK AS_A --objective python:aims.py:Half": (
        2, "python:aims.py:Half has no method loss; write it: see lvmrs.training.objectives",
    ),
    "train --model ready:small_cnn QUICK AS_A --objective python:aims.py:OWN": (2, "there is no OWN in aims.py"),
    "train --model ready:small_cnn QUICK AS_A --objective python:aims.py:dataclass": (
        2, "python:aims.py:dataclass is not a class derived from Objective; see lvmrs.training.objectives",
    ),
    "train --model ready:small_cnn QUICK AS_A --objective python:aims.py:Clipped --steps 3": (
        2, "steps is not a setting of objective Clipped; leave it out",
    ),
    "train --model ready:small_cnn QUICK AS_A --objective python:aims.py:Clipped --sigma -1": (
        2, "sigma must be at least 0 and finite, got -1.0",
    ),
    "train --model ready:small_cnn QUICK AS_A --objective python:aims.py:Failing": (
        2, "python:aims.py:Failing: the function failed (KeyError: 'nothing')",
    ),
    "train --model ready:small_cnn QUICK AS_A --objective consistency --samples 1": (2, "samples must be a whole"),
    "train --model ready:small_cnn QUICK AS_A --objective smoothmix --mix-step 4": (2, "mix_step must be a whole"),
    "train --model ready:small_cnn QUICK AS_A --objective macer --eta 1": (2, "eta is not a setting of objective"),
    "train --model ready:small_cnn QUICK AS_A --objective margin": (1, "margins are distances in networks of a known"),
    "train --model ready:small_cnn QUICK AS_A --objective margin --margin -1": (2, "margin must be at least 0 and"),
    "train --model ready:dncnn QUICK AS_A": (
        1, "it is a denoiser, and Gaussian trains classifiers; choose objective denoise",
    ),
    "train --model ready:small_cnn --data npz:no-test.npz --sigma 0.25 AS_A": (
        1, "choose another test split, or none to measure nothing",
    ),
    "train --model ready:small_cnn --data npz:other-test.npz --sigma 0.25 AS_A": (1, "fails on test inputs of shape"),
    "train --model ready:small_cnn --data npz:more-test.npz --sigma 0.25 AS_A": (1, "test, has label 9"),
    "certify --model ready:small_cnn --method lipschitz-ramp CERTIFY": (2, "and Lipschitz needs it; give it"),
    "lipschitz --model ready:resnet8 --shape inf,8,8": (2, "shape must be positive whole numbers with commas"),
    "lipschitz --model ready:resnet8 --shape x": (2, "shape must be numbers with commas between them, got 'x'"),
    "lipschitz --model ready:resnet8 --shape 0,1": (2, "shape must be positive whole numbers with commas"),
    "lipschitz --model python:unknown.py:net --shape 5": (1, "no Lipschitz bound is known for the layer 1 (LayerNorm)"),
    "certify --model ready:small_cnn CERTIFY --denoiser gif:a": (1, "no denoiser of that name"),
    "certify --model ready:small_cnn CERTIFY --denoiser diffusers:nowhere/at/all": (
        1, "nowhere/at/all is not a folder",
    ),
}  # fmt: skip


@pytest.mark.parametrize("line", MISTAKES)
def test_mistakes_get_one_sentence(lvmrs: Command, line: str) -> None:
    safetensors.torch.save_file({"a": torch.zeros(1)}, "there.safetensors")
    torch.save(torch.nn.Linear(1, 1), "code.pth")
    Path("unknown.py").write_text(
        "from torch import nn\n"
        "def net():\n    return nn.Sequential(nn.Linear(5, 5), nn.LayerNorm(5))\n"
        "class Two(nn.Linear):\n    def forward(self, x):\n        return x, x\n"
        "def two():\n    return Two(1, 1)\n"
    )
    Path("aims.py").write_text(OWN.read_text())
    images, labels = np.zeros((4, 1, 8, 8), np.uint8), np.arange(4)
    np.savez("all.npz", x=images, y=labels)
    np.savez("no-test.npz", x_train=images, y_train=labels)
    np.savez("other-test.npz", x_train=images, y_train=labels, x_test=images.repeat(3, axis=1), y_test=labels)
    np.savez("more-test.npz", x_train=images, y_train=labels, x_test=images, y_test=labels + 6)
    expected, sentence = MISTAKES[line]
    code, out, err = lvmrs(line)
    assert (code, out) == (expected, ""), err
    last: Any = err.splitlines()[-1]
    assert sentence in last
    assert last.startswith("lvmrs: ")
    assert "Traceback" not in err
