"""Class index files, which map the names of image folders to class numbers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from lvmrs._util.files import is_file, no_file
from lvmrs.errors import DataError, guarded

__all__ = ["ClassIndex", "read_class_index"]

# Larger files are not lists of classes.
_MOST_BYTES = 1 << 26


class ClassIndex:
    """A map from names to class numbers. A class may have several names, such as "n01440764" and "tench"."""

    def __init__(self, file: Path, names: Mapping[int, Sequence[str]]) -> None:
        self.file = file
        self.shown = {number: of_class[-1] for number, of_class in names.items()}
        self._numbers: dict[str, set[int]] = {}
        for number, of_class in names.items():
            for name in of_class:
                self._numbers.setdefault(name, set()).add(number)

    @property
    def classes(self) -> tuple[str, ...] | None:
        """The names of all classes; None if a number has no name."""
        numbers = range(len(self.shown))
        return tuple(self.shown[k] for k in numbers) if set(self.shown) == set(numbers) else None

    def number(self, folder: str) -> int:
        """The class number of a folder. Raises DataError if the file has no number, or several, for the folder."""
        found = self._numbers.get(folder, set())
        if not found:
            raise DataError(f"the folder {folder!r} is not in the class index {self.file}; add it, or move the folder")
        if len(found) > 1:
            listed = " and ".join(map(str, sorted(found)[:2]))
            raise DataError(
                f"the folder {folder!r} may be class {listed} by the class index {self.file}; name it by the number"
            )
        return next(iter(found))


def read_class_index(path: str | Path) -> ClassIndex:
    """Read a class index.

    The file is JSON: {"0": ["n01440764", "tench"]}, {"0": "tench"} or {"tench": 0}, each also as the ``id2label`` or
    ``label2id`` of a model's configuration, or a list of names. Or the file is text with one class in each line; both
    the first word and the whole line are names of the class.
    """
    file = Path(path)
    if not is_file(file):
        raise DataError(f"class index: {file} {no_file(file)}; give a JSON file or a list of classes")
    with guarded(f"class index: {file} cannot be read", error=DataError):
        if file.stat().st_size > _MOST_BYTES:
            raise DataError(f"class index: {file} is too large to be a list of classes")
        text = file.read_text(encoding="utf-8-sig")
        names = _of_json(json.loads(text)) if text.lstrip()[:1] in ("{", "[") else _of_lines(text.splitlines())
    if not names:
        raise DataError(f"class index: {file} names no classes; expected {{'0': 'tench', …}} or one class in each line")
    return ClassIndex(file, names)


def _of_lines(lines: Iterable[str]) -> dict[int, list[str]]:
    held = [line.strip() for line in lines if line.strip()]
    return {number: [line.split()[0], line] for number, line in enumerate(held)}


def _of_json(stored: Any) -> dict[int, list[str]]:
    """Class numbers and their names; empty if the JSON has another structure."""
    if isinstance(stored, dict):  # the configuration of a model
        stored = next((stored[key] for key in ("id2label", "label2id") if key in stored), stored)
    if isinstance(stored, list):
        return _of_pairs(enumerate(stored))
    if not isinstance(stored, dict):
        return {}
    if _are_numbers(stored.values()) and (not _are_numbers(stored) or any(isinstance(k, int) for k in stored.values())):
        by_number: dict[int, list[str]] = {}
        for name, number in stored.items():
            by_number.setdefault(int(number), []).append(name)
        return by_number
    return _of_pairs(stored.items())


def _of_pairs(pairs: Iterable[tuple[object, Any]]) -> dict[int, list[str]]:
    """Class numbers and their names, from pairs of a number and one or several names."""
    listed = {key: [names] if isinstance(names, str) else names for key, names in pairs}
    if not _are_numbers(listed) or not all(map(_are_names, listed.values())):
        return {}
    return {int(str(key)): names for key, names in listed.items()}


def _are_numbers(values: Iterable[object]) -> bool:
    return all(
        (isinstance(value, int) and not isinstance(value, bool) and value >= 0)
        or (isinstance(value, str) and value.isdecimal() and len(value) < 10)
        for value in values
    )


def _are_names(names: object) -> bool:
    return isinstance(names, list) and bool(names) and all(isinstance(name, str) for name in names)
