"""The first page of docs/results.md: what each idea is worth and what to use when, in words made from the numbers."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median
from typing import Any

from lab.page import percent, table, wrapped
from lab.record import Found

__all__ = ["shown"]

Setting = dict[str, Any]
"""A network, a σ and a number of samples: the rows of all methods, and the case."""

_STEPS = (
    ("cohen", "votes-union", "R2 instead of R3, risk shared by all classes"),
    ("votes-union", "votes", "the risk spent once instead of shared"),
    ("votes", "paper", "soft maps as the paper has them (Bernstein, risk shared), over votes with R2"),
    ("paper", "paper-betting", "betting instead of Bernstein"),
    ("paper-betting", "soft", "the choice predicted for n, the risk spent once"),
    ("votes", "soft", "all this together: the best soft map for each input, over votes with R2"),
    ("soft", "one-map", "one softmax for all inputs, over the best soft map for each input"),
    ("votes", "lvm", "LVM: soft maps only where they are sure to pay, over votes with R2"),
    ("votes", "duels", "duels, over votes with R2"),
    ("duels", "soft-duels", "soft duels of one width, over duels"),
)
_WITH_CONSTANT = (
    ("votes", "ramp", "known constant: ramp radius with sparsemax, over votes with R2"),
    ("duels", "soft-duels-ramp", "known constant: soft duels with the ramp radius, over duels"),
)
_SOUND = ("cohen", "votes-union", "votes", "paper", "paper-betting", "soft", "lvm", "one-map", "duels", "soft-duels")


def shown(found: dict[str, Found | None]) -> str:
    """The first page; where an experiment was not run, its sentences are left out."""
    parts, steps, ties = [_INTRODUCTION], found["decomposition"], found["near_a_tie"]
    if steps is not None:
        cases = steps["cases"].values()
        plain = _settings(case for case in cases if case["lipschitz"] is None)
        known = _settings(case for case in cases if case["lipschitz"] is not None)
        advice = [_duels(plain), _votes(plain), _soft_maps(plain)]
        advice += [] if ties is None else [_near_ties(ties)]
        advice += [_constant(known), _unsound(plain)] if known else [_unsound(plain)]
        lines = "\n".join(wrapped(f"- {sentence}", indent="  ") for sentence in advice)
        parts += ["## What to use when", lines, "## What each idea is worth", _worth(plain, known)]
    return "\n\n".join(parts)


def _settings(cases: Iterable[dict[str, Any]]) -> list[Setting]:
    return [{**size, "case": case} for case in cases for size in case["sizes"]]


def _averages(setting: Setting, *names: str) -> list[float]:
    return [setting["rows"][name]["average"] for name in names]


def _has(setting: Setting, *names: str) -> bool:
    return all(name in setting["rows"] for name in names)


def _changes(settings: list[Setting], one: str, other: str) -> list[float]:
    """The relative change of the average radius in each setting that has both methods, in %."""
    pairs = [_averages(each, one, other) for each in settings if _has(each, one, other)]
    return [100 * (b / a - 1) for a, b in pairs if a > 0]


def _worth(plain: list[Setting], known: list[Setting]) -> str:
    rows = []
    for settings, steps in ((plain, _STEPS), (known, _WITH_CONSTANT)):
        for one, other, words in steps:
            if changes := _changes(settings, one, other):
                grew = f"{sum(change > 0 for change in changes)} of {len(changes)}"
                rows.append([words, f"{median(changes):+.1f} %", f"{min(changes):+.1f} to {max(changes):+.1f} %", grew])
    head = ["step", "change of the average radius, median", "range", "settings where it grew"]
    text = (
        "A setting is a network, a σ and a number of samples; all methods have the same noise. [The tables](#where-the-"
        "gain-comes-from) have each setting, with paired intervals."
    )
    return f"{wrapped(text)}\n\n{table(head, rows)}"


def _duels(settings: list[Setting]) -> str:
    behind = []
    for each in settings:
        best = max((name for name in _SOUND if _has(each, name)), key=lambda name: _averages(each, name)[0])
        if best != "duels":
            behind.append(100 * (1 - _averages(each, "duels")[0] / _averages(each, best)[0]))
    rest = f"; in the others they were at most {max(behind):.1f} % behind the best" if behind else ""
    return (
        f"**Duels**. Of all sound methods they had the largest average radius in "
        f"{len(settings) - len(behind)} of {len(settings)} settings without a Lipschitz constant{rest}. They need no "
        "map, no temperature and no search, and the classifier that is certified is the same for all inputs."
    )


def _votes(settings: list[Setting]) -> str:
    gains = [_averages(each, "cohen", "votes", "lvm") for each in settings]
    shares = [100 * (votes - cohen) / (lvm - cohen) for cohen, votes, lvm in gains if lvm > cohen]
    told = f" (median; from {min(shares):.0f} to {max(shares):.0f} %)" if shares else ""
    return (
        "**Votes with R2 and the risk spent once**, if votes must stay, for a classifier that is deployed already or "
        f"to compare with published numbers. This alone is {median(shares or [0.0]):.0f} % of what `LVM` gains over "
        f"Cohen{told}."
    )


def _soft_maps(settings: list[Setting]) -> str:
    gains = [each["rows"]["soft"]["to votes"] for each in settings]
    better, worse = sum(gain[1] > 0 for gain in gains), sum(gain[2] < 0 for gain in gains)
    title = "Soft maps give no radius" if better <= worse else "Soft maps give some radius"
    taken = sum(each["rows"]["lvm"]["maps"].get("hardmax", 0) for each in settings)
    inputs = sum(each["case"]["inputs"] for each in settings)
    return (
        f"**{title}** without a Lipschitz constant. With the best bound and the best rule to choose them for each "
        f"input, soft maps alone had a larger average radius than votes with R2 in {better} of {len(gains)} settings "
        f"and a smaller one in {worse} (paired intervals at 95 % that leave out 0). `LVM`, which may take either, took "
        f"votes for {taken} of {inputs} certificates."
    )


def _near_ties(found: Found) -> str:
    sizes = found["sizes"]
    told = []
    for n in dict.fromkeys((next(iter(sizes)), next(reversed(sizes)))):
        each, inputs = sizes[n], sizes[n]["inputs"]
        changes = [_change_of_pair(each, *pair) for pair in (("votes", "soft"), ("duels", "soft-duels"))]
        lead = 100 * (each["certified"]["duels"] - each["certified"]["votes"]) / inputs
        told.append(
            f"with n = {n}, of {inputs} inputs, soft maps against votes {changes[0]}; soft duels of one calibrated "
            f"width against duels {changes[1]}; duels against votes {lead:+.1f} points"
        )
    return (
        "**Near a tie, with few samples**, is where soft maps pay without a constant: in how many inputs are certified "
        f"at all, not in radius ([table](#where-soft-maps-pay)): {'. And '.join(told)}. So go from votes to duels "
        "first; take a width from `lvmrs calibrate` only if samples are that few and inputs near a tie count most."
    )


def _change_of_pair(size: dict[str, Any], one: str, other: str) -> str:
    pair, average = size["pairs"][f"{one} to {other}"], size["average"]
    change = 100 * (average[other] / average[one] - 1) if average[one] > 0 else 0.0
    return f"gained {pair['gained']} and lost {pair['lost']} (radius {change:+.1f} %)"


def _constant(settings: list[Setting]) -> str:
    changes = _changes(settings, "duels", "soft-duels-ramp")
    known = [(each["case"]["lipschitz"], each["case"]["sigma"]) for each in settings]
    which = ", ".join(f"L = {constant:g} at σ = {sigma:.2g}" for constant, sigma in dict.fromkeys(known))
    told = f"{min(changes):+.1f} to {max(changes):+.1f} %" if changes else "not measured"
    pays = bool(changes) and min(changes) > 0
    verdict = (
        "Here soft maps do pay: hard votes and hard duels have no Lipschitz constant that could be used."
        if pays
        else "So knowing the constant did not pay here: it helps where L is small against 1/σ, as on "
        "the network of [planners.md](planners.md), with L = 5 at σ = 0.25."
    )
    return (
        "**If you know a Lipschitz constant**, soft duels with the ramp radius can use it, and are the default there. "
        f"The change of the average radius over hard duels was {told} ({which}). {verdict}"
    )


def _unsound(settings: list[Setting]) -> str:
    votes = sum(each["rows"]["published"]["maps"].get("hardmax", 0) for each in settings)
    inputs = sum(each["case"]["inputs"] for each in settings)
    below = sum(_averages(each, "published")[0] < _averages(each, "duels")[0] for each in settings)
    return (
        "**Not the rule of the paper's published code**, which chooses on the sample that proves and so is not sound. "
        f"It took plain votes for {votes} of {inputs} certificates ({percent(votes / inputs)} %), and its average "
        f"radius was below that of duels, which are sound, in {below} of {len(settings)} settings."
    )


_INTRODUCTION = """\
The paper is Delattre et al. (2024), "The Lipschitz-Variance-Margin Tradeoff for Enhanced Randomized Smoothing". Each
section below is one script in `experiments/`, with its command. `make experiments` runs all of them on digits, and on
what else is given with `DATA='--cifar10 FILE.npz --imagenet FOLDER'`; `SCALE=paper` has the published settings.
Networks are trained and scores sampled once, and kept in `build/experiments`. The tables here are at laptop scale, with
small networks and few inputs; each says how many. Compare methods with each other, since all had the same scores. Times
are by the wall clock, whatever else the machine did."""
