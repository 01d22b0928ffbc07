"""The exceptions of lvmrs, and its warning.

All exceptions derive from ``LvmrsError``, so ``except LvmrsError`` catches these and no others.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager

# Longer messages are truncated; the cause of the error keeps the full text.
_LONGEST = 500


class LvmrsError(Exception):
    """Base of every exception that lvmrs raises on purpose."""


class InvalidArgumentError(LvmrsError, ValueError):
    """An argument cannot be used; the message names it, shows its value and says what is expected."""


class ModelError(LvmrsError):
    """A model cannot be loaded or cannot be certified; the message says why, and what to do."""


class DataError(LvmrsError):
    """A data set cannot be read, or does not hold images in [0, 1]; the message says why, and what to do."""


class RunError(LvmrsError):
    """A run directory cannot be read or written; the message says why, and what to do."""


class ProofError(LvmrsError, ValueError):
    """The proof rejects a plan or scores, since a certificate from them would not be valid; the message says why."""


class SuspiciousWarning(UserWarning):
    """Settings, data or results are valid, and look like a known mistake; the message says which, and what to do."""


def first_line(error: BaseException) -> str:
    """The first line of an error's message without colours, for a quotation in another message."""
    return re.sub(r"\x1b\[[0-9;]*m", "", str(error)).strip().partition("\n")[0][:_LONGEST]


@contextmanager
def guarded(what: str, *, error: type[LvmrsError]) -> Iterator[None]:
    """Run code of the user, or of a library that may raise anything for a bad file.

    Every exception becomes an error of one sentence, and so does ``sys.exit``: otherwise a model could end a run with
    exit code 0 and no result. Control-C and errors of lvmrs pass unchanged.

    Args:
        what: the beginning of the sentence, which names the object and the failure.
        error: the class of the error that is raised.

    >>> with guarded("nets.py: it cannot be imported", error=ModelError):
    ...     raise SystemExit(0)
    Traceback (most recent call last):
        ...
    lvmrs.errors.ModelError: nets.py: it cannot be imported (it calls sys.exit)
    """
    try:
        yield
    except LvmrsError:
        raise
    except SystemExit as failure:
        raise error(f"{what} (it calls sys.exit)") from failure
    except Exception as failure:
        raise error(f"{what} ({_described(failure)})") from failure


def _described(failure: Exception) -> str:
    kind = type(failure).__name__
    try:
        reason = first_line(failure)
    except Exception:  # str() of a user's exception runs the user's code
        return kind
    return f"{kind}: {reason}" if reason else kind


def shown(value: object, most: int = 80) -> str:
    """The repr of a value in one line of at most ``most`` characters, without addresses.

    >>> shown([1.5] * 1000, most=12)
    '[1.5, 1.5, …'
    """
    try:
        text = repr(value)
    except Exception:  # repr() of a user's object may raise anything
        text = f"<{type(value).__name__}>"
    text = re.sub(r" at 0x[0-9a-fA-F]+", "", " ".join(text.split()))
    return text if len(text) <= most else f"{text[: most - 1]}…"


@contextmanager
def naming(index: int) -> Iterator[None]:
    """Add the index of an input to every ``ModelError`` in the block.

    >>> with naming(3):
    ...     raise ModelError("the model returned NaN")
    Traceback (most recent call last):
        ...
    lvmrs.errors.ModelError: input 3: the model returned NaN
    """
    try:
        yield
    except ModelError as error:
        raise ModelError(f"input {index}: {error}") from error
