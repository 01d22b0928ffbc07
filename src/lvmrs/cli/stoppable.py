"""Work that a signal can stop, with words how to go on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import typer

from lvmrs._util import signals as _stopping
from lvmrs.cli.console import INCOMPLETE, tell

__all__ = ["stoppable"]


@contextmanager
def stoppable(how_to_go_on: Callable[[], Sequence[str]]) -> Iterator[None]:
    """Within this block, Control-C, SIGTERM or SIGHUP end the command in order.

    Args:
        how_to_go_on: gives the lines that are told then.
    """
    _stopping.work_begins()
    try:
        yield
    except KeyboardInterrupt:
        _stopping.ignore()
        tell(*how_to_go_on())
        raise typer.Exit(INCOMPLETE) from None
