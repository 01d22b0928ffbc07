"""Answers of a smoothed classifier to the inputs of a data set, with certified radii if they are asked for."""

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
    """The answer to one input; its last three fields are known if a radius was asked for."""

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
    radius: float | None = None
    """The classifier answers with the same class at every point closer to the input than this; 0 for no answer."""
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
    """Answer the inputs of a selection, one after the other.

    Args:
        smoothed: the smoothed classifier.
        data: the data set.
        selection: which of its inputs.
        planner: the method that certifies this classifier, by default hard duels. It must have one map for all inputs.
        radius: whether to certify each answer. The certificates are those of ``SmoothedClassifier.certify`` with the
            same n0, n, risk and seed; with n as small as here by default, their radii are small.
        settings: those of ``SmoothedClassifier.predict``.

    Returns:
        The answers, as they come. A method, selection or labels that do not fit are refused at once. The docstring of
        ``lvmrs.runs`` has an example.
    """
    checks.instance("smoothed", smoothed, SmoothedClassifier, "a SmoothedClassifier")
    method = smoothed.check_method(Duels() if planner is None else planner)
    check_one_classifier(method)
    check_inputs(smoothed, data, selection)
    answered = _certified if radius else _answered
    return (answered(smoothed, method, data, index, settings) for index in selection.indices)


def check_inputs(smoothed: SmoothedClassifier, data: Dataset, selection: Selection) -> None:
    """Refuse a selection that does not fit the data, and labels that are not the classes of the model."""
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
