"""What every data set offers: numbered images in [0, 1], their labels, and who it is."""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor

__all__ = ["Dataset"]


class Dataset(ABC):
    """Inputs with float32 values in [0, 1], without batch dimension, and their labels, numbered from 0."""

    name: str
    """The name it is asked for by."""
    split: str
    classes: tuple[str, ...] | None = None
    """What the labels are called, where the source says so."""
    assumed: tuple[str, ...] = ()
    """What had to be guessed about the source, in words."""

    @abstractmethod
    def __len__(self) -> int:
        """How many inputs."""

    @abstractmethod
    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        """One input and its label."""

    @abstractmethod
    def fingerprint(self) -> str:
        """A hash that changes when the data do."""

    def __repr__(self) -> str:
        """One line."""
        return f"<{self.name}, {self.split}: {len(self)} inputs>"
