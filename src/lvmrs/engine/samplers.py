"""Makes one sampler for each kind of input: shape, type and device.

The model is checked once for each kind. How to run it is chosen on the first input, and then kept.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from lvmrs.engine import tuning
from lvmrs.engine.execution import Fast, fast_version
from lvmrs.engine.threads import AdaptiveThreads, ThreadPool, cores, torch_threads
from lvmrs.engine.tracing import NotTraceableError, snapshot
from lvmrs.engine.tuning import Tuned, chosen_batch, chosen_way, gain_of_bfloat16
from lvmrs.engine.way import Way
from lvmrs.errors import InvalidArgumentError, ModelError, guarded
from lvmrs.kernel import checks
from lvmrs.kernel.model_check import ModelCheck, check_model
from lvmrs.kernel.noise import Stream
from lvmrs.kernel.sampler import Sampler, evaluating

Made = TypeVar("Made")

# A batch size that the model check does not use: a model may cache data for each batch size.
_OTHER_ROWS = 5
# Noisy copies of an input on which a fast version of the model is compared with the model.
_ROWS = 16
# The measurement of speed: about how many seconds, at most how many batches, and at most how many samples in a batch.
_MEASURED, _MOST, _FEW = 0.1, 8, 1024
# The batch size where it does not affect speed.
_PLAIN_BATCH = 64
# The size of a piece for one thread, in seconds and in samples at most: each piece has an overhead.
_PIECE_SECONDS, _LARGEST_PIECE = 0.1, 1024

# A run of this many seconds is long enough to try another precision.
_LONG = 20.0

_CHANGED = (
    "the weights or attributes of the model have changed since it was first run; a certificate is about one fixed "
    "function: make a new SmoothedClassifier after a change"
)


@dataclass(frozen=True)
class Throughput:
    """How, and how fast, inputs of one kind are run."""

    way: Way
    """How the model is run."""
    workers: int
    """The number of threads that run a batch each."""
    rate: float
    """Samples per second on an idle machine, as measured."""
    classes: int
    """How many classes the model has."""
    why_not_fast: str | None = None
    """If no fast version runs although one was allowed, the reason."""
    precision: str | None = None
    """The 16-bit type in which the model runs, see ``Samplers.precision``; None for its own precision."""
    in_bfloat16: float = 1.0
    """How many times as fast the network would be in bfloat16, for runs that take long; 1 if it was not tried."""

    @property
    def batch(self) -> int:
        """Samples in a forward pass."""
        return self.way.batch

    @property
    def words(self) -> str:
        """One-line summary for people."""
        together = f", {self.workers} at a time" if self.workers > 1 else ""
        kind = f", {checks.in_precision(self.precision)}" if self.precision else ""
        why = f"; the model runs as it is: {self.why_not_fast}" if self.why_not_fast else ""
        return f"{self.way.words}{together}{kind}{why}"


class Samplers:
    """One sampler for each kind of input (shape, precision, device).

    Args:
        pattern: a sampler whose fields are copied into every sampler.
        batch: samples in a forward pass; None to choose it by trials.
        way: how the model is run; None to choose it.
        fast: whether a fast version of the model may be run.
        compiled: whether the model runs through torch.compile; None to compile for long runs.
        precision: the 16-bit type to run the model in; None for the types of its inputs and weights. A network that can
            be traced is cast to the type, and compared with the model. Another one runs under autocast, as does one
            for which "autocast-bfloat16" asks for it. One of the two serves all inputs.
    """

    def __init__(
        self,
        pattern: Sampler,
        batch: int | None,
        *,
        way: Way | None = None,
        fast: bool = True,
        compiled: bool | None,
        precision: str | None = None,
    ) -> None:
        if way is not None:
            checks.instance("way", way, Way, "a Way, as an earlier run has chosen it")
        if way is not None and batch not in (None, way.batch):
            raise InvalidArgumentError(f"batch must be {way.batch} here, got {batch}; leave it out")
        self.pattern, self.given, self.way, self.fast, self.compiled = pattern, batch, way, fast, compiled
        self._low = checks.precision("precision", precision, autocast=True)
        # Whether the model runs under autocast; None until the first input shows whether it can be cast.
        asked = str(precision).startswith(checks.AUTOCAST) or not fast or (way is not None and not way.folded)
        self._autocasts = True if asked else None
        self._samplers: dict[tuple[Any, ...], Sampler] = {}
        self._checked: dict[tuple[Any, ...], tuple[Sampler, ModelCheck]] = {}
        self._throughputs: dict[tuple[Any, ...], Throughput] = {}
        self._fasts: dict[tuple[Any, ...], Fast | None] = {}
        self._held: list[object] | None = None
        self._watched = False  # false for a model whose attributes change in every run; its logits are compared
        self._why: str | None = None
        self._cores = cores()

    @property
    def batch(self) -> int | None:
        """Samples in a forward pass; None if the size is neither given nor chosen yet."""
        return self.given if self.way is None else self.way.batch

    def fix(self, way: Way) -> None:
        """Run all inputs in this way; raises if another batch size was given or chosen."""
        if self.batch not in (None, way.batch):
            raise InvalidArgumentError(f"batch must be {way.batch} here, got {self.batch}; leave it out")
        self.way = way
        if self._autocasts is None and not way.folded:
            self._autocasts = True  # a network that is cast is a list of steps

    @property
    def undecided(self) -> bool:
        """Whether the model must run once to decide between casting and autocast."""
        return self._low is not None and self._autocasts is None

    @property
    def precision(self) -> str | None:
        """The 16-bit type in which the model runs, after "autocast-" if under autocast; None for its own precision."""
        if self._low is None:
            return None
        return f"{checks.AUTOCAST if self._autocasts else ''}{str(self._low).removeprefix('torch.')}"

    def pool(self) -> ThreadPool:
        """A pool of threads for the samplers."""
        return ThreadPool(self._cores)

    def plain(self, x: Tensor) -> Sampler:
        """A sampler that runs the model itself, for inputs like ``x``; it needs no choice of how to run the model.

        It runs in the precision of the model, unless the network cannot be traced and runs under autocast.
        """
        return self._plain(x)[0]

    def of(self, x: Tensor) -> Sampler:
        """The sampler for inputs like ``x``."""
        return self._of(x, samples=0)

    def prepare(self, x: Tensor, samples: int = 0) -> Throughput:
        """Choose how inputs like ``x`` are run; from now on, inputs of every kind are run in this way.

        Args:
            x: an input, as the model gets it.
            samples: the number of samples of the run; 0 if it is not known.
        """
        self._of(x, samples)
        throughput = self._throughputs[_kind(x)]
        self.way = throughput.way
        return throughput

    def _of(self, x: Tensor, samples: int) -> Sampler:
        kind = _kind(x)
        self._plain(x)
        self._require_unchanged()
        if kind not in self._samplers:
            with torch_threads(1):  # small batches: several threads would wait for each other
                self._samplers[kind] = self._made(x, samples)
        return self._samplers[kind]

    def watching(self, made: Iterator[Made]) -> Iterator[Made]:
        """Yield results, and raise once the weights or attributes of the model have changed.

        After a change, samples would come from another model than the user's: a fast version has copies of the weights,
        and samples are drawn ahead.
        """
        for each in made:
            self._require_unchanged()
            yield each

    def _require_unchanged(self) -> None:
        if self._watched and self._holds() != self._held:
            raise ModelError(_CHANGED)

    def _holds(self) -> list[object] | None:
        """The present weights and attributes of the model; None if it is no module, or has too many to compare."""
        model = self.pattern.model
        return snapshot(model) if isinstance(model, nn.Module) else None

    def _plain(self, x: Tensor) -> tuple[Sampler, ModelCheck]:
        """A sampler of the model itself, and its check, which is made once for each kind of input."""
        kind = _kind(x)
        if kind not in self._checked:
            plain = replace(self.pattern, memory_format=_layout(x), batch=self.batch or _PLAIN_BATCH)
            with torch_threads(1), _recognising_batches(plain, x):
                if self._low is not None and not self._casts(plain, x):
                    plain = replace(plain, autocast=self._low)
                check = check_model(plain, x, batch=self.batch)
                if not self._checked:  # lazy layers are initialised by now
                    self._held = self._holds()
                    plain.answers(x.expand(_OTHER_ROWS, *x.shape).clone(), check.classes, finite=False)
                    self._watched = self._held is not None and self._held == self._holds()
                if self._fasts.get(kind) is not None:
                    check = check.coarser(x, self._low)
            self._checked[kind] = replace(plain, recheck=check.recheck, classes=check.classes), check
        return self._checked[kind]

    def _casts(self, plain: Sampler, x: Tensor) -> bool:
        """Whether the network is cast to the 16-bit type; otherwise it runs under autocast, as for all inputs."""
        if self._autocasts:
            fast = None
        else:
            if not self._checked:  # lazy layers are initialised by a first pass
                replace(plain, autocast=self._low).answers(x[None].clone(), 0, finite=False)
            fast = self._fast_version(x)
        if self._autocasts is False and fast is None:
            raise ModelError(
                f"the network was cast to {self.precision} for other inputs, and cannot be cast for those of shape "
                f"{tuple(x.shape)} ({self._why}); give the precision "
                f"{checks.AUTOCAST}{self.precision} for all inputs"
            )
        self._autocasts, self._fasts[_kind(x)] = fast is None, fast
        return fast is not None

    def _made(self, x: Tensor, samples: int) -> Sampler:
        plain, check = self._plain(x)
        fast = self._fasts[_kind(x)] if self._low is not None else self._fast_version(x)
        choice = self._chosen(plain, fast, x)
        way = choice.way
        piece = max(1, min(_LARGEST_PIECE, round(_PIECE_SECONDS / choice.cost)))
        made = replace(plain, batch=way.batch, piece=piece)
        rate = (1 if x.device.type != "cpu" else self._cores) / choice.cost
        if fast is not None and way.folded == fast.folded:
            # On a CPU, a compiled program runs in one thread.
            together = x.device.type != "cpu" or choice.workers == self._cores
            if self.compiled and fast.folded and not fast.layout_free:
                raise ModelError("the model depends on the memory layout and cannot be compiled; do not compile it")
            may = self.way is None and fast.folded and fast.layout_free
            if may and (self.compiled or (self.compiled is None and together)):
                size = None if self.given is None else way.batch
                way = tuning.plain_or_compiled(fast, choice, x, size, samples / rate, asked=bool(self.compiled))
                made = replace(made, batch=way.batch)
            if way.channels_last and not fast.convolves:
                raise ModelError("the run was begun with channels last, which the model does not allow; begin it again")
            with guarded("the model cannot be run as the run was begun", error=ModelError):
                run, recheck = fast.runner(way, choice.workers, x), replace(check, fast=True).recheck
            made = replace(made, runner=run, workers=choice.workers, recheck=recheck)
        elif self._autocasts is False:
            raise ModelError(
                f"the run was begun under autocast, and here the network was cast to {self.precision}; give the "
                f"precision {checks.AUTOCAST}{self.precision}"
            )
        elif way.folded:
            raise ModelError(
                f"the run was begun with the model as a list of steps, and this cannot be done here ({self._why}); "
                "begin the run again"
            )
        elif way.compiled or self.compiled:
            way = replace(way, compiled=True)
            made = replace(made, runner=_in_eval_mode(self.pattern.model))
        if made.workers == 1 and self._cores > 1 and x.device.type == "cpu":
            made = replace(made, around=AdaptiveThreads(choice.cost).run)
        rate = self._rate(made, x, choice.cost)
        throughput = Throughput(way, made.workers, rate, check.classes, self._why, self.precision)
        if fast is not None and self._low is None and samples / throughput.rate > _LONG:
            throughput = replace(throughput, in_bfloat16=gain_of_bfloat16(fast, replace(choice, way=way), x))
        self._throughputs[_kind(x)] = throughput
        return made

    def _rate(self, sampler: Sampler, x: Tensor, cost: float) -> float:
        """Samples per second, including noise and checks; on a CPU, as if no other program used it."""
        clock = time.process_time if x.device.type == "cpu" else time.perf_counter
        few = min(sampler.batch, _FEW)
        n = min(max(few, round(_MEASURED / cost)), _MOST * few)
        sampler.answers_as_run(x.expand(few, *x.shape).clone())  # warm up
        start = clock()
        for _ in sampler.logits(x, Stream(0, 0, "calibration"), n):  # a stage without repeated checks
            pass
        return n * (self._cores if x.device.type == "cpu" else 1) / max(clock() - start, 1e-9)

    def _fast_version(self, x: Tensor) -> Fast | None:
        """The fast version of the model; None if there is none, with the reason in ``_why``."""
        self._why = None
        if not self.fast:
            return None
        try:
            return self._shown_fast(x)
        except NotTraceableError as error:
            self._why = str(error)
            return None

    def _shown_fast(self, x: Tensor) -> Fast:
        model = self.pattern.model
        if torch.is_autocast_enabled(x.device.type):
            raise NotTraceableError("it runs under autocast")  # autocast is a setting of one thread
        noise = torch.randn(_ROWS, *x.shape, generator=torch.Generator().manual_seed(1)).to(x)
        try:
            with evaluating(model):
                return fast_version(model, x + self.pattern.sigma * noise, self._low)
        except SystemExit as error:
            shape = (_ROWS, *x.shape)
            raise ModelError(f"the model fails on a batch of shape {shape}, {x.dtype} (it calls sys.exit)") from error

    def _chosen(self, plain: Sampler, fast: Fast | None, x: Tensor) -> Tuned:
        """How to run the model, as given or found by trials, and the cost of a sample."""
        given = self.way
        if given is not None and fast is not None and given.folded != fast.folded:
            fast = None
        if fast is not None:
            choice = chosen_way(fast, x, self.batch, self._cores)
        else:
            choice = chosen_batch(plain.forward, x, self._cores)
            choice = choice if self.batch is None else replace(choice, way=Way(self.batch))
        return choice if given is None else replace(choice, way=given)


def _in_eval_mode(model: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    compiled = torch.compile(model)

    def run(inputs: Tensor) -> Tensor:
        with evaluating(model):
            answer: Tensor = compiled(inputs)
        return answer

    return run


@contextmanager
def _recognising_batches(plain: Sampler, x: Tensor) -> Iterator[None]:
    """Explain a failure of the model on copies of x that is due to a batch dimension: x itself is a batch of inputs."""
    try:
        yield
    except ModelError as error:
        if x.dim() > 1 and _runs(plain, x) and not _runs(plain, x[None]):
            raise InvalidArgumentError(
                f"x has a batch dimension (shape {tuple(x.shape)}); pass x[0], or use certify_batch"
            ) from error
        raise


def _runs(plain: Sampler, inputs: Tensor) -> bool:
    """Whether the model gives logits for a batch."""
    try:
        plain.answers(inputs.clone(), 0)
    except ModelError:
        return False
    return True


def _layout(x: Tensor) -> torch.memory_format:
    return torch.channels_last if x.dim() == 3 and x.device.type == "cuda" else torch.contiguous_format


def _kind(x: Tensor) -> tuple[Any, ...]:
    return x.shape, x.dtype, x.device, torch.is_autocast_enabled(x.device.type)
