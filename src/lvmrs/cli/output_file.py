"""The file that a command writes for people to look at."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lvmrs.errors import RunError

__all__ = ["writing"]


@contextmanager
def writing(out: Path) -> Iterator[None]:
    """Turn an error of the disk while OUT is written into one sentence."""
    try:
        yield
    except OSError as error:
        raise RunError(f"{out} cannot be written to ({error.strerror}); choose another --out") from error
