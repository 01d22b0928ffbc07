"""Who takes part in a contest, in three groups; each group has a process of its own (``suite.worker``)."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from lvmrs._util.machine import keep_freed
from suite import others
from suite.limit import Bare, best, search
from suite.networks import Network
from suite.ours import PLANNERS, ours, smoothed
from suite.rounds import Contestant, seconds_per_sample

__all__ = ["GROUPS", "N0", "Group"]

N0 = 100
_ART = (64, 128, 256)


@dataclass
class Group:
    """Contestants by name, and what they chose for themselves."""

    contestants: dict[str, Contestant]
    settings: dict[str, str]
    more: dict[str, Any] = field(default_factory=dict)
    """What else was found on the way."""


def bare_group(network: Network, n: int) -> Group:
    """The best ways that the search finds, with memory kept and at all, and the two that need no search by others."""
    bare = Bare(network)
    found = search(bare, network.contest.batches, max(n // 4, 64))
    leading = sorted(found, key=found.__getitem__)
    # Without kept memory times vary more, so that a way with it is in the final.
    second = leading[:2][-1] if leading[0].kept else next((way for way in leading if way.kept), leading[0])
    ways = {"limit": leading[0], "limit, second": second}
    for name, way in (
        ("folded, channels-last", best(found, "folded", "channels-last")),
        ("eager, contiguous", best(found, "eager", "contiguous")),
    ):
        if way is not None:
            ways[name] = way
    long = n * network.contest.longer
    return Group(
        {name: bare.contestant(way, long if name.startswith("limit") else n) for name, way in ways.items()},
        {name: str(way) for name, way in ways.items()},
        {"tried": {str(way): seconds for way, seconds in found.items()}},
    )


def our_group(network: Network, n: int) -> Group:
    """All methods as in a long run, Cohen as in a short one, and duels in bfloat16."""
    keep_freed()  # as the command line does
    group = Group({}, {}, {"preparing": {}})
    for length in ("short", "long"):
        start = time.perf_counter()
        made = smoothed(network, length)
        group.more["preparing"][length] = time.perf_counter() - start
        for planner in PLANNERS if length == "long" else ("Cohen",):
            name = f"ours, {planner}, {length}"
            samples = n * network.contest.longer if length == "long" else n
            group.contestants[name] = ours(network, made, planner, N0, samples)
            group.settings[name] = made.prepare(network.x).words
    made = smoothed(network, "long", "bfloat16")
    group.contestants["ours, duels, bfloat16"] = ours(network, made, "duels", N0, n * network.contest.longer)
    group.settings["ours, duels, bfloat16"] = made.prepare(network.x).words
    return group


def other_group(network: Network, n: int) -> Group:
    """ART at its default batch size and at its best, and the field's loop."""
    few = max(n // 4, 64)
    quickest = min(_ART, key=lambda batch: seconds_per_sample(others.art(network, 1, few, batch)))
    group = Group({}, {})
    for name, batch in (("ART, default batch", 32), ("ART, best batch", quickest)):
        group.contestants[name], group.settings[name] = others.art(network, N0, n, batch), f"batch {batch}"
    for batch in network.contest.field:
        name = f"the field's loop, {batch}"
        group.contestants[name], group.settings[name] = others.field(network, N0, n, batch), f"batch {batch}"
    return group


GROUPS = {"bare": bare_group, "ours": our_group, "others": other_group}
