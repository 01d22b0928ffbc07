"""A folder of images, with a folder for each class."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lvmrs._util.facts import DataFacts
from lvmrs._util.files import expanded, is_file, is_folder, no_file
from lvmrs._util.optional import optional
from lvmrs.data.base import Dataset
from lvmrs.data.class_index import read_class_index
from lvmrs.errors import DataError, guarded

__all__ = ["ImageFolder", "pixels"]

_GREY, _COLOURED = ("1", "L"), ("RGB", "RGBA", "P", "PA", "LA", "CMYK", "YCbCr", "HSV", "LAB")

# Larger images are treated as decompression bombs; the limit is Pillow's.
_MOST_PIXELS = 89_478_485
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
            raise DataError(f"{name}: {path} is not a folder; write imagefolder:PATH")
        self.name, self.split, self.size = name, split, size
        self.divided = is_folder(path / split)
        self.root = path / split if self.divided else path
        folders = sorted(entry.name for entry in self.root.iterdir() if entry.is_dir() and _has_images(entry))
        label_of = self._labels(folders, class_index)
        self.files = [
            (file, label_of[folder])
            for folder in sorted(folders, key=lambda folder: (label_of[folder], folder))
            for file in sorted((self.root / folder).iterdir())
            if file.suffix.lower() in _SUFFIXES
        ]
        if not self.files:
            raise DataError(f"{name}: no images in the folders of {self.root}; expected {self.root}/CLASS/IMAGE.png")
        self.grey = all(self._mode(file) in _GREY for file, _ in self.files[:20])

    def _labels(self, folders: Sequence[str], class_index: Path | None) -> dict[str, int]:
        """The label of each folder."""
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

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        """One input and its label."""
        file, label = self.files[index]
        try:
            with guarded("Pillow fails", error=DataError), _opened(file) as image:
                return pixels(image, self.size, grey=self.grey), label
        except DataError as error:
            raise DataError(f"{self.name}: {file} cannot be read as an image: {error}") from error

    def input_name(self, index: int) -> str:
        """The file of an input, relative to the folder of the split."""
        return self.files[index][0].relative_to(self.root).as_posix()

    def _mode(self, file: Path) -> str:
        try:
            with guarded("Pillow fails", error=DataError), _opened(file) as image:
                return str(image.mode)
        except DataError:  # __getitem__ reports the error
            return ""

    def largest_label(self) -> int:
        """The largest label."""
        return max(label for _, label in self.files)

    def fingerprint(self) -> str:
        """A hash of the names, labels and sizes of the files, and of the image size."""
        digest = hashlib.sha256(str(self.size).encode())
        for file, label in self.files:
            digest.update(
                f"\n{file.relative_to(self.root)} {label} {file.stat().st_size}".encode(errors="surrogateescape")
            )
        return digest.hexdigest()


def _has_images(folder: Path) -> bool:
    return not folder.name.startswith(".") and any(file.suffix.lower() in _SUFFIXES for file in folder.iterdir())


@contextmanager
def _opened(file: Path) -> Iterator[Any]:
    """Open an image file without Pillow's warning about its size; ``pixels`` checks the size."""
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
    """Turn an image into a tensor (channels, height, width) with values in [0, 1].

    Args:
        image: an image of Pillow.
        size: the shorter side is scaled to this number of pixels, and the central square is kept. None: no change.
        grey: True for one channel, False for three.

    Returns:
        The tensor.
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
