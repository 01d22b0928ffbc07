"""Writes the scores of a run to disk, and copies scores of another run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from lvmrs.record import Row, Run, RunWriter
from lvmrs.record.scores import KeptScores, ScoresWriter, refusing

__all__ = ["copy_scores", "keeping", "opened_scores"]


@contextmanager
def keeping(writer: RunWriter, *, anew: bool) -> Iterator[ScoresWriter | None]:
    """Open a writer for the scores of a run; None if the run does not keep scores.

    Args:
        writer: the writer of the run.
        anew: whether no existing row has usable scores, so that the files are begun anew.

    If the block fails before the first row is written, the scores are removed, so that the run can be begun with other
    settings.
    """
    if not writer.run.manifest.keeps_scores:
        yield None
        return
    keeper = ScoresWriter(writer.run, anew=anew)
    try:
        yield keeper
    except BaseException:
        keeper.close()
        if not writer.done:
            keeper.discard()
        raise
    keeper.close()


def opened_scores(run: Run) -> KeptScores:
    """Open the kept scores of a run."""
    with refusing(run):
        return KeptScores.of(run)


def copy_scores(run: Run, kept: KeptScores, row: Row, keeper: ScoresWriter) -> None:
    """Check the kept scores of one input of a run, and append them to the current input of the writer."""
    with refusing(run):
        kept.check(row)
        for stage in kept.files:
            for batch in kept.logits(row.idx, stage, kept.count(row, stage)):
                keeper.add(stage, batch)
