"""Facts about a data set beside its values, which its source states or which were assumed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

__all__ = ["DataFacts", "DenoiserFacts", "ModelFacts"]

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


# ---------------------------------------------------------------------------------------------------------------------
# Facts about a model beside its weights, which its source states or which were assumed.


_SHIPPED = {
    "image processor": "its image processor",
    "data configuration": "timm's data configuration",
    "weights": "the transforms of its weights",
}


@dataclass(frozen=True)
class ModelFacts:
    """Facts about a model, in plain values; ``sentences`` says them in words."""

    network: str | None = None
    """The network of lvmrs that its file names."""
    named_by: Literal["file", "checkpoint"] = "file"
    """What names the network: a file by lvmrs, or the arch of another project's checkpoint."""
    objective: str | None = None
    """The objective that it was trained for, if its file says so."""
    mean: tuple[float, ...] | None = None
    """The mean of each channel in the normalisation before it, in pixels in [0, 1]."""
    std: tuple[float, ...] | None = None
    """The standard deviation of each channel in that normalisation."""
    normalised_by: Literal["given", "training", "image processor", "data configuration", "weights"] | None = None
    """Where the normalisation comes from: the caller, the file of weights, or a file that comes with the network."""
    normalisation_lost: bool = False
    """Whether the names of its weights show that it was trained behind a normalisation that is not in the file."""
    takes_pixels: bool = False
    """Whether it was assumed to take pixels in [0, 1] as they are."""
    resized_to: tuple[int, int] | None = None
    """Height and width to which the model resizes inputs of another size."""
    output: str | None = None
    """Name of the output of an ONNX file that is used as the logits."""
    file_batch: int | None = None
    """The batch size that its file prescribes; None if any size is possible."""
    random_weights: bool = False
    """Whether no weights were given, so that they are random."""
    denoiser: DenoiserFacts | None = None
    """The denoiser before it."""

    def sentences(self) -> tuple[str, ...]:
        """The facts in words, for people.

        >>> ModelFacts(output="logits", file_batch=4, takes_pixels=True).sentences()[1]
        'run in batches of 4, as the file fixes it'
        """
        shipped = self.normalised_by != "given"
        said = [
            self.normalisation if shipped else None,
            self._resized(),
            self._network(),
            "it was trained behind a normalisation that is not in its file" if self.normalisation_lost else None,
            None if self.output is None else f"logits are the output {self.output!r}",
            None if self.file_batch is None else f"run in batches of {self.file_batch}, as the file fixes it",
            "WARNING: its weights are random, none were given" if self.random_weights else None,
            None if shipped else self.normalisation,
            "it takes pixels in [0, 1] as they are" if self.takes_pixels else None,
            None if self.denoiser is None else f"denoised by {self.denoiser.name}: {self.denoiser.words}",
        ]
        return tuple(sentence for sentence in said if sentence is not None)

    @property
    def normalisation(self) -> str | None:
        """The normalisation in words; None if there is none."""
        if self.normalised_by is None or self.mean is None or self.std is None:
            return None
        if self.normalised_by == "training":
            return "normalised as in training"
        if self.normalised_by == "given":
            return f"normalised with mean {_listed(self.mean, 'g')} and std {_listed(self.std, 'g')}, as given"
        by = _SHIPPED[self.normalised_by]
        return f"normalised with mean {_listed(self.mean, '.4g')} and std {_listed(self.std, '.4g')}, from {by}"

    def _resized(self) -> str | None:
        if self.resized_to is None:
            return None
        height, width = self.resized_to
        return f"inputs of another size are resized to {height} × {width} within the model"

    def _network(self) -> str | None:
        if self.network is None:
            return None
        trained = "" if self.objective is None else f", trained for {self.objective}"
        return f"the network is {self.network}, as the {self.named_by} says{trained}"


@dataclass(frozen=True)
class DenoiserFacts:
    """Facts about a denoiser, in plain values."""

    name: str
    """The name that it was loaded by."""
    step: int | None = None
    """The step of the schedule from which a diffusion model goes back."""
    steps: int | None = None
    """How many steps that schedule has."""
    trained: ModelFacts | None = None
    """The facts of a denoiser that lvmrs trained."""

    @property
    def words(self) -> str:
        """The facts in words, without its name."""
        if self.step is not None:
            return f"one step back from step {self.step} of {self.steps}"
        if self.trained is not None:
            return "; ".join(self.trained.sentences())
        return "it takes images in [0, 1] and returns images in [0, 1]"


def _listed(values: Sequence[float], form: str) -> str:
    return ", ".join(format(value, form) for value in values)
