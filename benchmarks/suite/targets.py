"""The targets, and whether what was measured meets them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from suite.growth import memory_growth, row_growth
from suite.spread import ratio

__all__ = ["TARGETS", "Target", "Verdict", "verdicts"]

Results = Mapping[str, Any]


@dataclass(frozen=True)
class Target:
    """One number that must be at most, or at least, so large."""

    what: str
    limit: float
    value: Callable[[Results], float | None]
    """The number, from what was measured; None, or an error about a missing key, if it was not measured."""
    least: bool = False
    """Whether the limit is the least that is wanted, and not the most."""


@dataclass(frozen=True)
class Verdict:
    """A target and what was measured."""

    target: Target
    measured: float | None
    judged: bool = True
    """Whether enough was measured to judge by it."""

    @property
    def word(self) -> str:
        """Met, missed, not measured, or not judged."""
        if self.measured is None or not self.judged:
            return "not measured" if self.measured is None else "not judged"
        good = self.measured >= self.target.limit if self.target.least else self.measured <= self.target.limit
        return "met" if good else "missed"

    @property
    def wanted(self) -> str:
        """The limit in words."""
        return f"{'≥' if self.target.least else '≤'} {self.target.limit:g}"

    @property
    def found(self) -> str:
        """The measured number."""
        return "–" if self.measured is None else f"{self.measured:.4g}"


def _between(network: str, one: str, other: str) -> Callable[[Results], float | None]:
    """How many times as long one contestant took as another."""

    def value(results: Results) -> float | None:
        contestants = results["contests"][network]["contestants"]
        return ratio({name: each["times"] for name, each in contestants.items()}, one, other).median

    return value


def _long(network: str) -> Callable[[Results], float | None]:
    """The method of ours that takes longest, against the limit."""
    return lambda results: max(
        each["to_limit"]["median"]
        for name, each in results["contests"][network]["contestants"].items()
        if name.startswith("ours") and name.endswith("long")
    )


def _at(*keys: str) -> Callable[[Results], float | None]:
    def value(results: Results) -> float | None:
        found: Any = results
        for key in keys:
            found = found[key]
        return float(found)

    return value


_OURS, _LOWER = "ours, Cohen, long", "ours, duels, bfloat16"
TARGETS = (
    Target("ours / limit, long run, small CNN", 1.20, _long("small_cnn")),
    Target("ours / limit, long run, ResNet-20", 1.10, _long("resnet20")),
    Target("ours / limit, long run, ResNet-110", 1.05, _long("resnet110")),
    Target("ours / limit, long run, EfficientNet-Lite0 (224×224)", 1.10, _long("lite0")),
    Target("ours / limit, long run, Sandwich", 1.10, _long("sandwich")),
    Target("ours in bfloat16 / limit of float32, small CNN", 0.8, _between("small_cnn", _LOWER, "limit")),
    Target("ours in bfloat16 / limit of float32, ResNet-20", 0.55, _between("resnet20", _LOWER, "limit")),
    Target("ours in bfloat16 / limit of float32, ResNet-110", 0.55, _between("resnet110", _LOWER, "limit")),
    Target("ours in bfloat16 / limit of float32, EfficientNet-Lite0", 0.8, _between("lite0", _LOWER, "limit")),
    Target("ours in bfloat16 / limit of float32, Sandwich", 0.8, _between("sandwich", _LOWER, "limit")),
    Target(
        "ART at its best batch / ours in bfloat16", 3.0, _between("resnet20", "ART, best batch", _LOWER), least=True
    ),
    Target(
        "the field's loop / ours in bfloat16", 2.7, _between("resnet20", "the field's loop, 100", _LOWER), least=True
    ),
    Target(
        "ours / folded channels-last, short run, ResNet-20",
        1.05,
        _between("resnet20", "ours, Cohen, short", "folded, channels-last"),
    ),
    Target("ART at its best batch / ours, ResNet-20", 1.7, _between("resnet20", "ART, best batch", _OURS), least=True),
    Target("the field's loop at 100 / ours", 1.5, _between("resnet20", "the field's loop, 100", _OURS), least=True),
    Target("the field's loop at 1000 / ours", 2.5, _between("resnet20", "the field's loop, 1000", _OURS), least=True),
    Target("second run: seconds to the first certified sample", 1.5, _at("start", "second_run", "median")),
    Target("first run: seconds to the first sample after torch", 1.5, _at("start", "first_run", "median")),
    Target("lvmrs --help, seconds", 0.25, _at("start", "help", "median")),
    Target("LVM / Cohen, c = 10", 1.01, _at("methods", "10", "to_cohen", "LVM", "median")),
    Target("LVM / Cohen, c = 1000", 1.03, _at("methods", "1000", "to_cohen", "LVM", "median")),
    Target("duels / Cohen, c = 10", 1.005, _at("methods", "10", "to_cohen", "duels", "median")),
    Target("duels / Cohen, c = 1000", 1.01, _at("methods", "1000", "to_cohen", "duels", "median")),
    Target(
        "begun under load, then idle: rate, small CNN", 0.8, _at("begun", "small_cnn", "ratio", "median"), least=True
    ),
    Target(
        "begun under load, then idle: rate, ResNet-20", 0.8, _at("begun", "resnet20", "ratio", "median"), least=True
    ),
    Target("recertify by Cohen, seconds", 4.5, _at("recertify", "cohen", "median")),
    Target("recertify by duels, seconds", 4.5, _at("recertify", "duels", "median")),
    Target("recertify by LVM, seconds", 8.0, _at("recertify", "lvm", "median")),
    Target("peak memory, n = 10⁶ against 10⁴, MB more", 50.0, lambda r: memory_growth(r["growth"], 10_000, 1_000_000)),
    Target("last rows / first rows of the longest run", 1.1, lambda r: row_growth(r["growth"])),
)


def verdicts(results: Results) -> list[Verdict]:
    """Each target with what was measured; a quick measurement is not judged."""
    return [Verdict(target, _value(target, results), not results["quick"]) for target in TARGETS]


def _value(target: Target, results: Results) -> float | None:
    try:
        return target.value(results)
    except KeyError:  # that part was left out
        return None
