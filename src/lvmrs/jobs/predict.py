"""Answers of a smoothed classifier to the inputs of a data set, and a width of soft duels from held-out inputs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from lvmrs.answers import is_correct
from lvmrs.data import Dataset, check_labels, checked_input
from lvmrs.jobs.job import check_selection
from lvmrs.planners import Duels
from lvmrs.runs import Selection
from lvmrs.smooth import SmoothedClassifier

__all__ = ["Answer", "calibrate_duels", "predict"]


@dataclass(frozen=True)
class Answer:
    """The answer to one input."""

    idx: int
    """Index of the input in its data set."""
    label: int
    """Its class in the data set."""
    predict: int
    """The answer, or −1 if the samples do not show it at this risk."""
    correct: int
    """1 if the answer is the label, else 0."""
    name: str | None
    """The name of the input in its data set; None if it has none."""


def predict(smoothed: SmoothedClassifier, data: Dataset, selection: Selection, **settings: Any) -> Iterator[Answer]:
    """Answer the inputs of a selection, one after the other.

    Args:
        smoothed: the smoothed classifier.
        data: the data set.
        selection: which of its inputs.
        settings: those of ``SmoothedClassifier.predict``.

    Returns:
        The answers, as they come. A selection or labels that do not fit are refused at once. The docstring of
        ``lvmrs.jobs`` has an example.
    """
    _check(smoothed, data, selection)
    return (_answer(smoothed, data, index, settings) for index in selection.indices)


def _check(smoothed: SmoothedClassifier, data: Dataset, selection: Selection) -> None:
    """Refuse a selection that does not fit the data, and labels that are not the classes of the model."""
    check_selection(data, selection)
    check_labels(data, smoothed.classes(checked_input(data, selection.indices[0])[0]))


def _answer(smoothed: SmoothedClassifier, data: Dataset, index: int, settings: dict[str, Any]) -> Answer:
    x, label = checked_input(data, index)
    found = smoothed.predict(x, index=index, **settings)
    return Answer(index, label, found, int(is_correct(found, label)), data.input_name(index))


def calibrate_duels(
    smoothed: SmoothedClassifier, data: Dataset, selection: Selection, *, n0: int = 1_000, seed: int = 0
) -> Duels:
    """Find one width of soft duels for all inputs, on the inputs of a selection, which should not be certified.

    Args:
        smoothed: the smoothed classifier.
        data: the data set.
        selection: which of its inputs.
        n0: samples for each input.
        seed: the seed of the noise.

    Returns:
        Duels of that width.

    >>> import numpy as np
    >>> import torch
    >>> from lvmrs.data import Arrays
    >>> corners = Arrays("two corners", "train", np.eye(2), np.arange(2))
    >>> found = calibrate_duels(SmoothedClassifier(torch.nn.Identity(), 0.5, batch=100), corners, Selection(2))
    >>> 0.3 < float(found.width) < 0.4
    True
    """
    _check(smoothed, data, selection)
    inputs = (checked_input(data, index)[0] for index in selection.indices)
    return smoothed.calibrate_duels(inputs, n0=n0, seed=seed)
