"""From options to objects: methods, goals, workers, models with data, and classifiers on record.

A name may be one of ours or, where it is typed on the command line, ``python:MODULE:NAME`` for the user's own code.
"""

from __future__ import annotations

import math
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

from lvmrs._util.settings import member_names, parse_name
from lvmrs._util.user_code import called, imported
from lvmrs.cli import options
from lvmrs.cli.console import tell
from lvmrs.cli.options import EXECUTION, INPUTS, METHOD, MODEL, SAMPLES, option
from lvmrs.errors import DataError, InvalidArgumentError, ModelError
from lvmrs.kernel import checks
from lvmrs.record import ClassifierRecord, Run, Selection
from lvmrs.registry import BOUNDS, DATA, DENOISERS, FORMS, MAPS, METHODS, MODELS, NOISES, Names, noise_named

# Verbs import this module, and torch takes seconds to import: the functions here import what needs it.
if TYPE_CHECKING:
    from lvmrs.data.base import Dataset
    from lvmrs.kernel.method import Goal, Method
    from lvmrs.models.load import Loaded
    from lvmrs.runs.workers.base import Workers
    from lvmrs.smoothed import SmoothedClassifier

OWN = "python:"
"""Begins the name of a part that is the user's own code."""


def own_code(word: str) -> Any:
    """Import the object that ``python:MODULE:NAME`` names."""
    return imported(word, word.removeprefix(OWN), error=InvalidArgumentError)


def whole_class(word: str, named: object, base: type, kind: str, home: str) -> type:
    """Return the user's class; raises if it is not derived from ``base`` or lacks a method."""
    if not isinstance(named, type) or not issubclass(named, base):
        raise InvalidArgumentError(f"{word} is not a class derived from {kind}; see {home}")
    if missing := sorted(getattr(named, "__abstractmethods__", ())):
        raise InvalidArgumentError(f"{word} has no method {missing[0]}; write it: see {home}")
    return named


def known_name(names: Names, word: str | None) -> str | None:
    """Return a name that the table has, after adding a class of the user's own to it; None stays None."""
    if word is None:
        return None
    if word.startswith(OWN):
        name: str = names.add(own_code(word)).name
        return name
    names.find(word)
    return word


def _chosen_noise(word: str) -> Any:
    if not word.startswith(OWN):
        return noise_named(word)
    return called(word, NOISES.find(known_name(NOISES, word)), error=InvalidArgumentError)


_READERS: dict[str, Callable[[Any], Any]] = {
    "bound": partial(known_name, BOUNDS),
    "map": partial(known_name, MAPS),
    "form": partial(known_name, FORMS),
    "width": options.width,
}


def chosen_method(method: str | None, **choices: Any) -> Method | None:
    """Make a method of certifying with these choices; None if the user typed nothing.

    Without a method, ``width`` alone means duels, and any other choice means ``lvm``. ``python:MODULE:NAME`` names a
    class of the user's own, or a function that makes such an object.
    """
    from lvmrs.kernel.method import Method
    from lvmrs.planners import settings as method_settings

    given = [name for name, word in choices.items() if word is not None]
    if method is None and not given:
        return None
    if method is None:
        method = "duels" if given == ["width"] else "lvm"
    choices = {name: _READERS[name](word) if name in _READERS else word for name, word in choices.items()}
    if not method.startswith(OWN):
        return method_settings.method(method, **choices)
    named = own_code(method)
    if isinstance(named, type):
        whole = whole_class(method, named, Method, "Planner", "lvmrs.planners")
        named = partial(method_settings.method, whole, **choices)
    elif given:
        raise InvalidArgumentError(f"{given[0]} cannot be chosen with method {method}; choose it in that function")
    made = called(method, named, error=InvalidArgumentError) if callable(named) else named
    if not isinstance(made, Method):
        raise InvalidArgumentError(f"{method} is {type(made).__name__}, not a planner; see lvmrs.planners")
    return made


@dataclass(frozen=True)
class MethodOptions(options.Group):
    """A method and its settings."""

    method: Annotated[str | None, option(METHOD, f"How to certify: {METHODS.listed}, or python:MODULE:PLANNER.")] = None
    bound: Annotated[
        str | None,
        option(METHOD, f"Confidence bound: {BOUNDS.listed}, or python:MODULE:BOUND. Default: the method's own."),
    ] = None
    map: options.Map = None
    temperature: options.Temperature = None
    mass: options.Mass = None
    form: Annotated[
        str | None, option(METHOD, f"Form of the radius, for method fixed: {FORMS.listed}, or python:MODULE:FORM.")
    ] = None
    width: Annotated[
        str | None,
        option(
            METHOD,
            "Width of soft duels: a number, or chosen, for each input. Default: hard duels.",
            check=options.width,
        ),
    ] = None

    def __post_init__(self) -> None:
        tables = {METHODS: self.method, BOUNDS: self.bound, MAPS: self.map, FORMS: self.form}
        for names, word in tables.items():
            if word is not None and not word.startswith(OWN):
                names.check(word)

    def chosen(self) -> Method | None:
        """Make the method; None if the user typed nothing."""
        return chosen_method(**{name: word for name, word in vars(self).items() if name != "typed"})


def check_no_bound(bound: str | None) -> None:
    """Refuse a bound that was typed where sampling stops at a goal."""
    if bound is not None:
        raise InvalidArgumentError(
            "bound has no effect where sampling stops at a goal, which needs bounds that hold at any time; leave it out"
        )


@dataclass(frozen=True)
class GoalOptions(options.Group):
    """When to stop sampling."""

    target_radius: Annotated[
        str | None,
        option(
            SAMPLES,
            "Sample an input until it is decided whether this radius can be certified; commas separate several radii.",
        ),
    ] = None
    tolerance: Annotated[
        float | None,
        option(
            SAMPLES, "Sample an input until its radius is this close to what infinitely many samples could certify."
        ),
    ] = None
    budget: Annotated[
        int | None,
        option(
            SAMPLES, "Samples for all inputs together, allocated to increase the average radius of right answers most."
        ),
    ] = None
    beta: Annotated[
        float | None,
        option(
            SAMPLES,
            "With --target-radius or --tolerance: the probability that the radius of the exact means exceeds its "
            "upper limit. Default: 0.001.",
        ),
    ] = None

    def chosen(self, bound: str | None) -> Goal | None:
        """Make the goal; None if every input takes all n samples. Refuses options without effect."""
        from lvmrs.kernel.method import Goal

        if all(given is None for given in (self.target_radius, self.tolerance, self.budget)):
            if self.beta is not None:
                raise InvalidArgumentError("beta has no effect without a goal such as a target radius; leave it out")
            return None
        targets = tuple(options.numbers("target-radius", self.target_radius) or ())
        risk = {} if self.beta is None else {"beta": self.beta}
        goal = Goal(targets, self.tolerance, budget=self.budget, **risk)
        if not goal.limited:
            check_no_bound(bound)
        elif self.beta is not None:
            raise InvalidArgumentError(
                "beta has no effect where numbers of samples are planned before; leave it out, or give a target radius"
            )
        return goal


def chosen_workers(
    ray: str | None,
    workers: int | None,
    cpus: int | None = None,
    gpus: float | None = None,
    *,
    device: str = "cpu",
    several: bool = False,
    usual: int = 1,
) -> Workers:
    """Make the workers: this process, processes of this machine, or a Ray cluster.

    Args:
        ray: address of a Ray cluster; None for this machine.
        workers: number of workers; None for the usual number.
        cpus: cores of each worker, on Ray.
        gpus: GPUs of each worker, on Ray; by default one if the model runs on a GPU.
        device: the device of the model.
        several: whether all GPUs of this machine may be used if no option about workers was typed.
        usual: default number of processes, which start only if this process would take long.
    """
    from torch import cuda

    from lvmrs.runs.workers import Deferred, Here, Processes, Ray

    if several and (ray, workers, cpus, gpus) == (None, None, None, None):
        on_gpus = Processes.on_all_gpus()
        if on_gpus is not None:
            tell(f"gpus   {on_gpus.size}: a process on each; --device cuda uses a single GPU")
            return on_gpus
    if ray is not None:
        on_gpu = cuda.is_available() if device == "auto" else device.startswith("cuda")
        address, each = None if ray == options.ANY else ray, float(on_gpu) if gpus is None else gpus
        return Ray(address, workers=workers, cpus=1 if cpus is None else cpus, gpus=each)
    for name, value in (("cpus-per-worker", cpus), ("gpus-per-worker", gpus)):
        if value is not None:
            raise InvalidArgumentError(f"{name} has no effect without ray; leave it out")
    number = usual if workers is None else workers
    if number == 1:
        return Here()
    return Processes(number) if workers is not None else Deferred(Processes(number))


@dataclass(frozen=True)
class WorkerOptions(options.Group):
    """Which processes run the model."""

    ray: options.RayAddress = None
    workers: options.WorkerCount = None
    cpus_per_worker: options.CpusPerWorker = None
    gpus_per_worker: Annotated[
        float | None, option(EXECUTION, "With --ray: GPUs of a worker. Default: 1 if the model runs on a GPU.")
    ] = None

    def chosen(self, device: str, *, typed: str | None, several: bool) -> Workers:
        """Make the workers for a model on ``device``; the user typed ``typed`` for that.

        ``several`` says whether all GPUs of this machine may be used.
        """
        if self.gpus_per_worker and typed == "cpu":
            raise InvalidArgumentError("gpus-per-worker has no effect: the model runs on the cpu; leave it out")
        given = (self.ray, self.workers, self.cpus_per_worker, self.gpus_per_worker)
        return chosen_workers(*given, device=device, several=several)


def offline_without_hub() -> None:
    """Let libraries of Hugging Face use cached files alone if their hub has no address here.

    Otherwise they try to reach it for half a minute. They read the variable when they are imported.
    """
    if "HF_HUB_OFFLINE" in os.environ:
        return  # set by the user, or for another model of this command
    if any(f"{kind}_proxy" in map(str.lower, os.environ) for kind in ("http", "https", "all")):
        return  # the proxy looks addresses up
    host = urlsplit(os.environ.get("HF_ENDPOINT", "https://huggingface.co")).hostname
    try:
        socket.getaddrinfo(host, None)
    except OSError:
        os.environ["HF_HUB_OFFLINE"] = "1"


_NO_SIGMA = "sigma must be given: the standard deviation of the noise"
# Options that affect only samples under noise.
_OF_SAMPLES = ("noise", "alpha", "n0", "n", "seed", "batch", "fast")


@dataclass(frozen=True)
class Setup(options.Group):
    """A model, data and noise."""

    model: options.Model
    data: options.Data
    sigma: Annotated[
        float | None,
        option(
            SAMPLES,
            f"{options.SIGMA} Required by every method that samples.",
            check=partial(checks.positive_number, "sigma"),
        ),
    ] = None
    weights: options.Weights = None
    mean: options.Mean = None
    std: options.Std = None
    denoiser: Annotated[str | None, option(MODEL, f"Denoiser before the model: {DENOISERS.listed}.")] = None
    lipschitz: Annotated[
        float | None,
        option(
            MODEL,
            "Lipschitz constant of the logits, for pixels in [0, 1]. Default: the model's own, if it has one.",
            check=options.positive("lipschitz", infinite=True),
        ),
    ] = None
    split: options.Split = "test"
    image_size: options.ImageSize = None
    class_index: options.ClassIndex = None
    skip: Annotated[int, option(INPUTS, "Take every K-th input.", metavar="K", check=options.at_least("skip", 1))] = 1
    max: Annotated[
        int | None, option(INPUTS, "Stop before this index of the data set.", check=options.at_least("max", 1))
    ] = None
    noise: Annotated[
        str | None,
        option(
            SAMPLES,
            f"Kind of noise: {NOISES.listed}, exact:LEVELS, or python:MODULE:NOISE. Default: exact for data on a grid, "
            "such as 8-bit images, unless a Lipschitz constant is used.",
        ),
    ] = None
    seed: Annotated[int, option(SAMPLES, "Seed of the noise.", check=partial(checks.seed, "seed"))] = 0
    device: options.Device = "auto"
    batch: Annotated[int | None, option(EXECUTION, "Samples in a batch. Default: found by trials.")] = None
    fast: Annotated[
        bool, option(EXECUTION, "Run a faster version of the model, where that is shown to be equivalent.")
    ] = True
    precision: Annotated[
        str | None,
        option(
            EXECUTION,
            "float32 (default), bfloat16 or float16: what is certified is the network in that type.",
            check=options.check_precision,
        ),
    ] = None

    def __post_init__(self) -> None:
        parse_name(DATA, self.data, Path.cwd(), error=DataError)
        models = self._models()
        for model in models:
            parse_name(MODELS, model, Path.cwd(), error=ModelError)
        if self.denoiser is not None:
            parse_name(DENOISERS, self.denoiser, Path.cwd(), error=ModelError)
        if self.noise is not None and not self.noise.startswith(OWN):
            NOISES.check(self.noise.partition(":")[0], argument="noise")
        options.check_both(self.mean, self.std)
        named = [(MODELS, member) for model in models for member in member_names(MODELS, model)]
        named += [(DATA, self.data), (DENOISERS, self.denoiser or "")]
        if {"hf", "diffusion", "timm"} & {names.extra_of(word.partition(":")[0]) for names, word in named}:
            offline_without_hub()

    @property
    def is_routed(self) -> bool:
        """Whether the model is a routed classifier, which ``load`` refuses."""
        return self.model.partition(":")[0] in MODELS.having("routed")

    def _models(self) -> list[str]:
        return [self.model]

    def check_sigma(self, method: str | None, *records: Path | None) -> None:
        """Refuse a missing sigma before torch is imported, as far as the name of the method tells that it is needed."""
        samples = method is None or (method in METHODS and method not in METHODS.having("without_samples"))
        needed = (samples or self.denoiser is not None) and not self.is_routed  # which has a sigma for each network
        if self.sigma is None and needed and all(each is None for each in records):
            raise InvalidArgumentError(_NO_SIGMA)

    def load(
        self,
        method: Method | None = None,
        *,
        compiled: bool | None = None,
        elsewhere: bool = False,
        dataset: Dataset | None = None,
    ) -> tuple[Loaded, Dataset, SmoothedClassifier]:
        """Load the model and the data, and print what is assumed about them. Refuses options without effect.

        Args:
            method: the method; None for one that samples.
            compiled: whether to compile the model; None to find out whether that pays.
            elsewhere: whether only workers run the model, so that this machine needs no such device.
            dataset: the data, if they were loaded before.
        """
        import torch
        from torch import nn

        from lvmrs._util import machine
        from lvmrs.data.load import load as load_data
        from lvmrs.kernel.exact_noise import suited_noise
        from lvmrs.models.lipschitz.stated import known_lipschitz
        from lvmrs.models.load import load as load_model
        from lvmrs.smoothed import SmoothedClassifier

        if self.is_routed:
            load_model(self.model)  # refuses it, and says what to do
        self._refuse_without_effect(method)
        # Refuse what cannot be used before loading anything.
        device = torch.device("cpu") if elsewhere else machine.device_to_run_on(self.device)
        is_new = dataset is None
        if dataset is None:
            dataset = load_data(self.data, split=self.split, size=self.image_size, class_index=self.class_index)
        if not dataset.divided:
            self.refuse(("split",), f"{self.data} is not divided into splits")
        loaded = load_model(
            self.model,
            weights=self.weights,
            mean=options.numbers("mean", self.mean),
            std=options.numbers("std", self.std),
            denoiser=self.denoiser,
            sigma=self.sigma or 0.0,
        )
        if isinstance(loaded.model, nn.Module):
            loaded.model.to(device)
        own = known_lipschitz(loaded.model)
        constant = own if self.lipschitz is None else self.lipschitz
        smoothed = SmoothedClassifier(
            loaded.model,
            self.sigma,
            self.lipschitz,
            batch=self.batch,
            device=device,
            precision=self.precision,
            compile=compiled,
            fast=self.fast,
            noise=suited_noise(dataset.levels, constant) if self.noise is None else _chosen_noise(self.noise),
        )
        tell(f"model  {'; '.join((loaded.name, *loaded.assumed))}")
        if math.isfinite(smoothed.lipschitz):
            told = "" if self.lipschitz is None else ", as given" + (f" (the model says {own:g})" if own else "")
            tell(f"lipschitz {smoothed.lipschitz:g}{told}")
        part = f"{dataset.split if dataset.divided else 'not divided into splits'}, {len(dataset)} inputs"
        if is_new:
            tell(f"data   {'; '.join((dataset.name, part, *dataset.assumed))}")
        if method is None or method.samples:
            if smoothed.noise.rounds:
                self.refuse(("lipschitz",), f"{smoothed.noise.name} noise rounds inputs, which leaves no constant")
            tell(f"noise  {smoothed.noise.spelling}: {smoothed.noise.words(smoothed.sigma)}")
        return loaded, dataset, smoothed

    def _refuse_without_effect(self, method: Method | None) -> None:
        samples = method is None or method.samples
        if self.sigma is None and (samples or self.denoiser is not None):
            raise InvalidArgumentError(_NO_SIGMA)
        if not samples:
            names = _OF_SAMPLES if self.denoiser is not None else ("sigma", *_OF_SAMPLES)
            self.refuse(names, "this method takes no samples under noise")
        if method is not None and not method.uses_constant:
            self.refuse(("lipschitz",), f"{type(method).__name__} does not use a Lipschitz constant as it is set")
        members = member_names(MODELS, self.model) if self.denoiser is None else []
        if foreign := [each for each in members if each.partition(":")[0] in MODELS.having("foreign")]:
            self.refuse(("precision", "compile", "fast"), f"{foreign[0]} is not run by torch")

    def selection(self, dataset: Dataset, shard: tuple[int, int] = (1, 1)) -> Selection:
        """Select the inputs that the options name."""
        return Selection(len(dataset), self.skip, self.max, *shard)


def load_as_recorded(
    setup: Setup, typed: Method | None, settings: Path | None, like: Path | None = None, **running: Any
) -> tuple[Method | None, Loaded, Dataset, SmoothedClassifier]:
    """Load model, data and method; with ``--settings FILE`` or ``--like RUN``, those of the classifier on record.

    Method and settings, σ, noise, Lipschitz constant and precision come from the record unless they are typed, and must
    agree with it if they are. The model, its denoiser and all code must be typed, and are compared by their hashes.
    Without a record, this is ``Setup.load``, which takes the arguments ``running``.
    """
    if settings is not None and like is not None:
        raise InvalidArgumentError("settings and like both define the classifier; give one of them")
    if settings is not None:
        where, record = settings, ClassifierRecord.read(settings)
    elif like is not None:
        where, record = like, ClassifierRecord.of_run(Run(like).manifest)
    else:
        return typed, *setup.load(typed, **running)
    from lvmrs.data.base import checked_input
    from lvmrs.runs.calibrate import calibrated_on, check_same_classifier, recorded_method

    method = recorded_method(record, str(where)) if typed is None else typed
    known = record.terms
    if "noise" not in setup.typed and known.noise.partition(":")[0] not in NOISES:
        raise InvalidArgumentError(
            f"{where} was made with {known.noise} noise, which does not come with lvmrs; give it with --noise"
        )
    setup = replace(
        setup,
        sigma=known.sigma if setup.sigma is None else setup.sigma,
        noise=setup.noise if "noise" in setup.typed else known.noise,
        lipschitz=known.lipschitz if setup.lipschitz is None and method.uses_constant else setup.lipschitz,
        precision=record.model.precision if setup.precision is None else setup.precision,
    )
    loaded, dataset, smoothed = setup.load(method, **running)
    if smoothed.precision is not None and not running.get("elsewhere"):
        smoothed.answer(checked_input(dataset, setup.selection(dataset).indices[0])[0])  # casts the network, or cannot
    if known.rounding is not None:
        smoothed.rounding.settled = known.rounding
    check_same_classifier(record, str(where), loaded, smoothed, method)
    if fitted := calibrated_on(record, dataset, setup.selection(dataset)):
        tell(
            f"caution: {where} was calibrated on {fitted} of these inputs; each certificate holds, but averages over "
            "them are too good for new inputs"
        )
    return method, loaded, dataset, smoothed
