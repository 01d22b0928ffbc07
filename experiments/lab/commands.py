"""Networks, kept scores and calibrated classifiers, each made by one ``lvmrs`` command and made once.

The name of what a command makes holds a hash of its words, so a cache never gives what other settings made.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path

from lab.settings import Lab
from lvmrs.cli import main

__all__ = ["calibrated", "certified", "run", "sampled", "trained"]


def run(words: list[str]) -> None:
    """Run ``lvmrs`` with these words; what it prints goes to stderr.

    It runs in this process, which has torch already, unless code of the user is run: that has a process of its own.
    """
    if any(word.startswith("python:") for word in words):
        done = subprocess.run([sys.executable, "-m", "lvmrs", *words], stdout=sys.stderr, check=False)  # noqa: S603
        if done.returncode:
            sys.exit(done.returncode)
        return
    typed, sys.argv = sys.argv, ["lvmrs", *words]  # the command is recorded
    try:
        with redirect_stdout(sys.stderr):
            main(words)
    except SystemExit as end:
        if end.code:
            raise
    finally:
        sys.argv = typed


def trained(lab: Lab, name: str, words: list[str]) -> Path:
    """The weights that ``lvmrs train`` makes, or has made."""
    out = lab.cache / "networks" / f"{_named(lab, name, words)}.safetensors"
    begun = out.with_name(out.name + ".checkpoint")
    if begun.exists() or not out.exists():
        run(["train", *words, "--out", str(out), *(["--resume"] if begun.exists() else [])])
    return out


def sampled(lab: Lab, name: str, words: list[str]) -> Path:
    """The run with kept scores that ``lvmrs certify`` makes, or has made."""
    return certified(lab, name, [*words, "--method", "cohen", "--keep-scores"])


def certified(lab: Lab, name: str, words: list[str]) -> Path:
    """The run that ``lvmrs certify`` makes, or has made."""
    out = lab.cache / "runs" / _named(lab, name, words)
    done = out.with_name(f"{out.name}.done")  # a run that is complete need not load its network again
    if not done.exists():
        run(["certify", *words, "--out", str(out), *lab.spread, *(["--resume"] if out.exists() else [])])
        done.touch()
    return out


def calibrated(lab: Lab, name: str, words: list[str]) -> Path:
    """The settings that ``lvmrs calibrate`` finds, or has found."""
    out = lab.cache / "settings" / f"{_named(lab, name, words)}.json"
    if not out.exists():
        out.parent.mkdir(parents=True, exist_ok=True)
        run(["calibrate", *words, "--out", str(out)])
    return out


def _named(lab: Lab, name: str, words: list[str]) -> str:
    code = hashlib.sha256(lab.shown(words).encode()).hexdigest()[:8]
    return f"{re.sub(r'[^a-z0-9.]+', '-', name.lower())}-{code}"
