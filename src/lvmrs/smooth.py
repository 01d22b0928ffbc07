"""The smoothed classifier: it certifies one input from end to end. It samples, plans, samples afresh and proves."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from lvmrs import _checks, _torch_checks
from lvmrs.adaptive import Batches, adaptively
from lvmrs.answering import Answering
from lvmrs.calibrating import Calibrating
from lvmrs.certificate import Certificate
from lvmrs.certifying import Asked, Planning, certified, certified_within
from lvmrs.deterministic import Deterministic
from lvmrs.errors import InvalidArgumentError
from lvmrs.flights import Arrival, Asking
from lvmrs.goals import Goal
from lvmrs.known_constant import check_still, known_lipschitz
from lvmrs.method import Method
from lvmrs.method_check import check_goal_for, checked_method, relies_on_constant
from lvmrs.noise import GAUSSIAN, Noise, Stage, Stream, check_noise, noise_named
from lvmrs.plan import Terms
from lvmrs.planners.anytime import Anytime
from lvmrs.planners.base import Planner
from lvmrs.planners.duels import Duels
from lvmrs.rounding import Rounding
from lvmrs.running.way import Way
from lvmrs.samplers import Pace, Samplers
from lvmrs.sampling import Model, Sampler, Watch, sampled
from lvmrs.scores import Scores

__all__ = ["SmoothedClassifier"]

_NO_LABELS: Mapping[int, int] = {}


class SmoothedClassifier(Calibrating, Answering):
    """A classifier that is smoothed over noisy copies of its input.

    Args:
        model: any callable from a batch of inputs to logits. A module runs in eval mode, and has its old mode after.
        sigma: scale of the noise, in units of the input as it is given here: normalisation belongs to the model. None
            is for methods without noise alone, such as ``Deterministic``.
        lipschitz: a constant of the logits in the Euclidean norm; by default the model's attribute, if it has one.
        batch: samples in a forward pass; by default the fastest size is found by trials on the first input.
        device: by default that of the model's parameters, or of the input if it has none.
        autocast: precision to run the model in; certificates cannot rely on a Lipschitz constant with it.
        compile: whether to run the model through torch.compile; None for runs that are long enough to repay it.
        noise: the kind of noise, or its name, such as "exact" for images of 8 bits; see ``lvmrs.noise``.
        rounding: how far rounding moves the logits at most, in the Euclidean norm, for certificates that rely on a
            Lipschitz constant; by default it is measured against float64 (``lvmrs.rounding``).
        fast: whether a fast version of the model may be run, if it is shown to be the same up to rounding.
        way: how the model is run, as an earlier run has chosen it; by default it is chosen.

    >>> smoothed = SmoothedClassifier(nn.Identity(), sigma=0.5, batch=100)  # two logits: the input itself
    >>> certificate = smoothed.certify(torch.tensor([1.0, 0.0]), n0=100, n=1000)
    >>> certificate.prediction, 0.5 < certificate.radius < 0.7072  # the decision boundary is 1/√2 away
    (0, True)
    """

    def __init__(
        self,
        model: Model,
        sigma: float | None,
        lipschitz: float | None = None,
        *,
        batch: int | None = None,
        device: str | torch.device = "auto",
        autocast: torch.dtype | None = None,
        compile: bool | None = None,  # noqa: A002
        noise: Noise | str = GAUSSIAN,
        rounding: float | None = None,
        fast: bool = True,
        way: Way | None = None,
    ) -> None:
        _checks.model(model)
        self.model = model
        self._sigma = None if sigma is None else _checks.positive_number("sigma", sigma)
        self._stated = known_lipschitz(model) if lipschitz is None else None
        known = self._stated or (math.inf if lipschitz is None else lipschitz)
        self.lipschitz = _checks.positive_number("lipschitz", known, infinite=True)
        given = None if batch is None else _checks.count("batch", batch, least=1)
        self.device = _torch_checks.device(device)
        self.autocast = None if autocast is None else _torch_checks.floating("autocast", autocast)
        self.noise = noise = noise_named(noise) if isinstance(noise, str) else noise
        check_noise(noise)
        self.compiled, self.fast = None if compile is None else bool(compile), bool(fast)
        pattern = Sampler(model, self._sigma or 1.0, 1, autocast=autocast, noise=noise)  # without σ for checks alone
        samplers = Samplers(pattern, given, way=way, fast=self.fast, compiled=self.compiled)
        self.rounding = Rounding(model, self.lipschitz, samplers, self._input, rounding)
        self._samplers = samplers

    def __setattr__(self, name: str, value: object) -> None:
        """Refuse changes after it is made: what a run records would not be what it used."""
        if "_samplers" in self.__dict__:
            raise AttributeError(f"a smoothed classifier cannot be changed; make another one with another {name}")
        super().__setattr__(name, value)

    def __repr__(self) -> str:
        """One line."""
        known = "" if math.isinf(self.lipschitz) else f", lipschitz={self.lipschitz:g}"
        return f"SmoothedClassifier({type(self.model).__name__}, sigma={self._sigma}{known})"

    @property
    def sigma(self) -> float:
        """The scale of the noise; refused if none was given."""
        if self._sigma is None:
            raise InvalidArgumentError("sigma must be given for samples under noise, and it is None")
        return self._sigma

    def certify(
        self,
        x: Tensor,
        planner: Method | None = None,
        *,
        n0: int = 1_000,
        n: int = 100_000,
        alpha: float = 0.001,
        seed: int = 0,
        index: int = 0,
        goal: Goal | None = None,
        watch: Watch | None = None,
    ) -> Certificate:
        """Certify one input. The certificate is right with probability at least 1 − ``alpha``.

        Args:
            x: the input, without a batch dimension.
            planner: the method; by default ``default_method``.
            n0: samples to plan on.
            n: samples to prove on; more give a larger radius.
            alpha: the risk.
            seed: the noise depends on it and on ``index``, and on nothing else.
            index: place of the input in its data set.
            goal: stop before n samples, as soon as this is reached; None for all n. See ``lvmrs.goals``.
            watch: called with the stage and each batch of logits.

        Returns:
            The certificate; its ``guarantee`` says what holds.
        """
        sampling: dict[str, Any] = {"n0": n0, "n": n, "alpha": alpha, "seed": seed, "goal": goal, "watch": watch}
        (certificate,) = self.certificates([(index, x)], planner, **sampling)
        return certificate

    def certificates(
        self,
        inputs: Iterable[tuple[int, Tensor]],
        planner: Method | None = None,
        *,
        n0: int = 1_000,
        n: int = 100_000,
        alpha: float = 0.001,
        seed: int = 0,
        goal: Goal | None = None,
        watch: Watch | None = None,
        labels: Mapping[int, int] = _NO_LABELS,
        done: Collection[int] = (),
    ) -> Iterator[Certificate]:
        """Certify inputs one after the other; while one is planned and proved, the next is sampled.

        The inputs come with their indices, and are asked for some time before their turn; the rest is as in
        ``certify``. What is wrong with one is raised when its turn comes. ``labels`` are classes by index: a budget is
        then spent on right answers. ``done`` are indices of inputs that share the budget and need no certificate.
        """
        method = self.check_method(self.default_method if planner is None else planner)
        check_goal_for(method, goal)
        if isinstance(method, Deterministic):
            yield from (self.certain(method, x) for _, x in inputs)
            return
        n0, n = _checks.count("n0", n0, least=1), self.terms(alpha, n).n
        prepared = ((index, self._input(x), labels.get(index) if labels else None) for index, x in inputs)
        of, terms = self._samplers.of, lambda x: self.terms(alpha, n, x, method=method)
        if goal is not None and goal.limited and watch is not None:
            raise InvalidArgumentError("logits cannot be watched where inputs share a budget; leave out watch")
        with self._samplers.crew() as crew:
            if goal is not None and not goal.limited:
                coming = (Arrival(of(x), x, index) for index, x, _ in prepared)
                asking = Asking(Anytime.of(method), terms, goal, seed, n0)
                yield from adaptively(coming, Batches(crew), asking, watch)
                return
            asked = (Asked.of(of(x), x, seed, index, n0, n, label) for index, x, label in prepared)
            if goal is None:
                yield from certified(asked, crew, method, terms, watch)
            else:
                planning = Planning(method, terms, goal, done)
                yield from certified_within(list(asked), partial(sampled, crew=crew), planning)

    def certain(self, method: Deterministic, x: Tensor) -> Certificate:
        """The certificate of an input without noise."""
        logits, rounding = self.rounding.of_margin(self._input(x))
        return method.certify(logits, self.lipschitz, rounding)

    @property
    def settings(self) -> dict[str, Any]:
        """The arguments, without the model, that make the same smoothed classifier again."""
        plain = {name: getattr(self, name) for name in ("lipschitz", "batch", "autocast", "noise", "fast")}
        more = {"sigma": self._sigma, "device": self.device or "auto", "compile": self.compiled}
        return {**plain, **more, "rounding": self.rounding.given, "way": self._samplers.way}

    @property
    def default_method(self) -> Duels:
        """Duels; if what is smoothed has a Lipschitz constant, with a width that is chosen for each input."""
        return Duels() if math.isinf(self.lipschitz_under_noise) else Duels("chosen")

    @property
    def lipschitz_under_noise(self) -> float:
        """The Lipschitz constant of what is smoothed: infinite if the noise rounds inputs to a grid."""
        return math.inf if self.noise.rounds else self.lipschitz

    @property
    def kind_of_device(self) -> str:
        """The kind of device, such as cpu or cuda; noise is the same on devices of one kind."""
        return self._device(torch.empty(0)).type

    @property
    def batch(self) -> int | None:
        """Samples in a forward pass; None if it was not given and is not chosen yet."""
        return self._samplers.batch

    def fix_way(self, way: Way) -> None:
        """Run all inputs in this way; it is refused if another batch size was given or chosen."""
        self._samplers.fix(way)

    def prepare(self, x: Tensor, samples: int = 0) -> Pace:
        """Check the model on an input, and choose how to run it for so many samples to come, if they are known."""
        return self._samplers.prepare(self._input(x), samples)

    def sampler(self, x: Tensor) -> tuple[Sampler, Tensor]:
        """The sampler that ``certify`` takes for an input, and the input as the sampler takes it."""
        x = self._input(x)
        return self._samplers.of(x), x

    def classes(self, x: Tensor) -> int:
        """How many classes the model has, found on an input."""
        return len(self._logits(self._input(x)))

    def answer(self, x: Tensor) -> int:
        """The class that the model itself answers with, without noise and without a guarantee."""
        return int(self._logits(self._input(x)).argmax())

    def _logits(self, x: Tensor) -> Tensor:
        return self._samplers.plain(x).answers(x[None].clone(), 0)[0]

    def unchecked_logits(self, inputs: Tensor) -> Tensor:
        """The logits of a batch of inputs by the model itself, which may be NaN, and may not be one fixed function."""
        return self._samplers.pattern.answers(torch.stack([self._input(x) for x in inputs]), 0, finite=False)

    def certify_batch(
        self, inputs: Iterable[Tensor], planner: Method | None = None, *, first: int = 0, **settings: Any
    ) -> list[Certificate]:
        """Certify several inputs, whose indices are ``first`` and those after it; the rest is as in ``certify``."""
        if "index" in settings:
            raise InvalidArgumentError("index is counted from first= on for several inputs; give that instead")
        return list(self.certificates(enumerate(inputs, start=first), planner, **settings))

    def scores(self, x: Tensor, n: int, *, seed: int = 0, index: int = 0, stage: Stage = "certification") -> Scores:
        """Make the scores of n noisy copies of an input, the same that ``certify`` takes at that stage.

        Stages have independent noise: plan on "selection", prove on "certification".
        """
        x, n = self._input(x), _checks.count("n", n, least=1)
        return replace(self._samplers.of(x), sigma=self.sigma).scores(x, Stream(seed, index, stage), n)

    def check_method(self, method: Method) -> Planner | Deterministic:
        """Give the method back; refuse what is no method, or one that needs σ or a constant that is not known."""
        return checked_method(
            method, lipschitz=self.lipschitz, sigma=self._sigma, autocast=self.autocast, noise=self.noise
        )

    def terms(self, alpha: float, n: int, *inputs: Tensor, method: Method | None = None) -> Terms:
        """The terms of certificates of these inputs; without inputs, the terms are for planning alone.

        Rounding is measured if the method relies on the constant, or is not given. Else, and with autocast, the terms
        have no constant, so that no plan can rely on it.
        """
        check_still(self.model, self._stated)
        constant, largest = self.lipschitz_under_noise, max((x.numel() for x in inputs), default=0)
        if self.autocast is not None or (method is not None and not relies_on_constant(method, constant)):
            constant = math.inf
        relied = () if math.isinf(constant) else inputs
        rounding = max((self.rounding.of_samples(x, self.sigma) for x in relied), default=0.0)
        return Terms(self.sigma, alpha, n, constant, self.noise, rounding, largest)

    def _input(self, x: Tensor) -> Tensor:
        check_still(self.model, self._stated)  # whatever is asked of the model begins with an input
        _torch_checks.warn_of_bytes("x", x := _torch_checks.finite_tensor("x", x, dims=0).detach())
        kind = x.dtype if x.dtype == torch.float64 else torch.float32
        return x.to(self._device(x), kind, copy=True)  # it is read later, when the caller may have changed it

    def _device(self, x: Tensor) -> torch.device:
        held = self.model.parameters() if isinstance(self.model, nn.Module) else iter(())
        return self.device or next((parameter.device for parameter in held), x.device)
