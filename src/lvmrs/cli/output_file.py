"""The file that a command writes for people to look at."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from lvmrs._util import files as _disk
from lvmrs._util import signals as _stopping
from lvmrs._util.files import replacing
from lvmrs.errors import RunError

__all__ = ["writing"]

_ELSEWHERE = "choose another file with --out"


@contextmanager
def writing(out: Path) -> Iterator[BinaryIO]:
    """Open OUT to write to; if the block fails, what was there before is still there, and nothing else."""
    _stopping.work_begins()
    with _disk.errors(out, _ELSEWHERE):
        target = _resolved(out)  # a link stays a link
        is_stream = target.exists() and not target.is_file() and not target.is_dir()  # such as /dev/stdout, or a pipe
        with target.open("wb") if is_stream else replacing(target) as file:
            yield file


def _resolved(out: Path) -> Path:
    try:
        return _disk.place(out).resolve()
    except RuntimeError as error:  # Python's word for links that lead to each other
        raise RunError(f"{out} cannot be written to ({error}); {_ELSEWHERE}") from error
