"""From options to objects: methods, goals, workers, models with data, classifiers on record, and runs that exist.

A name may be one of ours or, where it is typed on the command line, ``python:MODULE:NAME`` for the user's own code.
"""

from __future__ import annotations

import math
import os
import shlex
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lvmrs._util.text import printable
from lvmrs._util.user_code import called, imported
from lvmrs.cli import options
from lvmrs.cli.console import tell
from lvmrs.errors import InvalidArgumentError
from lvmrs.record import ClassifierRecord, Run, Selection
from lvmrs.registry import BOUNDS, FORMS, MAPS, MODELS, NOISES, Names

# Verbs import this module, and torch takes seconds to import: the functions here import what needs it.
if TYPE_CHECKING:
    from lvmrs.data import Dataset
    from lvmrs.kernel.goals import Goal
    from lvmrs.kernel.method import Method
    from lvmrs.kernel.noise import Noise
    from lvmrs.models import Loaded
    from lvmrs.runs import Job
    from lvmrs.runs.workers import Ray, Workers
    from lvmrs.smoothed import SmoothedClassifier
    from lvmrs.training import Objective

__all__ = [
    "OWN", "GoalOptions", "MethodOptions", "Recorded", "RunOptions", "Setup", "WorkerOptions", "check_no_bound",
    "chosen_method", "chosen_noise", "chosen_objective", "chosen_workers", "known_name", "ray_of_this_machine",
    "usual_n0", "with_address",
]  # fmt: skip

OWN = "python:"
"""Begins the name of a part that is the user's own code."""


def _own(word: str) -> Any:
    """Import the object that ``python:MODULE:NAME`` names."""
    return imported(word, word.removeprefix(OWN), error=InvalidArgumentError)


def _whole_class(word: str, named: object, base: type, kind: str, home: str) -> type:
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
        name: str = names.add(_own(word)).name
        return name
    names.find(word, argument=names.kind)
    return word


def chosen_noise(word: str) -> Noise:
    """Make the noise of this name."""
    from lvmrs.registry import noise_named

    if not word.startswith(OWN):
        found: Noise = noise_named(word)
        return found
    made: Noise = called(word, NOISES.find(known_name(NOISES, word), argument="noise"), error=InvalidArgumentError)
    return made


def chosen_objective(name: str, sigma: float, **settings: float | None) -> Objective:
    """Make the training objective of this name; settings that are None keep their defaults."""
    from lvmrs import training

    if not name.startswith(OWN):
        return training.objective(name, sigma, **settings)
    chosen = _whole_class(name, _own(name), training.Objective, "Objective", "lvmrs.training.objectives")
    made: Objective = called(name, partial(training.objective, chosen, sigma, **settings), error=InvalidArgumentError)
    return made


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
    named = _own(method)
    if isinstance(named, type):
        whole = _whole_class(method, named, Method, "Planner", "lvmrs.planners")
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

    method: options.Method = None
    bound: options.Bound = None
    map: options.Map = None
    temperature: options.Temperature = None
    mass: options.Mass = None
    form: options.Form = None
    width: options.Width = None

    def chosen(self) -> Method | None:
        """Make the method; None if the user typed nothing."""
        return chosen_method(
            self.method,
            bound=self.bound,
            map=self.map,
            temperature=self.temperature,
            mass=self.mass,
            form=self.form,
            width=self.width,
        )


# Samples to plan on where sampling stops early: most inputs need few in all.
_FEW = 64
# With a budget: the share of an input's average number of samples to plan on, and the limits of that number.
_SHARE, _LEAST, _MOST = 16, 32, 256


def usual_n0(goal: Goal, inputs: int) -> int:
    """Return the default number of samples to plan on.

    >>> from lvmrs.kernel.goals import Goal
    >>> usual_n0(Goal((0.5,)), 100), usual_n0(Goal(budget=10**6), 100), usual_n0(Goal(budget=10**5), 100)
    (64, 256, 62)
    """
    if goal.budget is None:
        return _FEW
    return min(_MOST, max(_LEAST, goal.budget // max(1, inputs) // _SHARE))


def check_no_bound(bound: str | None) -> None:
    """Refuse a bound that was typed where sampling stops at a goal."""
    if bound is not None:
        raise InvalidArgumentError(
            "bound has no effect where sampling stops at a goal, which needs bounds that hold at any time; leave it out"
        )


@dataclass(frozen=True)
class GoalOptions(options.Group):
    """When to stop sampling."""

    target_radius: options.Targets = None
    tolerance: options.Tolerance = None
    budget: options.Budget = None
    beta: options.Beta = None

    def chosen(self, bound: str | None) -> Goal | None:
        """Make the goal; None if every input takes all n samples. Refuses options without effect."""
        from lvmrs.kernel.goals import Goal

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


_ANY = "auto"


def with_address(words: list[str]) -> list[str]:
    """Give ``--ray`` a value where the command line has none, since typer has no options with an optional value.

    >>> with_address(["certify", "--ray", "--workers", "2"])
    ['certify', '--ray=auto', '--workers', '2']
    """
    after = [*words[1:], "-"][: len(words)]
    return [
        f"--ray={_ANY}" if word == "--ray" and following.startswith("-") else word
        for word, following in zip(words, after, strict=True)
    ]


def _gpus_of_worker(given: float | None, device: str | None) -> float:
    """Number of GPUs of a worker; by default one if the model runs on a GPU."""
    if given is not None:
        return given
    if device in (None, "auto"):
        from torch import cuda

        return float(cuda.is_available())
    return float(device.startswith("cuda"))


def _on_all_gpus() -> Ray | None:
    from torch import cuda

    return ray_of_this_machine(cuda.device_count(), os.cpu_count() or 1, has_ray=find_spec("ray") is not None)


def ray_of_this_machine(gpus: int, cores: int, *, has_ray: bool) -> Ray | None:
    """Ray on this machine with one worker for each GPU; None if it has fewer than two GPUs, or no Ray.

    Args:
        gpus: number of GPUs of the machine.
        cores: number of cores, which workers share.
        has_ray: whether Ray is installed.
    """
    from lvmrs.runs.workers import Ray

    if gpus < 2 or not has_ray:
        return None
    return Ray("local", workers=gpus, cpus=max(1, cores // gpus), gpus=1.0)


def chosen_workers(
    ray: str | None,
    workers: int | None,
    cpus: int | None = None,
    gpus: float | None = None,
    *,
    device: str | None = "cpu",
    several: bool = False,
    usual: int = 1,
) -> Workers:
    """Make the workers: this process, processes of this machine, or a Ray cluster.

    Args:
        ray: address of a Ray cluster; None for this machine.
        workers: number of workers; None for the usual number.
        cpus: cores of each worker, on Ray.
        gpus: GPUs of each worker, on Ray.
        device: the device of the model.
        several: whether all GPUs of this machine may be used if no option about workers was typed.
        usual: default number of processes, which start only if this process would take long.
    """
    from lvmrs.runs.workers import Deferred, Here, Processes, Ray

    if several and (ray, workers, cpus, gpus) == (None, None, None, None) and (found := _on_all_gpus()) is not None:
        tell(f"ray    {found.size} GPUs: starting Ray here with one worker on each; --device cuda uses a single GPU")
        return found
    if ray is not None:
        address = None if ray == _ANY else ray
        return Ray(address, workers=workers, cpus=1 if cpus is None else cpus, gpus=_gpus_of_worker(gpus, device))
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
    gpus_per_worker: options.GpusPerWorker = None

    def chosen(self, device: str, *, typed: str | None, several: bool) -> Workers:
        """Make the workers.

        Args:
            device: the device of the model.
            typed: what the user typed for it.
            several: whether all GPUs of this machine may be used.
        """
        if self.gpus_per_worker and typed == "cpu":
            raise InvalidArgumentError("gpus-per-worker has no effect: the model runs on the cpu; leave it out")
        given = (self.ray, self.workers, self.cpus_per_worker, self.gpus_per_worker)
        return chosen_workers(*given, device=device, several=several)


# Options that affect only samples under noise.
_OF_SAMPLES = ("noise", "alpha", "n0", "n", "seed", "batch", "fast")


@dataclass(frozen=True)
class Setup(options.Group):
    """A model, data and noise."""

    model: options.Model
    data: options.Data
    sigma: options.SigmaIfNoisy = None
    weights: options.Weights = None
    mean: options.Mean = None
    std: options.Std = None
    denoiser: options.Denoiser = None
    lipschitz: options.Lipschitz = None
    split: options.Split = "test"
    image_size: options.ImageSize = None
    class_index: options.ClassIndex = None
    skip: options.Skip = 1
    max: options.Max = None
    noise: options.Noise = None
    seed: options.Seed = 0
    device: options.Device = "auto"
    batch: options.Batch = None
    fast: options.Fast = True
    autocast: options.Autocast = None

    def load(
        self, method: Method | None = None, *, compiled: bool | None = None, elsewhere: bool = False
    ) -> tuple[Loaded, Dataset, SmoothedClassifier]:
        """Load the model and the data, and print what is assumed about them. Refuses options without effect.

        Args:
            method: the method; None for one that samples.
            compiled: whether to compile the model; None to find out whether that pays.
            elsewhere: whether only workers run the model, so that this machine needs no such device.
        """
        import torch
        from torch import nn

        from lvmrs import data, models
        from lvmrs.kernel import checks as _checks
        from lvmrs.kernel import torch_checks as _torch_checks
        from lvmrs.kernel.exact_noise import suited_noise
        from lvmrs.models.lipschitz.stated import known_lipschitz
        from lvmrs.smoothed import SmoothedClassifier

        self._refuse_without_effect(method)
        # Refuse what cannot be used before loading anything.
        device = torch.device("cpu") if elsewhere else _torch_checks.device_to_run_on(self.device)
        dataset = data.load(self.data, split=self.split, size=self.image_size, class_index=self.class_index)
        if not dataset.divided:
            self.refuse(("split",), f"{self.data} is not divided into splits")
        loaded = models.load(
            self.model,
            weights=self.weights,
            mean=options.numbers("mean", self.mean),
            std=options.numbers("std", self.std),
            denoiser=self.denoiser,
            sigma=0.0 if self.sigma is None else _checks.positive_number("sigma", self.sigma),
        )
        if isinstance(loaded.model, nn.Module):
            loaded.model.to(device)
        samples = method is None or method.samples
        own = known_lipschitz(loaded.model)
        constant = own if self.lipschitz is None else self.lipschitz
        smoothed = SmoothedClassifier(
            loaded.model,
            self.sigma,
            self.lipschitz,
            batch=self.batch,
            device=device,
            autocast=_torch_checks.precision(self.autocast),
            compile=compiled,
            fast=self.fast,
            noise=suited_noise(dataset.levels, constant) if self.noise is None else chosen_noise(self.noise),
        )
        tell(f"model  {'; '.join((loaded.name, *loaded.assumed))}")
        if math.isfinite(smoothed.lipschitz):
            told = "" if self.lipschitz is None else ", as given" + (f" (the model says {own:g})" if own else "")
            tell(f"lipschitz {smoothed.lipschitz:g}{told}")
        part = f"{dataset.split if dataset.divided else 'not divided into splits'}, {len(dataset)} inputs"
        tell(f"data   {'; '.join((dataset.name, part, *dataset.assumed))}")
        if samples:
            if smoothed.noise.rounds:
                self.refuse(("lipschitz",), f"{smoothed.noise.name} noise rounds inputs, which leaves no constant")
            tell(f"noise  {smoothed.noise.spelling}: {smoothed.noise.words(smoothed.sigma)}")
        return loaded, dataset, smoothed

    def _refuse_without_effect(self, method: Method | None) -> None:
        samples = method is None or method.samples
        if self.sigma is None and (samples or self.denoiser is not None):
            raise InvalidArgumentError("sigma must be given: the standard deviation of the noise")
        if not samples:
            names = _OF_SAMPLES if self.denoiser is not None else ("sigma", *_OF_SAMPLES)
            self.refuse(names, "this method takes no samples under noise")
        if method is not None and not method.uses_constant:
            self.refuse(("lipschitz",), f"{type(method).__name__} does not use a Lipschitz constant as it is set")
        if self.model.partition(":")[0] in MODELS.having("foreign") and self.denoiser is None:
            self.refuse(("autocast", "compile", "fast"), f"{self.model} is not run by torch")

    def selection(self, dataset: Dataset, shard: tuple[int, int] = (1, 1)) -> Selection:
        """Select the inputs that the options name."""
        return Selection(len(dataset), self.skip, self.max, *shard)


@dataclass(frozen=True)
class Recorded:
    """A classifier that was calibrated (``--settings FILE``) or certified (``--like RUN``).

    Method and settings, σ, noise, Lipschitz constant and precision come from the record unless they are typed, and must
    agree with it if they are. The model, its denoiser and all code must be typed, and are compared by their hashes.
    """

    where: str
    """The file or run that holds the record."""
    record: ClassifierRecord

    @classmethod
    def read(cls, settings: Path | None, like: Path | None = None) -> Recorded | None:
        """Read the record; None if neither is given."""
        if settings is not None and like is not None:
            raise InvalidArgumentError("settings and like both define the classifier; give one of them")
        if settings is not None:
            return cls(str(settings), ClassifierRecord.read(settings))
        return None if like is None else cls(str(like), ClassifierRecord.of_run(Run(like).manifest))

    def method(self, typed: Method | None) -> Method:
        """Return the method that was typed, or else that of the record."""
        from lvmrs.runs import recorded_method

        return recorded_method(self.record, self.where) if typed is None else typed

    def load(self, setup: Setup, method: Method, **running: Any) -> tuple[Loaded, Dataset, SmoothedClassifier]:
        """Load the model and the data with the record's settings; raises if this is another classifier.

        Args:
            setup: the options; those that were not typed are taken from the record.
            method: the method.
            running: the other arguments of ``Setup.load``.
        """
        from lvmrs import runs as jobs

        known = self.record.terms
        if "noise" not in setup.typed and known.noise.partition(":")[0] not in NOISES:
            raise InvalidArgumentError(
                f"{self.where} was made with {known.noise} noise, which does not come with lvmrs; give it with --noise"
            )
        setup = replace(
            setup,
            sigma=known.sigma if setup.sigma is None else setup.sigma,
            noise=setup.noise if "noise" in setup.typed else known.noise,
            lipschitz=known.lipschitz if setup.lipschitz is None and method.uses_constant else setup.lipschitz,
            autocast=self.record.model.precision if setup.autocast is None else setup.autocast,
        )
        loaded, dataset, smoothed = setup.load(method, **running)
        if known.rounding is not None:
            smoothed.rounding.settled = known.rounding
        jobs.check_same_classifier(self.record, self.where, loaded, smoothed, method)
        if fitted := jobs.calibrated_on(self.record, dataset, setup.selection(dataset)):
            tell(
                f"caution: {self.where} was calibrated on {fitted} of these inputs; each certificate holds, but "
                "averages over them are too good for new inputs"
            )
        return loaded, dataset, smoothed


@dataclass(frozen=True)
class RunOptions(options.Group):
    """Parts of a run that moved or that could run code, and the device."""

    model: options.ModelOfRun = None
    weights: options.WeightsOfRun = None
    denoiser: options.DenoiserOfRun = None
    data: options.DataOfRun = None
    class_index: options.ClassIndexOfRun = None
    method: options.MethodOfRun = None
    map: options.MapOfRun = None
    bound: options.BoundOfRun = None
    form: options.FormOfRun = None
    noise: options.NoiseOfRun = None
    device: options.DeviceOfRun = None

    def workers(self, run: Run, chosen: WorkerOptions) -> Workers:
        """Make the workers that compute on the device that was typed, or else on the kind of device of the run."""
        device = self.device or run.manifest.model.device or "auto"
        several = self.device in (None, "auto") and device != "cpu"
        return chosen.chosen(device, typed=self.device, several=several)

    def job(self, run: Run, workers: Workers, *, batch: int | None = None) -> Job:
        """Make the job of the run again, from its manifest and these options."""
        from lvmrs import runs as jobs
        from lvmrs.runs.again import NotNamedError

        used = {name.rpartition(".")[2] for name in run.manifest.method.own_code}
        own = (("map", MAPS, self.map), ("bound", BOUNDS, self.bound), ("form", FORMS, self.form))
        for option, table, word in (*own, ("noise", NOISES, self.noise)):
            name = known_name(table, _own_code(option, word))
            if name is not None and table.find(name).__name__ not in used:
                raise InvalidArgumentError(
                    f"{option} has no effect: {run.directory} was made without {word}; leave it out"
                )
        try:
            return jobs.job_of_run(
                run,
                method=_own_method(self.method),
                model=self.model,
                weights=self.weights,
                denoiser=self.denoiser,
                data=self.data,
                class_index=self.class_index,
                device=self.device if workers.device is None else "cpu",  # workers have devices of their own
                batch=batch,
            )
        except NotNamedError as error:
            what = "" if error.recorded is None else f" {shlex.quote(printable(error.recorded)):.200}"
            raise InvalidArgumentError(f"{error}: --{error.argument}{what or ' …'}") from error


def _own_code(option: str, word: str | None) -> str | None:
    if word is not None and not word.startswith(OWN):
        raise InvalidArgumentError(f"{option} must be {OWN}MODULE:NAME here, got {word!r:.80}; else the run decides it")
    return word


def _own_method(word: str | None) -> Method | type[Method] | None:
    """Import a class of the user's own, which gets the settings of the run, or call a function that makes a method."""
    from lvmrs.kernel.method import Method

    if _own_code("method", word) is None or word is None:
        return None
    named = _own(word)
    if not isinstance(named, type):
        return chosen_method(word)
    return _whole_class(word, named, Method, "Planner", "lvmrs.planners")
