"""Certifies a data set with a routed classifier: one process writes the rows into a run directory.

All networks run as they are, in batches of one size, so that a resumed run has the same rows.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from lvmrs.data.base import Dataset, check_labels, checked_input
from lvmrs.engine.way import Way
from lvmrs.errors import DataError, InvalidArgumentError, naming
from lvmrs.kernel import checks
from lvmrs.models.load import Loaded
from lvmrs.record import Row, Run, RunWriter, Selection
from lvmrs.record.manifest import ROUTED, ROWS_OF, Manifest, MethodRecord, ModelRecord, TermsRecord, origin
from lvmrs.record.result_file import correctness
from lvmrs.runs.job import Sampling, check_selection, data_record, model_record
from lvmrs.runs.routed import RoutedClassifier
from lvmrs.smoothed import SmoothedClassifier


@dataclass(frozen=True, eq=False)
class RoutedJob:
    """The inputs of a selection and a routed classifier."""

    name: str
    """The name of the classifier in the records of the run, which begins with ``routed:``."""
    models: Mapping[str, Loaded]
    """The loaded models of the parts: "router", "expert 0", "expert 1" …"""
    routed: RoutedClassifier
    data: Dataset
    sampling: Sampling
    selection: Selection
    batch: int
    """Samples in a forward pass of each network."""

    def __post_init__(self) -> None:
        if not self.name.startswith("routed:"):
            raise InvalidArgumentError(
                f"name must begin with routed: (readers know such runs by it), got {self.name!r}"
            )
        check_selection(self.data, self.selection)
        for part in self.parts.values():
            part.fix_way(Way(self.batch))

    @property
    def parts(self) -> dict[str, SmoothedClassifier]:
        """The smoothed classifiers, by the names in ``models``."""
        experts = {f"expert {k}": expert for k, expert in enumerate(self.routed.experts)}
        return {"router": self.routed.router, **experts}

    def row(self, index: int) -> Row:
        """Certify the input with this index in the data set."""
        start = time.perf_counter()
        x, label = checked_input(self.data, index)
        with naming(index):
            made = self.routed.certify(x, **self.sampling.of_all, index=index)
            clean = self.routed.answer(x)
        if label is not None and label >= (classes := made.experts[0].classes):
            raise DataError(f"input {index} has label {label}, but the experts have {classes} classes")
        weakest = min([*made.experts, *([] if made.router is None else [made.router])], key=lambda part: part.radius)
        seconds, name = time.perf_counter() - start, self.data.input_name(index)
        return replace(
            Row.of(index, label, weakest, seconds, clean=clean, name=name, samples=made.n),
            predict=made.prediction,
            correct=correctness(made.prediction, label),
            top=made.experts[0].top,
            experts=";".join(map(str, made.answering)),
            expert_radius=made.expert_radius,
            router_radius=None if math.isinf(made.router_radius) else made.router_radius,
        )

    def manifest(self, command: str = "") -> Manifest:
        """The manifest of the run. Its sigma is the largest of the experts, which limits the radius."""
        router, sampling = self.routed.router, self.sampling
        sigmas = ", ".join(f"{expert.sigma:g}" for expert in self.routed.experts)
        return Manifest(
            model=ModelRecord(self.name, device=router.kind_of_device, precision=router.precision),
            data=data_record(self.data),
            method=MethodRecord(
                ROUTED,
                {**{name: self._part_record(name) for name in self.parts}, "fallback": self.routed.fallback},
                scope="all inputs",
                classifier="the routed classifier in which the expert that wins all duels of the router answers, or "
                f"expert {self.routed.fallback} if none does (the router under {router.noise.words(router.sigma)}; "
                f"experts 0, 1 … are duel classifiers at σ = {sigmas})",
            ),
            terms=TermsRecord(
                max(expert.sigma for expert in self.routed.experts),
                sampling.alpha,
                sampling.n0,
                sampling.n,
                sampling.seed,
                noise=router.noise.spelling,
                distance=router.noise.distance,
            ),
            selection=self.selection,
            running=Way(self.batch),
            rows_of=ROWS_OF,
            torch=version("torch"),
            origin=origin(command),
        )

    def _part_record(self, name: str) -> dict[str, Any]:
        self.models[name].check_unchanged()
        made, sigma = model_record(self.models[name], self.parts[name]), self.parts[name].sigma
        more = {"normalisation": made.normalisation, "code": made.code_hash, "precision": made.precision}
        known = {name: value for name, value in more.items() if value is not None}
        return {"model": made.name, "sigma": sigma, "weights": made.weights_hash, **known}


def certify_routed(
    job: RoutedJob,
    out: str | Path,
    *,
    resume: bool = False,
    command: str = "",
    on_begin: Callable[[int, int], None] = lambda inputs, done: None,
    on_row: Callable[[Row], None] = lambda row: None,
) -> Run:
    """Certify every input of a job that has no row yet.

    Args:
        job: the job.
        out: the directory of the run. Each row is on the disk before the next input begins.
        resume: continue a run in that directory, which the same job must have begun.
        command: the command line of the user, which the run records.
        on_begin: called once, with the numbers of inputs without and with a row.
        on_row: called with each row after it is on the disk.
    """
    checks.instance("job", job, RoutedJob, "a RoutedJob")
    first, label = checked_input(job.data, job.selection.indices[0])
    check_labels(job.data, job.routed.experts[0].classes(first), label)
    with RunWriter(out, job.manifest(command), resume=resume) as writer:
        pending = writer.pending
        on_begin(len(pending), len(writer.done))
        for index in pending:
            row = job.row(index)
            writer.append(row)
            on_row(row)
    return writer.run
