"""The parts of the whole measurement. Each returns what can be written as JSON.

This module imports nothing large: it only starts processes (``suite.child`` says why).
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from suite.child import command, measured
from suite.growth import growth
from suite.spread import spread

__all__ = ["PARTS", "Scale"]

_NETWORKS = ("small_cnn", "resnet20", "resnet110", "sandwich", "lite0")
_UNDER_LOAD = ("small_cnn", "resnet20")


@dataclass(frozen=True)
class Scale:
    """How much is measured."""

    quick: bool = False
    """Few samples and one round, to see that everything runs."""
    rounds: int = 5
    networks: tuple[str, ...] = _NETWORKS

    def samples(self, whole: int | None) -> tuple[object, ...]:
        """Arguments that say how many samples a turn has; None for what suits the network."""
        n = 64 if self.quick else whole
        return () if n is None else ("--n", n)


def contests(scale: Scale) -> dict[str, Any]:
    """All contestants on each network."""
    return {each: _contest(each, scale, None) for each in scale.networks}


def contests_under_load(scale: Scale) -> dict[str, Any]:
    """The same while two other processes use the machine, with fewer samples."""
    n = {"small_cnn": 5_000, "resnet20": 1_000}
    return {each: _contest(each, scale, n[each], "--busy") for each in _UNDER_LOAD if each in scale.networks}


def _contest(network: str, scale: Scale, n: int | None, *more: object) -> dict[str, Any]:
    print(f"contest on {network} {' '.join(map(str, more))}", flush=True)
    return measured("contest", network, "--rounds", scale.rounds, *scale.samples(n), *more)


def methods(scale: Scale) -> dict[str, Any]:
    """LVM and duels against Cohen, with 10 and with 1000 classes."""
    small = ("--n", 256, "--n0", 100, "--settings", "short") if scale.quick else ()
    return {str(c): measured("methods", c, "--rounds", max(scale.rounds, 1), *small) for c in (10, 1000)}


def begun_under_load(scale: Scale) -> dict[str, Any]:
    """Samples per second of runs begun under load, over those of runs begun on the idle machine; each chooses anew."""
    found = {}
    for network in (each for each in _UNDER_LOAD if each in scale.networks):
        pairs = []
        for _ in range(scale.rounds):
            with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two:
                idle = measured("begun", network, *scale.samples(None), cache=one)
                loaded = measured("begun", network, "--busy", *scale.samples(None), cache=two)
            pairs.append((idle, loaded))
            print(f"{network}: begun idle {idle}, begun under load {loaded}", flush=True)
        found[network] = {
            "ratio": vars(spread([loaded["rate"] / idle["rate"] for idle, loaded in pairs])),
            "idle": [idle for idle, _ in pairs],
            "loaded": [loaded for _, loaded in pairs],
        }
    return found


def start_up(scale: Scale) -> dict[str, Any]:
    """The command's help, and the first sample of the first and of the second run of a network."""
    command(["-m", "lvmrs", "--help"])
    helps = [command(["-m", "lvmrs", "--help"]).seconds for _ in range(scale.rounds)]
    first, second = [], []
    network = "small_cnn" if scale.quick else "resnet20"
    for _ in range(scale.rounds):
        with tempfile.TemporaryDirectory() as cache:
            first.append(measured("first_sample", network, cache=cache))
            second.append(measured("first_sample", network, cache=cache))
    return {
        "help": vars(spread(helps)),
        "first_run": vars(spread([each["lvmrs"] + each["loading"] + each["sample"] for each in first])),
        "second_run": vars(spread([each["lvmrs"] + each["sample"] for each in second])),
        "first": first,
        "second": second,
    }


def recertified(scale: Scale) -> dict[str, Any]:
    """Kept scores certified again by the command, start-up and all."""
    inputs, samples, classes = (20, 1_000, 10) if scale.quick else (500, 10_000, 10)
    found: dict[str, Any] = {"inputs": inputs, "samples": samples, "classes": classes}
    with tempfile.TemporaryDirectory() as folder:
        run = str(Path(folder) / "run")
        measured("recertified", run, inputs, samples, classes)
        for method in ("cohen", "duels", "lvm"):
            times = []
            for number in range(min(scale.rounds, 3)):
                out = str(Path(folder) / f"{method}-{number}")
                times.append(command(["-m", "lvmrs", "recertify", run, "--method", method, "--out", out]).seconds)
            found[method] = vars(spread(times))
            print(f"recertify {inputs} × {samples} by {method}: {spread(times).text()} s", flush=True)
    return found


def grown(scale: Scale) -> list[dict[str, Any]]:
    """The growth curves."""
    return growth(quick=scale.quick)


PARTS: dict[str, Callable[[Scale], Any]] = {
    "contests": contests,
    "methods": methods,
    "begun": begun_under_load,
    "start": start_up,
    "recertify": recertified,
    "growth": grown,
    "load": contests_under_load,
}
