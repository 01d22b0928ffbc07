"""Metadata of data sets, models and denoisers, as stated by their source or assumed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Literal

_LABELS = {
    "none": "its inputs have no labels",
    "folder numbers": "folder names are the class numbers",
    "folder order": "labels are the places of the folders in alphabetical order",
    "class index file": "labels are from the class index file",
}


@dataclass(frozen=True)
class DataFacts:
    """Metadata of a data set. ``sentences`` describes it in words."""

    labels: Literal["given", "folder numbers", "folder order", "class index file", "none"] = "given"
    """The origin of the class numbers: the source, folder names, their alphabetical order, a file; or no labels."""
    channels_last: bool = False
    """Whether the source stores images as height × width × channels. They are read as channels × height × width."""
    image_column: str | None = None
    """The column that holds the images."""
    label_column: str | None = None
    """The column that holds the labels."""

    def sentences(self) -> tuple[str, ...]:
        """One sentence for each fact.

        >>> DataFacts(channels_last=True).sentences()
        ('images come as height × width × channels',)
        """
        labels = "" if self.label_column is None else f", labels in column {self.label_column!r}"
        said = [
            _LABELS.get(self.labels),
            "images come as height × width × channels" if self.channels_last else None,
            None if self.image_column is None else f"images in column {self.image_column!r}{labels}",
        ]
        return tuple(sentence for sentence in said if sentence is not None)


_SHIPPED = {
    "image processor": "its image processor",
    "data configuration": "timm's data configuration",
    "weights": "the transforms of its weights",
}


@dataclass(frozen=True)
class ModelFacts:
    """Metadata of a model. ``sentences`` describes it in words."""

    network: str | None = None
    """The network of lvmrs that the model file names."""
    named_by: Literal["file", "checkpoint"] = "file"
    """The origin of ``network``: a file by lvmrs, or the arch of another project's checkpoint."""
    objective: str | None = None
    """The training objective, if the model file records it; those of an ensemble, with " and " between them."""
    mean: tuple[float, ...] | None = None
    """The mean of each channel in the normalisation before the network, for pixels in [0, 1]."""
    std: tuple[float, ...] | None = None
    """The standard deviation of each channel in that normalisation."""
    normalised_by: Literal["given", "training", "image processor", "data configuration", "weights"] | None = None
    """The origin of the normalisation: the caller, the file of weights, or a file that comes with the network."""
    normalisation_lost: bool = False
    """Whether the names of the weights show a normalisation in training that the file does not contain."""
    takes_pixels: bool = False
    """Whether the model is assumed to take pixels in [0, 1] without normalisation."""
    resized_to: tuple[int, int] | None = None
    """Height and width to which the model resizes inputs of another size."""
    output: str | None = None
    """The output of an ONNX file that is used as the logits."""
    file_batch: int | None = None
    """The fixed batch size of the model file. None: any batch size."""
    random_weights: bool = False
    """Whether the weights are random, because none were given."""
    denoiser: DenoiserFacts | None = None
    """The denoiser before the model."""

    @classmethod
    def of_ensemble(cls, members: Sequence[ModelFacts]) -> ModelFacts:
        """The metadata that all members share, and all training objectives if every member records its own.

        The weights are random if those of any member are.

        >>> ModelFacts.of_ensemble([ModelFacts("a", objective="c"), ModelFacts("b", objective="c")]).objective
        'c'
        """
        first, *others = members
        names = [field.name for field in fields(cls)]
        shared = [name for name in names if all(getattr(each, name) == getattr(first, name) for each in others)]
        values = {name: getattr(first, name) for name in shared}
        objectives = [each.objective for each in members if each.objective is not None]
        if len(objectives) == len(members):
            values["objective"] = " and ".join(dict.fromkeys(objectives))
        return cls(**{**values, "random_weights": any(each.random_weights for each in members)})

    def sentences(self) -> tuple[str, ...]:
        """One sentence for each fact.

        >>> ModelFacts(output="logits", file_batch=4, takes_pixels=True).sentences()[1]
        'run in batches of 4, as the file fixes it'
        """
        shipped = self.normalised_by != "given"
        size = " × ".join(map(str, self.resized_to or ()))
        trained = "" if self.objective is None else f", trained for {self.objective}"
        said = [
            self.normalisation if shipped else None,
            None if self.resized_to is None else f"inputs of another size are resized to {size} within the model",
            None if self.network is None else f"the network is {self.network}, as the {self.named_by} says{trained}",
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
        """A description of the normalisation; None if the model has none."""
        if self.normalised_by is None or self.mean is None or self.std is None:
            return None
        if self.normalised_by == "training":
            return "normalised as in training"
        if self.normalised_by == "given":
            return f"normalised with mean {_listed(self.mean, 'g')} and std {_listed(self.std, 'g')}, as given"
        by = _SHIPPED[self.normalised_by]
        return f"normalised with mean {_listed(self.mean, '.4g')} and std {_listed(self.std, '.4g')}, from {by}"


@dataclass(frozen=True)
class DenoiserFacts:
    """Metadata of a denoiser."""

    name: str
    """The name that the denoiser was loaded by."""
    step: int | None = None
    """The step of the diffusion schedule at which the diffusion model denoises."""
    steps: int | None = None
    """The number of steps of that schedule."""
    trained: ModelFacts | None = None
    """The metadata of a denoiser that lvmrs trained."""

    @property
    def words(self) -> str:
        """A description of the denoiser, without its name."""
        if self.step is not None:
            return f"one step back from step {self.step} of {self.steps}"
        if self.trained is not None:
            return "; ".join(self.trained.sentences())
        return "it takes images in [0, 1] and returns images in [0, 1]"


def _listed(values: Sequence[float], form: str) -> str:
    return ", ".join(format(value, form) for value in values)
