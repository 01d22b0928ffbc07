"""Calibrates one classifier for all inputs on held-out inputs: a width of soft duels, or a map with its temperature."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Literal

from torch import Tensor

from lvmrs.data import Dataset, checked_input
from lvmrs.engine.way import Way
from lvmrs.kernel import checks
from lvmrs.planners import Duels, Fixed
from lvmrs.planners.requirements import check_one_classifier
from lvmrs.record import Selection
from lvmrs.record.classifier import CalibrationRecord, ClassifierRecord
from lvmrs.runs.job import Job
from lvmrs.runs.predict import check_inputs
from lvmrs.smoothed import SmoothedClassifier

__all__ = ["calibrate", "calibrate_duels", "calibration_record"]

Objective = Literal["average radius", "accuracy"]


def calibrate(
    smoothed: SmoothedClassifier,
    data: Dataset,
    selection: Selection,
    *,
    objective: Objective = "average radius",
    epsilon: float = 0.0,
    n0: int = 1_000,
    n: int = 100_000,
    alpha: float = 0.001,
    seed: int = 0,
    **search: Any,
) -> Fixed:
    """Find one map, temperature and form of the radius for all inputs, on the inputs of a selection.

    Calibrate on other inputs than you certify. Inputs whose predicted class is not their label count as not certified.

    Args:
        smoothed: the smoothed classifier.
        data: the data set.
        selection: the inputs to calibrate on.
        objective: "average radius", or "accuracy": the share of inputs with a radius larger than ``epsilon``.
        epsilon: the radius for "accuracy".
        n0: samples for each input.
        n: samples of the later certificates, whose radii are predicted.
        alpha: risk of the later certificates.
        seed: the seed of the noise.
        search: ``maps``, ``temperatures`` and ``mass``, as in ``lvmrs.planners.fixed.calibrated``.

    Returns:
        The planner with the best choice.

    >>> import numpy as np
    >>> import torch
    >>> from lvmrs.data import Arrays
    >>> corners = Arrays("two corners", "train", np.eye(2), np.arange(2))
    >>> calibrate(SmoothedClassifier(torch.nn.Identity(), 0.5, batch=100), corners, Selection(2), n=1000).scope
    'all inputs'
    """
    check_inputs(smoothed, data, selection)
    inputs, labels = zip(*(checked_input(data, index) for index in selection.indices), strict=True)
    return smoothed.calibrate(
        inputs, labels=labels, objective=objective, epsilon=epsilon, n0=n0, n=n, alpha=alpha, seed=seed, **search
    )


def calibrate_duels(
    smoothed: SmoothedClassifier, data: Dataset, selection: Selection, *, n0: int = 1_000, seed: int = 0
) -> Duels:
    """Find one width of soft duels for all inputs, on the inputs of a selection. Certify other inputs than these.

    Args:
        smoothed: the smoothed classifier.
        data: the data set.
        selection: the inputs to calibrate on.
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
    check_inputs(smoothed, data, selection)
    return smoothed.calibrate_duels(_inputs(data, selection), n0=n0, seed=seed)


def _inputs(data: Dataset, selection: Selection) -> Iterator[Tensor]:
    return (checked_input(data, index)[0] for index in selection.indices)


def calibration_record(
    job: Job, *, objective: Objective | None = None, epsilon: float = 0.0, command: str = ""
) -> ClassifierRecord:
    """The record of a calibrated classifier, for a file that other commands read.

    Args:
        job: the classifier, with the data, inputs, risk and samples of its calibration.
        objective: the objective that a map was calibrated for; None for duels, whose calibration has no risk and no n.
        epsilon: the radius of the objective "accuracy"; other objectives do not record it.
        command: the command line of the user, which the file records.

    Returns:
        The record. The docstring of ``lvmrs.runs`` has an example.
    """
    checks.instance("job", job, Job, "a Job")
    check_one_classifier(job.method)
    made = job.manifest(Way(job.smoothed.batch or 1), command)
    terms = made.terms if objective is not None else replace(made.terms, alpha=None, n=None)
    found_on = CalibrationRecord(made.data, made.selection, objective, epsilon if objective == "accuracy" else None)
    return ClassifierRecord(made.model, made.method, terms, found_on, made.origin)
