"""Commands in this process, and what must be true of one that was refused."""

from __future__ import annotations

import contextlib
import io
import re
import resource
import shutil
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType

import pytest

from lvmrs.cli import main

__all__ = ["check_nothing_left", "check_refused", "check_sentence", "ended", "limited"]

SECONDS = 120
"""Longer than any case takes, also on a machine that does ten times as much as it can."""
MEMORY = 4 << 30
"""Bytes that a case may take: a bomb of memory fails instead of filling the machine."""


class HangError(BaseException):
    """A case took too long. Nothing that catches exceptions of other kinds can keep it."""


def _hangs(number: int, frame: FrameType | None) -> None:
    raise HangError(f"the case took longer than {SECONDS} s")


@contextlib.contextmanager
def limited(seconds: float = SECONDS) -> Iterator[None]:
    """Limit time and memory within this block, where the system can."""
    timed = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGALRM, _hangs) if timed else None
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (held + MEMORY, hard))
    try:
        if timed:
            signal.setitimer(signal.ITIMER_REAL, seconds)
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        if timed:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)


def ended(words: Sequence[str]) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of ``lvmrs WORDS``. An exception that leaves the command leaves this function."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        patch.setattr(sys, "argv", ["lvmrs", *words])
        try:
            with limited(), warnings.catch_warnings():
                warnings.simplefilter("default")  # as for a person who types it: a warning is no error
                main()
            code: object = 0
        except SystemExit as end:
            code = end.code or 0
    texts = [stream.detach().getvalue().decode() for stream in (out, err)]
    assert isinstance(code, int), f"exit code {code!r}"
    return code, *texts  # type: ignore[return-value]


def check_refused(words: Sequence[str], here: Path, codes: Sequence[int] = (1, 2)) -> None:
    """Check that a command is refused well: an exit code, one sentence, no result, and nothing left behind."""
    code, out, err = ended(words)
    assert code in codes, f"exit code {code}, with {out!r:.300} on stdout and {err!r:.600} on stderr"
    assert out == "", f"a result was printed: {out!r:.300}"
    assert "Traceback" not in err
    assert "internal error" not in err.lower()
    lines = err.splitlines()
    if not lines[0].startswith("Usage: lvmrs"):  # what typer says of words that it cannot parse
        said = [line.removeprefix("lvmrs: ") for line in lines if line.startswith("lvmrs: ")]
        assert len(said) == 1, f"expected one sentence: {err!r:.600}"
        assert lines[-1].endswith(said[0]), f"something follows the sentence: {err!r:.600}"
        check_sentence(said[0])
    check_nothing_left(here)


def check_nothing_left(here: Path) -> None:
    """Check that a corrected command finds nothing in its way. A run that has rows stays: it can be resumed."""
    for rows in here.glob("*/certificates.tsv"):
        if rows.read_bytes().count(b"\n") > 1:
            shutil.rmtree(rows.parent)
    left = sorted(str(path.relative_to(here)) for path in here.rglob("*") if "__pycache__" not in path.parts)
    assert left == [], f"left behind: {left}"


def check_sentence(text: str) -> None:
    """Check that a message is one sentence for a person, and not what Python says."""
    assert "\n" not in text, f"more than one line: {text!r:.400}"
    assert len(text.split()) >= 3, f"not a sentence: {text!r}"
    assert not re.match(r"\W*\w*(Error|Exception|Warning|Interrupt)\b", text), f"a bare exception: {text!r:.400}"
    assert " object at 0x" not in text, f"the address of an object: {text!r:.400}"
