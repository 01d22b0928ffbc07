"""Rebuilds the job of a run from its manifest: the same model, data, method, noise and samples.

A run may come from someone else. Files that the manifest names are loaded only if loading merely reads data; the caller
must name everything that could run code (docs/security.md). The hashes in the manifest are compared with the loaded
model, data and code.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import nn

from lvmrs import data as data_sets
from lvmrs import models
from lvmrs._util import machine
from lvmrs.data import Dataset
from lvmrs.engine.way import Way
from lvmrs.errors import InvalidArgumentError, RunError
from lvmrs.kernel import checks
from lvmrs.kernel.method import Method
from lvmrs.models import Loaded
from lvmrs.planners import settings as method_settings
from lvmrs.record import Manifest, Run
from lvmrs.record.manifest import ModelRecord, why_not_data, why_not_network
from lvmrs.registry import BOUNDS, DENOISERS, FORMS, MAPS, METHODS, MODELS, NOISES, noise_named
from lvmrs.runs.job import Job, Sampling
from lvmrs.smoothed import SmoothedClassifier


class NotNamedError(InvalidArgumentError):
    """The caller must name a part that a run must not choose."""

    def __init__(self, sentence: str, argument: str, recorded: str | None = None) -> None:
        super().__init__(sentence)
        self.argument = argument
        """The argument to give."""
        self.recorded = recorded
        """The value in the manifest, which is not trusted; None if the manifest has none."""


class ChangedError(RunError):
    """The loaded model, data, code or settings differ from those of the run."""

    def __init__(self, run: Run, changed: list[str], advice: str = "") -> None:
        self.changed = changed
        """The differences, one phrase each."""
        super().__init__(f"{run.directory} was made with other files or settings: {'; '.join(changed)}{advice}")


def job_of_run(
    run: Run,
    *,
    model: str | Loaded | None = None,
    weights: str | Path | None = None,
    denoiser: str | None = None,
    data: str | Dataset | None = None,
    class_index: str | Path | None = None,
    method: Method | type[Method] | None = None,
    batch: int | None = None,
    device: str | None = None,
) -> Job:
    """Rebuild the job of a run from its manifest.

    Arguments that are left out are read from the manifest if loading them merely reads files; otherwise a
    ``NotNamedError`` names the missing argument. Your own maps, bounds, forms and noises must be registered
    (``lvmrs.registry.MAPS.add``).

    Args:
        run: the run.
        model: the model, by name or loaded; required if it is code or if its file was moved.
        weights: the file of weights that was loaded into the model; manifests record its hash, not its path.
        denoiser: the name of the denoiser; required if it is code or if its file was moved.
        data: the data set, by name or loaded; required if it is code or if its files were moved.
        class_index: the class index file of the data, if labels come from one; requires ``data``.
        method: the method, if it is your own: an object, or a class, which gets the settings in the manifest.
        batch: samples in a forward pass; by default that of the run.
        device: the device to run on; by default the kind of device that the run used. If this machine has none, and
            rows may be made on any, "auto".

    Returns:
        The job. Raises a ``ChangedError`` if weights, data, code or settings differ from those of the run. The
        docstring of ``lvmrs.runs`` has an example.
    """
    checks.instance("run", run, Run, "a lvmrs.Run")
    old = run.manifest
    old.check_not_routed(run.directory)
    if old.origin.imported is not None:
        raise RunError(f"{run.directory} was imported from another project's file, and no job of lvmrs made it")
    if old.terms.noise.partition(":")[0] not in NOISES:
        raise NotNamedError(_own("noise", old.terms.noise, old.method.own_code), "noise")
    noise = noise_named(old.terms.noise)
    chosen = _method(old, method)
    dataset = _data(run, data, class_index)
    loaded = _model(old, model, weights, denoiser)
    recorded = old.model.device or "auto"
    if device is None and old.any_device and not machine.has(recorded):
        device = "auto"
    place = machine.device_to_run_on(recorded if device is None else device)
    if isinstance(loaded.model, nn.Module):
        loaded.model.to(place)
    terms = old.terms
    smoothed = SmoothedClassifier(
        loaded.model,
        terms.sigma,
        math.inf if terms.lipschitz is None else terms.lipschitz,
        device=place,
        precision=old.model.precision,
        compile=old.model.compiled or None,
        way=old.running if old.running is None or batch is None else replace(old.running, batch=batch),
        batch=batch,
        noise=noise,
        rounding=terms.rounding,
    )
    samples = {name: getattr(terms, name) for name in ("alpha", "n0", "n", "goal")} if terms.samples else {}
    job = Job(loaded, dataset, smoothed, chosen, Sampling(**samples, seed=terms.seed or 0), old.selection)
    if changed := differences(run, job):
        lost = weights is None and any("weights" in what for what in changed)
        raise ChangedError(run, changed, "; if its weights were from a file, name that file" if lost else "")
    return job


def differences(run: Run, job: Job, *, verifying: bool = False) -> list[str]:
    """List the differences between a run and a job that affect rows, one phrase each.

    Names of models and denoisers are not compared, since files may be moved; their hashes are. Settings that affect at
    most the last digits are not compared either: the version of torch, the kind of device, whether scores are kept, and
    the version of lvmrs that defines the rows. ``verifying`` also compares values that affect no row but appear in
    reports, such as the text of the classifier.
    """
    old = run.manifest
    now = job.manifest(old.running or Way(1))
    same = {name: getattr(old, name) for name in ("keeps_scores", "rows_of", "torch")}
    return old.difference(replace(now, **same, model=_as_named(now.model, old.model)), verifying=verifying)


def _as_named(now: ModelRecord, old: ModelRecord) -> ModelRecord:
    """Replace the names and the device in a model record by those of another record."""
    denoiser, facts = now.denoiser, now.facts
    if denoiser is not None and old.denoiser is not None:
        denoiser = replace(denoiser, name=old.denoiser.name)
        if facts is not None and facts.denoiser is not None:
            facts = replace(facts, denoiser=replace(facts.denoiser, name=old.denoiser.name))
    return replace(now, name=old.name, device=old.device, denoiser=denoiser, facts=facts)


def _model(old: Manifest, model: str | Loaded | None, weights: str | Path | None, denoiser: str | None) -> Loaded:
    if isinstance(model, Loaded):
        if (weights, denoiser) != (None, None):
            raise InvalidArgumentError("weights and denoiser go with the name of a model, and model is loaded already")
        return model
    made = old.model
    if model is None and (why_not := why_not_network(MODELS, made)) is not None:
        raise NotNamedError(why_not, "model", made.name)
    had_weights = made.facts is not None and not made.facts.random_weights
    if model is None and weights is None and made.name.startswith("ready:") and had_weights:
        raise NotNamedError(
            f"the run loaded weights into {made.name:.200} from a file whose path it has not recorded; name that file",
            "weights",
        )
    if denoiser is None and made.denoiser is not None:
        if (why_not := why_not_network(DENOISERS, made.denoiser)) is not None:
            raise NotNamedError(why_not, "denoiser", made.denoiser.name)
        denoiser = made.denoiser.name
    mean, std = None, None
    if made.facts is not None and made.facts.normalised_by == "given":
        mean, std = made.facts.mean, made.facts.std
    name, sigma = made.name if model is None else model, old.terms.sigma or 0.0
    return models.load(name, weights=weights, mean=mean, std=std, denoiser=denoiser, sigma=sigma)


def _data(run: Run, data: str | Dataset | None, class_index: str | Path | None) -> Dataset:
    made = run.manifest.data
    if data is None:
        if class_index is not None:
            raise InvalidArgumentError("class_index goes with data; name the data, too")
        if (why_not := why_not_data(made)) is not None or made.name is None:
            unnamed = "the run does not record its data; name the data set"
            raise NotNamedError(why_not or unnamed, "data", made.name)
    dataset = data
    if not isinstance(dataset, Dataset):
        name = made.name if data is None else data
        dataset = data_sets.load(str(name), split=made.split, size=made.image_size, class_index=class_index)
    if made.hash is not None and dataset.fingerprint() != made.hash:  # before the numbers of inputs are compared
        raise ChangedError(run, [f'data hash: "{made.hash:.70}", now "{dataset.fingerprint():.70}"'])
    return dataset


def _method(old: Manifest, method: Method | type[Method] | None) -> Method:
    made = old.method
    if isinstance(method, type) and issubclass(method, Method):
        return method_settings.method(method, **made.settings)
    if method is not None:
        checks.instance("method", method, Method, "a method such as Duels()")
        return method
    known = {METHODS.find(name).__name__ for name in METHODS}
    if made.name not in known or any(own.rpartition(".")[2] == made.name for own in made.own_code):
        raise NotNamedError(_own("method", made.name, made.own_code), "method")
    for names in (MAPS, BOUNDS, FORMS):
        for part in _words(made.settings, names.kind):
            if part not in names:
                raise NotNamedError(_own(names.kind, part, made.own_code), names.kind)
    return method_settings.from_record(made.name, made.settings, made.own_code)


def _words(settings: Mapping[str, Any], kind: str) -> Iterator[str]:
    """Names of parts of this kind in the settings of a method."""
    for value in (settings.get(kind), settings.get(f"{kind}s")):
        yield from (word for word in (value if isinstance(value, list) else [value]) if isinstance(word, str))


def _own(kind: str, name: str, own_code: Mapping[str, str]) -> str:
    code = f" (its code is {', '.join(own_code):.200})" if own_code else ""
    return f"the {kind} {name:.80}{code} does not come with lvmrs, and a run must not choose which code runs; name it"
