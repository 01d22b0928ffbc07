"""Keeping the scores of a run on disk, and copying those of another run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from lvmrs.noise import Stage
from lvmrs.runs import Run
from lvmrs.runs.scores import ScoresWriter, kept_logits

__all__ = ["copy_scores", "keeping"]


@contextmanager
def keeping(run: Run) -> Iterator[ScoresWriter | None]:
    """Open a writer for the scores of a run; None if the run does not keep scores."""
    manifest = run.manifest
    if not manifest.keeps_scores:
        yield None
        return
    samples: dict[Stage, int] = {"selection": manifest.terms.n0 or 0, "certification": manifest.terms.n or 0}
    keeper = ScoresWriter(run.directory, len(manifest.selection.indices), samples)
    try:
        yield keeper
    finally:
        keeper.close()


def copy_scores(run: Run, index: int, keeper: ScoresWriter) -> None:
    """Copy the kept scores of one input of a run to the present input of the writer."""
    position = run.manifest.selection.indices.index(index)
    for stage, count in keeper.samples.items():
        for batch in kept_logits(run.directory, position, stage, count):
            keeper.add(stage, batch)
