"""Result files: tab-separated text with a line of column names and a line for each input.

A row of a run is one certificate. Its first six columns are those of Cohen et al. (2019), which other projects read
too. Radii are written with all digits.

The files come from runs and from other projects; all their checks and error messages are in this module. It needs no
torch, and reads a million rows in less time than importing torch takes.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from itertools import zip_longest
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from lvmrs._util.files import check_kind
from lvmrs.errors import RunError
from lvmrs.kernel.method import ABSTAIN, Scope, is_correct
from lvmrs.record.manifest import Selection

if TYPE_CHECKING:
    from lvmrs.kernel.certificate import Certificate

UNKNOWN = "-"
"""The text of a field with an unknown value."""
NOT_NAMED = "unknown"
"""The name of a map, bound or form that another project does not state."""
SCOPES = {UNKNOWN, *get_args(Scope)}
"""Allowed values of the column scope."""


class Kind(Enum):
    """The kind of the fields of a column."""

    WHOLE = "a whole number"
    NUMBER = "a number"
    MEASURED = "a whole number below 2⁵³, or - where it is unknown"
    """Read as a float, with NaN for "-"."""
    FOUND = "a number, or - where nothing was found"
    """Read as a float, with NaN for "-"."""
    TEXT = "text"
    NAME = "a name, or - where there is none"
    """Read without unescaping; see ``escaped``."""


Columns = dict[str, NDArray[Any]]
RowT = TypeVar("RowT")
Wanted = Callable[[str], bool]
"""Whether to read a line, given its text."""
Ours = tuple[tuple[str, ...], Selection]
"""The columns of the file of a run, in order, and the inputs of the run."""


# The kind of a column, by the type of its dataclass field.
_KINDS = {
    "int": Kind.WHOLE, "float": Kind.NUMBER, "str": Kind.TEXT, "int | None": Kind.MEASURED, "float | None": Kind.FOUND,
    "str | None": Kind.NAME,
}  # fmt: skip


def kinds_of(row: type) -> dict[str, Kind]:
    """The columns of a dataclass of rows, each with its kind."""
    return {field.name: _KINDS[str(field.type)] for field in dataclasses.fields(row)}


def rows_of(row: type[RowT], columns: Columns) -> list[RowT]:
    """Rows of a dataclass from columns; unknown values become None."""
    kinds = kinds_of(row)
    values = {name: column.tolist() for name, column in columns.items()}
    for name in values:
        if (value_of := _VALUES.get(kinds[name])) is not None:
            values[name] = [value_of(value) for value in values[name]]
    return [row(**dict(zip(values, fields, strict=True))) for fields in zip(*values.values(), strict=True)]


def header(path: Path, *, ours: bool = False) -> tuple[str, ...]:
    """Read the column names; ``ours`` says that it is the file of a run, which another process may be writing.

    There are none if the file of a run does not exist yet, or if its first line is incomplete.
    """
    if ours and not path.exists():
        return ()
    with _reading(path), path.open(encoding="utf-8-sig") as file:
        first = file.readline()
    if ours and not first.endswith("\n"):
        if "\0" in first:
            raise RunError(f"{path} is damaged: its first line does not name columns")
        return ()
    if not first.strip():
        raise RunError(f"{path} is empty; expected a line with the names of the columns, then a line for each input")
    return tuple(name.strip() for name in first.rstrip("\n").split("\t"))


def has_lines(path: Path) -> bool:
    """Whether the file of a run has a complete line after the column names. Reads no further."""
    if not path.exists():
        return False
    with _reading(path), path.open(encoding="utf-8-sig") as file:
        return file.readline().endswith("\n") and file.readline().endswith("\n")


def read(
    path: Path,
    needed: Mapping[str, Kind],
    optional: Mapping[str, Kind] = MappingProxyType({}),
    *,
    ours: Ours | None = None,
    wanted: Wanted | None = None,
) -> Columns:
    """Read and check columns: for each, an array with one value for each line.

    Args:
        path: the file.
        needed: the required columns, with ``idx`` and ``radius``.
        optional: the columns that are read if the file has them.
        ours: for the file of a run, all its columns in order, and the inputs of the run. An incomplete last line is
            then skipped: a process is writing it, or was stopped while it did.
        wanted: if given, only these lines are read and checked; other lines use no memory.
    """
    names = header(path, ours=ours is not None)
    if not names:
        return {name: np.empty(0, np.int64 if kind is Kind.WHOLE else _type(kind)) for name, kind in needed.items()}
    if ours is not None:
        _check_columns(path, names, ours[0])
    if missing := [name for name in needed if name not in names]:
        raise RunError(
            f"{path}: column {missing[0]} is missing; the first line must name the columns, with tabs between them: "
            f"{', '.join(needed)}"
        )
    if twice := [name for name in (*needed, *optional) if names.count(name) > 1]:
        raise RunError(f"{path}: two columns are named {twice[0]}; the first line must name each column once")
    kinds = {name: kind for name, kind in (*needed.items(), *optional.items()) if name in names}
    lines = _lines(path, len(names), ours=ours is not None)
    if wanted is not None:
        lines = filter(wanted, lines)
    columns = _parsed(path, names, kinds, lines)
    _check(path, columns, None if ours is None else ours[1])
    return columns


# Smallest and largest value in the columns of a run. NaN is allowed if another project does not state the map.
_LARGEST = sys.float_info.max
_RANGES = {
    "time": (0.0, _LARGEST), "correct": (0, 1), "p_lower": (-_LARGEST, _LARGEST), "p_upper": (-_LARGEST, _LARGEST),
    "temperature": (0.0, _LARGEST), "mass": (0.0, _LARGEST), "risk_top": (0.0, 1.0), "broken": (0, 1),
    "samples": (0, _LARGEST), "limit": (0.0, _LARGEST), "seconds": (0.0, _LARGEST),
    "expert_radius": (0.0, _LARGEST), "router_radius": (0.0, _LARGEST),
}  # fmt: skip
_CHECKSUM = re.compile("[0-9a-f]{32}")


def _check_columns(path: Path, found: tuple[str, ...], expected: tuple[str, ...]) -> None:
    for number, (name, due) in enumerate(zip_longest(found, expected, fillvalue="no column"), start=1):
        if name != due:
            raise RunError(f"{path} is damaged: its column {number} is {name!r:.40}, and must be {due!r}")


def _type(kind: Kind) -> type:
    """The type for loadtxt. Whole numbers are read as floats, since other projects may write 3.0."""
    return object if kind in (Kind.TEXT, Kind.NAME) else float


def _parsed(path: Path, names: tuple[str, ...], kinds: Mapping[str, Kind], lines: Iterator[str]) -> Columns:
    places = [names.index(name) for name in kinds]
    try:
        with _reading(path), warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # loadtxt warns of a file without rows
            table = np.loadtxt(
                lines,
                dtype=[(name, _type(kind)) for name, kind in kinds.items()],
                delimiter="\t",
                usecols=places,
                converters={names.index(name): _PARSERS[kind] for name, kind in kinds.items() if kind in _OR_UNKNOWN},
                ndmin=1,
                comments=None,
                encoding="utf-8",
            )
    except ValueError as error:
        raise RunError(_damage(path, names, kinds) or f"{path} is damaged: {str(error).rstrip('.')}") from error
    return {
        name: _whole(path, name, table[name]) if kind is Kind.WHOLE else table[name] for name, kind in kinds.items()
    }


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Convert errors of reading a text file into one sentence."""
    try:
        check_kind(path)
        yield
    except UnicodeDecodeError as error:
        raise RunError(f"{path} is not a text file: {error}") from error
    except OSError as error:
        raise RunError(f"{path} cannot be read ({error.strerror})") from error


def _lines(path: Path, fields: int, *, ours: bool) -> Iterator[str]:
    """Yield the lines after the header; for the file of a run only complete lines, each with all its fields."""
    with path.open(encoding="utf-8-sig") as file:
        next(file)
        for number, line in enumerate(file, start=2):
            if ours:
                if not line.endswith("\n"):
                    return
                if (found := line.count("\t") + 1) != fields:
                    raise RunError(_short(path, number, found, fields))
            yield line


@functools.cache
def _measured(field: str) -> float:
    """A whole number, or NaN for "-"; raises a ValueError for other text."""
    if field == UNKNOWN:
        return math.nan
    number = float(_plain_number(field))  # other projects may write 3.0
    if not (number.is_integer() and abs(number) < 2**53):
        raise ValueError(field)
    return number


def _found(field: str) -> float:
    """A finite number, or NaN for "-"; raises a ValueError for other text."""
    if field == UNKNOWN:
        return math.nan
    if not math.isfinite(number := float(_plain_number(field))):
        raise ValueError(field)
    return number


def _plain_number(field: str) -> str:
    """Returns the text of a number; raises for digits of other scripts and underscores, which only Python accepts."""
    if not field.isascii() or "_" in field:
        raise ValueError(field)
    return field


def _damage(path: Path, names: tuple[str, ...], kinds: Mapping[str, Kind]) -> str | None:
    """A sentence about the first unreadable line; None if all lines can be read."""
    for number, line in enumerate(_lines(path, len(names), ours=False), start=2):
        fields = line.rstrip("\n").split("\t")
        if not line.strip():
            continue
        for name, kind in kinds.items():
            place = names.index(name)
            if place >= len(fields):
                return _short(path, number, len(fields), len(names))
            try:
                _PARSERS[kind](fields[place])
            except ValueError:
                return f"{path}, line {number} is damaged: {name} is {fields[place]!r:.40}, and must be {kind.value}"
    return None


def _short(path: Path, line: int, found: int, expected: int) -> str:
    return f"{path}, line {line} has {found} columns instead of {expected}; it is damaged"


def _whole(path: Path, column: str, values: NDArray[np.float64]) -> NDArray[np.int64]:
    if not (np.abs(values) < 2**53).all() or not np.array_equal(values, np.round(values)):  # also where it is NaN
        raise RunError(f"{path}: column {column} must hold whole numbers below 2⁵³")
    return values.astype(np.int64)


def _check(path: Path, columns: Columns, inputs: Selection | None) -> None:
    """Check that each input has one row and belongs to the run, that radii are finite, and that σ is unique."""
    if inputs is not None:
        _check_ours(path, columns, inputs)
    idx, radius = columns["idx"], columns["radius"]
    if len(bad := np.flatnonzero(~((radius >= 0) & np.isfinite(radius)))):
        raise RunError(
            f"{path}: the radius of input {idx[bad[0]]} is {radius[bad[0]]:g}, and must be a finite number from 0; "
            "remove the row, or certify the input again"
        )
    if (idx < 0).any():
        raise RunError(f"{path}: index {idx.min()} is below 0; inputs are numbered from 0")
    ours = {} if inputs is None else {"label": 0, "clean": 0, "top": ABSTAIN, "rounding": 0}
    for column, least in {"predict": ABSTAIN, **ours}.items():
        values = columns.get(column, idx)
        if len(low := np.flatnonzero(values < least)):
            raise RunError(
                f"{path}: {column} of input {idx[low[0]]} is {values[low[0]]:g}, and must be at least {least}"
            )
    order = np.sort(idx)
    if len(twice := order[:-1][np.diff(order) == 0]):
        raise RunError(f"{path}: input {twice[0]} has two rows; remove one of them")
    if "sigma" in columns and len(noises := np.unique(columns["sigma"])) > 1:
        raise RunError(f"{path} mixes sigma {noises[0]:g} and {noises[1]:g}; split it into a file for each")


def _check_ours(path: Path, columns: Columns, inputs: Selection) -> None:
    """Check the rows of a run: inputs of the run, finite numbers, and texts that lvmrs writes."""
    idx = columns["idx"]
    if len(foreign := idx[(idx >= 0) & ~inputs.has(idx)]):
        raise RunError(f"{path}: input {foreign[0]} does not belong to this run; remove its row")
    unknown = columns.get("map", np.full(len(idx), NOT_NAMED)) == NOT_NAMED
    for name, (least, most) in _RANGES.items():
        values = columns.get(name, np.full(len(idx), least, dtype=float))
        # A row may have no limit, no router that limits it, and no label by which it is correct.
        optional = name in ("limit", "correct", "router_radius")
        missing = np.isnan(values) & (unknown | optional) & (name not in ("time", "seconds"))
        bad = ~((values >= least) & (values <= most)) & ~missing
        if bad.any():
            raise RunError(
                f"{path}: {name} of input {idx[bad][0]} is {values[bad][0]:g}, and must be a finite number"
                f"{f' from {least:g}' if least > -_LARGEST else ''}{f' to {most:g}' if most < _LARGEST else ''}"
            )
    for name in ("map", "bound", "form", "groups", "risk_groups", "experts"):
        if unnamed := [text for text in set(columns.get(name, ())) if not text.isprintable() or not text]:
            raise RunError(f"{path}: {name} is {min(unnamed)!r:.40}, and must be a name")
    if odd := set(columns.get("scope", ())) - SCOPES:
        raise RunError(f"{path}: scope is {min(odd)!r:.40}, and must be one of {', '.join(sorted(SCOPES))}")
    for index, text in zip(idx.tolist(), columns.get("scores", ()), strict=False):
        if text != UNKNOWN and not _CHECKSUM.fullmatch(text):
            raise RunError(f"{path}: scores of input {index} is {text!r:.40}, and must be a checksum or {UNKNOWN}")
    for index, text in zip(idx.tolist(), columns.get("name", ()), strict=False):
        try:
            unescaped(text)
        except ValueError as error:
            raise RunError(f"{path}: name of input {index} is {text!r:.40}, and cannot be read: {error}") from error


_ESCAPE = re.compile(r"\\(\\|x[0-9a-f]{2}|u[0-9a-f]{4}|U000[0-9a-f]{5}|U0010[0-9a-f]{4}|)")


def escaped(name: str) -> str:
    r"""The name of an input as one field of a line, with escapes for characters that a line cannot hold.

    A backslash and every character that is not printable (tabs, line breaks, control and format characters, bytes that
    are not UTF-8) become Python escapes: ``\\``, ``\x09``, ``\u2028``, ``\U000e0001``. So do a space at either end, and
    the name "-", which would mean that there is no name.

    >>> print(escaped("cats/one\ttwo.png"))
    cats/one\x09two.png
    """
    if name == "-":
        return _escape(name)
    ends = (0, len(name) - 1)
    return "".join(
        character
        if character.isprintable() and character != "\\" and (character != " " or k not in ends)
        else _escape(character)
        for k, character in enumerate(name)
    )


def unescaped(text: str) -> str:
    """The name for an escaped text; raises a ValueError for a backslash that begins no escape."""
    return _ESCAPE.sub(_character, text) if "\\" in text else text


def _escape(character: str) -> str:
    number = ord(character)
    if character == "\\":
        return "\\\\"
    return f"\\x{number:02x}" if number < 1 << 8 else f"\\u{number:04x}" if number < 1 << 16 else f"\\U{number:08x}"


def _character(found: re.Match[str]) -> str:
    if not found[1]:
        raise ValueError("a backslash must begin an escape")
    return "\\" if found[1] == "\\" else chr(int(found[1][1:], 16))


_OR_UNKNOWN = (Kind.MEASURED, Kind.FOUND)
# Conversion of fields of each kind to values of columns.
_PARSERS: dict[Kind, Callable[[str], Any]] = {
    Kind.WHOLE: float, Kind.NUMBER: float, Kind.MEASURED: _measured, Kind.FOUND: _found, Kind.TEXT: str,
    Kind.NAME: unescaped,
}  # fmt: skip
# Conversion of values in columns of these kinds to values of rows.
_VALUES: dict[Kind, Callable[[Any], object]] = {
    Kind.MEASURED: lambda number: None if math.isnan(number) else int(number),
    Kind.FOUND: lambda number: None if math.isnan(number) else number,
    Kind.NAME: lambda text: None if text == UNKNOWN else unescaped(text),
}


def correctness(predict: int, label: int | None) -> int | None:
    """1 if a predicted class is the label, else 0; None if there is no label.

    >>> correctness(3, 3), correctness(-1, 3), correctness(3, None)
    (1, 0, None)
    """
    return None if label is None else int(is_correct(predict, label))


@dataclass(frozen=True)
class Row:
    """One certificate, with the label of its input and the computing time."""

    idx: int
    """Index of the input in its data set."""
    label: int | None
    """Its class in the data set; None if its data have no labels ("-" in a file)."""
    predict: int
    """The certified class, or −1 if nothing is certified."""
    radius: float
    """The certified radius; 0 if nothing is certified."""
    correct: int | None
    """1 if the certified class is the label, else 0; None without a label ("-" in a file)."""
    time: float
    """Computing time of the certificate in seconds."""
    p_lower: float
    """Lower bound on the mean score of the top class; see ``Certificate.p_lower``."""
    p_upper: float
    """Upper bound on the mean score of every other class; see ``Certificate.p_upper``."""
    top: int
    """The class that the proof tried to certify."""
    map: str
    """Name of the smoothed map."""
    temperature: float
    mass: float
    """The sum of the scores of the map."""
    bound: str
    """Name of the bound."""
    form: str
    """Name of the form of the radius."""
    risk_top: float
    """The risk of the bound on the top class."""
    groups: str
    """The rivals with their own bounds: "-" for none, "each" for all, "3;1;*" for 3, 1 and the others together."""
    risk_groups: str
    """The risk of the bound on each rival, or "-" if there is none."""
    scope: str = UNKNOWN
    """Whether the map was chosen for "this input" or is the same for "all inputs"; "-" if unknown."""
    clean: int | None = None
    """The prediction of the base classifier without noise; None if it was not measured ("-" in a file)."""
    name: str | None = None
    """The name of the input in its data set, such as that of its file; None if it has none ("-" in a file)."""
    scores: str = UNKNOWN
    """The checksum of the kept scores of this input; "-" if they were not kept."""
    rounding: float | None = None
    """Measured upper bound on the change of the logits by rounding; None if unknown ("-" in a file).

    It is recorded if the certificate relies on it, or if scores are kept that may be certified again with a Lipschitz
    constant. It bounds the Euclidean norm of the change, and for a deterministic certificate the change of each logit.
    """
    samples: int | None = None
    """Number of samples of the proof, if it differs between inputs; None for the n of the terms."""
    limit: float | None = None
    """An upper bound on the radius of the exact means; None if unknown ("-" in a file).

    More samples cannot certify a larger radius with this plan, unless the certificate is wrong.
    """
    experts: str = UNKNOWN
    """Of a routed classifier: the experts among which the router may choose within the radius, such as "0;2"."""
    expert_radius: float | None = None
    """Of a routed classifier: the smallest certified radius of these experts."""
    router_radius: float | None = None
    """Of a routed classifier: the radius within which the router chooses one of these experts.

    None if these are all experts ("-" in a file): the router is then not needed.
    """

    @classmethod
    def of(
        cls,
        index: int,
        label: int | None,
        certificate: Certificate,
        seconds: float,
        clean: int | None = None,
        name: str | None = None,
        samples: int | None = None,
    ) -> Row:
        """Make the row of a certificate; ``samples`` is the number of samples if it differs between inputs."""
        return cls(
            idx=index,
            label=label,
            predict=certificate.prediction,
            radius=certificate.radius,
            correct=correctness(certificate.prediction, label),
            time=round(seconds, 4),
            p_lower=certificate.p_lower,
            p_upper=certificate.p_upper,
            top=certificate.top,
            clean=clean,
            name=name or None,
            rounding=certificate.rounding or None,
            samples=samples,
            limit=certificate.limit if math.isfinite(certificate.limit) else None,
            **{"scope": UNKNOWN, **certificate.record()},
        )

    def text(self, columns: Sequence[str]) -> str:
        """The line of a file with these columns, without the line break."""
        values = [getattr(self, name) for name in columns]
        texts = [UNKNOWN if value is None else str(value) for value in values]
        if self.name is not None and "name" in columns:
            texts[columns.index("name")] = escaped(self.name)
        finite = math.isfinite(self.radius) and math.isfinite(self.time)
        if not finite or any(set(text) & set("\t\r\n") for text in texts):
            raise RunError(
                f"the row of input {self.idx} cannot be written: radius and time must be finite, names plain words"
            )
        return "\t".join(texts)


KINDS = kinds_of(Row)
"""The kind of each column."""
COLUMNS = tuple(KINDS)
OF_A_GOAL = frozenset({"samples", "limit"})
"""Columns of runs whose sampling stops at a goal."""
OF_ROUTED = frozenset({"samples", "experts", "expert_radius", "router_radius"})
"""Columns of runs of a routed classifier, in which ``samples`` are those of all proofs for an input."""
