"""Printing, writing, stopping and ending: data go to stdout, messages to stderr, and a command ends with an exit code.

Models, data sets and libraries print too. While a command works, only ``output`` writes to stdout, and what others
print there goes to stderr, so that programs can read the data.
"""

from __future__ import annotations

import io
import json
import os
import select
import shlex
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, redirect_stdout, suppress
from pathlib import Path
from typing import BinaryIO, TextIO

import typer

from lvmrs import analysis
from lvmrs._util import files as _disk
from lvmrs._util import signals as _stopping
from lvmrs._util.files import replacing
from lvmrs._util.text import printable
from lvmrs.analysis import Results
from lvmrs.analysis.results import NoRowsError
from lvmrs.errors import InvalidArgumentError, LvmrsError, RunError, first_line
from lvmrs.kernel.radius import percent, rounded_down
from lvmrs.record import Run

__all__ = [
    "FAILED", "INCOMPLETE", "WRONG_USAGE", "command_line", "exit_code", "output", "own_stdout", "read_all", "show_run",
    "stoppable", "tell", "writing",
]  # fmt: skip

FAILED, WRONG_USAGE = 1, 2
INCOMPLETE = _stopping.EXIT_CODE
"""Exit code of a command that ended well but left inputs undone."""

_ELSEWHERE = "choose another file with --out"
_LONGEST, _LONGEST_NAME = 2_000, 200
_UsageError = typer.BadParameter.__base__ or Exception  # typer has no name of its own for it

# Where data go while a command works.
_data: list[TextIO | None] = []


def tell(*lines: str) -> None:
    """Print lines for people, with escapes for control characters."""
    with suppress(OSError):  # if the terminal is gone, nobody can be told, and the work continues
        print(*map(printable, lines), sep="\n", file=sys.stderr, flush=True)


def output(text: str) -> None:
    """Print data and a newline. If nothing reads stdout any more (``| head``), the command ends without a message."""
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


def _reader_has_gone() -> bool:
    """Whether stdout has no reader any more, so that a ``BrokenPipeError`` is about stdout."""
    if sys.stdout is not sys.__stdout__ or sys.stdout is None:
        return False
    look = select.poll()
    look.register(sys.stdout.fileno(), select.POLLOUT)
    gone = any(events & select.POLLERR for _, events in look.poll(0))
    if gone:
        _forget(sys.stdout)
    return gone


def _forget(stream: TextIO) -> None:
    """Discard what the stream still holds, so that closing it does not fail again."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


@contextmanager
def own_stdout() -> Iterator[None]:
    """Within this block only ``output`` writes to stdout; what Python or C code prints there goes to stderr."""
    stream = sys.stdout
    is_real = stream is not None and stream is sys.__stdout__  # false where a test or a notebook captures stdout
    with _moved(stream) if is_real else nullcontext(stream) as data, redirect_stdout(sys.stderr):
        _data.append(data)
        try:
            yield
        finally:
            _data.pop()


@contextmanager
def _moved(stream: TextIO) -> Iterator[TextIO]:
    """Yield a new stream to stdout's file; within the block, the descriptor of stdout writes to stderr."""
    stream.flush()
    with open(os.dup(1), "w", encoding=stream.encoding, errors="replace") as data:  # noqa: PTH123
        os.dup2(2, 1)
        try:
            yield data
        finally:
            stream.flush()
            os.dup2(data.fileno(), 1)


def command_line(*more: str) -> str:
    """Return the command that was typed, with more words at its end, quoted for a shell."""
    return " ".join(["lvmrs", *map(_quoted, [*sys.argv[1:], *more])])


def _quoted(word: str) -> str:
    """Quote a word for the shell; control characters become escapes, which bash and zsh understand in $'…'."""
    if word.isprintable():
        return shlex.quote(word)
    return "$'" + printable(word.replace("\\", "\\\\").replace("'", "\\'")) + "'"


@contextmanager
def writing(out: Path) -> Iterator[BinaryIO]:
    """Open OUT for writing; if the block fails, an earlier file stays as it was, and no other file is left."""
    _stopping.work_begins()
    with _disk.errors(out, _ELSEWHERE):
        target = _resolved(out)  # a link stays a link
        is_stream = target.exists() and not target.is_file() and not target.is_dir()  # such as /dev/stdout, or a pipe
        with target.open("wb") if is_stream else replacing(target) as file:
            yield file


def _resolved(out: Path) -> Path:
    try:
        return _disk.place(out).resolve()
    except RuntimeError as error:  # Python's error for links that form a cycle
        raise RunError(f"{out} cannot be written to ({error}); {_ELSEWHERE}") from error


def read_all(paths: Sequence[Path]) -> tuple[list[Results], bool]:
    """Read result files, and tell which have no rows yet.

    Returns:
        The results that have rows, and whether these are all.
    """
    found: list[Results] = []
    empty: list[NoRowsError] = []
    for path in paths:
        try:
            found.append(analysis.read(path))
        except NoRowsError as error:
            empty.append(error)
    if empty and not found:
        raise empty[0]
    for why in empty:
        tell(f"left out: {why}")
    return found, not empty


def show_run(run: Run, *, as_json: bool) -> None:
    """Print a one-line summary of a run and its directory; an unfinished run ends the command with INCOMPLETE."""
    results = analysis.results_of(run)
    average = analysis.average_certified_radius(results).value
    spent = analysis.spending(results)
    (accuracy,) = analysis.certified_accuracy(results, [0.0])
    if as_json:
        shown = {
            "run": str(run.directory),
            "inputs": len(results),
            "missing": results.missing,
            "certified accuracy": accuracy,
            "average certified radius": average,
            **({} if spent is None else {"samples": analysis.spending_object(spent)}),
        }
        output(json.dumps(shown))
    else:
        output(
            f"{printable(str(run.directory))}: {len(results)} inputs, certified accuracy {percent(accuracy)} %, "
            f"average certified radius {rounded_down(average)}"
        )
        for words in () if spent is None else analysis.spending_words(spent):
            output(words)
    if results.missing:
        raise typer.Exit(INCOMPLETE)


@contextmanager
def stoppable(how_to_continue: Callable[[], Sequence[str]]) -> Iterator[None]:
    """Within this block, Control-C, SIGTERM or SIGHUP end the command in order.

    Args:
        how_to_continue: returns the lines to print then.
    """
    _stopping.work_begins()
    try:
        yield
    except KeyboardInterrupt:
        _stopping.ignore()
        tell(*how_to_continue())
        raise typer.Exit(INCOMPLETE) from None


def exit_code(command: Callable[[], object], *, debug: bool) -> int:
    """Run a command, and print one sentence if it fails.

    Only a command that has done its work ends with 0, whatever code of the user or of a library does.

    Args:
        command: the command.
        debug: whether to print tracebacks.

    Returns:
        The exit code.
    """
    try:
        command()
    except typer.Exit as end:
        return end.exit_code
    except KeyboardInterrupt:
        _stopping.ignore()
        tell("lvmrs: stopped; what was written is safe")
        return INCOMPLETE
    except BaseException as error:
        if isinstance(error, BrokenPipeError) and _reader_has_gone():
            return INCOMPLETE
        if debug:
            _tell_origin(error)
        if isinstance(error, _UsageError):
            _tell_usage(error)
            return WRONG_USAGE
        tell(f"lvmrs: {_clipped(_sentence(error))}")
        return WRONG_USAGE if isinstance(error, InvalidArgumentError) else FAILED
    return 0


def _sentence(error: BaseException) -> str:
    if isinstance(error, LvmrsError):
        return str(error)
    if isinstance(error, SystemExit):
        return f"code of a model, data set or method ended the program itself (sys.exit({error.code!r})); it must not"
    if isinstance(error, MemoryError):
        return "there is not enough memory for this; take less at a time, such as a smaller --batch"
    if isinstance(error, RecursionError):
        return "some code calls itself without end (RecursionError); run again with --debug to see which"
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        name = str(error.filename)  # a file that the user named: nothing is wrong with the program
        return f"{name[:_LONGEST_NAME]}{'…' * (len(name) > _LONGEST_NAME)} cannot be used ({error.strerror})"
    try:
        reason = first_line(error)
    except Exception as broken:  # an exception of the user may have a __str__ that fails
        reason = f"it cannot be printed, {type(broken).__name__}"
    told = ": ".join(part for part in (type(error).__name__, reason) if part)
    return f"internal error: {told}; run again with --debug and report it"


def _clipped(sentence: str) -> str:
    """Shorten a sentence to half a screen; --debug prints all of it."""
    return sentence if len(sentence) <= _LONGEST else f"{sentence[: _LONGEST - 40]} … {sentence[-30:]}"


def _tell_usage(error: BaseException) -> None:
    shown = io.StringIO()
    error.show(file=shown)  # type: ignore[attr-defined]
    tell(*map(_clipped, shown.getvalue().removesuffix("\n").split("\n")))


def _tell_origin(error: BaseException) -> None:
    """Print the traceback of an error and of all errors that led to it, including those that ``from None`` hides."""
    link: BaseException | None = error
    seen = set()
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        link.__suppress_context__ = link.__cause__ is not None
        link = link.__cause__ or link.__context__
    for part in traceback.format_exception(error):
        tell(*part.removesuffix("\n").split("\n"))
