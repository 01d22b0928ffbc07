"""A folder of images, with a folder for each class."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from lvmrs._extras import optional
from lvmrs.data.base import Dataset
from lvmrs.errors import DataError
from lvmrs.facts import DataFacts

__all__ = ["ImageFolder", "pixels"]

_GREY, _COLOURED = ("1", "L"), ("RGB", "RGBA", "P", "PA", "LA", "CMYK", "YCbCr", "HSV", "LAB")

_SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".webp", ".ppm", ".pgm", ".tif", ".tiff", ".gif"}


class ImageFolder(Dataset):
    """Images in the folders PATH/CLASS/ or PATH/SPLIT/CLASS/.

    If all names of folders are numbers, they are the labels; otherwise folders are numbered in alphabetical order.

    Args:
        name: the name of the data set.
        rest: PATH.
        split: which part of the data.
        size: images are scaled and cropped to squares of that many pixels; None to leave them as they are.
    """

    def __init__(self, name: str, rest: str, split: str, size: int | None = None) -> None:
        path = Path(rest).expanduser()
        if not path.is_dir():
            raise DataError(f"{name}: {path} is not a folder; write imagefolder:PATH")
        self.name, self.split, self.size = name, split, size
        self.divided = (path / split).is_dir()
        self.root = path / split if self.divided else path
        folders = sorted(entry.name for entry in self.root.iterdir() if entry.is_dir() and _has_images(entry))
        numbered = bool(folders) and all(folder.isdecimal() for folder in folders)
        label_of = {folder: int(folder) if numbered else k for k, folder in enumerate(folders)}
        self.files = [
            (file, label_of[folder])
            for folder in sorted(folders, key=label_of.__getitem__)
            for file in sorted((self.root / folder).iterdir())
            if file.suffix.lower() in _SUFFIXES
        ]
        if not self.files:
            raise DataError(f"{name}: no images in the folders of {self.root}; expected {self.root}/CLASS/IMAGE.png")
        self.classes = None if numbered else tuple(folders)
        self.facts = DataFacts(labels="folder numbers" if numbered else "folder order")
        self.grey = all(self._mode(file) in _GREY for file, _ in self.files[:20])

    def __len__(self) -> int:
        """The number of inputs."""
        return len(self.files)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        """One input and its label."""
        file, label = self.files[index]
        image = optional("PIL.Image", extra="images", error=DataError)
        try:
            with image.open(file) as opened:
                return pixels(opened, self.size, grey=self.grey), label
        except (OSError, DataError) as error:
            raise DataError(f"{self.name}: {file} cannot be read as an image: {error}") from error

    def _mode(self, file: Path) -> str:
        try:
            with optional("PIL.Image", extra="images", error=DataError).open(file) as opened:
                return str(opened.mode)
        except OSError:  # __getitem__ reports it
            return ""

    def largest_label(self) -> int:
        """The largest label."""
        return max(label for _, label in self.files)

    def fingerprint(self) -> str:
        """A hash of the names, labels and sizes of the files, and of the size that images are scaled to."""
        digest = hashlib.sha256(str(self.size).encode())
        for file, label in self.files:
            digest.update(f"\n{file.relative_to(self.root)} {label} {file.stat().st_size}".encode())
        return digest.hexdigest()


def _has_images(folder: Path) -> bool:
    return not folder.name.startswith(".") and any(file.suffix.lower() in _SUFFIXES for file in folder.iterdir())


def pixels(image: "PIL.Image.Image", size: int | None, *, grey: bool) -> Tensor:  # type: ignore[name-defined]  # noqa: F821, UP037
    """Turn an image into a tensor (channels, height, width) with values in [0, 1].

    Args:
        image: an image of Pillow.
        size: the shorter side is scaled to this many pixels, and a square is cut out of the middle; None for no change.
        grey: whether the data set has one channel; otherwise it has three.
    """
    if image.mode not in (*_GREY, *_COLOURED):
        raise DataError(f"its mode is {image.mode}, and pixels must have 8 bits; convert it")
    if grey and image.mode not in _GREY:
        raise DataError("it has colours, and the first images of the data set are grey; convert some of them")
    image = image.convert("L" if grey else "RGB")
    if size is not None:
        scale = size / min(image.size)
        width, height = (max(size, round(side * scale)) for side in image.size)
        image = image.resize((width, height), resample=2)  # bilinear
        left, top = (width - size) // 2, (height - size) // 2
        image = image.crop((left, top, left + size, top + size))
    array = np.array(image, dtype=np.float32)
    array = array[None] if array.ndim == 2 else array.transpose(2, 0, 1)
    return torch.from_numpy(np.ascontiguousarray(array / 255))
