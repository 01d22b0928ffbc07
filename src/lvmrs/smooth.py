"""One input, end to end: sample, plan, sample afresh, prove."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any, Literal

import torch
from scipy import stats
from torch import Tensor, nn

from lvmrs import _checks, _torch_checks
from lvmrs.certificate import ABSTAIN, Certificate
from lvmrs.deterministic import Deterministic
from lvmrs.errors import InvalidArgumentError, LvmrsError, ModelError, first_line
from lvmrs.method import Method
from lvmrs.noise import Stage, Stream
from lvmrs.plan import Terms
from lvmrs.planners.base import Planner
from lvmrs.planners.duels import Duels, calibrated_width
from lvmrs.planners.fixed import Fixed, calibrated
from lvmrs.planners.survey import Survey
from lvmrs.prove import prove
from lvmrs.sampling import Model, Sampler, Watch, check_logits, tuned_batch
from lvmrs.scores import Scores

__all__ = ["SmoothedClassifier"]


class SmoothedClassifier:
    """A classifier smoothed over Gaussian copies of its input: by default, the class that wins all duels answers.

    ``model`` is any callable from a batch of inputs to logits. A module is run in eval mode and left as found.
    ``sigma`` is in units of the input as it is given here: normalisation belongs to the model. ``lipschitz`` is a
    constant of the logits in the Euclidean norm, by default the model's own attribute of that name, if it has one.

    ``batch`` is measured on the first input when not given. ``device`` is by default that of the model's parameters,
    or of the input where it has none. ``autocast`` runs the model in that precision, ``compile`` through torch.compile.
    """

    def __init__(
        self,
        model: Model,
        sigma: float,
        lipschitz: float | None = None,
        *,
        batch: int | None = None,
        device: str | torch.device = "auto",
        autocast: torch.dtype | None = None,
        compile: bool = False,  # noqa: A002
    ) -> None:
        if not callable(model):
            raise InvalidArgumentError(f"model must be callable on a batch of inputs, got {type(model).__name__}")
        self.model = model
        self.sigma = _checks.single("sigma", _checks.positive("sigma", sigma))
        if lipschitz is None:
            lipschitz = _checks.known_lipschitz(model)
        constant = math.inf if lipschitz is None else lipschitz
        self.lipschitz = _checks.single("lipschitz", _checks.positive("lipschitz", constant, infinite=True))
        self.batch = None if batch is None else int(_checks.single("batch", _checks.whole("batch", batch, least=1)))
        self.device = _torch_checks.device(device)
        if autocast is not None and not isinstance(autocast, torch.dtype):
            raise InvalidArgumentError(f"autocast must be a torch.dtype such as torch.bfloat16, got {autocast!r}")
        self.autocast = autocast
        self.compiled = bool(compile)
        self._run: Model = torch.compile(model) if compile else model
        self._samplers: dict[tuple[Any, ...], Sampler] = {}

    def __repr__(self) -> str:
        """One line."""
        known = "" if math.isinf(self.lipschitz) else f", lipschitz={self.lipschitz:g}"
        return f"SmoothedClassifier({type(self.model).__name__}, sigma={self.sigma:g}{known})"

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
        watch: Watch | None = None,
    ) -> Certificate:
        """The certificate of one input (no batch dimension), by default by the ``default_method``.

        With probability at least 1 − ``alpha`` it is right. ``index`` is the place of the input in its data set: the
        noise depends on it and on ``seed``, and on nothing else. ``watch`` is shown each batch of logits as it passes.
        """
        x = self._input(x)
        method = self.check_method(self.default_method if planner is None else planner)
        sampler = self._sampler(x)
        if isinstance(method, Deterministic):
            logits = sampler.forward(x[None])
            check_logits(logits, 1, 0)
            return method.certify(logits[0], self.lipschitz)
        terms = Terms(self.sigma, alpha, n, self.lipschitz)
        n0 = int(_checks.single("n0", _checks.whole("n0", n0, least=1)))
        selection = sampler.scores(x, Stream(seed, index, "selection"), n0, watch)
        certification = sampler.scores(x, Stream(seed, index, "certification"), terms.n, watch)
        return prove(method.plan(selection, terms), terms, certification)

    @property
    def default_method(self) -> Duels:
        """Duels; where a Lipschitz constant is known, with their width chosen for each input."""
        return Duels() if math.isinf(self.lipschitz) else Duels("chosen")

    @property
    def kind_of_device(self) -> str:
        """cpu, cuda and so on: noise is the same bit for bit on devices of one kind."""
        return self._device(torch.empty(0)).type

    def fix_batch(self, batch: int | None) -> None:
        """From now on, run inputs of every kind in batches of this size; None is for measuring."""
        self.batch = batch
        self._samplers.clear()

    def batch_for(self, x: Tensor) -> int:
        """The batch size that inputs like this one are run in: as given, or measured once."""
        return self._sampler(self._input(x)).batch

    def certify_batch(
        self, inputs: Iterable[Tensor], planner: Method | None = None, *, first: int = 0, **settings: Any
    ) -> list[Certificate]:
        """Certificates of several inputs, numbered from ``first`` on; ``settings`` are those of ``certify``."""
        if "index" in settings:
            raise InvalidArgumentError("index is counted from first= on for several inputs; give that instead")
        return [self.certify(x, planner, index=index, **settings) for index, x in enumerate(inputs, start=first)]

    def predict(
        self,
        x: Tensor,
        *,
        n: int = 1_000,
        n0: int = 100,
        alpha: float = 0.001,
        seed: int = 0,
        index: int = 0,
        by: Literal["duels", "votes"] = "duels",
        width: float | None = None,
    ) -> int:
        """The class that the smoothed classifier answers with, or −1 if that cannot be told at this risk.

        By duels: the class that wins more than half of its duels against every other one; it is looked for on n0
        samples and tested on n others, and ``width`` makes the duels soft. By votes: the class that wins most often
        (smoothing with hardmax), where the two leading classes are compared by an exact binomial test (Cohen et al.
        2019, Predict) and n0 is not used. An answer is wrong with probability at most ``alpha``.
        """
        x = self._input(x)
        terms = Terms(self.sigma, alpha, n)
        _checks.one_of("by", by, ("duels", "votes"))
        scores = self._sampler(x).scores(x, Stream(seed, index, "prediction"), terms.n)
        if by == "duels":
            n0 = int(_checks.single("n0", _checks.whole("n0", n0, least=1)))
            selection = self._sampler(x).scores(x, Stream(seed, index, "selection"), n0)
            return prove(Duels(width).plan(selection, terms), terms, scores).prediction
        votes = Survey.of(scores.logits(), maps=("hardmax",)).mean[0] * terms.n
        first, second = (int(k) for k in (-votes).argsort(kind="stable")[:2])
        won, lost = round(votes[first]), round(votes[second])
        doubt = stats.binomtest(won, won + lost, 0.5).pvalue
        return first if doubt <= terms.alpha else ABSTAIN

    def scores(self, x: Tensor, n: int, *, seed: int = 0, index: int = 0, stage: Stage = "certification") -> Scores:
        """Scores of n noisy copies, as ``certify`` uses them at that stage; ``.logits()`` has the tensors."""
        x = self._input(x)
        n = int(_checks.single("n", _checks.whole("n", n, least=1)))
        return self._sampler(x).scores(x, Stream(seed, index, stage), n)

    def calibrate(
        self,
        inputs: Iterable[Tensor],
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
        """One map, temperature and form of radius for all inputs, best on these held-out ones; see ``calibrated``."""
        terms = Terms(self.sigma, alpha, n, self.lipschitz)
        inputs = list(inputs)
        labels = None if labels is None else [int(label) for label in labels]
        if labels is not None and len(labels) != len(inputs):
            raise InvalidArgumentError(f"{len(labels)} labels for {len(inputs)} inputs; give one for each")
        samples = self._calibration(inputs, n0, seed)
        return calibrated(samples, terms, labels=labels, objective=objective, epsilon=epsilon, **search)

    def calibrate_duels(self, inputs: Iterable[Tensor], *, n0: int = 1_000, seed: int = 0) -> Duels:
        """Soft duels of one width for all inputs, found on these held-out ones; see ``calibrated_width``."""
        return Duels(calibrated_width(self._calibration(inputs, n0, seed)))

    def _calibration(self, inputs: Iterable[Tensor], n0: int, seed: int) -> Iterator[Iterator[Tensor]]:
        for index, x in enumerate(inputs):
            yield self.scores(x, n0, seed=seed, index=index, stage="calibration").logits()

    def check_method(self, method: Method) -> Planner | Deterministic:
        """The method; refused if it is none, or if it needs a Lipschitz constant which is not known."""
        if not isinstance(method, Planner | Deterministic):
            raise InvalidArgumentError(f"planner must be a Planner such as Duels() or LVM(), got {method!r:.80}")
        if method.needs_constant and math.isinf(self.lipschitz):
            raise InvalidArgumentError(
                f"lipschitz is not known and {type(method).__name__} needs it; give it: lvmrs lipschitz helps"
            )
        return method

    def _input(self, x: Tensor) -> Tensor:
        x = _torch_checks.finite_tensor("x", x, dims=0).detach()
        device = self._device(x)
        return x.to(device) if x.dtype == torch.float64 else x.to(device, torch.float32)

    def _device(self, x: Tensor) -> torch.device:
        if self.device is not None:
            return self.device
        parameters = self.model.parameters() if isinstance(self.model, nn.Module) else iter(())
        return next((parameter.device for parameter in parameters), x.device)

    def _sampler(self, x: Tensor) -> Sampler:
        """The sampler for inputs of this kind, checked and tuned once."""
        kind = (x.shape, x.dtype, x.device)
        if kind not in self._samplers:
            one = Sampler(self._run, self.sigma, 1, autocast=self.autocast)
            self._check_model(one, x)
            self._samplers[kind] = self._tuned(x) if self.batch is None else self._of_size(x, self.batch)
        return self._samplers[kind]

    def _of_size(self, x: Tensor, batch: int) -> Sampler:
        channels_last = x.dim() == 3 and x.device.type == "cuda"
        layout = torch.channels_last if channels_last else torch.contiguous_format
        return Sampler(self._run, self.sigma, batch, memory_format=layout, autocast=self.autocast)

    def _tuned(self, x: Tensor) -> Sampler:
        return tuned_batch(lambda size: self._of_size(x, size), x, most=4096)

    def _check_model(self, sampler: Sampler, x: Tensor) -> None:
        """A few noisy inputs, twice, and some of them again: the answers must be logits, and the same each time."""
        noise = torch.randn(8, *x.shape, generator=torch.Generator().manual_seed(0)).to(x)
        inputs = x + self.sigma * noise
        try:
            once, again, fewer = (sampler.forward(part.clone()) for part in (inputs, inputs, inputs[:3]))
        except LvmrsError:
            raise
        except Exception as error:
            reason = first_line(error)
            raise ModelError(
                f"the model fails on a batch of shape {tuple(inputs.shape)} ({x.dtype}): {reason}"
            ) from error
        check_logits(once, 8, 0)
        check_logits(fewer, 3, once.shape[1])
        slack = 1e-3 * float(once.abs().max()) + 1e-6
        if not torch.allclose(once, again, rtol=0, atol=slack):
            raise ModelError(
                "the model gives another answer to the same inputs when asked again; a certificate is about one fixed "
                "function: switch off what is random in its forward pass"
            )
        if not torch.allclose(once[:3], fewer, rtol=0, atol=slack):
            raise ModelError(
                "the model's answer to an input depends on what else is in its batch; a certificate needs answers that "
                "do not: put normalisation layers in eval mode, with running statistics"
            )
