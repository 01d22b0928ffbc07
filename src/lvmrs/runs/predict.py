"""Predicts the classes of the inputs of a data set with a smoothed classifier, optionally with certified radii."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from lvmrs.data import Dataset, check_labels, checked_input
from lvmrs.kernel import checks
from lvmrs.kernel.goals import is_correct
from lvmrs.kernel.method import Method
from lvmrs.planners import Duels
from lvmrs.planners.requirements import check_one_classifier
from lvmrs.record import Selection
from lvmrs.runs.selecting import check_selection
from lvmrs.smoothed import N0, SmoothedClassifier

__all__ = ["Answer", "check_inputs", "predict"]


@dataclass(frozen=True)
class Answer:
    """The prediction for one input. The last three fields are set only with ``radius=True``."""

    idx: int
    """Index of the input in its data set."""
    label: int
    """Its class in the data set."""
    predict: int
    """The predicted class, or −1 if the samples do not determine it at this risk."""
    correct: int
    """1 if the predicted class is the label, else 0."""
    name: str | None
    """The name of the input in its data set; None if it has none."""
    radius: float | None = None
    """The predicted class is the same at every point closer to the input than this; 0 if no class is predicted."""
    p_lower: float | None = None
    """Lower bound on the mean score of the top class; see ``Certificate.p_lower``."""
    p_upper: float | None = None
    """Upper bound on the mean score of every other class; see ``Certificate.p_upper``."""


def predict(
    smoothed: SmoothedClassifier,
    data: Dataset,
    selection: Selection,
    planner: Method | None = None,
    *,
    radius: bool = False,
    **settings: Any,
) -> Iterator[Answer]:
    """Predict the classes of the inputs of a selection, one after the other.

    Args:
        smoothed: the smoothed classifier.
        data: the data set.
        selection: the inputs to predict.
        planner: the method that certifies this classifier, by default hard duels. It must have one map for all inputs.
        radius: also certify each prediction. The certificates equal those of ``SmoothedClassifier.certify`` with the
            same n0, n, risk and seed; the small default n gives small radii.
        settings: keyword arguments of ``SmoothedClassifier.predict``.

    Returns:
        An iterator over the answers. An unsuitable method, selection or label raises at once. The docstring of
        ``lvmrs.runs`` has an example.
    """
    checks.instance("smoothed", smoothed, SmoothedClassifier, "a SmoothedClassifier")
    method = smoothed.check_method(Duels() if planner is None else planner)
    check_one_classifier(method)
    check_inputs(smoothed, data, selection)
    answered = _certified if radius else _answered
    return (answered(smoothed, method, data, index, settings) for index in selection.indices)


def check_inputs(smoothed: SmoothedClassifier, data: Dataset, selection: Selection) -> None:
    """Raise if a selection does not fit the data, or if a label is not a class of the model."""
    checks.instance("smoothed", smoothed, SmoothedClassifier, "a SmoothedClassifier")
    check_selection(data, selection)
    check_labels(data, smoothed.classes(checked_input(data, selection.indices[0])[0]))


def _answered(
    smoothed: SmoothedClassifier, method: Method, data: Dataset, index: int, settings: dict[str, Any]
) -> Answer:
    x, label = checked_input(data, index)
    found = smoothed.predict(x, method, index=index, **settings)
    return Answer(index, label, found, int(is_correct(found, label)), data.input_name(index))


def _certified(
    smoothed: SmoothedClassifier, method: Method, data: Dataset, index: int, settings: dict[str, Any]
) -> Answer:
    x, label = checked_input(data, index)
    given = {"n0": N0, "n": 1_000} | {name: value for name, value in settings.items() if value is not None}
    found = smoothed.certify(x, method, index=index, **given)
    return Answer(
        index,
        label,
        found.prediction,
        int(is_correct(found.prediction, label)),
        data.input_name(index),
        found.radius,
        found.p_lower,
        found.p_upper,
    )
