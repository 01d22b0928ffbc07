"""Data sets of the Hugging Face ``datasets`` library: by name from the hub, or from a saved folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import Tensor

from lvmrs._util.facts import DataFacts
from lvmrs._util.files import expanded, is_file
from lvmrs._util.optional import optional
from lvmrs._util.settings import check_folder
from lvmrs.data.base import Dataset
from lvmrs.data.folder import pixels
from lvmrs.errors import DataError, guarded

__all__ = ["HuggingFaceDataset"]


class HuggingFaceDataset(Dataset):
    """A data set of the library. Uses the first image column and the first class-label column."""

    levels = 255

    def __init__(self, name: str, rest: str, split: str, size: int | None = None) -> None:
        datasets = optional("datasets", extra="hf", error=DataError)
        self.name, self.split, self.size = name, split, size
        self.rows, self.divided = _rows(datasets, name, rest, split)
        features = self.rows.features
        images = [key for key, kind in features.items() if isinstance(kind, datasets.Image)]
        labels = [key for key, kind in features.items() if isinstance(kind, datasets.ClassLabel)]
        if not images or not labels:
            raise DataError(f"{name}: it needs an image column and a class-label column; it has {', '.join(features)}")
        self.image, self.label = images[0], labels[0]
        self.classes = tuple(features[self.label].names)
        self.grey = all(self.rows[k][self.image].mode in ("1", "L") for k in range(min(20, len(self.rows))))
        self.facts = DataFacts(image_column=self.image, label_column=self.label)

    def __len__(self) -> int:
        """The number of inputs."""
        return len(self.rows)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        """One input and its label."""
        row = self.rows[index]
        try:
            return pixels(row[self.image], self.size, grey=self.grey), int(row[self.label])
        except DataError as error:
            raise DataError(f"{self.name}: image {index}: {error}") from error

    def input_name(self, index: int) -> str | None:
        """The file name of an image, without folders; None if the library does not give it."""
        found = getattr(self.rows[index][self.image], "filename", None)
        return Path(found).name if isinstance(found, str) and found else None

    def largest_label(self) -> int:
        """The largest label."""
        return int(max(self.rows[self.label]))

    def fingerprint(self) -> str:
        """The fingerprint of the library, and the image size."""
        return f"{self.rows._fingerprint}-{self.size}"


def _rows(datasets: Any, name: str, rest: str, split: str) -> tuple[Any, bool]:
    """The rows of the split, and whether the data have splits."""
    path = expanded(rest)
    check_folder(name, path, error=DataError)
    saved = any(is_file(path / file) for file in ("dataset_dict.json", "dataset_info.json"))
    # Versions before 4 could run a script of the data set.
    plain = {} if int(datasets.__version__.partition(".")[0]) >= 4 else {"trust_remote_code": False}
    with guarded(f"{name}: the data set cannot be loaded", error=DataError):
        rows = datasets.load_from_disk(str(path)) if saved else datasets.load_dataset(rest, split=split, **plain)
    divided = not saved or isinstance(rows, dict)
    if isinstance(rows, dict):
        if split not in rows:
            raise DataError(f"{name}: there is no split {split!r}; choose {' or '.join(rows)}")
        rows = rows[split]
    if not len(rows):
        raise DataError(f"{name}: there are no inputs in split {split!r}")
    return rows, divided
