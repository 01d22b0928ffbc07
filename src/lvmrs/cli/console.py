"""What a command prints: data on stdout, and what it says to the person who typed it on stderr.

Models, data sets and libraries print too. While a command works, stdout belongs to ``output`` alone, and what others
print there goes to stderr, so that programs can read the data.
"""

from __future__ import annotations

import os
import select
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout, suppress
from typing import TextIO

import typer

from lvmrs._util import signals as _stopping
from lvmrs._util.text import printable
from lvmrs.errors import RunError

__all__ = ["INCOMPLETE", "command_line", "output", "own_stdout", "reader_has_gone", "tell"]

INCOMPLETE = _stopping.EXIT_CODE
"""Exit code of a command that ended well but left inputs undone."""

# Where data go while a command works.
_data: list[TextIO | None] = []


def tell(*lines: str) -> None:
    """Print lines for people, with escapes for control characters."""
    with suppress(OSError):  # the terminal may be gone: then nobody can be told, and the work goes on
        print(*map(printable, lines), sep="\n", file=sys.stderr, flush=True)


def output(text: str) -> None:
    """Print data, and a line's end. If the reader has gone (``| head``), the command ends quietly."""
    _stopping.work_begins()
    stream = _data[-1] if _data else sys.stdout
    if stream is None:
        raise RunError("there is no stdout to write the result to; do not close it")
    try:
        print(text, file=stream, flush=True)
    except BrokenPipeError:
        _forget(stream)
        raise typer.Exit(INCOMPLETE) from None
    except OSError as error:
        _forget(stream)
        raise RunError(f"stdout cannot be written to ({error.strerror})") from error


def reader_has_gone() -> bool:
    """Whether nobody reads stdout any more, so that a ``BrokenPipeError`` is about it."""
    if sys.stdout is not sys.__stdout__ or sys.stdout is None:
        return False
    look = select.poll()
    look.register(sys.stdout.fileno(), select.POLLOUT)
    gone = any(events & select.POLLERR for _, events in look.poll(0))
    if gone:
        _forget(sys.stdout)
    return gone


def _forget(stream: TextIO) -> None:
    """Send what the stream still holds nowhere, so that it does not fail once more when it is closed."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


@contextmanager
def own_stdout() -> Iterator[None]:
    """Within this block only ``output`` writes to stdout; what Python or C code prints there goes to stderr."""
    stream = sys.stdout
    is_real = stream is not None and stream is sys.__stdout__  # not so where a test or a notebook captures it
    with _moved(stream) if is_real else nullcontext(stream) as data, redirect_stdout(sys.stderr):
        _data.append(data)
        try:
            yield
        finally:
            _data.pop()


@contextmanager
def _moved(stream: TextIO) -> Iterator[TextIO]:
    """Another stream to where stdout went; until the end of the block the descriptor of stdout is that of stderr."""
    stream.flush()
    with open(os.dup(1), "w", encoding=stream.encoding, errors="replace") as data:  # noqa: PTH123
        os.dup2(2, 1)
        try:
            yield data
        finally:
            stream.flush()
            os.dup2(data.fileno(), 1)


def command_line(*more: str) -> str:
    """The command that was typed, with more words at its end, to be typed again."""
    return " ".join(["lvmrs", *map(_quoted, [*sys.argv[1:], *more])])


def _quoted(word: str) -> str:
    """A word for the shell; control characters are written as escapes, which bash and zsh understand in $'…'."""
    if word.isprintable():
        return shlex.quote(word)
    return "$'" + printable(word.replace("\\", "\\\\").replace("'", "\\'")) + "'"
