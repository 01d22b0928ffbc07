"""The files of an attack on a run: ``attack.json`` has its settings, and ``attack.tsv`` has a row for each input.

They are in the directory of the run, or in their own. Reading them needs no torch, and every field is checked. Found
points that were kept are NumPy files in the same directory: ``attack-7.npy`` is the point for input 7.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lvmrs._util import files
from lvmrs._util.files import replacing
from lvmrs.errors import RunError
from lvmrs.kernel import checks
from lvmrs.record import result_file
from lvmrs.record.directory import MANIFEST, Run
from lvmrs.record.manifest import Origin
from lvmrs.record.records import FileRecord
from lvmrs.record.result_file import UNKNOWN, Columns, Row
from lvmrs.record.writer import LinesWriter, append_lines, checked_place, disk_errors, write_whole

RECORD, ROWS = "attack.json", "attack.tsv"


@dataclass(frozen=True)
class AttackRecord(FileRecord):
    """The settings of an attack; ``lvmrs.attacks.Search`` explains them."""

    format, what = 1, "the record of an attack"

    steps: int
    restarts: int
    samples: int
    n: int
    beta: float
    """0 if the certificates are about the network itself, whose predictions have no risk."""
    seed: int
    farthest: float | None
    clip: bool
    origin: Origin = dataclasses.field(default_factory=Origin, metadata={"compared": "never"})
    """When and how the attack was made; it affects no row."""

    def __post_init__(self) -> None:
        for name, least in (("steps", 1), ("restarts", 1), ("samples", 1), ("n", 2)):
            checks.count(name, getattr(self, name), least=least)
        checks.seed("seed", self.seed)
        if self.farthest is not None:
            checks.positive_number("farthest", self.farthest)
        if not 0 <= self.beta < 1:
            raise RunError(f"beta must be from 0 to less than 1, got {self.beta}")


@dataclass(frozen=True)
class AttackRow:
    """The result of an attack on one input."""

    idx: int
    """Index of the input in its data set."""
    label: int | None
    """Its class in the data set; None if its data have no labels."""
    predict: int
    """The certified class."""
    radius: float
    """The certified radius."""
    distance: float | None
    """Distance of the nearest found point at which the class is shown not to win; None if none was found."""
    rival: int | None
    """The class that is ahead at that point."""
    broken: int
    """1 if that point is closer than the radius, so that the certificate is false, else 0."""
    samples: int
    """Number of forward passes."""
    seconds: float

    @classmethod
    def of(cls, row: Row, distance: float | None, rival: int | None, samples: int, seconds: float) -> AttackRow:
        """Make the row for a certificate."""
        broken = int(distance is not None and distance < row.radius)
        return cls(row.idx, row.label, row.predict, row.radius, distance, rival, broken, samples, round(seconds, 4))

    def text(self) -> str:
        """The line of the file, without the line break."""
        return "\t".join(UNKNOWN if value is None else str(value) for value in vars(self).values())


COLUMNS = result_file.kinds_of(AttackRow)
"""The kind of each column."""


class Attack:
    """Reads an attack on a run. ``lvmrs.runs.attack`` makes attacks.

    Args:
        run: the attacked run.
        directory: the directory of the attack; by default that of the run.
    """

    def __init__(self, run: Run, directory: str | Path | None = None) -> None:
        self.run, self.directory = run, run.directory if directory is None else files.place(directory)
        how = f"put it back, or delete {ROWS} and attack it again"
        absent = f"{self.directory} has no {RECORD}, which says how it was attacked; {how}"
        self.record = AttackRecord.from_file(self.directory / RECORD, absent=absent)

    @classmethod
    def of(cls, run: Run, directory: Path | None = None) -> Attack | None:
        """The attack in a directory, by default that of the run; None if there are no rows of an attack."""
        rows = (directory or run.directory) / ROWS
        if rows.is_symlink() and not rows.exists():  # the rows may be elsewhere
            raise RunError(f"{rows} is a link to a file that is not there; put the file back, or remove the link")
        return cls(run, directory) if rows.exists() else None

    @property
    def file(self) -> Path:
        """The file that holds the rows."""
        return self.directory / ROWS

    def point(self, index: int) -> Path:
        """The file of the point that was found for an input; it exists if the point was kept."""
        return self.directory / f"attack-{index}.npy"

    def read(self) -> Columns:
        """Read all complete rows as arrays, with NaN for missing values. Raises if they do not match the run."""
        columns = result_file.read(self.file, COLUMNS, ours=(tuple(COLUMNS), self.run.manifest.selection))
        _check(self.file, columns)
        known = self.run.read("idx", "radius", "label", "predict")
        places = {index: place for place, index in enumerate(known["idx"].tolist())}
        for place, index in enumerate(columns["idx"].tolist()):
            for name in ("idx", "label", "predict", "radius"):
                if index not in places or not _same(known[name][places[index]], columns[name][place]):
                    raise RunError(
                        f"{self.file}: {name} of input {index} is not that of the run as it is now; delete "
                        f"{self.file.name} and {RECORD}, and attack the run again"
                    )
        return columns

    def rows(self) -> list[AttackRow]:
        """Read all complete rows, in the order in which they were written."""
        return result_file.rows_of(AttackRow, self.read())


def _same(one: float, other: float) -> bool:
    return one == other or (math.isnan(one) and math.isnan(other))


def _check(file: Path, columns: Columns) -> None:
    """Raise if a row contradicts itself."""
    distance, radius, rival = columns["distance"], columns["radius"], columns["rival"]
    found, predict = ~np.isnan(distance), columns["predict"]
    rules: dict[str, NDArray[np.bool_]] = {
        "predict must be a class": predict >= 0,
        "radius must be positive": radius > 0,
        "distance must be at least 0": ~found | (distance >= 0),
        "rival must be another class where a distance was found, and - elsewhere": np.where(
            found, (rival >= 0) & (rival != predict), np.isnan(rival)
        ),
        "broken must be 1 where the distance is below the radius, else 0": columns["broken"] == (distance < radius),
    }
    for rule, right in rules.items():
        if not right.all():
            raise RunError(f"{file} is damaged: the row of input {columns['idx'][~right][0]} is wrong: {rule}")


def attack_place(run: Run, out: str | Path | None) -> Path:
    """The directory of an attack: that of the run, or ``out``, which must not hold another run."""
    if out is None:
        return run.directory
    place = checked_place(out, "an attack")
    with files.errors(place, "choose another directory"):
        of_another = (place / MANIFEST).exists() and not place.samefile(run.directory)
    if of_another:
        raise RunError(
            f"{place} holds another run than {run.directory}, and its attack would be there; choose another directory"
        )
    return place


class AttackWriter(LinesWriter):
    """Writes an attack row by row, in a ``with`` block. Only one process at a time can write.

    Completes an attack with the same settings, and raises if the directory has one with other settings.

    Args:
        run: the attacked run.
        directory: the directory of the attack; it is made if it does not exist.
        record: the settings.
    """

    record, lines, lock = RECORD, ROWS, ".attack-lock"

    def __init__(self, run: Run, directory: Path, record: AttackRecord) -> None:
        self._run, self._settings = run, record
        super().__init__(directory)

    def _settle(self) -> bool:
        place, begun = self.directory, Attack.of(self._run, self.directory)
        if begun is not None and len(begun.read()["idx"]):
            if changed := begun.record.difference(self._settings):
                raise RunError(
                    f"{place} holds an attack with other settings ({'; '.join(changed)}); choose another "
                    f"directory, or delete {RECORD} and {ROWS}"
                )
            return False
        with disk_errors(place):
            files.remove(place / ROWS)
            write_whole(place / RECORD, self._settings.to_json())
        return True

    def _begun(self) -> tuple[set[int], Sequence[str]]:
        self.attack = Attack(self._run, self.directory)
        return set(self.attack.read()["idx"].tolist()), tuple(COLUMNS)

    def append(self, row: AttackRow, point: NDArray[Any] | None) -> None:
        """Write the point, if it is given, and then the row; wait until both are on the disk."""
        with disk_errors(self.directory):
            if point is not None:
                with replacing(self.attack.point(row.idx)) as file:
                    np.save(file, point, allow_pickle=False)
            append_lines(self._file, [row.text()])
        self.done.add(row.idx)
