"""Golden rows: what commands write, as text that is compared with stored files. All access to lvmrs is in this module.

A stored file is a transcript: each command (``$ certify --budget 900``, the options that all commands of the file share
left out) with the rows that it writes. Rows that an earlier command of the file wrote too are not repeated:
``as certify``.
"""

import contextlib
import hashlib
import io
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lvmrs.cli import main
from tests.golden_model import LIPSCHITZ

__all__ = [
    "CONSTANT",
    "GOALS",
    "METHODS",
    "NOISES",
    "Outcome",
    "Transcript",
    "certify",
    "check",
    "command",
    "manifest",
    "model",
    "rows",
    "scores",
    "tear",
    "typed",
]

GOLDEN = Path(__file__).parent / "golden" / "rows"
MODULE = Path(__file__).with_name("golden_model.py")
CERTIFICATES, MANIFEST = "certificates.tsv", "manifest.json"

METHODS = {
    "cohen": "--method cohen",
    "votes": "--method votes",
    "duels": "--method duels",
    "duels-soft": "--method duels --width 4.0",
    "lvm": "--method lvm",
    "lvm-bernstein": "--method lvm --bound bernstein --map sparsemax",
    "paper": "--method paper",
    "paper-union": "--method paper-union",
    "fixed-hardmax-r3": "--method fixed --map hardmax --form r3",
    "fixed-hardmax-hoeffding": "--method fixed --map hardmax --form r2 --bound hoeffding",
    "fixed-softmax-r2": "--method fixed --map softmax --temperature 0.5 --form r2",
    "fixed-sparsemax-r1-noise": "--method fixed --map sparsemax --temperature 2.0 --mass 1.5 --form r1-noise",
    "lipschitz-noise": "--method lipschitz-noise",
}
"""Methods that take samples, as they are typed."""
CONSTANT = {
    "duels-chosen": "--method duels --width chosen",
    "lvm-constant": "--method lvm",
    "fixed-softmax-r1": "--method fixed --map softmax --temperature 0.5 --form r1",
    "fixed-sparsemax-ramp": "--method fixed --map sparsemax --temperature 2.0 --form ramp",
    "lipschitz-both": "--method lipschitz-both",
    "lipschitz-ramp": "--method lipschitz-ramp",
}
"""Methods that take samples and use the Lipschitz constant of the model."""
NOISES = {"gaussian": ("sums", "gaussian"), "exact": ("network", "exact:64")}
"""The model and the noise as it is typed, by name."""
GOALS = {
    "fixed n": "",
    "target radius": "--target-radius 0.25",
    "tolerance": "--tolerance 0.2",
    "budget": "--budget 900",
}
"""When sampling stops, as it is typed."""


@dataclass(frozen=True)
class Outcome:
    """What a command ended with."""

    code: int
    out: str
    err: str

    @property
    def refusal(self) -> str:
        """The last line for people, and the exit code."""
        return f"exit code {self.code}: {self.err.strip().splitlines()[-1]}"


def command(line: str) -> Outcome:
    """Run ``lvmrs LINE`` in this process."""
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        try:
            main(line.split())
        except SystemExit as end:
            code = int(end.code or 0)
    return Outcome(code, out.getvalue(), err.getvalue())


def model(noise: str, verb: str = "certify") -> str:
    """The verb and the options that name model, data and noise."""
    function, spelling = NOISES[noise]
    named = f"--model python:{MODULE}:{function} --data python:{MODULE}:data --device cpu"
    return f"{verb} {named} --sigma 0.5 --noise {spelling}"


def typed(method: str) -> str:
    """The options that choose a method, with the constant if the method uses it."""
    return METHODS[method] if method in METHODS else f"{CONSTANT[method]} --lipschitz {LIPSCHITZ}"


def certify(noise: str, options: str, out: Path, batch: int = 64) -> Outcome:
    """Certify the golden data under this noise."""
    return command(f"{model(noise)} --alpha 0.01 --n0 40 --n 400 --batch {batch} --out {out} {options}")


def rows(run: Path) -> str:
    """The bytes of all rows of a run and of their header, without the column of times."""
    lines = [line.split("\t") for line in (run / CERTIFICATES).read_text().splitlines()]
    time = lines[0].index("time")
    return "".join("\t".join(line[:time] + line[time + 1 :]) + "\n" for line in lines)


def tear(run: Path) -> None:
    """Cut a run off in the middle of a row, as a kill may."""
    file = run / CERTIFICATES
    file.write_bytes(file.read_bytes()[:-300])


def scores(run: Path) -> str:
    """Checksums of the files of kept scores."""
    files = sorted(run.glob("scores-*.npy"))
    return "".join(f"{file.name} {hashlib.sha256(file.read_bytes()).hexdigest()}\n" for file in files)


def manifest(run: Path) -> str:
    """The manifest, without what depends on the machine and the day."""
    stored: dict[str, Any] = json.loads((run / MANIFEST).read_text())
    for machine in ("running", "torch", "origin"):
        del stored[machine]
    for part in ("model", "data"):
        stored[part]["name"] = stored[part]["name"].replace(str(MODULE), MODULE.name)
    del stored["model"]["code_hash"]
    return json.dumps(stored, ensure_ascii=False, indent=1) + "\n"


class Transcript:
    """Commands and what they gave."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._first: dict[str, str] = {}

    def add(self, typed: str, text: str) -> None:
        """Add a command; text that an earlier one gave is not repeated."""
        typed = typed.strip()
        earlier = self._first.setdefault(text, typed)
        self._parts.append(f"$ {typed}\n" + (text if earlier is typed else f"as {earlier}\n"))

    @property
    def text(self) -> str:
        """The whole transcript."""
        return "\n".join(self._parts)


def check(name: str, text: str) -> None:
    """Compare a text with the stored one, or store it if LVMRS_GOLDEN is "write"."""
    file = GOLDEN / f"{name}.txt"
    if os.environ.get("LVMRS_GOLDEN") == "write":
        GOLDEN.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8")
