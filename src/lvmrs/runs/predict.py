"""Predicts the classes of the inputs of a data set with a smoothed classifier, optionally with certified radii."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from lvmrs.data.base import Dataset, checked_input
from lvmrs.kernel import checks
from lvmrs.kernel.method import Method
from lvmrs.planners.base import check_one_classifier
from lvmrs.planners.duels import Duels
from lvmrs.record import Selection
from lvmrs.record.result_file import correctness
from lvmrs.runs.job import check_inputs
from lvmrs.smoothed import N0, SmoothedClassifier


@dataclass(frozen=True)
class Answer:
    """The prediction for one input. The last three fields are set only with ``radius=True``."""

    idx: int
    """Index of the input in its data set."""
    label: int | None
    """Its class in the data set; None if the data have no labels."""
    predict: int
    """The predicted class, or −1 if the samples do not determine it at this risk."""
    correct: int | None
    """1 if the predicted class is the label, else 0; None without a label."""
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
    if radius:
        settings = {"n0": N0, "n": 1_000} | {name: value for name, value in settings.items() if value is not None}
    return (_answer(smoothed, method, data, index, radius, settings) for index in selection.indices)


def _answer(
    smoothed: SmoothedClassifier, method: Method, data: Dataset, index: int, radius: bool, settings: dict[str, Any]
) -> Answer:
    x, label = checked_input(data, index)
    more: tuple[float, ...] = ()
    if radius:
        found = smoothed.certify(x, method, index=index, **settings)
        predicted, more = found.prediction, (found.radius, found.p_lower, found.p_upper)
    else:
        predicted = smoothed.predict(x, method, index=index, **settings)
    return Answer(index, label, predicted, correctness(predicted, label), data.input_name(index), *more)
