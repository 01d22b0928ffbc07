"""How a command ends: its exit code, and one sentence about what went wrong."""

from __future__ import annotations

import io
import traceback
from collections.abc import Callable

import typer

from lvmrs._util import signals as _stopping
from lvmrs.cli.console import INCOMPLETE, reader_has_gone, tell
from lvmrs.errors import InvalidArgumentError, LvmrsError, first_line

__all__ = ["FAILED", "WRONG_USAGE", "exit_code"]

FAILED, WRONG_USAGE = 1, 2
_LONGEST, _LONGEST_NAME = 2_000, 200
_UsageError = typer.BadParameter.__base__ or Exception  # typer has no name of its own for it


def exit_code(command: Callable[[], object], *, debug: bool) -> int:
    """Run a command to its end.

    Whatever code of the user or of a library does, the exit code is ours: nothing but a command that has done its work
    ends with 0.

    Args:
        command: the command.
        debug: whether errors are shown with where they come from.

    Returns:
        The exit code; everything has been said.
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
        if isinstance(error, BrokenPipeError) and reader_has_gone():
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
    """Half a screen at most: --debug shows the whole."""
    return sentence if len(sentence) <= _LONGEST else f"{sentence[: _LONGEST - 40]} … {sentence[-30:]}"


def _tell_usage(error: BaseException) -> None:
    shown = io.StringIO()
    error.show(file=shown)  # type: ignore[attr-defined]
    tell(*map(_clipped, shown.getvalue().removesuffix("\n").split("\n")))


def _tell_origin(error: BaseException) -> None:
    """Print where an error comes from, with all that led to it, also what ``from None`` hides."""
    link: BaseException | None = error
    seen = set()
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        link.__suppress_context__ = link.__cause__ is not None
        link = link.__cause__ or link.__context__
    for part in traceback.format_exception(error):
        tell(*part.removesuffix("\n").split("\n"))
