"""The smoothed classifier: certifies, predicts and calibrates."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from lvmrs._util import machine
from lvmrs.engine import pipeline
from lvmrs.engine.batching import Batched
from lvmrs.engine.pipeline import Item, Need, Procedure, Source
from lvmrs.engine.samplers import Samplers, Throughput
from lvmrs.engine.sources import GivenScores, Input, Sampled
from lvmrs.engine.way import Way
from lvmrs.errors import InvalidArgumentError, SuspiciousWarning, guarded, naming, shown
from lvmrs.kernel import checks
from lvmrs.kernel.certificate import Certificate
from lvmrs.kernel.deterministic import Deterministic
from lvmrs.kernel.method import Goal, Method
from lvmrs.kernel.model_check import Agreement, measured, moved, precision_of
from lvmrs.kernel.noise import GAUSSIAN, Noise, Stage, Stream, check_noise
from lvmrs.kernel.rounding import Rounding
from lvmrs.kernel.sampler import Model, Sampler, Watch, check_logits
from lvmrs.kernel.scores import Scores
from lvmrs.kernel.terms import Plan, Terms
from lvmrs.models.lipschitz.stated import check_still, known_lipschitz
from lvmrs.planners.base import Planner, check_goal_for, check_one_classifier, relies_on_constant
from lvmrs.planners.duels import Duels, calibrated_width
from lvmrs.planners.fixed import Fixed, calibrated
from lvmrs.planners.votes import Votes, winner_of_votes
from lvmrs.registry import check_known_noise, noise_named

N0 = 100
"""The default number of samples to find the candidate class of a prediction."""
Numeric = Tensor | NDArray[Any]
"""An input: a tensor, or a NumPy array of floating-point numbers."""
Given = tuple[int, Numeric] | tuple[int, Numeric, int | None]
"""An index, an input and, if known, its label."""
ScoresOf = Callable[[int, Stage], Scores]
"""Returns scores of one input, for a number of samples and a stage."""
# An input of at least this many values, and a σ that is larger than these by this factor, are told.
_VALUES, _DROWNING = 16, 10.0
# Noisy copies of an input on which rounding is measured.
_COPIES = 16


class SmoothedClassifier:
    """A classifier smoothed over noisy copies of its input.

    Args:
        model: any callable from a batch of inputs to logits. A module runs in eval mode; its mode is then restored.
        sigma: scale of the noise, in units of the input: normalisation belongs to the model. None only for methods
            without noise, such as ``Deterministic``.
        lipschitz: a constant of the logits in the Euclidean norm; by default the model's attribute, if it has one.
        batch: samples in a forward pass; by default trials on the first input find the fastest size.
        device: by default that of the model's parameters, or of the input if it has none.
        precision: "bfloat16" or "float16" to run the network in that type; certificates are then about the network in
            that type, and cannot rely on a Lipschitz constant. By default, and with "float32", the model as it is.
            A network that cannot be traced and cast runs under torch's autocast; "autocast-bfloat16" asks for that.
        compile: whether to run the model through torch.compile; None to compile for runs long enough to gain from it.
        noise: the kind of noise, or its name, such as "exact" for images of 8 bits; see ``lvmrs.kernel.noise``.
        rounding: how far rounding moves the logits at most, in the Euclidean norm, for certificates that rely on a
            Lipschitz constant; by default it is measured against float64 (``lvmrs.kernel.rounding``).
        fast: whether a fast version of the model may run, if it is shown to be the same up to rounding.
        way: how the model is run, as chosen by an earlier run; by default chosen by trials.

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
        precision: str | None = None,
        compile: bool | None = None,  # noqa: A002
        noise: Noise | str = GAUSSIAN,
        rounding: float | None = None,
        fast: bool = True,
        way: Way | None = None,
    ) -> None:
        if isinstance(model, str):
            raise InvalidArgumentError(
                f"model must be callable on a batch of inputs, got {model!r}; lvmrs.models.load(NAME).model loads a "
                "model by its name"
            )
        if not callable(model) and callable(getattr(model, "model", None)):  # what lvmrs.models.load returns
            raise InvalidArgumentError(
                f"model must be callable on a batch of inputs, got {type(model).__name__}; pass its attribute model"
            )
        checks.model(model)
        self.model = model
        self._sigma = None if sigma is None else checks.positive_number("sigma", sigma)
        self._stated = known_lipschitz(model) if lipschitz is None else None
        known = self._stated or (math.inf if lipschitz is None else lipschitz)
        self.lipschitz = checks.positive_number("lipschitz", known, infinite=True)
        given = None if batch is None else checks.count("batch", batch, least=1)
        self.device = machine.device(device)
        self._kind = checks.precision("precision", precision, autocast=True)
        self.noise = noise = noise_named(noise) if isinstance(noise, str) else noise
        check_known_noise(noise)
        check_noise(noise)
        self.compiled, self.fast = None if compile is None else bool(compile), bool(fast)
        pattern = Sampler(model, self._sigma or 1.0, 1, noise=noise)  # without σ, for checks only
        running: dict[str, Any] = {"fast": self.fast, "compiled": self.compiled, "precision": precision}
        samplers = Samplers(pattern, given, way=way, **running)
        self.rounding = Rounding(model, self.lipschitz, samplers, self._input, rounding)
        self._samplers = samplers

    def __setattr__(self, name: str, value: object) -> None:
        """Reject changes: the settings that a run records must be those that it uses."""
        if "_samplers" in self.__dict__:
            raise AttributeError(f"a smoothed classifier cannot be changed; make another one with another {name}")
        super().__setattr__(name, value)

    def __repr__(self) -> str:
        """One-line summary for people."""
        known = "" if math.isinf(self.lipschitz) else f", lipschitz={self.lipschitz:g}"
        return f"SmoothedClassifier({type(self.model).__name__}, sigma={self._sigma}{known})"

    @property
    def precision(self) -> str | None:
        """The 16-bit type in which the network runs; None for its own precision.

        It begins with "autocast-" if the network runs under torch's autocast, which is known once it has run.
        """
        return self._samplers.precision

    @property
    def sigma(self) -> float:
        """The scale of the noise; raises if none was given."""
        if self._sigma is None:
            raise InvalidArgumentError("sigma must be given for samples under noise, and it is None")
        return self._sigma

    def certify(
        self,
        x: Numeric,
        method: Method | None = None,
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
            x: the input, a tensor or an array without a batch dimension. A float64 input of a network with float32
                weights is rounded to float32, and the certificate is about the rounded input.
            method: the method; by default ``default_method``.
            n0: samples to plan on.
            n: samples to prove on; more give a larger radius.
            alpha: the risk.
            seed: the noise depends on it and on ``index``, and on nothing else.
            index: place of the input in its data set.
            goal: stop before n samples as soon as the goal is reached; None for all n. See ``lvmrs.kernel.method``.
            watch: called with the stage and each batch of logits.

        Returns:
            The certificate; its ``guarantee`` states the certified property.
        """
        _warn_of_units(self._sigma, x)
        sampling: dict[str, Any] = {"n0": n0, "n": n, "alpha": alpha, "seed": seed, "goal": goal, "watch": watch}
        ((_, certificate),) = self.certified([(index, x)], method, **sampling)
        return certificate

    def certificates(
        self, inputs: Iterable[Given], method: Method | None = None, **settings: Any
    ) -> Iterator[Certificate]:
        """Certify inputs in order; while one is planned and proved, the next is sampled.

        Each input comes with its index, and with its label if known: a budget is then spent on right answers only.
        Inputs are read ahead, and the error of an input is raised in place of its certificate. A budget reads the
        inputs twice, so an iterable that is no collection is read into memory. The other arguments are as in
        ``certify``. Warns with ``SuspiciousWarning``, after the first certificate, if sigma looks to be in other units.
        """
        for number, (item, certificate) in enumerate(self.certified(inputs, method, **settings)):
            if not number:
                _warn_of_units(self._sigma, item.x)
            yield certificate

    def certified(
        self,
        inputs: Iterable[Given],
        method: Method | None = None,
        *,
        n0: int = 1_000,
        n: int = 100_000,
        alpha: float = 0.001,
        seed: int = 0,
        goal: Goal | None = None,
        watch: Watch | None = None,
        sharing: Collection[Given] | None = None,
    ) -> Iterator[tuple[Input, Certificate]]:
        """Certify inputs as ``certificates`` does, and yield each input with its certificate.

        ``sharing`` are all inputs that share a budget, including those that need no certificate; by default ``inputs``.
        """
        method = self.check_method(self.default_method if method is None else method)
        check_goal_for(method, goal)
        if isinstance(method, Deterministic):
            for item in _Prepared(self, inputs, partial(self.terms, alpha, n), self._samplers.plain):
                yield item, self.certain(method, item.x)
            return
        n0, n = checks.count("n0", n0, least=1), self.terms(alpha, n).n
        if goal is not None and goal.limited:
            if watch is not None:
                raise InvalidArgumentError("logits cannot be watched where inputs share a budget; leave out watch")
            inputs = inputs if isinstance(inputs, Collection) else list(inputs)
        prepared = partial(_Prepared, self, terms=partial(self.terms, alpha, n, method=method), of=self._samplers.of)
        procedure = Procedure(method, n0, goal)
        with self._samplers.pool() as pool:
            source: Source[Input] = Batched(pool, seed, n, watch) if procedure.stops else Sampled(pool, seed, watch)
            all_ = None if sharing is None else prepared(sharing)
            made = pipeline.certify(prepared(inputs), source, procedure, n, sharing=all_)
            yield from pool.handing_out(self._samplers.watching(made))

    def proved(self, plan: Plan, terms: Terms, x: Numeric, stream: Stream) -> Certificate:
        """Prove a plan on the fresh samples of a stream; ``certify`` does this for the plans that it makes."""
        sampler, x = self.sampler(x)
        procedure = Procedure(self.default_method, plan.n0, stage=stream.stage)
        with self._samplers.pool() as pool:
            items = [Input(stream.index, None, lambda: terms, x, sampler)]
            made = Sampled(pool, stream.seed).run(items, lambda _: procedure.proved(plan, terms))
            ((_, certificate),) = pool.handing_out(self._samplers.watching(made))
        return certificate

    def certain(self, method: Deterministic, x: Tensor) -> Certificate:
        """The certificate of an input without noise."""
        logits, rounding = self.rounding.of_margin(self._input(x))
        return method.certify(logits, self.lipschitz, rounding)

    def predict(
        self,
        x: Numeric,
        method: Method | None = None,
        *,
        n: int = 1_000,
        n0: int | None = None,
        alpha: float = 0.001,
        seed: int = 0,
        index: int = 0,
    ) -> int:
        """Predict the answer of the smoothed classifier. It is wrong with probability at most ``alpha``.

        Args:
            x: as in ``certify``.
            method: the method that certifies this classifier; by default hard duels. A method that chooses a map for
                each input raises, since its certificates are not about one classifier.
            n: samples to test the answer on.
            n0: other samples to find the candidate, by default 100; votes need none.
            alpha: the risk.
            seed: as in ``certify``.
            index: as in ``certify``.

        Returns:
            The class, or −1 if the samples do not decide at this risk.
        """
        _warn_of_units(self._sigma, x)
        x, method = self._input(x), self.check_method(Duels() if method is None else method)
        if isinstance(method, Deterministic):
            return self.certain(method, x).prediction
        terms = self.terms(alpha, n, x, method=method)

        def scores(n: int, stage: Stage) -> Scores:
            return self.scores(x, n, seed=seed, index=index, stage=stage)

        return winner(method, scores, terms, n0, index=index)

    def calibrate(
        self,
        inputs: Iterable[Numeric],
        *,
        labels: Iterable[int] | None = None,
        objective: Literal["average radius", "accuracy"] = "average radius",
        epsilon: float = 0.0,
        n0: int = 1_000,
        n: int = 100_000,
        alpha: float = 0.001,
        seed: int = 0,
        **search: Any,
    ) -> Fixed:
        """Find one map, temperature and form of the radius for all inputs, on held-out inputs.

        The arguments are those of ``certify`` and of ``lvmrs.planners.fixed.calibrated``, which searches.
        """
        terms = self.terms(alpha, n)
        inputs = list(checks.iterable("inputs", inputs, "tensors"))
        known = None if labels is None else checks.class_numbers("labels", labels)
        if known is not None and len(known) != len(inputs):
            raise InvalidArgumentError(f"{len(known)} labels for {len(inputs)} inputs; give one for each")
        samples = self._calibration(inputs, n0, seed)
        return calibrated(samples, terms, labels=known, objective=objective, epsilon=epsilon, **search)

    def calibrate_duels(self, inputs: Iterable[Numeric], *, n0: int = 1_000, seed: int = 0) -> Duels:
        """Find one width of soft duels for all inputs, on held-out inputs; see ``calibrated_width``."""
        return Duels(calibrated_width(self._calibration(inputs, n0, seed)))

    def _calibration(self, inputs: Iterable[Numeric], n0: int, seed: int) -> Iterator[Iterator[Tensor]]:
        for index, x in enumerate(checks.iterable("inputs", inputs, "tensors")):
            yield self.scores(x, n0, seed=seed, index=index, stage="calibration").logits()

    def module(
        self, *, samples: int = 64, temperature: float = 1.0, seed: int = 0, fresh: bool = True
    ) -> SmoothedModule:
        """An approximation of the smoothed classifier as a differentiable torch module, for attacks by gradients.

        For each input of a batch it returns the logarithm of the mean softmax score of each class over noisy copies of
        the input. It is the function that SmoothAdv attacks (Salman et al. 2019). Its answers have no guarantee:
        certificates and predictions come from ``certify`` and ``predict``. With noise on a grid, inputs are rounded to
        the grid, and gradients pass the rounding unchanged. The model runs in its own precision.

        Args:
            samples: noisy copies for each input; a forward pass runs the network on all of them at once.
            temperature: divides the logits before the softmax; a low one is closer to votes, with smaller gradients.
            seed: the noise is a function of it, of the place in the batch, and of the number of earlier calls.
            fresh: whether each call draws new noise; otherwise the module is one fixed function.

        >>> module = SmoothedClassifier(nn.Identity(), sigma=0.5).module(samples=1000)
        >>> x = torch.tensor([[1.0, 0.0]], requires_grad=True)
        >>> module(x)[0, 1].backward()
        >>> x.grad[0, 0] < 0 < x.grad[0, 1]
        tensor(True)
        """
        samples, seed = checks.count("samples", samples, least=1), checks.seed("seed", seed)
        sampler = replace(self._samplers.pattern, sigma=self.sigma)
        return SmoothedModule(sampler, samples, checks.positive_number("temperature", temperature), seed, fresh=fresh)

    @property
    def settings(self) -> dict[str, Any]:
        """The arguments, without the model, that make the same smoothed classifier again."""
        plain = {name: getattr(self, name) for name in ("lipschitz", "batch", "precision", "noise", "fast")}
        more = {"sigma": self._sigma, "device": self.device or "auto", "compile": self.compiled}
        return {**plain, **more, "rounding": self.rounding.given, "way": self._samplers.way}

    @property
    def default_method(self) -> Duels:
        """Duels; of a width chosen for each input if a Lipschitz constant of the smoothed scores may be used."""
        unused = self.precision is not None or math.isinf(self.lipschitz_under_noise)
        return Duels() if unused else Duels("chosen")

    @property
    def lipschitz_under_noise(self) -> float:
        """The Lipschitz constant of the logits under noise: infinite if the noise rounds inputs to a grid."""
        return math.inf if self.noise.rounds else self.lipschitz

    @property
    def kind_of_device(self) -> str:
        """The kind of device, such as cpu or cuda; floating-point noise depends on it."""
        return self._device(torch.empty(0)).type

    @property
    def batch(self) -> int | None:
        """Samples in a forward pass; None if the size is neither given nor chosen yet."""
        return self._samplers.batch

    def fix_way(self, way: Way) -> None:
        """Run all inputs in this way; raises if another batch size was given or chosen."""
        self._samplers.fix(way)

    def prepare(self, x: Numeric, samples: int = 0) -> Throughput:
        """Check the model on an input, and choose how to run it for ``samples`` samples; 0 if unknown."""
        return self._samplers.prepare(self._input(x), samples)

    def sampler(self, x: Numeric) -> tuple[Sampler, Tensor]:
        """The sampler that ``certify`` uses for an input, and the input on its device and in its precision."""
        x = self._input(x)
        return self._samplers.of(x), x

    def classes(self, x: Numeric) -> int:
        """The number of classes of the model, found on an input."""
        return len(self._logits(self._input(x)))

    def answer(self, x: Numeric) -> int:
        """The prediction of the model itself, without noise and without a guarantee."""
        checks.warn_of_bytes("x", given := self._input(x))
        return int(self._logits(given).argmax())

    def _logits(self, x: Tensor) -> Tensor:
        if self.precision is None:
            return self._samplers.plain(x).answers(x[None].clone(), 0)[0]
        logits = self._samplers.of(x).answers_as_run(x[None].clone())  # of the network that is certified
        check_logits(logits, 1, 0)
        return logits[0]

    def unchecked_logits(self, inputs: Tensor) -> tuple[Tensor, Agreement]:
        """The logits of a batch of inputs by the model itself in float64, and how far rounding may move them.

        They may be NaN, and are not checked to be a fixed function of each input.
        """
        rows = torch.stack([self._input(x) for x in inputs])
        return self._with_agreement(self._samplers.pattern, rows)  # in the model's own precision

    def agreement(self, x: Tensor) -> Agreement:
        """How far rounding may move the logits of noisy copies of an input."""
        x = self._input(x)
        noise = torch.randn(_COPIES, *x.shape, generator=torch.Generator().manual_seed(0)).to(x)
        return self._with_agreement(self._samplers.plain(x), x + (self._sigma or 0.0) * noise, self._kind)[1]

    def _with_agreement(
        self, sampler: Sampler, rows: Tensor, kind: torch.dtype | None = None
    ) -> tuple[Tensor, Agreement]:
        logits = sampler.answers(rows.clone(), 0, finite=False).cpu()
        eps = precision_of(self.model, logits.dtype, kind, device=rows.device)
        other = replace(sampler, model=moved(self.model, eps))
        return logits.double(), measured(lambda rows: other.answers(rows, 0, finite=False).cpu(), rows, logits, eps)

    def certify_batch(
        self, inputs: Iterable[Numeric], method: Method | None = None, *, first: int = 0, **settings: Any
    ) -> list[Certificate]:
        """Certify several inputs, with indices from ``first`` on; the other arguments are as in ``certify``."""
        if "index" in settings:
            raise InvalidArgumentError("index is counted from first= on for several inputs; give that instead")
        return list(self.certificates(enumerate(inputs, start=first), method, **settings))

    def scores(self, x: Numeric, n: int, *, seed: int = 0, index: int = 0, stage: Stage = "certification") -> Scores:
        """Make the scores of n noisy copies of an input, the same that ``certify`` uses at that stage.

        Stages have independent noise: plan on "selection", prove on "certification".
        """
        x, n = self._input(x), checks.count("n", n, least=1)
        return replace(self._samplers.of(x), sigma=self.sigma).scores(x, Stream(seed, index, stage), n)

    def check_method(self, method: Method) -> Planner | Deterministic:
        """Return the method; raise if it is no method, or needs σ or a Lipschitz constant that is not known."""
        if not isinstance(method, Planner | Deterministic):
            raise InvalidArgumentError(f"method must be a Planner such as Duels() or LVM(), got {shown(method)}")
        name = type(method).__name__
        if method.needs_constant and math.isinf(self.lipschitz):
            raise InvalidArgumentError(
                f"lipschitz is not known and {name} needs it; give it (lvmrs lipschitz computes one)"
            )
        rounded = method.samples and self.noise.rounds
        if rounded and method.needs_constant:
            raise InvalidArgumentError(
                f"{name} needs a Lipschitz constant of what is smoothed, and {self.noise.name} noise rounds inputs, "
                "which leaves none; take gaussian noise or another method"
            )
        if self.precision is not None and not rounded and relies_on_constant(method, self.lipschitz):
            raise InvalidArgumentError(
                f"{self.precision} rounds inside of the model, so {name} cannot rely on its Lipschitz constant; leave "
                "precision out, or take a method that does not use the constant, such as hard duels or votes"
            )
        if method.samples and self._sigma is None:
            raise InvalidArgumentError(f"sigma must be given, since {name} takes samples under noise")
        return method

    def terms(self, alpha: float, n: int, *inputs: Tensor, method: Method | None = None) -> Terms:
        """The terms of certificates of these inputs; without inputs, terms for planning only.

        Rounding is measured if the method relies on the constant, or is not given. Otherwise, and in a 16-bit type, the
        terms have no constant, so that no plan can rely on it.
        """
        check_still(self.model, self._stated)
        if inputs and self._samplers.undecided:
            self._samplers.plain(self._input(inputs[0]))  # the terms name the precision
        constant, largest = self.lipschitz_under_noise, max((x.numel() for x in inputs), default=0)
        if self.precision is not None or (method is not None and not relies_on_constant(method, constant)):
            constant = math.inf
        relied = () if math.isinf(constant) else inputs
        rounding = max((self.rounding.of_samples(x, self.sigma) for x in relied), default=0.0)
        return Terms(self.sigma, alpha, n, constant, self.noise, rounding, largest, self.precision)

    def _input(self, x: Numeric) -> Tensor:
        check_still(self.model, self._stated)  # every use of the model passes here
        given = as_tensor("x", x)
        if isinstance(given, Tensor) and given.dtype == torch.float64 and self._takes_float32:
            given = given.float()
        given = checks.finite_tensor("x", given, dims=0).detach()
        kind = given.dtype if given.dtype == torch.float64 else torch.float32
        return given.to(self._device(given), kind, copy=True)  # a copy, since it is read later

    @property
    def _takes_float32(self) -> bool:
        """Whether the model is a module that has weights, all in float32: it takes no inputs in float64."""
        held = self.model.parameters() if isinstance(self.model, nn.Module) else ()
        return {parameter.dtype for parameter in held if parameter.is_floating_point()} == {torch.float32}

    def _device(self, x: Tensor) -> torch.device:
        held = self.model.parameters() if isinstance(self.model, nn.Module) else iter(())
        return self.device or next((parameter.device for parameter in held), x.device)


class SmoothedModule(nn.Module):
    """A smoothed classifier as a differentiable torch module, made by ``SmoothedClassifier.module``."""

    def __init__(self, sampler: Sampler, samples: int, temperature: float, seed: int, *, fresh: bool) -> None:
        super().__init__()
        self.model = sampler.model  # a submodule, so that its parameters and device can be asked for
        self._sampler, self._samples, self._temperature = sampler, samples, temperature
        self._seed, self._fresh, self._drawn = seed, fresh, 0

    def forward(self, x: Tensor) -> Tensor:
        """The logarithms of the mean softmax scores of a batch of inputs, of shape (inputs, classes)."""
        m, first = self._samples, self._drawn
        self._drawn += m if self._fresh else 0
        levels = getattr(self._sampler.noise, "levels", None)
        with torch.no_grad():
            points = checks.finite_tensor("x", x, dims=1).detach()
            points = points if levels is None else torch.round(points * levels) / levels
            rows = [(point, Stream(self._seed, k, "attack")) for k, point in enumerate(points)]
            parts = [part.clone() for point, of in rows for part in self._sampler.copies(point, of, m, first=first)]
        noisy = torch.cat(parts) + (x - x.detach()).repeat_interleave(m, dim=0)  # adds 0, with the gradient of x
        logits = self._sampler.forward(noisy, gradients=torch.is_grad_enabled())
        check_logits(logits, len(noisy), 0)
        scores = functional.log_softmax(logits / self._temperature, dim=1).reshape(len(x), m, -1)
        return scores.logsumexp(dim=1) - math.log(m)


def as_tensor(name: str, value: Any) -> Any:
    """A tensor with a copy of the numbers of a NumPy array, in its precision; other values as they are."""
    if not isinstance(value, np.ndarray):
        return value
    with guarded(f"{name} cannot be read as a tensor", error=InvalidArgumentError):
        return torch.from_numpy(np.array(value, dtype=value.dtype.newbyteorder("="), order="C"))


def _warn_of_units(sigma: float | None, x: object) -> None:
    """Warn if an input looks like bytes, or if the noise is so much larger that the answer cannot depend on it."""
    given = as_tensor("x", x)
    if not isinstance(given, Tensor):
        return
    checks.warn_of_bytes("x", checks.finite_tensor("x", given, dims=0).detach())
    if sigma is None or given.numel() < _VALUES:
        return
    largest = float(given.detach().abs().max())
    if sigma > _DROWNING * largest > 0:
        warnings.warn(
            f"sigma = {sigma:g} is far larger than all values of x: it looks to be in other units, such as those of "
            "pixels from 0 to 255",
            SuspiciousWarning,
            stacklevel=3,
        )


@dataclass(frozen=True)
class _Prepared:
    """Inputs in the form of the engine, made lazily; they can be read again."""

    smoothed: SmoothedClassifier
    inputs: Iterable[Given]
    terms: Callable[[Tensor], Terms]
    of: Callable[[Tensor], Sampler]

    def __len__(self) -> int:
        """The number of inputs, if they are a collection."""
        return len(self.inputs)  # type: ignore[arg-type]

    def __contains__(self, item: object) -> bool:
        """Items are made when they are read."""
        return False

    def __iter__(self) -> Iterator[Input]:
        for index, x, *label in self.inputs:
            x = self.smoothed._input(x)
            with naming(index):
                sampler = self.of(x)
            yield Input(index, label[0] if label else None, partial(self.terms, x), x, sampler)


def winner(method: Planner, scores: ScoresOf, terms: Terms, n0: int | None = None, *, index: int = 0) -> int:
    """Predict the answer of the smoothed classifier of a method.

    A certificate is about the classifier smoothed with the map of its plan. If a method has the same map for all
    inputs, that is one classifier: what it answers here is what was certified, and within the radius of a certificate
    it answers with the certified class. For votes the test of Cohen et al. (2019, Predict) needs no candidate, and
    certifies no radius, so that it answers more often than a certificate would. For all other methods the proof itself
    is the test.

    Args:
        method: a method whose map is the same for all inputs.
        scores: returns the scores of the input.
        terms: their ``n`` is the number of samples of the test.
        n0: samples to find the candidate, by default ``N0``; votes need none.
        index: index of the input, for errors.

    Returns:
        The class, which is wrong with probability at most ``terms.alpha``, or −1 if the samples do not decide.
    """
    check_one_classifier(method)
    checks.instance("terms", terms, Terms, "Terms")
    if isinstance(method, Votes):
        if n0 is not None:
            raise InvalidArgumentError("n0 has no effect on votes, whose test needs no candidate; leave it out")
        return winner_of_votes(scores(terms.n, "prediction").logits(), terms.spendable)
    procedure = Procedure(method, N0 if n0 is None else checks.count("n0", n0, least=1), stage="prediction")

    def asked(item: Item, need: Need) -> Scores:
        return scores(need.n, need.stage)

    ((_, certificate),) = pipeline.certify([Item(index, None, lambda: terms)], GivenScores(asked), procedure, terms.n)
    return certificate.prediction
