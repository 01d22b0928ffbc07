"""Images from files, with or without a folder for each class; and class index files, which map folders to classes."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lvmrs._util.facts import DataFacts
from lvmrs._util.files import expanded, is_file, is_folder, no_file
from lvmrs._util.text import optional
from lvmrs.data.base import Dataset
from lvmrs.errors import DataError, guarded

_GREY, _COLOURED = ("1", "L"), ("RGB", "RGBA", "P", "PA", "LA", "CMYK", "YCbCr", "HSV", "LAB")

# Larger images are treated as decompression bombs; the limit is Pillow's.
_MOST_PIXELS = 89_478_485
# Larger files are not lists of classes.
_MOST_BYTES = 1 << 26
_SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".webp", ".ppm", ".pgm", ".tif", ".tiff", ".gif"}


class ImageFolder(Dataset):
    """Images in the folders PATH/CLASS/ or PATH/SPLIT/CLASS/.

    The class index file gives the labels, if there is one. Otherwise, if all folder names are numbers, these are the
    labels; else the labels number the folders in alphabetical order. ``facts.labels`` states which rule applied.

    Args:
        name: the name of the data set.
        rest: PATH.
        split: the part of the data, such as "test".
        size: height and width to which images are scaled and cropped. None: no change.
        class_index: a file with the class number of each folder; see ``read_class_index``.
    """

    levels = 255

    def __init__(
        self, name: str, rest: str, split: str, size: int | None = None, class_index: Path | None = None
    ) -> None:
        path = expanded(rest)
        if not is_folder(path):
            raise DataError(f"{name}: {path} is not a folder; write imagefolder:PATH, or images:PATH without labels")
        self._place(name, path, split, size)
        folders = sorted(entry.name for entry in self.root.iterdir() if entry.is_dir() and _has_images(entry))
        label_of = self._labels(folders, class_index)
        self._take(
            [
                (file, label_of[folder])
                for folder in sorted(folders, key=lambda folder: (label_of[folder], folder))
                for file in _images(self.root / folder)
            ],
            f"no images in the folders of {self.root}; expected {self.root}/CLASS/IMAGE.png, or write images:PATH for "
            "images without labels",
        )

    def _place(self, name: str, path: Path, split: str, size: int | None) -> None:
        self.name, self.split, self.size = name, split, size
        self.divided = is_folder(path / split)
        self.root = path / split if self.divided else path

    def _take(self, files: Sequence[tuple[Path, int | None]], why_none: str) -> None:
        if not files:
            raise DataError(f"{self.name}: {why_none}")
        self.files = files
        self.grey = all(self._mode(file) in _GREY for file, _ in files[:20])

    def _labels(self, folders: Sequence[str], class_index: Path | None) -> dict[str, int]:
        if class_index is not None:
            index = read_class_index(class_index)
            self.classes, self.facts = index.classes, DataFacts(labels="class index file")
            return {folder: index.number(folder) for folder in folders}
        if folders and all(folder.isdecimal() and len(folder) < 10 for folder in folders):
            self.facts = DataFacts(labels="folder numbers")
            return {folder: int(folder) for folder in folders}
        self.classes, self.facts = tuple(folders), DataFacts(labels="folder order")
        return {folder: number for number, folder in enumerate(folders)}

    def __len__(self) -> int:
        """The number of inputs."""
        return len(self.files)

    def __getitem__(self, index: int) -> tuple[Tensor, int | None]:
        """One input and its label."""
        file, label = self.files[index]
        try:
            with _opened(file) as image:
                return pixels(image, self.size, grey=self.grey), label
        except DataError as error:
            raise DataError(f"{self.name}: {file} cannot be read as an image: {error}") from error

    def input_name(self, index: int) -> str:
        """The file of an input, relative to the folder of the split."""
        return self.files[index][0].relative_to(self.root).as_posix()

    def _mode(self, file: Path) -> str:
        try:
            with _opened(file) as image:
                return str(image.mode)
        except DataError:  # __getitem__ reports the error
            return ""

    def largest_label(self) -> int | None:
        """The largest label; None if there are no labels."""
        return max((label for _, label in self.files if label is not None), default=None)

    def fingerprint(self) -> str:
        """A hash of the names, labels and sizes of the files, and of the image size."""
        digest = hashlib.sha256(str(self.size).encode())
        for file, label in self.files:
            digest.update(
                f"\n{file.relative_to(self.root)} {label} {file.stat().st_size}".encode(errors="surrogateescape")
            )
        return digest.hexdigest()


class Images(ImageFolder):
    """Images without labels: the file PATH, or the files in the folder PATH or PATH/SPLIT.

    Args:
        name: the name of the data set.
        rest: PATH.
        split: the part of the data, such as "test".
        size: height and width to which images are scaled and cropped. None: no change.
    """

    facts = DataFacts(labels="none")

    def __init__(self, name: str, rest: str, split: str, size: int | None = None) -> None:
        path = expanded(rest)
        alone = is_file(path)
        if not alone and not is_folder(path):
            raise DataError(f"{name}: {path} {no_file(path)}; write images:PATH, an image or a folder of images")
        self._place(name, path, split, size)
        self.root = path.parent if alone else self.root
        why_none = f"no images in {self.root}; for a folder of images of each class write imagefolder:PATH"
        self._take([(file, None) for file in ([path] if alone else _images(self.root))], why_none)


def _images(folder: Path) -> list[Path]:
    """The image files of a folder, in the order of their names."""
    return sorted(file for file in folder.iterdir() if file.suffix.lower() in _SUFFIXES)


def _has_images(folder: Path) -> bool:
    return not folder.name.startswith(".") and bool(_images(folder))


@contextmanager
def _opened(file: Path) -> Iterator[Any]:
    """Open an image file without Pillow's warning about its size; ``pixels`` checks the size."""
    with guarded("Pillow fails", error=DataError):
        if not is_file(file):
            raise DataError(f"it {no_file(file)}") from (None if file.exists() else FileNotFoundError(str(file)))
        images = optional("PIL.Image", extra="images", error=DataError)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", images.DecompressionBombWarning)
            opened = images.open(file)
        with opened:
            yield opened


def _check_area(width: int, height: int) -> None:
    if width * height > _MOST_PIXELS:
        raise DataError(f"{width} × {height} pixels are more than {_MOST_PIXELS:,}, the most that are read")


def pixels(image: Any, size: int | None, *, grey: bool) -> Tensor:
    """Turn an image of Pillow into a tensor (channels, height, width) with values in [0, 1].

    With a ``size``, the shorter side is scaled to this number of pixels, and the central square is kept.
    """
    _check_area(*image.size)
    if image.mode not in (*_GREY, *_COLOURED):
        raise DataError(f"its mode is {image.mode}, and pixels must have 8 bits; convert it")
    if grey and image.mode not in _GREY:
        raise DataError("it has colours, and the first images of the data set are grey; convert some of them")
    image = image.convert("L" if grey else "RGB")
    if size is not None:
        scale = size / min(image.size)
        width, height = (max(size, round(side * scale)) for side in image.size)
        _check_area(width, height)
        image = image.resize((width, height), resample=2)  # bilinear
        left, top = (width - size) // 2, (height - size) // 2
        image = image.crop((left, top, left + size, top + size))
    array = np.array(image, dtype=np.float32)
    array = array[None] if array.ndim == 2 else array.transpose(2, 0, 1)
    return torch.from_numpy(np.ascontiguousarray(array / 255))


class ClassIndex:
    """A map from names to class numbers. A class may have several names, such as "n01440764" and "tench"."""

    def __init__(self, file: Path, names: Mapping[int, Sequence[str]]) -> None:
        self.file, self._names = file, names

    @property
    def classes(self) -> tuple[str, ...] | None:
        """The names of all classes; None if a number has no name."""
        numbers = range(len(self._names))
        return tuple(self._names[k][-1] for k in numbers) if set(self._names) == set(numbers) else None

    def number(self, folder: str) -> int:
        """The class number of a folder. Raises DataError if the file has no number, or several, for the folder."""
        found = sorted(number for number, names in self._names.items() if folder in names)
        if not found:
            raise DataError(f"the folder {folder!r} is not in the class index {self.file}; add it, or move the folder")
        if len(found) > 1:
            raise DataError(
                f"the folder {folder!r} may be class {found[0]} and {found[1]} by the class index {self.file}; name it "
                "by the number"
            )
        return found[0]


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
        if text.lstrip()[:1] in ("{", "["):
            names = _of_json(json.loads(text))
        else:
            lines = [line.strip() for line in text.splitlines() if line.strip()]
            names = {number: [line.split()[0], line] for number, line in enumerate(lines)}
    if not names:
        raise DataError(f"class index: {file} names no classes; expected {{'0': 'tench', …}} or one class in each line")
    return ClassIndex(file, names)


def _of_json(stored: Any) -> dict[int, list[str]]:
    """Class numbers and their names; empty if the JSON has another structure."""
    if isinstance(stored, dict):  # the configuration of a model
        stored = next((stored[key] for key in ("id2label", "label2id") if key in stored), stored)
    if not isinstance(stored, dict):
        pairs = list(enumerate(stored)) if isinstance(stored, list) else []
    elif _are_numbers(stored.values()) and (not _are_numbers(stored) or any(type(k) is int for k in stored.values())):
        pairs = [(number, name) for name, number in stored.items()]
    else:
        pairs = list(stored.items())
    found: dict[int, list[str]] = {}
    for number, given in pairs:
        names = [given] if isinstance(given, str) else given
        if not (_are_numbers([number]) and isinstance(names, list) and names):
            return {}
        if not all(isinstance(name, str) for name in names):
            return {}
        found.setdefault(int(number), []).extend(names)
    return found


def _are_numbers(values: Iterable[object]) -> bool:
    return all(
        (type(value) is int and value >= 0) or (isinstance(value, str) and value.isdecimal() and len(value) < 10)
        for value in values
    )
