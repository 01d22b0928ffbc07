"""The first page of docs/results.md: what each idea is worth and what to use when, in words made from the numbers."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median
from typing import Any

from adaptive_sampling import EVENLY, PLANNED, RIGHT
from lab.methods import NEED_CONSTANT, STEPS
from lab.page import table, wrapped
from lab.record import Found
from lvmrs.planners.votes import sign_test

__all__ = ["shown"]

Setting = dict[str, Any]
"""A network, a σ and a number of samples: the rows of all methods, and the case."""

_SOUND = (
    "cohen", "votes-union", "votes", "paper-union", "paper", "paper-betting", "soft", "lvm", "one-map", "duels",
    "soft-duels",
)  # fmt: skip


def shown(found: dict[str, Found | None]) -> str:
    """The first page; where an experiment was not run, its sentences are left out."""
    steps, ties, few = found["decomposition"], found["near_a_tie"], found["adaptive_sampling"]
    parts = [_INTRODUCTION, wrapped(_scales(each for each in found.values() if each is not None))]
    if steps is not None:
        cases = steps["cases"].values()
        plain = _settings(case for case in cases if case["lipschitz"] is None)
        known = _settings(case for case in cases if case["lipschitz"] is not None)
        advice = [_duels(plain), _votes(plain), _soft_maps(plain)] if plain else []
        advice += [] if ties is None else [_near_ties(ties)]
        advice += [_constant(known)] if known else []
        advice += [_unsound(plain)] if plain else []
        advice += [] if few is None else [_few_samples(few)]
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
    for one, other, words in STEPS:
        settings = known if other in NEED_CONSTANT else plain
        if changes := _changes(settings, one, other):
            gaps = [each["rows"][other]["steps"][one] for each in settings if _has(each, one, other)]
            larger, smaller = sum(gap[1] > 0 for gap in gaps), sum(gap[2] < 0 for gap in gaps)
            sure = f"{larger}, {smaller} of {len(gaps)}"
            rows.append([words, f"{median(changes):+.1f} %", f"{min(changes):+.1f} to {max(changes):+.1f} %", sure])
    head = ["step", "change of the average radius, median", "range", "settings where it is larger, smaller for sure"]
    text = (
        "A setting is a network, a σ and a number of samples; all methods have the same noise. *For sure* means that "
        "the paired interval at 95 % leaves out 0. [The tables](results/decomposition.md) have each setting."
    )
    return f"{wrapped(text)}\n\n{table(head, rows)}"


def _duels(settings: list[Setting]) -> str:
    behind = []
    for each in settings:
        best = max(_averages(each, *(name for name in _SOUND if _has(each, name))))
        if _averages(each, "duels")[0] < best:
            behind.append(100 * (1 - _averages(each, "duels")[0] / best))
    rest = f"; in the others they were at most {max(behind):.1f} % behind the best" if behind else ""
    return (
        f"**Duels**. Of all sound methods they had the largest average radius in "
        f"{len(settings) - len(behind)} of {len(settings)} settings without a Lipschitz constant{rest}. They need no "
        "map, no temperature and no search, and the classifier that is certified is the same for all inputs."
    )


def _votes(settings: list[Setting]) -> str:
    gains = [_averages(each, "cohen", "votes", "lvm") for each in settings]
    shares = [100 * (votes - cohen) / (lvm - cohen) for cohen, votes, lvm in gains if lvm > cohen]
    told = "`LVM` gained nothing over Cohen."
    if shares:
        spread = f"median; from {min(shares):.0f} to {max(shares):.0f} %"
        spread = "in every setting" if max(shares) - min(shares) < 0.5 else spread
        told = f"Without a constant, this alone is {median(shares):.0f} % of what `LVM` gains over Cohen ({spread})."
    return (
        "**Votes with R2 and the risk spent once**, if votes must stay, for a classifier that is deployed already or "
        f"to compare with published numbers. {told}"
    )


def _soft_maps(settings: list[Setting]) -> str:
    gains = [each["rows"]["soft"]["to votes"] for each in settings]
    better, worse = sum(gain[1] > 0 for gain in gains), sum(gain[2] < 0 for gain in gains)
    title = "Soft maps give no radius" if better == 0 else "Soft maps give radius in some settings"
    maps = [each["rows"]["lvm"]["maps"] for each in settings]
    return (
        f"**{title}** without a Lipschitz constant. With the best bound and the best rule to choose them for each "
        f"input, soft maps alone had a larger average radius than votes with R2 in {better} of {len(gains)} settings "
        f"and a smaller one in {worse} (paired intervals at 95 % that leave out 0). `LVM`, which may take either, took "
        f"votes for {_taken(maps)} certificates."
    )


def _taken(maps: list[dict[str, int]]) -> str:
    """How many certificates are of votes."""
    votes, all_ = sum(each.get("hardmax", 0) for each in maps), sum(sum(each.values()) for each in maps)
    return f"{votes} of {all_}"


def _scales(found: Iterable[Found]) -> str:
    scales = sorted({each["made"]["scale"] for each in found})
    small = "" if scales == ["paper"] else ", with small networks and few inputs; each says how many"
    return (
        f"The tables here are at the scale {' and '.join(scales)}{small}. Compare methods with each other, since all "
        "had the same scores. Times are by the wall clock, whatever else the machine did."
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
        "**Near a tie, with few samples**, soft maps may certify inputs that votes do not, at the cost of radius "
        f"elsewhere ([table](results/near_a_tie.md)): {'. And '.join(told)}. Going from votes to duels comes first; a "
        "width from `lvmrs calibrate` is worth a try only if samples are that few and inputs near a tie count most."
    )


def _change_of_pair(size: dict[str, Any], one: str, other: str) -> str:
    pair, average = size["pairs"][f"{one} to {other}"], size["average"]
    change = 100 * (average[other] / average[one] - 1) if average[one] > 0 else 0.0
    chance = sign_test(pair["gained"], pair["lost"])
    return f"gained {pair['gained']} and lost {pair['lost']} (p = {chance:.2g}; radius {change:+.1f} %)"


def _constant(settings: list[Setting]) -> str:
    both = [_averages(each, "soft-duels-ramp", "lvm") for each in settings if _has(each, "soft-duels-ramp", "lvm")]
    ahead = sum(lvm > duels for duels, lvm in both)
    told = []
    for each in settings:
        if _has(each, "duels", "soft-duels-ramp"):
            case, gap = each["case"], each["rows"]["soft-duels-ramp"]["steps"]["duels"]
            sure = "more" if gap[1] > 0 else "less" if gap[2] < 0 else "not decided"
            (change,) = _changes([each], "duels", "soft-duels-ramp") or [0.0]
            told.append(
                f"{_signed(change)} % ({case['title']}, σ = {case['sigma']:.2g}, Lσ = "
                f"{case['lipschitz'] * case['sigma']:.2g}, n = {each['n']}; {sure})"
            )
    return (
        "**If you know a Lipschitz constant**, soft duels with the ramp radius can use it, and are the default there. "
        f"The change of the average radius over hard duels was {', '.join(told)}. `LVM` with the ramp radius, which "
        f"chooses a map for each input, had a larger one than soft duels in {ahead} of {len(both)} settings. By the "
        "theory the constant is worth the more, the smaller Lσ is: hard duels are the limit of large L."
    )


def _signed(change: float) -> str:
    """A change with its sign; what is rounded to 0 has none to speak of."""
    return f"{round(change, 1) + 0.0:+.1f}"


def _unsound(settings: list[Setting]) -> str:
    maps = [each["rows"]["published"]["maps"] for each in settings]
    below = sum(_averages(each, "published")[0] < _averages(each, "duels")[0] for each in settings)
    return (
        "**Not the rule of the paper's published code**, which chooses on the sample that proves and so is not sound. "
        f"It took plain votes for {_taken(maps)} certificates, and its average radius was below that of duels, which "
        f"are sound, in {below} of {len(settings)} settings."
    )


def _few_samples(found: Found) -> str:
    answers = [each["anytime"]["fewer"] for each in found["targets"]["duels"].values()]
    rows = found["budgets"]["rows"]
    even, right, planned = (rows[name]["average"] for name in (EVENLY, RIGHT, PLANNED))
    changes = [_signed(100 * (each / even - 1) if even > 0 else 0.0) for each in (planned, right)]
    saved = [each["n"] / each["budget with labels"] for each in found["savings"] if each["budget with labels"]]
    near = [each["fixed n"] / each["mean"] for each in found["tolerances"].values() if each["fixed n"]]
    return (
        "**As few samples as the question needs** ([tables](results/adaptive_sampling.md)). By duels, a yes "
        f"or no at one radius (`--target-radius`) took {_times(answers)} fewer samples than n = {found['case']['n']}. "
        f"A budget for a labelled data set (`--budget`) had {changes[0]} % average radius over the same samples "
        f"spread evenly, of which the same number for each right answer has {changes[1]} %. At the average radius of a "
        f"fixed number of samples, a budget took {_times(saved)} fewer, and a tolerance for each input "
        f"(`--tolerance`) {_times(near)}, where less than 1 is more samples."
    )


def _times(ratios: list[float]) -> str:
    """The range of some ratios, in words."""
    return f"{min(ratios):.1f} to {max(ratios):.1f} ×" if ratios else "not"


_INTRODUCTION = """\
Every table and figure of the paper, run again: Delattre et al. (2024), "The Lipschitz-Variance-Margin Tradeoff for
Enhanced Randomized Smoothing". Each section below is one script in `experiments/`, and the page of tables behind it has
its command. `make experiments` runs all of them on digits, and on what else is given with `DATA='--cifar10 FILE.npz
--imagenet FOLDER'`; `SCALE=paper` has the published settings. Networks are trained and scores sampled once, and kept in
`build/experiments`."""
