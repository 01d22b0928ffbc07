"""The first page of docs/results.md: what to use when, and what each idea is worth, in words with their numbers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lab.page import table
from lab.record import Found

__all__ = ["shown"]

_STEPS = (
    ("cohen", "votes-union", "R2 instead of R3, risk shared by all classes"),
    ("votes-union", "votes", "the risk spent once instead of shared"),
    ("votes", "paper", "soft maps chosen for each input, Bernstein, risk shared (the paper)"),
    ("paper", "paper-betting", "betting instead of Bernstein"),
    ("paper-betting", "soft", "the choice predicted for n, the risk spent once"),
    ("votes", "lvm", "soft maps where they are sure to pay, over votes with R2"),
    ("votes", "duels", "duels, over votes with R2"),
    ("duels", "soft-duels", "soft duels of one width, over duels"),
)
_WITH_CONSTANT = (("duels", "soft-duels-ramp", "ramp radius and soft duels, over duels"),)


def shown(found: dict[str, Found | None]) -> str:
    """The first page; where an experiment was not run, its sentences are left out."""
    parts = [_INTRODUCTION]
    steps = found["decomposition"]
    if steps is not None:
        plain = [case for case in steps["cases"].values() if case["lipschitz"] is None]
        known = [case for case in steps["cases"].values() if case["lipschitz"] is not None]
        parts += ["## What each idea is worth", _worth(plain, known), "## What to use when", _advice(plain, known)]
    return "\n\n".join(parts)


def _settings(cases: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**size, "case": case} for case in cases for size in case["sizes"]]


def _ratios(settings: list[dict[str, Any]], one: str, other: str) -> list[float]:
    pairs = [
        (each["rows"][one]["average"], each["rows"][other]["average"]) for each in settings if _has(each, one, other)
    ]
    return [b / a - 1 for a, b in pairs if a > 0]


def _has(setting: dict[str, Any], *names: str) -> bool:
    return all(name in setting["rows"] for name in names)


def _worth(plain: list[dict[str, Any]], known: list[dict[str, Any]]) -> str:
    rows = []
    for settings, steps in ((_settings(plain), _STEPS), (_settings(known), _WITH_CONSTANT)):
        for one, other, words in steps:
            changes = sorted(_ratios(settings, one, other))
            if changes:
                middle = changes[len(changes) // 2]
                ups = sum(change > 0 for change in changes)
                rows.append([words, f"{100 * middle:+.1f} %", f"{100 * changes[0]:+.1f} to {100 * changes[-1]:+.1f} %",
                             f"{ups} of {len(changes)}"])  # fmt: skip
    head = ["step", "average radius, median change", "range", "settings where it grew"]
    return (
        "Each setting is a network, a σ and a number of samples, on the same noise for all methods "
        f"([below](#where-the-gain-comes-from)). The last step is about networks of known Lipschitz constant.\n\n"
        f"{table(head, rows)}"
    )


def _advice(plain: list[dict[str, Any]], known: list[dict[str, Any]]) -> str:
    settings = _settings(plain)
    sound = ("cohen", "votes-union", "votes", "paper", "paper-betting", "soft", "lvm", "one-map", "duels", "soft-duels")
    best = [
        max((name for name in sound if _has(each, name)), key=lambda name: each["rows"][name]["average"])
        for each in settings
    ]
    wins = best.count("duels")
    lines = [
        f"- **Use duels** unless you know a Lipschitz constant. They had the largest average radius of all sound "
        f"methods in {wins} of {len(settings)} settings without one. They need no map, no temperature and no "
        "search, and the certified classifier is the same for all inputs, so it can be deployed as it is.",
        "- **If you must keep votes** (a classifier that is already deployed, or a comparison with published numbers), "
        "use R2 with the risk spent once. That is nearly all that LVM-RS gains over Cohen.",
        _soft_maps(settings),
        _near_ties(settings),
    ]
    ramp = _ratios(_settings(known), "duels", "soft-duels-ramp")
    if ramp:
        lines.append(
            f"- **If you know a Lipschitz constant**, use soft duels with the ramp radius: {100 * min(ramp):+.1f} to "
            f"{100 * max(ramp):+.1f} % over hard duels on the networks here. This is where soft maps pay: hard votes "
            "and hard duels have no constant that could be used."
        )
    lines.append(_unsound(settings))
    return "\n".join(lines)


def _soft_maps(settings: list[dict[str, Any]]) -> str:
    gains = [each["rows"]["soft"]["to votes"] for each in settings]
    better, worse = sum(gain[1] > 0 for gain in gains), sum(gain[2] < 0 for gain in gains)
    taken = sum(each["rows"]["lvm"]["maps"].get("hardmax", 0) for each in settings)
    inputs = sum(each["case"]["inputs"] for each in settings)
    return (
        "- **Do not expect radius from soft maps** without a Lipschitz constant. With the best bound and the best rule "
        f"to choose them, soft maps alone had a larger average radius than votes with R2 in {better} of {len(gains)} "
        f"settings and a smaller one in {worse} (paired interval at 95 % away from 0). `LVM`, which may take either, "
        f"took votes for {taken} of {inputs} inputs."
    )


def _near_ties(settings: list[dict[str, Any]]) -> str:
    more = {key: sum(each["soft for"].get(key, 0) for each in settings) for key in (
        "soft: certified, votes not", "votes: certified, soft not",
        "soft-duels: certified, duels not", "duels: certified, soft-duels not",
    )}  # fmt: skip
    inputs = sum(each["case"]["inputs"] for each in settings)
    return (
        f"- **Near a tie lower variance counts.** Over all settings ({inputs} certificates), soft maps certified "
        f"{more['soft: certified, votes not']} inputs that votes did not, and lost "
        f"{more['votes: certified, soft not']}; soft duels of one calibrated width certified "
        f"{more['soft-duels: certified, duels not']} that hard duels did not, and lost "
        f"{more['duels: certified, soft-duels not']}. Take soft duels of one width only if the share of inputs that "
        "are certified at all is what counts, and few samples can be had."
    )


def _unsound(settings: list[dict[str, Any]]) -> str:
    rows = [each["rows"]["published"] for each in settings]
    votes = sum(row["maps"].get("hardmax", 0) for row in rows)
    inputs = sum(each["case"]["inputs"] for each in settings)
    below = sum(each["rows"]["published"]["average"] < each["rows"]["duels"]["average"] for each in settings)
    return (
        f"- **The rule of the paper's published code** chooses on the sample that proves, so it is not sound. It took "
        f"plain votes for {votes} of {inputs} inputs, and its average radius was still below that of duels in {below} "
        f"of {len(settings)} settings."
    )


_INTRODUCTION = """\
The paper is Delattre et al. (2024), "The Lipschitz-Variance-Margin Tradeoff for Enhanced Randomized Smoothing". Each
section below is one script in `experiments/`, with its command. `make experiments` runs all of them on digits, and on
what else is given with `DATA='--cifar10 FILE.npz --imagenet FOLDER'`; `SCALE=paper` has the published settings.
Networks are trained and scores sampled once, and kept in `build/experiments`. The tables here are at laptop scale, with
small networks and few inputs; each says how many. Compare methods with each other, since all had the same scores."""
