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
from typing import TYPE_CHECKING, BinaryIO, TextIO

import typer

from lvmrs._util import files, signals
from lvmrs._util.text import percent, printable
from lvmrs.errors import InvalidArgumentError, LvmrsError, RunError, first_line

if TYPE_CHECKING:
    from lvmrs.analysis.results import Results
    from lvmrs.record import Run

FAILED, WRONG_USAGE = 1, 2
INCOMPLETE = signals.EXIT_CODE
"""Exit code of a command that ended well but left inputs undone."""

_ELSEWHERE = "choose another file"
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
    signals.work_begins()
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
    signals.work_begins()
    with files.errors(out, _ELSEWHERE):
        try:
            target = files.place(out).resolve()  # a link stays a link
        except RuntimeError as error:  # Python's error for links that form a cycle
            raise RunError(f"{out} cannot be written to ({error}); {_ELSEWHERE}") from error
        is_stream = target.exists() and not target.is_file() and not target.is_dir()  # such as /dev/stdout, or a pipe
        with target.open("wb") if is_stream else files.replacing(target) as file:
            yield file


def read_all(paths: Sequence[Path], names: Sequence[str] | None = None) -> tuple[list[Results], bool]:
    """Read result files, and tell which have no rows yet; returns those that have rows, and whether these are all.

    ``names`` are the names of the results, one for each path; by default the paths.
    """
    from lvmrs.analysis.results import NoRowsError, check_names, named, read

    check_names(names, len(paths))
    found: list[Results] = []
    empty: list[NoRowsError] = []
    for k, path in enumerate(paths):
        try:
            found += named([read(path)], None if names is None else [names[k]])
        except NoRowsError as error:
            empty.append(error)
    if empty and not found:
        raise empty[0]
    for why in empty:
        tell(f"left out: {why}")
    return found, not empty


def show_run(run: Run, *, as_json: bool) -> None:
    """Print a one-line summary of a run and its directory; an unfinished run ends the command with INCOMPLETE."""
    from lvmrs.analysis.metrics import average_certified_radius
    from lvmrs.analysis.results import results_of
    from lvmrs.analysis.summary import spending, spending_object, spending_words
    from lvmrs.kernel.radius import rounded_down

    results = results_of(run)
    average = average_certified_radius(results).value
    spent = spending(results)
    share = float(results.counted.mean())
    if as_json:
        shown = {
            "run": str(run.directory),
            "inputs": len(results),
            "missing": results.missing,
            results.measure: share,
            "average certified radius": average,
            **({} if spent is None else {"samples": spending_object(spent)}),
        }
        output(json.dumps(shown))
    else:
        inputs = f"{len(results)} inputs{'' if results.label is not None else ' without labels'}"
        output(
            f"{printable(str(run.directory))}: {inputs}, {results.measure} {percent(share)} %, "
            f"average certified radius {rounded_down(average)}"
        )
        for words in () if spent is None else spending_words(spent):
            output(words)
    if results.missing:
        raise typer.Exit(INCOMPLETE)


@contextmanager
def stoppable(how_to_continue: Callable[[], Sequence[str]]) -> Iterator[None]:
    """Within this block, a signal ends the command in order, with the lines of ``how_to_continue``."""
    signals.work_begins()
    try:
        yield
    except KeyboardInterrupt:
        signals.ignore()
        tell(*how_to_continue())
        raise typer.Exit(INCOMPLETE) from None


def exit_code(command: Callable[[], object], *, debug: bool) -> int:
    """Run a command, and print one sentence if it fails, with the traceback if ``debug``; returns the exit code.

    Only a command that has done its work ends with 0, whatever code of the user or of a library does.
    """
    try:
        command()
    except typer.Exit as end:
        return end.exit_code
    except KeyboardInterrupt:
        signals.ignore()
        tell("lvmrs: stopped; what was written is safe")
        return INCOMPLETE
    except BaseException as error:
        if isinstance(error, BrokenPipeError) and _reader_has_gone():
            return INCOMPLETE
        if debug:
            _tell_origin(error)
        if isinstance(error, _UsageError):
            shown = io.StringIO()
            error.show(file=shown)  # type: ignore[attr-defined]
            tell(*map(_clipped, shown.getvalue().removesuffix("\n").split("\n")))
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
