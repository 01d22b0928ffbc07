"""Remembering how far sampling is while a run is made, so that a kill loses little of inputs without a row."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial

from lvmrs.errors import InvalidArgumentError, RunError
from lvmrs.midway import Midway, UnusableError
from lvmrs.runs import RunWriter
from lvmrs.runs.directory import MIDWAY
from lvmrs.runs.midway_file import damaged, read_midway, remove_midway, write_midway

__all__ = ["remembering"]


@contextmanager
def remembering(writer: RunWriter, *, wanted: bool) -> Iterator[Midway | None]:
    """Within this block inputs on their way are remembered, and taken up if an earlier process has left some.

    Args:
        writer: the writer of the run.
        wanted: whether they can be: sampling has a goal, is done by this process, and its scores are not kept.

    After the block nothing is left. If it is interrupted, how far things are is written first. If it fails before there
    is a row, that is removed, so that the run can be begun with other settings.
    """
    run = writer.run
    if not wanted:
        yield None
        remove_midway(run)
        return
    try:
        midway = Midway(partial(write_midway, run), read_midway(run), done=writer.done)
    except InvalidArgumentError as error:
        raise damaged(run.directory / MIDWAY, str(error)) from error
    try:
        yield midway
    except UnusableError as error:
        raise damaged(run.directory / MIDWAY, str(error)) from error
    except BaseException as error:
        with suppress(RunError):  # the first error is told
            if isinstance(error, Exception) and not writer.done:
                remove_midway(run)
            else:
                midway.flush()
        raise
    remove_midway(run)
