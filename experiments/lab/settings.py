"""What a user types to run experiments, and the three scales at which they run."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["SCALES", "SPREAD", "Lab", "Sampled", "Scale", "parsed", "parser", "spread_options"]

SPREAD = ("ray", "workers")
"""The options that say who computes."""
_HERE = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Sampled:
    """How many inputs are certified, and with how many samples."""

    inputs: int
    n0: int
    n: int


@dataclass(frozen=True)
class Scale:
    """The size of all experiments."""

    digits: Sampled
    cifar10: Sampled
    given: Sampled
    """For networks that were trained elsewhere, on CIFAR-10."""
    sandwich: Sampled
    """For networks of known Lipschitz constant, which are slower."""
    imagenet: Sampled
    adaptive: Sampled
    """For sampling that stops early; n is the most samples that an input may take. Most goals plan on fewer than n0."""
    few: tuple[tuple[int, int], ...]
    """Smaller n0 and n, at which the same scores are certified again."""
    calibration: int
    """Training inputs on which a width or map for all inputs is found."""
    budgeted: Sampled
    """For networks that are trained for the same processor time."""
    ensembles: Sampled
    """For ensembles of such networks, which take several passes a sample."""
    minutes: float
    """That time, on CIFAR-10."""
    epochs: int
    """For networks on digits."""
    sandwich_epochs: int
    """For sandwich networks on digits."""


SCALES = {
    "digits": Scale(
        digits=Sampled(10, 40, 200),
        cifar10=Sampled(4, 40, 200),
        given=Sampled(4, 40, 200),
        sandwich=Sampled(6, 40, 200),
        imagenet=Sampled(2, 40, 200),
        adaptive=Sampled(6, 40, 1000),
        few=((20, 100),),
        calibration=5,
        budgeted=Sampled(10, 40, 200),
        ensembles=Sampled(10, 40, 200),
        minutes=0.05,
        epochs=2,
        sandwich_epochs=1,
    ),
    "laptop": Scale(
        digits=Sampled(100, 1000, 10_000),
        cifar10=Sampled(60, 400, 4000),
        given=Sampled(200, 1000, 10_000),
        sandwich=Sampled(100, 400, 4000),
        imagenet=Sampled(8, 50, 150),
        adaptive=Sampled(200, 256, 100_000),
        few=((100, 200), (200, 1000)),
        calibration=30,
        budgeted=Sampled(200, 1000, 10_000),
        ensembles=Sampled(200, 400, 4000),
        minutes=3.0,
        epochs=40,
        sandwich_epochs=12,
    ),
    "paper": Scale(
        digits=Sampled(360, 1000, 100_000),
        cifar10=Sampled(10_000, 1000, 100_000),
        given=Sampled(10_000, 1000, 100_000),
        sandwich=Sampled(10_000, 1000, 10_000),
        imagenet=Sampled(1000, 1000, 10_000),
        adaptive=Sampled(500, 256, 100_000),
        few=((100, 200), (200, 1000)),
        calibration=200,
        budgeted=Sampled(500, 1000, 100_000),
        ensembles=Sampled(500, 1000, 100_000),
        minutes=3000.0,
        epochs=40,
        sandwich_epochs=100,
    ),
}


@dataclass(frozen=True)
class Lab:
    """One call of an experiment: its scale, its data, and where networks, scores and results are."""

    scale: str
    cache: Path
    """Trained networks, kept scores and certificates; what is there is not made again."""
    results: Path
    """A JSON file for each experiment, and the figures."""
    seed: int
    cifar10: Path | None
    imagenet: Path | None
    classifier: str
    """For ImageNet, as ``lvmrs certify --model`` takes it."""
    denoiser: str
    """For every zero-shot network, as ``lvmrs certify --denoiser`` takes it."""
    small_l2: Path | None
    resnet56: Path | None
    families: tuple[str, ...] = ()
    """The families to include, or their cases, by name; empty for all for which there are data."""
    ray: str | None = None
    """The address of a Ray cluster, or "auto", as ``lvmrs certify --ray`` takes it; None for this machine."""
    workers: int | None = None
    """How many workers there are; None for this process alone, or for all that a cluster has."""
    training_minutes: float | None = None
    """Processor time of each training of the experiments that give all networks the same; None for that of the
    scale."""

    @property
    def minutes(self) -> float:
        """Processor time of each of these trainings; a thirtieth of that of the scale on digits, which are small."""
        if self.training_minutes is not None:
            return self.training_minutes
        return self.sizes.minutes / (30 if self.cifar10 is None else 1)

    @property
    def spread(self) -> list[str]:
        """The options that say who computes; no row depends on them, so that what others made is used again."""
        return [f"--{name}={value}" for name in SPREAD if (value := getattr(self, name)) is not None]

    @property
    def sizes(self) -> Scale:
        """The sizes at this scale."""
        return SCALES[self.scale]

    def some(self, values: Sequence[float]) -> tuple[float, ...]:
        """The values that an experiment goes through; at the smallest scale, the first and the last."""
        return (values[0], values[-1]) if self.scale == "digits" and len(values) > 1 else tuple(values)

    def shown(self, words: list[str]) -> str:
        """A command for the reader: files of this machine by their names alone."""
        text = shlex.join(words)
        for path in (self.cifar10, self.imagenet, self.small_l2, self.resnet56):
            text = text if path is None else text.replace(str(path), path.name)
        return text.replace(str(self.cache), "build/experiments").replace(f"{_HERE}/", "experiments/")


def parser(description: str | None) -> argparse.ArgumentParser:
    """The options that all experiments have."""
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--scale", choices=list(SCALES), default="laptop")
    made.add_argument("--cifar10", type=Path, metavar="FILE.npz", help="x_train, y_train, x_test, y_test")
    made.add_argument("--imagenet", type=Path, metavar="FOLDER", help="FOLDER/CLASS/IMAGE, 224 × 224 pixels")
    made.add_argument(
        "--classifier",
        default=f"python:{_HERE}/off_the_shelf.py:efficientnet_lite0",
        help="for ImageNet: what lvmrs certify --model takes",
    )
    made.add_argument(
        "--denoiser",
        default=f"python:{_HERE}/off_the_shelf.py:ffdnet",
        help="for zero-shot networks: what lvmrs certify --denoiser takes",
    )
    made.add_argument("--small-l2", type=Path, metavar="FILE.pth", help="checkpoint of a small ℓ2-robust network")
    made.add_argument("--resnet56", type=Path, metavar="FILE.th", help="checkpoint of a ResNet-56 for CIFAR-10")
    made.add_argument("--families", default="", help="only these, such as digits,cifar10-0.5,sandwich-digits")
    made.add_argument("--cache", type=Path, default=_HERE.parent / "build" / "experiments")
    made.add_argument("--results", type=Path, default=_HERE.parent / "docs" / "results")
    made.add_argument("--seed", type=int, default=0)
    made.add_argument(
        "--training-minutes",
        type=float,
        help="processor time of each network of training_objectives and ensembles_compared; by default as --scale says",
    )
    spread_options(made)
    return made


def spread_options(made: argparse.ArgumentParser) -> None:
    """Add the options that say who computes, as the commands of lvmrs have them."""
    made.add_argument("--ray", nargs="?", const="auto", help="compute on a Ray cluster: its address, if there is one")
    made.add_argument("--workers", type=int, help="workers on the cluster, or processes of this machine")


def parsed(description: str | None) -> Lab:
    """Read the command line."""
    options = vars(parser(description).parse_args())
    for name in ("cifar10", "imagenet", "small_l2", "resnet56"):
        path = options[name]
        if path is not None and not path.exists():
            sys.exit(f"--{name.replace('_', '-')}: {path} does not exist; give the path of the data, or leave it out")
        options[name] = None if path is None else path.resolve()
    options["families"] = tuple(filter(None, options["families"].split(",")))
    for name in ("cache", "results"):
        options[name].mkdir(parents=True, exist_ok=True)
        options[name] = options[name].resolve()
    return Lab(**options)
