"""A job: every setting that affects the rows of a run, in one object, and the records of it in the manifest.

The manifest of the run is derived from the job, so a run cannot record a method or σ that it did not use. A job can be
pickled; another process or machine certifies the same rows with it.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from lvmrs._util.user_code import files_run
from lvmrs.data.base import Dataset, check_labels, checked_input
from lvmrs.engine.way import Way
from lvmrs.errors import DataError, InvalidArgumentError, ModelError, guarded, naming
from lvmrs.kernel import checks
from lvmrs.kernel.certificate import Certificate
from lvmrs.kernel.method import Goal, Method, check_goal
from lvmrs.kernel.noise import Noise, Stream
from lvmrs.kernel.sampler import Model, Watch
from lvmrs.kernel.terms import Terms
from lvmrs.models.denoisers import Denoised
from lvmrs.models.load import Loaded
from lvmrs.models.preprocessing import Preprocessed
from lvmrs.planners import settings as method_settings
from lvmrs.planners.base import check_goal_for, relies_on_constant
from lvmrs.record import Row, Selection
from lvmrs.record.manifest import (
    ROWS_OF,
    DataRecord,
    DenoiserRecord,
    Manifest,
    MethodRecord,
    ModelRecord,
    TermsRecord,
    origin,
)
from lvmrs.runs.workers.base import Pickled, pickled, unpickled
from lvmrs.smoothed import SmoothedClassifier


@dataclass(frozen=True, eq=False)
class Job:
    """The inputs of a selection, one method and one smoothed classifier.

    Invalid combinations raise when the job is made, before a file is written. ``lvmrs.runs.certify`` runs the job. The
    docstring of ``lvmrs.runs`` has an example.
    """

    model: Loaded
    data: Dataset
    smoothed: SmoothedClassifier
    """The smoothed classifier of ``model.model``."""
    method: Method
    sampling: Sampling
    selection: Selection
    """The inputs of ``data`` to certify."""
    keeps_scores: bool = False
    """Whether the logits of all samples are kept on disk, so that they can be certified again."""

    def __post_init__(self) -> None:
        checks.instance("model", self.model, Loaded, "a Loaded model, as lvmrs.models.load gives it")
        checks.instance("smoothed", self.smoothed, SmoothedClassifier, "a SmoothedClassifier")
        checks.instance("sampling", self.sampling, Sampling, "a Sampling")
        if self.smoothed.model is not self.model.model:
            raise InvalidArgumentError(f"the smoothed classifier is not made of {self.model.name}; make it of that")
        self.smoothed.check_method(self.method)
        source, known = self.model.source, self.model.facts.denoiser
        if known is not None and source is not None and source.sigma != self.smoothed.sigma:
            sigmas = f"{source.sigma:g}, and not for {self.smoothed.sigma:g}"
            raise InvalidArgumentError(f"the denoiser {known.name} was loaded for sigma {sigmas}")
        check_goal_for(self.method, self.sampling.goal)
        if self.shares_budget and self.selection.shards > 1:
            raise InvalidArgumentError(
                "a budget is for all inputs together, and each shard would spend it; give no shards, or targets or a "
                "tolerance, which are for each input"
            )
        if self.keeps_scores and (self.shares_budget or not self.method.samples):
            why = "inputs share a budget" if self.shares_budget else f"{type(self.method).__name__} takes no samples"
            raise InvalidArgumentError(f"scores cannot be kept, since {why}; do not keep scores")
        check_selection(self.data, self.selection)

    def __reduce__(self) -> Any:
        """Pickle the job with the names of the user's modules; unpickling rebuilds the smoothed classifier."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        fields["smoothed"], fields["settled"] = self.smoothed.settings, self.smoothed.rounding.settled
        return _rebuilt, (pickled(fields),)

    @property
    def shares_budget(self) -> bool:
        """Whether all inputs share a budget of samples, so that their rows depend on each other."""
        return self.sampling.goal is not None and self.sampling.goal.limited

    @property
    def samples_each(self) -> int:
        """Maximum number of forward passes for one input, without that of the clean answer."""
        return self.sampling.n0 + self.sampling.n if self.method.samples else 1

    @property
    def files(self) -> list[Path]:
        """Files that loading the job reads: code of the user, weights, networks. Image folders are not listed."""
        sources = (self.model.source, self.data.data_source)
        return [*files_run(), *(file for source in sources if source is not None for file in source.files)]

    def input(self, index: int) -> tuple[Any, int | None]:
        """Read and check an input and its label; None if the data have no labels."""
        return checked_input(self.data, index)

    @functools.cached_property
    def dimensions(self) -> int:
        """Number of values of the first input."""
        return int(self.input(self.selection.indices[0])[0].numel())

    def row(self, index: int, watch: Watch | None = None) -> Row:
        """Certify the input with this index in the data set; ``watch`` as in ``rows``."""
        return next(self.rows([index], watch))

    def rows(self, indices: Iterable[int], watch: Watch | None = None) -> Iterator[Row]:
        """Certify inputs one after the other. The next input is sampled while a row is proved and used.

        Args:
            indices: indices of the inputs in the data set. A budget is shared by all inputs of the selection, including
                those that are not in ``indices``.
            watch: called with the stage and the logits of each batch of the input whose row comes next.

        Returns:
            The rows, in order. An error of an input is raised when the iterator reaches its row.
        """
        return (row for row, _ in self.certified(indices, watch))

    def certified(self, indices: Iterable[int], watch: Watch | None = None) -> Iterator[tuple[Row, Certificate]]:
        """The rows, each with its certificate; the arguments are those of ``rows``."""
        sampling: dict[str, Any] = {**vars(self.sampling), "watch": watch} if self.method.samples else {}
        if self.shares_budget:
            sampling["sharing"] = _Inputs(self, self.selection.indices)
        start = time.perf_counter()
        for item, certificate in self.smoothed.certified(_Inputs(self, list(indices)), self.method, **sampling):
            index, label = item.index, item.label
            with naming(index):
                clean = self.smoothed.answer(item.x) if self.method.samples else certificate.top
            if label is not None and label >= certificate.classes:
                raise DataError(f"input {index} has label {label}, but the model has {certificate.classes} classes")
            rounding = certificate.rounding or self._rounding_of_kept(item.x)
            samples = None if self.sampling.goal is None else certificate.n
            name, seconds = self.data.input_name(index), time.perf_counter() - start
            made = Row.of(index, label, certificate, seconds, clean=clean, name=name, samples=samples)
            yield replace(made, rounding=rounding), certificate
            start = time.perf_counter()

    def _rounding_of_kept(self, x: Tensor) -> float | None:
        """Allowance for rounding in kept scores that are certified with the constant; None if it cannot be measured."""
        if not self.keeps_scores or self._terms().lipschitz is None:
            return None
        try:
            return self.smoothed.rounding.of_samples(x, self.smoothed.sigma)
        except ModelError:
            return None  # the row records none, so no later method can rely on the constant

    def with_model(self, model: Model, **changed: Any) -> SmoothedClassifier:
        """The smoothed classifier with another model or other settings, and at least the same rounding allowance."""
        settings = self.smoothed.settings | changed
        if settings["way"] is not None and settings["batch"] is not None:
            settings["way"] = replace(settings["way"], batch=settings["batch"])
        made = SmoothedClassifier(model, **settings)
        made.rounding.settled = self.smoothed.rounding.settled
        return made

    def on(self, device: str) -> Job:
        """The same job on another device. Moves the model there."""
        if isinstance(self.model.model, nn.Module):
            self.model.model.to(device)
        return replace(self, smoothed=self.with_model(self.model.model, device=device))

    def settle_rounding(self, known: float | None = None) -> None:
        """Fix the rounding allowance of all rows, if rows or kept scores may rely on a Lipschitz constant.

        ``known`` is the one that a begun run has recorded; None measures it on the first input of the whole selection.
        """
        smoothed = self.smoothed
        relies = relies_on_constant(self.method, smoothed.lipschitz_under_noise)
        if math.isinf(smoothed.lipschitz_under_noise) or not (relies or self.keeps_scores):
            return
        if smoothed.precision is not None or not self.method.samples:
            return
        first, _ = self.input(replace(self.selection, shard=1, shards=1).indices[0])
        try:
            smoothed.rounding.settle(first, smoothed.sigma, known)
        except ModelError:
            if relies:
                raise
            # The run uses no constant and records none, so no later method can rely on it.

    def manifest(self, way: Way, command: str = "") -> Manifest:
        """The manifest of the run of this job, which runs the model in this way and records the user's command."""
        self.model.check_unchanged()
        if self.smoothed.rounding.least is None:
            self.settle_rounding()
        sigma = self.smoothed.sigma if self.method.samples else None
        return Manifest(
            model=model_record(self.model, self.smoothed),
            data=data_record(self.data),
            method=method_record(self.method, self.smoothed.noise, sigma),
            terms=self._terms(),
            selection=self.selection,
            running=way,
            keeps_scores=self.keeps_scores,
            rows_of=ROWS_OF,
            torch=version("torch"),
            origin=origin(command),
        )

    def _terms(self) -> TermsRecord:
        """The terms to record. A method without samples has no risk: alpha, n0 and n are 0."""
        smoothed, sampling = self.smoothed, self.sampling
        known = smoothed.lipschitz_under_noise if self.method.samples else smoothed.lipschitz
        constant, rounding = known if math.isfinite(known) else None, smoothed.rounding.least
        if self.method.samples and (smoothed.precision is not None or (self.keeps_scores and rounding is None)):
            constant = None  # methods that certify the scores again must not rely on the constant
        if not self.method.samples:
            return TermsRecord(smoothed.settings["sigma"], 0.0, 0, 0, sampling.seed, constant)
        return TermsRecord(
            sigma=smoothed.sigma,
            alpha=sampling.alpha,
            n0=sampling.n0,
            n=sampling.n,
            seed=sampling.seed,
            lipschitz=constant,
            noise=smoothed.noise.spelling,
            dimensions=self.dimensions,
            distance=smoothed.noise.distance,
            noise_words=smoothed.noise.words(smoothed.sigma),
            rounding=None if constant is None else rounding,
            goal=sampling.goal,
        )


@dataclass(frozen=True)
class _Inputs(Collection[tuple[int, Tensor, int | None]]):
    """Inputs of a job with their indices and labels. Each iteration reads them again, one at a time."""

    job: Job
    indices: Sequence[int]

    def __len__(self) -> int:
        return len(self.indices)

    def __contains__(self, given: object) -> bool:
        return given in self.indices

    def __iter__(self) -> Iterator[tuple[int, Tensor, int | None]]:
        job = self.job
        counts = job.method.samples and job.smoothed.noise.error(job.smoothed.sigma) > 0
        for index in self.indices:
            x, label = job.input(index)
            if counts and x.numel() > job.dimensions:
                raise DataError(
                    f"input {index} has {x.numel()} numbers, and the first has {job.dimensions}: with "
                    f"{job.smoothed.noise.name} noise no input may have more than the first; scale them to one size"
                )
            yield index, x, label


def _rebuilt(given: Pickled) -> Job:
    fields = unpickled(given)
    model: Loaded = fields["model"]
    settings, settled = fields.pop("smoothed"), fields.pop("settled")
    if isinstance(model.model, nn.Module) and settings["device"] != "auto":
        model.model.to(settings["device"])
    smoothed = SmoothedClassifier(model.model, **settings)
    smoothed.rounding.settled = settled
    return Job(**fields, smoothed=smoothed)


@dataclass(frozen=True)
class Sampling:
    """Risk, numbers of samples and seed of the certificates of a job."""

    alpha: float = 0.001
    """The risk of each certificate, strictly between 0 and 1."""
    n0: int = 1_000
    """Number of selection samples, for the plan; at least 1."""
    n: int = 100_000
    """Number of certification samples, for the proof; at least 2."""
    seed: int = 0
    """The seed of the noise, from 0 to 2⁶³ − 1."""
    goal: Goal | None = None
    """When sampling for an input stops before n samples; None takes all n."""

    def __post_init__(self) -> None:
        terms = Terms(1.0, self.alpha, self.n)
        if self.goal is not None:
            check_goal(self.goal)
        n0, seed = checks.count("n0", self.n0, least=1), Stream(self.seed, 0, "selection").seed
        for name, value in (("alpha", terms.alpha), ("n0", n0), ("n", terms.n), ("seed", seed)):
            object.__setattr__(self, name, value)

    @property
    def of_all(self) -> dict[str, Any]:
        """All settings but the goal, by name."""
        return {name: value for name, value in vars(self).items() if name != "goal"}


def check_selection(data: Dataset, selection: Selection) -> None:
    """Raise if a selection was made for other data, is empty, or has more shards than inputs.

    Args:
        data: the data set.
        selection: the inputs to certify.

    >>> import numpy as np
    >>> from lvmrs.data import Arrays
    >>> check_selection(Arrays("two", "test", np.eye(2), np.arange(2)), Selection(2, shard=1, shards=3))
    Traceback (most recent call last):
    lvmrs.errors.DataError: two: 3 shards for 2 inputs; take fewer
    """
    checks.instance("data", data, Dataset, "a Dataset, as lvmrs.data.load gives it")
    checks.instance("selection", selection, Selection, "a Selection")
    whole = replace(selection, shard=1, shards=1)
    if selection.size != len(data):
        raise InvalidArgumentError(
            f"the selection is for {selection.size} inputs, and {data.name} has {len(data)}; make it for this data set"
        )
    if not len(whole.indices):
        raise DataError(f"{data.name}: no inputs are selected; check max and skip")
    if selection.shards > len(whole.indices):
        raise DataError(f"{data.name}: {selection.shards} shards for {len(whole.indices)} inputs; take fewer")


def check_inputs(smoothed: SmoothedClassifier, data: Dataset, selection: Selection) -> None:
    """Raise if a selection does not fit the data, or if a label is not a class of the model."""
    checks.instance("smoothed", smoothed, SmoothedClassifier, "a SmoothedClassifier")
    check_selection(data, selection)
    check_labels(data, smoothed.classes(checked_input(data, selection.indices[0])[0]))


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
        precision=smoothed.precision,
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
