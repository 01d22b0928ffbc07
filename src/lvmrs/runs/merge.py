"""Merges the shards of a run into one run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from lvmrs.errors import RunError
from lvmrs.kernel import checks
from lvmrs.record import Run, RunWriter
from lvmrs.record.origin import origin
from lvmrs.runs.keeping import copy_scores, keeping, opened_scores

__all__ = ["merge"]


def merge(shards: Sequence[Run], out: str | Path, *, command: str = "") -> Run:
    """Merge all shards of a run. The shards must be complete and have the same settings.

    Args:
        shards: the runs of the shards, in any order.
        out: the directory of the new run. If a merge of the same shards was begun there, it is completed.
        command: the command line of the user, which the run records.

    Returns:
        The new run. The docstring of ``lvmrs.runs`` has an example.
    """
    if isinstance(shards, Sequence) and not shards:
        raise RunError("no shards were given; name the run directories to merge")
    shards = checks.instances("shards", shards, Run, "objects of lvmrs.Run")
    first = shards[0].manifest
    _check_shards(shards)
    ways = {run.manifest.running for run in shards}
    manifest = replace(
        first,
        terms=replace(first.terms, dimensions=_most_dimensions(shards), rounding=_least_rounding(shards)),
        selection=replace(first.selection, shard=1, shards=1),
        running=first.running if len(ways) == 1 else None,
        origin=origin(command, shards=[str(run.directory) for run in shards]),
    )
    kept = [opened_scores(run) if manifest.keeps_scores else None for run in shards]
    rows = sorted(
        ((row, run, scores) for run, scores in zip(shards, kept, strict=True) for row in run.rows()),
        key=lambda found: found[0].idx,
    )
    with RunWriter.begin(out, manifest, resume=True) as writer:
        merged = []
        with keeping(writer, anew=True) as keeper:
            for position, (row, run, scores) in enumerate(rows):
                if keeper is None or scores is None:
                    merged.append(row)
                    continue
                keeper.begin(position)
                copy_scores(run, scores, row, keeper)
                merged.append(replace(row, scores=keeper.checksum))
            if keeper is not None:
                keeper.finish()
        writer.append_missing(merged)
        return writer.run


def _most_dimensions(shards: Sequence[Run]) -> int | None:
    """The largest number of values of an input; None if a shard does not record it."""
    known = [run.manifest.terms.dimensions for run in shards]
    return None if None in known else max(each for each in known if each is not None)


def _least_rounding(shards: Sequence[Run]) -> float | None:
    """The smallest rounding allowance, since machines measure different ones; None if a shard does not record it."""
    known = [run.manifest.terms.rounding for run in shards]
    return None if None in known else min(each for each in known if each is not None)


def _check_shards(shards: Sequence[Run]) -> None:
    first = shards[0].manifest
    count = first.selection.shards
    for run in shards:
        same = replace(run.manifest.selection, shard=first.selection.shard)
        if changed := first.difference(replace(run.manifest, selection=same)):
            raise RunError(
                f"{run.directory} and {shards[0].directory} are not shards of the same run: {'; '.join(changed)}"
            )
        if not run.complete:
            missing = len(run.manifest.selection.indices) - len(run.rows())
            raise RunError(f"{run.directory} is not finished ({missing} inputs missing); resume it first")
    numbers = sorted(run.manifest.selection.shard for run in shards)
    if numbers != list(range(1, count + 1)):
        missing_shards = sorted(set(range(1, count + 1)) - set(numbers))
        what = f"shard {missing_shards[0]} of {count} is missing" if missing_shards else "a shard is given twice"
        raise RunError(f"{what}; give each of the {count} shards once")
