"""Calibrates one classifier for all inputs on held-out inputs: a width of soft duels, or a map with its temperature.

The ``ClassifierRecord`` of a calibrated or certified classifier is data that names no code. ``recorded_method``
rebuilds the method from it, ``check_same_classifier`` compares a loaded classifier with it, and ``calibrated_on``
counts the inputs that the classifier was fitted to. The caller loads the network, and a noise that is custom code.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from lvmrs.data.base import Dataset, checked_input
from lvmrs.engine.way import Way
from lvmrs.errors import InvalidArgumentError, LvmrsError, RunError, guarded, shown
from lvmrs.kernel import checks
from lvmrs.kernel.method import Method
from lvmrs.models.load import Loaded
from lvmrs.planners import settings as method_settings
from lvmrs.planners.base import check_one_classifier
from lvmrs.planners.duels import Duels
from lvmrs.planners.fixed import Fixed
from lvmrs.record import Selection
from lvmrs.record.manifest import CalibrationRecord, ClassifierRecord, ModelRecord
from lvmrs.runs.job import Job, check_inputs, method_record, model_record
from lvmrs.smoothed import SmoothedClassifier

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

    Calibrate on other inputs than you certify. Inputs whose predicted class is not their label count as not certified;
    if the data have no labels, all predictions count.

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
    known = labels if data.labelled else None
    return smoothed.calibrate(
        inputs, labels=known, objective=objective, epsilon=epsilon, n0=n0, n=n, alpha=alpha, seed=seed, **search
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
    inputs = (checked_input(data, index)[0] for index in selection.indices)
    return smoothed.calibrate_duels(inputs, n0=n0, seed=seed)


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


def recorded_method(record: ClassifierRecord, where: str) -> Method:
    """Rebuild the method of a record. The method must have one map for all inputs.

    Args:
        record: the record of a classifier.
        where: the file of the record, for error messages.

    Returns:
        The method, with all its settings. Raises for a method of the user, since a file must not choose code to run.

    >>> from lvmrs.record.manifest import MethodRecord, ModelRecord, TermsRecord
    >>> terms = TermsRecord(sigma=0.5, alpha=0.001, n0=100, n=1000)
    >>> recorded_method(ClassifierRecord(ModelRecord("mine"), MethodRecord("Duels", {"width": 2.5}), terms), "runs/a")
    Duels(width=2.5)
    """
    checks.instance("record", record, ClassifierRecord, "a ClassifierRecord")
    known = record.method
    if known.own_code:
        raise InvalidArgumentError(
            f"{where} was made with code of your own ({', '.join(known.own_code)}), and a file must not choose "
            "code to run; choose the method with its settings, and the noise, yourself"
        )
    try:
        with guarded("its settings do not fit", error=RunError):
            method = method_settings.from_record(known.name, known.settings)
            made = method_settings.settings(method)
    except LvmrsError as error:
        raise RunError(f"{where} has a method that cannot be made again: {error}") from error
    if any(made[name] != value for name, value in known.settings.items()):
        raise RunError(f"{where} is damaged: the settings of {known.name} would not be read as they are written")
    check_one_classifier(method)
    return method


def check_same_classifier(
    record: ClassifierRecord, where: str, loaded: Loaded, smoothed: SmoothedClassifier, method: Method
) -> None:
    """Raise if a network, noise, σ or method differs from that of a record.

    Args:
        record: the record of a classifier.
        where: the file of the record, for error messages.
        loaded: the model.
        smoothed: the smoothed classifier of that model.
        method: the method.

    The docstring of ``lvmrs.runs`` has an example.
    """
    checks.instance("record", record, ClassifierRecord, "a ClassifierRecord")
    checks.instance("loaded", loaded, Loaded, "a Loaded model, as lvmrs.models.load gives it")
    checks.instance("smoothed", smoothed, SmoothedClassifier, "a SmoothedClassifier")
    checks.instance("method", method, Method, "a Method such as Duels()")
    for what, then, now in _compared(record, loaded, smoothed, method):
        if then != now:
            raise InvalidArgumentError(
                f"this is not the classifier of {where}: its {what} is {shown(then)}, and here it is {shown(now)}; "
                "give the same, or leave the record out and name the classifier"
            )


def _compared(
    record: ClassifierRecord, loaded: Loaded, smoothed: SmoothedClassifier, method: Method
) -> Iterator[tuple[str, Any, Any]]:
    """Name, recorded value and present value of each property that defines a classifier."""
    sigma = smoothed.settings["sigma"]
    used = method_record(method, smoothed.noise, sigma if method.samples else None)
    yield "method", record.method.name, used.name
    for name, value in record.method.settings.items():
        yield f"setting {name}", value, used.settings.get(name)
    if method.samples:
        yield "sigma", record.terms.sigma, sigma
        yield "noise", record.terms.noise, smoothed.noise.spelling
        yield "noise", record.terms.noise_words, smoothed.noise.words(smoothed.sigma)
    yield "own code", sorted(set(record.method.own_code.values())), sorted(set(used.own_code.values()))
    yield from _of_models(record.model, model_record(loaded, smoothed))


def _of_models(then: ModelRecord, now: ModelRecord) -> Iterator[tuple[str, Any, Any]]:
    """Name, recorded value and present value of each property of a network, except its path and its device."""
    for what, one, other in (("model", then, now), ("denoiser", then.denoiser, now.denoiser)):
        if one is None or other is None:
            yield what, one and one.name, other and other.name
        elif one.weights_hash is None and other.weights_hash is None:  # no torch module: its name is all that is known
            yield what, one.name, other.name
        else:
            yield f"hash of the weights of the {what}", one.weights_hash, other.weights_hash
    yield "hash of the code of the model", then.code_hash, now.code_hash
    yield "normalisation", then.normalisation, now.normalisation
    yield "precision", then.precision, now.precision


def calibrated_on(record: ClassifierRecord, data: Dataset, selection: Selection) -> int:
    """Count the inputs of a selection that a classifier was calibrated on.

    Certificates of such inputs hold, since calibration draws its own noise. But an average over them does not estimate
    the average over new inputs, since the settings were fitted to these inputs.

    Args:
        record: the record of a classifier.
        data: the data set.
        selection: the inputs to count.

    Returns:
        The number of inputs. The docstring of ``lvmrs.runs`` has an example.
    """
    checks.instance("record", record, ClassifierRecord, "a ClassifierRecord")
    checks.instance("data", data, Dataset, "a Dataset, as lvmrs.data.load gives it")
    checks.instance("selection", selection, Selection, "a Selection")
    found = record.calibration
    # The hash is compared last, since computing it may read all of the data.
    if found is None or found.selection.size != len(data) or found.data.hash != data.fingerprint():
        return 0
    return int(found.selection.has(np.array(selection.indices, np.int64)).sum())
