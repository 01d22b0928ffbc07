"""The files of an attack on a run: ``attack.json`` has its settings, and ``attack.tsv`` has a row for each input.

They are in the directory of the run, or in their own. Reading them needs no torch, and every field is checked. Found
points that were kept are NumPy files in the same directory: ``attack-7.npy`` is the point for input 7.
"""

from __future__ import annotations

import dataclasses
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lvmrs._util import files as _disk
from lvmrs._util.files import replacing, temporary_name
from lvmrs._util.lock import Lock
from lvmrs.errors import RunError
from lvmrs.kernel import checks
from lvmrs.record import result_file
from lvmrs.record.directory import MANIFEST, Run
from lvmrs.record.manifest import Origin
from lvmrs.record.records import differences, json_of, read_json, text_of
from lvmrs.record.result_file import UNKNOWN, Columns
from lvmrs.record.rows import Row
from lvmrs.record.writer import append_lines, disk_errors, opened_lines, write_whole

__all__ = [
    "COLUMNS",
    "RECORD",
    "ROWS",
    "Attack",
    "AttackRecord",
    "AttackRow",
    "AttackWriter",
    "attack_place",
    "has_attack",
]

RECORD, ROWS = "attack.json", "attack.tsv"
_FORMAT = 1
_LOCK = ".attack-lock"
_ELSEWHERE = "choose another directory"


@dataclass(frozen=True)
class AttackRecord:
    """The settings of an attack; ``lvmrs.attacks.Search`` explains them."""

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

    def to_json(self) -> str:
        """The settings as JSON, indented for readers."""
        return json_of(self, _FORMAT)

    def difference(self, other: AttackRecord) -> list[str]:
        """The differing settings, one phrase each: first the value here, then that of ``other``."""
        return differences(self, other)


@dataclass(frozen=True)
class AttackRow:
    """The result of an attack on one input."""

    idx: int
    """Index of the input in its data set."""
    label: int
    """Its class in the data set."""
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
        self.run, self.directory = run, run.directory if directory is None else _disk.place(directory)
        file = self.directory / RECORD
        how = f"put it back, or delete {ROWS} and attack it again"
        absent = f"{self.directory} has no {RECORD}, which says how it was attacked; {how}"
        what = "the record of an attack"
        self.record = read_json(AttackRecord, text_of(file, what, absent=absent), str(file), what, _FORMAT)

    @classmethod
    def of(cls, run: Run) -> Attack | None:
        """The attack in the directory of a run; None if there is none."""
        return cls(run) if has_attack(run.directory) else None

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
        order = np.argsort(known["idx"])
        places = np.searchsorted(known["idx"], columns["idx"], sorter=order)
        there = order[np.minimum(places, len(order) - 1)] if len(order) else places
        for name in ("idx", "label", "predict", "radius"):
            other = known[name][there] != columns[name] if len(order) else np.ones(len(places), bool)
            if other.any():
                raise RunError(
                    f"{self.file}: {name} of input {columns['idx'][other][0]} is not that of the run as it is now; "
                    f"delete {self.file.name} and {RECORD}, and attack the run again"
                )
        return columns

    def rows(self) -> list[AttackRow]:
        """Read all complete rows, in the order in which they were written."""
        return result_file.rows_of(AttackRow, self.read())


def has_attack(directory: Path) -> bool:
    """Whether a directory has the rows of an attack. Raises for a dangling link, since the rows may be elsewhere."""
    rows = directory / ROWS
    if rows.is_symlink() and not rows.exists():
        raise RunError(f"{rows} is a link to a file that is not there; put the file back, or remove the link")
    return rows.exists()


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
    place = _disk.place(out)
    if place == Path():
        raise RunError("an attack needs a directory of its own, if not that of the run; name one")
    with _disk.errors(place, _ELSEWHERE):
        is_file = place.is_file() or any(parent.is_file() for parent in place.parents)
        of_another = (place / MANIFEST).exists() and not place.samefile(run.directory)
    if is_file:
        raise RunError(f"{place} is a file, and an attack needs a directory; {_ELSEWHERE}")
    if of_another:
        raise RunError(f"{place} holds another run than {run.directory}, and its attack would be there; {_ELSEWHERE}")
    return place


class AttackWriter:
    """Writes an attack row by row, in a ``with`` block. Only one process at a time can write.

    Completes an attack with the same settings, and raises if the directory has one with other settings. Removes a new
    attack that fails before its first row.

    Args:
        run: the attacked run.
        directory: the directory of the attack; it is made if it does not exist.
        record: the settings.
    """

    def __init__(self, run: Run, directory: Path, record: AttackRecord) -> None:
        self.directory = directory
        with _disk.errors(directory, _ELSEWHERE):
            _disk.make_directory(directory)
            self._lock = Lock(directory / _LOCK, f"another process is writing an attack to {directory}; wait for it")
        try:
            self.done = self._settle(run, record)
            self._new = not self.done
            self.attack = Attack(run, directory)
            with disk_errors(directory):
                self._file = opened_lines(self.attack.file)
                if not _disk.size(self._file):
                    append_lines(self._file, ["\t".join(COLUMNS)])
                    _disk.sync_directory(directory)
        except BaseException:
            self._lock.release()
            raise

    def _settle(self, run: Run, record: AttackRecord) -> set[int]:
        """Write the settings of a new attack, or compare those of a begun one; returns the inputs that are done."""
        place = self.directory
        with disk_errors(place):
            for name in (RECORD, ROWS):  # left by a killed process
                _disk.remove(temporary_name(place / name))
        if has_attack(place):
            begun = Attack(run, place)
            if done := set(begun.read()["idx"].tolist()):
                if changed := begun.record.difference(record):
                    raise RunError(
                        f"{place} holds an attack with other settings ({'; '.join(changed)}); choose another "
                        f"directory, or delete {RECORD} and {ROWS}"
                    )
                return done
        with disk_errors(place):
            _disk.remove(place / ROWS)
            write_whole(place / RECORD, record.to_json())
        return set()

    def __enter__(self) -> AttackWriter:
        """Begin a ``with`` block."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the file and release the lock."""
        failed = kind is not None and self._new and not self.done
        try:
            with disk_errors(self.directory):
                _disk.close(self._file)
            if failed:
                with suppress(OSError):  # the first error is reported; an attack can begin on the remaining files
                    _disk.remove(self.attack.file)
                    _disk.remove(self.directory / RECORD)
        finally:
            self._lock.release()
        if failed:
            with suppress(OSError):
                _disk.remove_directory(self.directory)

    def append(self, row: AttackRow, point: NDArray[Any] | None) -> None:
        """Write the point, if it is given, and then the row; wait until both are on the disk."""
        with disk_errors(self.directory):
            if point is not None:
                with replacing(self.attack.point(row.idx)) as file:
                    np.save(file, point, allow_pickle=False)
            append_lines(self._file, [row.text()])
        self.done.add(row.idx)
