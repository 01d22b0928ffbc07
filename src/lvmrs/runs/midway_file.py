"""The file of a run that says how far sampling is for inputs that have no row yet. It is there while a run is made.

It has a checksum, and a hash of the manifest of its run: what is damaged, or belongs to another run, is refused.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from lvmrs import _disk
from lvmrs.errors import RunError
from lvmrs.runs.directory import MANIFEST, MIDWAY, Run
from lvmrs.runs.records import parsed
from lvmrs.runs.whole_writes import disk_errors, write_whole

__all__ = ["damaged", "read_midway", "remove_midway", "write_midway"]

_FORMAT = 1


def read_midway(run: Run) -> dict[str, Any] | None:
    """What was written of inputs on their way; None if there is no file."""
    file = run.directory / MIDWAY
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise damaged(file, "it cannot be read") from error
    try:
        stored = parsed(text)
        checksum, content = stored["checksum"], stored["content"]
        fits = checksum == _hash(_plain(content).encode())
        known = fits and (content["format"], set(content)) == (_FORMAT, {"format", "manifest", "inputs"})
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise damaged(file, "it is not what lvmrs writes") from error
    if not fits:
        raise damaged(file, "it does not fit its checksum")
    if not known:
        raise damaged(file, "another version of lvmrs wrote it")
    if content["manifest"] != _hash((run.directory / MANIFEST).read_bytes()):
        raise damaged(file, "it belongs to a run with another manifest")
    return {"inputs": content["inputs"]}


def write_midway(run: Run, known: dict[str, Any]) -> None:
    """Write what is known of inputs on their way, completely or not at all."""
    of = _hash((run.directory / MANIFEST).read_bytes())
    content = {"format": _FORMAT, "manifest": of, **known}
    text = json.dumps({"checksum": _hash(_plain(content).encode()), "content": content}, allow_nan=False)
    with disk_errors(run.directory):
        write_whole(run.directory / MIDWAY, text + "\n")


def remove_midway(run: Run) -> None:
    """Remove the file, if there is one."""
    with disk_errors(run.directory):
        _disk.remove(run.directory / MIDWAY)


def damaged(file: Path, why: str) -> RunError:
    """The error for a file that cannot be used."""
    return RunError(
        f"{file} cannot be used, since {why}; put the right file back, or delete it: inputs without a row are then "
        "sampled from their first sample"
    )


def _plain(content: object) -> str:
    return json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _hash(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()
