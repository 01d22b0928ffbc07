"""Makes the records of the method, the model and the data of a job."""

from __future__ import annotations

from lvmrs.data import Dataset
from lvmrs.errors import InvalidArgumentError, guarded
from lvmrs.kernel.method import Method
from lvmrs.kernel.noise import Noise
from lvmrs.models import Denoised, Loaded, Preprocessed
from lvmrs.planners import settings as method_settings
from lvmrs.record.manifest import DataRecord, DenoiserRecord, MethodRecord, ModelRecord
from lvmrs.smoothed import SmoothedClassifier

__all__ = ["data_record", "method_record", "model_record"]


def method_record(method: Method, noise: Noise, sigma: float | None) -> MethodRecord:
    """The record of a method: its settings, and the classifier that its certificates are about.

    ``sigma`` is None for a method without noise.
    """
    name = type(method).__name__
    with guarded(f"the settings and words of {name} and {noise.name} noise fail", error=InvalidArgumentError):
        return MethodRecord(
            name=name,
            settings=method_settings.settings(method),
            own_code=method_settings.own_code(method, noise),
            scope=method.scope,
            classifier=method.classifier("no noise" if sigma is None else noise.words(sigma)),
        )


def model_record(loaded: Loaded, smoothed: SmoothedClassifier) -> ModelRecord:
    """The record of a model and of the settings with which the smoothed classifier runs it."""
    inner = loaded.model.classifier if isinstance(loaded.model, Denoised) else loaded.model
    known = loaded.facts.denoiser
    return ModelRecord(
        name=loaded.name,
        weights_hash=loaded.fingerprint,
        code_hash=loaded.code,
        normalisation=inner.normalisation if isinstance(inner, Preprocessed) else None,
        denoiser=None if known is None else DenoiserRecord(known.name, loaded.denoiser_fingerprint),
        facts=loaded.facts,
        compiled=bool(smoothed.compiled),
        device=smoothed.kind_of_device,
        precision=None if smoothed.autocast is None else str(smoothed.autocast).removeprefix("torch."),
    )


def data_record(data: Dataset) -> DataRecord:
    """The record of a data set."""
    return DataRecord(
        split=data.split,
        name=data.name,
        hash=data.fingerprint(),
        image_size=None if data.data_source is None else data.data_source.size,
        facts=data.facts,
        classes=None if data.classes is None else list(data.classes),
    )
