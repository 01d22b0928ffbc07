"""Checks that all workers run the same classifier: each runs the model on the same few inputs, and logits are compared.

Weights travel with a job, and workers compare the versions of libraries. Logits may still differ because of processors,
libraries that the model calls besides torch, environment variables, and buffers that a model makes when it is loaded.
The check costs three small batches for each worker.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from lvmrs.errors import RunError
from lvmrs.kernel.agreement import Agreement
from lvmrs.runs.job import Job
from lvmrs.runs.workers.base import Each

__all__ = ["Probe", "Reply", "probe", "rejecting_others"]

# Noisy copies of the first input on which the model is run.
_ROWS = 4


class Probe(NamedTuple):
    """The logits of a model for the inputs that are the same on all machines."""

    logits: Tensor
    agreement: Agreement
    """How far rounding may move the logits there."""
    where: str
    """Which process computed them, such as "the worker on node7"."""


class Reply(NamedTuple):
    """A worker's answer to a question. The first reply of a worker has a probe."""

    value: Any
    probe: Probe | None

    @property
    def nbytes(self) -> int:
        """Size of the value in bytes, if it says so; otherwise it is small."""
        return int(getattr(self.value, "nbytes", 0))


def probe(job: Job, who: str) -> Probe:
    """Run the model itself on some noisy copies of the first input of a job.

    Args:
        job: the job; it has the same inputs on all machines.
        who: the process that computes, such as "the worker".
    """
    first, _ = job.input(job.selection.indices[0])
    noise = torch.randn(_ROWS, *first.shape, generator=torch.Generator().manual_seed(0))
    scale = job.smoothed.settings["sigma"] or 0.0
    logits, agreement = job.smoothed.unchecked_logits(first + scale * noise.to(first))
    return Probe(logits, agreement, f"{who} on {socket.gethostname()}")


def rejecting_others(each: Each, known: Probe | None) -> Each:
    """Rejects workers whose logits differ, and discards their results.

    Args:
        each: gives a ``Reply`` for each question.
        known: the probe of this process; None if the model does not run here. The first worker is the reference then.

    Returns:
        A function that gives the value of each reply.
    """
    reference = known

    def values(questions: Iterable[Any]) -> Iterator[list[Any]]:
        nonlocal reference
        for replies in each(questions):
            for found in (reply.probe for reply in replies if reply.probe is not None):
                reference = found if reference is None else reference
                _check_same(reference, found)
            yield [reply.value for reply in replies]

    return values


def _check_same(known: Probe, found: Probe) -> None:
    there = f"{found.where} does not run the same classifier as {known.where}"
    advice = "its processor, libraries or files are others: use nodes of one kind, or leave it out"
    if known.logits.shape != found.logits.shape:
        classes = f"it has {found.logits.shape[1]} classes and not {known.logits.shape[1]}"
        raise RunError(f"{there}: {classes}; {advice}")
    agreement = known.agreement.widened(found.agreement)
    if not agreement.agree(found.logits, known.logits):
        apart = float((found.logits - known.logits).abs().nan_to_num(nan=torch.inf).max())
        allowed = float(agreement.allowance(known.logits).max())
        raise RunError(
            f"{there}: logits of the same inputs differ by {apart:.3g}, and rounding explains {allowed:.1g}; {advice}"
        )
