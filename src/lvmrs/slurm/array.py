"""The shard that a task of a Slurm array does, and where it writes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from lvmrs.errors import InvalidArgumentError

__all__ = ["shard_directory", "shard_of_task"]

_NAMES = ("SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_MIN", "SLURM_ARRAY_TASK_COUNT")


def shard_of_task(environment: Mapping[str, str] | None = None) -> tuple[int, int]:
    """The number of the shard of this array task, from 1, and how many shards there are.

    Args:
        environment: the variables that Slurm sets; by default those of this process.
    """
    found = os.environ if environment is None else environment
    words = [found.get(name, "") for name in _NAMES]
    if not all(word.isascii() and word.isdigit() for word in words):
        told = ", ".join(f"{name} is {word!r:.40}" for name, word in zip(_NAMES, words, strict=True))
        raise InvalidArgumentError(
            f"shard auto is for the tasks of a Slurm array, and this is none ({told}); submit it with sbatch "
            "--array=1-8, or name the shard, such as 2/8"
        )
    task, first, count = map(int, words)
    step = max(1, _number(found, "SLURM_ARRAY_TASK_STEP", 1))
    last = _number(found, "SLURM_ARRAY_TASK_MAX", first + (count - 1) * step)
    place, rest = divmod(task - first, step)
    # Slurm does not say which tasks a list such as 0,2,5 has, and then its step is 1.
    if rest or not 0 <= place < count or last != first + (count - 1) * step:
        raise InvalidArgumentError(
            f"task {task} is one of {count} from {first} to {last}: the array has gaps, so that it does not say which "
            "shard this is; submit an array such as 1-8, or name the shard, such as 2/8"
        )
    return place + 1, count


def _number(environment: Mapping[str, str], name: str, otherwise: int) -> int:
    word = environment.get(name, "")
    return int(word) if word.isascii() and word.isdigit() else otherwise


def shard_directory(out: str | Path, shard: int, shards: int) -> Path:
    """Where a shard of a run is written: beside the whole.

    >>> print(shard_directory("runs/a", 2, 8))
    runs/a-2-of-8
    """
    path = Path(out)
    if path.name in ("", ".."):
        raise InvalidArgumentError(f"out must have a name, which shards are named after, got {str(out)!r:.80}")
    return path.with_name(f"{path.name}-{shard}-of-{shards}")
