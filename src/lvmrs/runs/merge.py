"""Merges the shards of a run into one run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from torch import Tensor

from lvmrs.errors import RunError
from lvmrs.kernel import checks
from lvmrs.kernel.noise import Stage
from lvmrs.record import Row, Run, RunWriter
from lvmrs.record.manifest import origin
from lvmrs.record.scores import KeptScores, keeping, opened_scores, refusing


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
    dimensions = [run.manifest.terms.dimensions for run in shards]
    rounding = [run.manifest.terms.rounding for run in shards]  # machines measure different numbers
    terms = replace(
        first.terms,
        dimensions=None if None in dimensions else max(each or 0 for each in dimensions),
        rounding=None if None in rounding else min(each or 0.0 for each in rounding),
    )
    manifest = replace(
        first,
        terms=terms,
        selection=replace(first.selection, shard=1, shards=1),
        running=first.running if len(ways) == 1 else None,
        origin=origin(command, shards=[str(run.directory) for run in shards]),
    )
    kept = {run: opened_scores(run) for run in shards} if manifest.keeps_scores else {}
    rows = sorted(((row, run) for run in shards for row in run.rows()), key=lambda found: found[0].idx)
    with RunWriter(out, manifest, resume=True) as writer:
        with keeping(writer, anew=True) as keeper:
            merged = [row if keeper is None else keeper.keep(row, _scores(run, kept[run], row)) for row, run in rows]
            if keeper is not None:
                keeper.sync()
        writer.append_missing(merged)
        return writer.run


def _scores(run: Run, kept: KeptScores, row: Row) -> Iterator[tuple[Stage, Tensor]]:
    """Check the kept scores of one input of a shard, and read them."""
    with refusing(run):
        kept.check(row)
        for stage in kept.files:
            for batch in kept.logits(row.idx, stage, kept.count(row, stage)):
                yield stage, batch


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
