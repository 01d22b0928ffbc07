"""Real processes that are killed at random moments, resumed, and compared with one that nobody disturbed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import NamedTuple

import safetensors
import safetensors.torch
import torch

__all__ = ["WORKS", "Work", "kills_and_resumes"]

SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_MOST_KILLS_OF_ONE = 3
_PATIENCE = 600


class Work(NamedTuple):
    """Something that takes seconds and can be resumed."""

    words: Callable[[Path, Path], list[str]]
    """The arguments of Python, from a directory with what is needed and one for what is made."""
    kept: Callable[[Path], object]
    """What must be the same however often it was killed."""
    latest: float = 1.1
    """When it is killed at the latest, as a share of the time that it takes."""


def started(words: list[str], told: Path) -> subprocess.Popen[bytes]:
    """A process in a session of its own, with the signals that a shell gives it and its words in a file."""

    def as_from_a_shell() -> None:
        for number in SIGNALS[1:]:
            signal.signal(number, signal.SIG_DFL)

    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with told.open("wb") as file:
        return subprocess.Popen(  # noqa: S603
            [sys.executable, *words],
            stdout=file,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=as_from_a_shell,
            env=environment,
        )


def kills_and_resumes(work: Work, needed: Path, place: Path, kills: int, seed: str) -> None:
    """Kill the work so many times at random moments, resume it, and check that nothing is lost, wrong or left."""
    random = Random(seed)  # noqa: S311
    whole = place / "whole"
    begun = time.monotonic()
    _finished(work, needed, whole, place)
    lasts = time.monotonic() - begun
    wanted, names = work.kept(whole), _names(whole)
    done = number = 0
    while done < kills:
        killed, number = place / f"killed-{number}", number + 1
        for _ in range(_MOST_KILLS_OF_ONE):
            done += _killed(work, needed, killed, place, random.choice(SIGNALS), random.uniform(0, work.latest * lasts))
        _finished(work, needed, killed, place)
        assert work.kept(killed) == wanted, f"{killed.name} ended with other results"
        assert _names(killed) == names, f"{killed.name}: {sorted(_names(killed) ^ names)} left or lost"


def _killed(work: Work, needed: Path, out: Path, place: Path, number: signal.Signals, after: float) -> bool:
    """Send a signal after some seconds; whether that ended the process. Nothing of it may live on."""
    out.mkdir(exist_ok=True)
    told = place / "told.txt"
    process = started(work.words(needed, out), told)
    try:
        try:
            process.wait(after)
        except subprocess.TimeoutExpired:
            os.kill(process.pid, number)
        code = process.wait(_PATIENCE)
        _check_nothing_lives(process.pid)
    finally:
        _end_all(process)
    words = told.read_text(errors="replace")
    assert "Traceback" not in words, f"{number.name} after {after:.2f} s: {words[-1500:]}"
    assert code in (0, 3, 130, -number, 128 + number), (
        f"{number.name} after {after:.2f} s ended with {code}: {words[-800:]}"
    )
    return code != 0


def _finished(work: Work, needed: Path, out: Path, place: Path) -> None:
    out.mkdir(exist_ok=True)
    told = place / "told.txt"
    process = started(work.words(needed, out), told)
    try:
        code = process.wait(_PATIENCE)
        _check_nothing_lives(process.pid)
    finally:
        _end_all(process)
    assert code == 0, f"{out.name} ended with {code}: {told.read_text(errors='replace')[-1500:]}"


def _living(session: int) -> list[int]:
    """The processes of a session that have not ended."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:  # it has ended
                continue
            if int(fields[3]) == session and fields[0] != "Z":
                found.append(int(entry.name))
    return found


def _check_nothing_lives(session: int) -> None:
    until = time.monotonic() + 60
    while _living(session):
        assert time.monotonic() < until, f"processes live on: {_living(session)}"
        time.sleep(0.02)


def _end_all(process: subprocess.Popen[bytes]) -> None:
    for pid in _living(process.pid):
        os.kill(pid, signal.SIGKILL)
    process.wait()


def _names(directory: Path) -> set[str]:
    return {str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file()}


def _certify(*more: str) -> Callable[[Path, Path], list[str]]:
    """Certify by the model itself: the layout of a fast version is chosen by trials of speed and decides last digits.

    A run that is killed before its first row chooses again, and may choose another layout than the undisturbed run.
    ``tests/runs/test_certify.py`` checks that a resumed run keeps the layout of its first rows.
    """
    return lambda needed, out: [
        "-m", "lvmrs", "certify", "--model", f"trained:{needed}/net.safetensors", "--data", f"npz:{needed}/few.npz",
        "--sigma", "0.5", "--n0", "100", "--n", "3000", "--batch", "100", "--device", "cpu", "--method", "lvm",
        "--no-fast", "--out", str(out / "run"), *(["--resume"] if (out / "run").exists() else []), *more,
    ]  # fmt: skip


def _train(needed: Path, out: Path) -> list[str]:
    going_on = any(out.glob("*checkpoint*"))
    done = (out / "net.safetensors").exists() and not going_on
    return [
        *(["-c", "pass"] if done else ["-m", "lvmrs"]), "train", "--model", "ready:small_cnn,width=4", "--data",
        f"npz:{needed}/few.npz", "--sigma", "0.5", "--epochs", "20", "--batch", "3", "--device", "cpu",
        "--out", str(out / "net.safetensors"), *(["--resume"] if going_on else []),
    ]  # fmt: skip


def _recertify(needed: Path, out: Path) -> list[str]:
    words = ["recertify", str(needed / "kept"), "--method", "lvm", "--workers", "2", "--out", str(out / "run")]
    return ["-m", "lvmrs", *words]


def _rows(out: Path) -> list[list[str]]:
    """All rows, without the times that they took, in the order of the inputs."""
    header, *lines = [line.split("\t") for line in (out / "run" / "certificates.tsv").read_text().splitlines()]
    time_of = header.index("time")
    return sorted((line[:time_of] + line[time_of + 1 :] for line in lines), key=lambda line: int(line[0]))


def _rows_and_scores(out: Path) -> tuple[list[list[str]], list[bytes]]:
    return _rows(out), [path.read_bytes() for path in sorted((out / "run").glob("scores*.npy"))]


def _weights(out: Path) -> dict[str, list[float]]:
    file = out / "net.safetensors"
    with safetensors.safe_open(file, framework="pt") as opened:
        assert json.loads(opened.metadata()["lvmrs"])["training"]["settings"]["epochs"] == 20
    return {key: value.to(torch.float64).flatten().tolist() for key, value in safetensors.torch.load_file(file).items()}


WORKS: dict[str, Work] = {
    "certify": Work(_certify(), _rows),
    "certify and keep scores": Work(_certify("--keep-scores"), _rows_and_scores),
    "recertify in processes": Work(_recertify, _rows),
    "train": Work(_train, _weights),
    "start": Work(_certify(), _rows, latest=0.5),
}
