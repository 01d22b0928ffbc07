"""Options of sbatch that a launched run may have: those that launching depends on are not for the user to give."""

from __future__ import annotations

import re
from collections.abc import Mapping

from lvmrs import _checks
from lvmrs.errors import InvalidArgumentError

__all__ = ["DAY", "checked_settings", "minutes"]

DAY = 24 * 60
"""The time limit of a task, if none is given, in minutes."""
_LIMIT = re.compile(r"(?:([0-9]{1,4})-)?([0-9]{1,6})(?::([0-9]{1,2}))?(?::([0-9]{1,2}))?")
_LOGS = "logs are where launch --wait and its sentences look for them"
_REQUEUED = "a task that is stopped is requeued, and goes on"
_ONE_TASK = "each shard is one task on one node"
# Options that launching gives itself, or that would break it, and why.
_OURS = {
    "array": "the array has one task for each shard; use --shards and --tasks",
    **dict.fromkeys(("output", "error", "open-mode"), _LOGS),
    "signal": "the signal before the time limit is what ends a task in order",
    **dict.fromkeys(("requeue", "no-requeue"), _REQUEUED),
    **dict.fromkeys(("nodes", "ntasks", "ntasks-per-node"), _ONE_TASK),
    "kill-on-invalid-dep": "shards are merged only if all have ended well",
    **dict.fromkeys(("wait", "wrap", "parsable", "test-only"), "it changes what sbatch does with the script of launch"),
}


def checked_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Options of sbatch by their names, with a time limit; those that would break a launched run are refused.

    >>> checked_settings({"partition": "gpu"})
    {'time': '1440', 'partition': 'gpu'}
    """
    for name in settings:
        dashed = _checks.text("sbatch", name).replace("_", "-")
        for ours, why in _OURS.items():
            if ours.startswith(dashed):  # sbatch takes the beginning of a name, too
                raise InvalidArgumentError(f"sbatch {name!r:.40} cannot be given here: {why}; leave it out")
    known = {"time": str(DAY), **settings}
    minutes(known["time"])
    return known


def minutes(text: str) -> int:
    """A time limit as sbatch takes it: minutes, M:S, H:M:S, D-H, D-H:M or D-H:M:S."""
    found = _LIMIT.fullmatch(text)
    if found is None:
        raise InvalidArgumentError(
            f"time must be minutes, or like 4:00:00 or 1-12, as sbatch takes it, got {text!r:.40}"
        )
    days, *parts = (int(part or 0) for part in found.groups())
    if found[1] is not None or found[4] is not None:
        hours, whole, seconds = parts
    else:
        hours, whole, seconds = 0, parts[0], parts[1]
    return max(1, 24 * 60 * days + 60 * hours + whole + bool(seconds))
