"""Facts about a data set beside its values, which its source states or which were assumed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["DataFacts"]

_LABELS = {
    "folder numbers": "folder names are the class numbers",
    "folder order": "labels are the places of the folders in alphabetical order",
    "class index file": "labels are from the class index file",
}


@dataclass(frozen=True)
class DataFacts:
    """Facts about a data set, in plain values; ``sentences`` says them in words."""

    labels: Literal["given", "folder numbers", "folder order", "class index file"] = "given"
    """Where class numbers come from: the source, the names of the folders, their alphabetical order, or a file."""
    channels_last: bool = False
    """Whether the source has images as height × width × channels; they are read as channels × height × width."""
    image_column: str | None = None
    """The column that holds the images."""
    label_column: str | None = None
    """The column that holds the labels."""

    def sentences(self) -> tuple[str, ...]:
        """The facts in words, for people.

        >>> DataFacts(channels_last=True).sentences()
        ('images come as height × width × channels',)
        """
        said = [
            _LABELS.get(self.labels),
            "images come as height × width × channels" if self.channels_last else None,
            None
            if self.image_column is None
            else f"images in column {self.image_column!r}, labels in column {self.label_column!r}",
        ]
        return tuple(sentence for sentence in said if sentence is not None)
