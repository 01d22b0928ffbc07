"""The exceptions of lvmrs. All derive from ``LvmrsError``, so ``except LvmrsError`` catches these and no others."""

import re

__all__ = [
    "DataError", "InvalidArgumentError", "LvmrsError", "ModelError", "ProofError", "RunError", "first_line", "shown",
]  # fmt: skip


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
    """The proof refuses a plan or scores, since a certificate from them could not be trusted; the message says why."""


def first_line(error: BaseException) -> str:
    """The first line of an error's message, to quote in a sentence of ours."""
    return str(error).partition("\n")[0]


def shown(value: object, most: int = 80) -> str:
    """Write a value as Python shows it, in one line of at most so many characters and without addresses.

    >>> shown([1.5] * 1000, most=12)
    '[1.5, 1.5, …'
    """
    try:
        text = repr(value)
    except Exception:  # that of an object of the user's own may raise anything
        text = f"<{type(value).__name__}>"
    text = re.sub(r" at 0x[0-9a-fA-F]+", "", " ".join(text.split()))
    return text if len(text) <= most else f"{text[: most - 1]}…"
