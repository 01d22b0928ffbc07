"""Data sets of the Hugging Face ``datasets`` library: by name from the hub, or from a saved folder."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from torch import Tensor

from lvmrs._util.facts import DataFacts
from lvmrs._util.files import expanded, is_file, is_folder
from lvmrs._util.settings import check_folder
from lvmrs._util.text import optional
from lvmrs.data.base import Dataset
from lvmrs.data.folder import pixels
from lvmrs.errors import DataError, guarded

# In place of a label column: the inputs have no labels.
_NONE = "none"


class HuggingFaceDataset(Dataset):
    """A data set of the library, ``NAME``, or ``NAME,image=COLUMN,label=COLUMN`` to name its columns.

    By default, uses the first image column and the first class-label column. With ``label=none`` there are no labels.
    """

    levels = 255

    def __init__(self, name: str, rest: str, split: str, size: int | None = None) -> None:
        datasets = optional("datasets", extra="hf", error=DataError)
        self.name, self.split, self.size = name, split, size
        rest, named = _columns(name, rest)
        self.rows, self.divided = _rows(datasets, name, rest, split)
        features = self.rows.features
        first = {
            column: next((key for key, kind in features.items() if isinstance(kind, expected)), None)
            for column, expected in (("image", datasets.Image), ("label", datasets.ClassLabel))
        }
        self.image, self.label = {**first, **named}.values()
        self._chosen = "" if [*first.values()] == [self.image, self.label] else f"-{self.image}-{self.label}"
        if self.image not in features or self.label not in (*features, _NONE):
            raise DataError(
                f"{name}: it needs an image column and a class-label column; it has {', '.join(features)}; name them "
                f"as in hf:NAME,image=COLUMN,label=COLUMN, with label={_NONE} for inputs without labels"
            )
        if not isinstance(features[self.image], datasets.Image):
            raise DataError(f"{name}: the column {self.image!r} does not hold images; name one that does")
        if self.label == _NONE:
            self.facts = DataFacts(labels="none", image_column=self.image)
        else:
            names = getattr(features[self.label], "names", None)
            self.classes = None if names is None else tuple(names)
            self.facts = DataFacts(image_column=self.image, label_column=self.label)
        self.grey = all(self.rows[k][self.image].mode in ("1", "L") for k in range(min(20, len(self.rows))))

    def __len__(self) -> int:
        """The number of inputs."""
        return len(self.rows)

    def __getitem__(self, index: int) -> tuple[Tensor, int | None]:
        """One input and its label; None if there are no labels."""
        row = self.rows[index]
        try:
            return pixels(row[self.image], self.size, grey=self.grey), row[self.label] if self.labelled else None
        except DataError as error:
            raise DataError(f"{self.name}: image {index}: {error}") from error

    def input_name(self, index: int) -> str | None:
        """The file name of an image, without folders; None if the library does not give it."""
        found = getattr(self.rows[index][self.image], "filename", None)
        return Path(found).name if isinstance(found, str) and found else None

    def largest_label(self) -> int | None:
        """The largest label; None if there are no labels."""
        return max(self.rows[self.label]) if self.labelled else None

    def fingerprint(self) -> str:
        """The fingerprint of the library, the image size, and other columns than the first ones."""
        return f"{self.rows._fingerprint}-{self.size}{self._chosen}"


def _columns(name: str, rest: str) -> tuple[str, dict[str, str]]:
    """The name of the data set, and the columns that the user names after it."""
    rest, *settings = [rest] if is_folder(expanded(rest)) else re.split(r",(?=\w+=)", rest)
    named = dict(setting.split("=", 1) for setting in settings)
    if unknown := [key for key in named if key not in ("image", "label")]:
        raise DataError(f"{name}: hf has no setting {unknown[0]!r}; it has image and label, each a name of a column")
    return rest, named


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
