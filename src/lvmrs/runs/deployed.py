"""A classifier that was certified or calibrated: its method from its record, and a check that the rest is the same.

The record is data: it names no code that is run. Whoever uses it loads the network, gives its noise if that is their
own, and is told what differs from the record.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from lvmrs.data import Dataset
from lvmrs.errors import InvalidArgumentError, LvmrsError, RunError, guarded, shown
from lvmrs.kernel import checks
from lvmrs.kernel.method import Method
from lvmrs.models import Loaded
from lvmrs.planners import settings as method_settings
from lvmrs.planners.requirements import check_one_classifier
from lvmrs.record import Selection
from lvmrs.record.classifier import ClassifierRecord
from lvmrs.record.manifest import ModelRecord
from lvmrs.runs.recorded import method_record, model_record
from lvmrs.smoothed import SmoothedClassifier

__all__ = ["calibrated_on", "check_same_classifier", "recorded_method"]


def recorded_method(record: ClassifierRecord, where: str) -> Method:
    """Make the method of a record, which must have one map for all inputs.

    Args:
        record: the record of a classifier.
        where: what the record was read from, for errors.

    Returns:
        The method, with all its settings. A method of the user's own is refused: a file names no code to be run.

    >>> from lvmrs.record.manifest import MethodRecord, ModelRecord, TermsRecord
    >>> terms = TermsRecord(sigma=0.5, alpha=0.001, n0=100, n=1000)
    >>> recorded_method(ClassifierRecord(ModelRecord("mine"), MethodRecord("Duels", {"width": 2.5}), terms), "runs/a")
    Duels(width=2.5)
    """
    checks.instance("record", record, ClassifierRecord, "a ClassifierRecord")
    known = record.method
    if known.own_code:
        raise InvalidArgumentError(
            f"{where} was made with code of your own ({', '.join(known.own_code)}), which a file must not name to be "
            "run; choose the method with its settings, and the noise, yourself"
        )
    try:
        with guarded("its settings do not fit", error=RunError):
            method = method_settings.made_again(known.name, known.settings)
            made = method_settings.settings(method)
    except LvmrsError as error:
        raise RunError(f"{where} has a method that cannot be made again: {error}") from error
    if any(made[name] != value for name, value in known.settings.items()):
        raise RunError(f"{where} is damaged: the settings of {known.name} would be read as others than they are")
    check_one_classifier(method)
    return method


def check_same_classifier(
    record: ClassifierRecord, where: str, loaded: Loaded, smoothed: SmoothedClassifier, method: Method
) -> None:
    """Refuse a network, noise, σ or method that is not that of a record.

    Args:
        record: the record of a classifier.
        where: what the record was read from, for errors.
        loaded: the model.
        smoothed: the smoothed classifier that was made of it.
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
                "give the same, or say without that record which classifier you want"
            )


def _compared(
    record: ClassifierRecord, loaded: Loaded, smoothed: SmoothedClassifier, method: Method
) -> Iterator[tuple[str, Any, Any]]:
    """What makes a classifier, as it was recorded and as it is here, the first difference first."""
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
    """What makes a network: not where it lies, nor the device that it runs on."""
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
    """How many inputs of a selection the settings of a record were calibrated on.

    Certificates of such inputs hold, since calibration has noise of its own. But an average over them is no estimate
    for new inputs, which the settings were not fitted to.

    Args:
        record: the record of a classifier.
        data: the data set.
        selection: which of its inputs.

    Returns:
        The number of these inputs. The docstring of ``lvmrs.runs`` has an example.
    """
    checks.instance("record", record, ClassifierRecord, "a ClassifierRecord")
    checks.instance("data", data, Dataset, "a Dataset, as lvmrs.data.load gives it")
    checks.instance("selection", selection, Selection, "a Selection")
    found = record.calibration
    # The hash is compared last: it may take reading all of the data.
    if found is None or found.selection.size != len(data) or found.data.hash != data.fingerprint():
        return 0
    return int(found.selection.has(np.array(selection.indices, np.int64)).sum())
