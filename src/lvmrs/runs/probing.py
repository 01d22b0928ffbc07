"""Checks that all workers run the same classifier: compares the logits of each worker on the same few inputs.

A job is sent with its weights, and workers compare the versions of libraries. Logits may still differ because of
processors, libraries that the model calls besides torch, environment variables, and buffers that a model fills when it
is loaded. The check costs three small batches for each worker.
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
    """The logits of a model for inputs that are the same on all machines."""

    logits: Tensor
    agreement: Agreement
    """The differences that rounding may cause in these logits."""
    where: str
    """The process and host that computed them, such as "the worker on node7"."""


class Reply(NamedTuple):
    """A worker's result. The first reply of a worker has a probe."""

    value: Any
    probe: Probe | None

    @property
    def nbytes(self) -> int:
        """Size of the value in bytes; 0 if the value has no ``nbytes``, and is small."""
        return int(getattr(self.value, "nbytes", 0))


def probe(job: Job, process: str) -> Probe:
    """Run the model on a few noisy copies of the first input of a job.

    Args:
        job: the job; it has the same inputs on all machines.
        process: the name of this process, such as "the worker".
    """
    first, _ = job.input(job.selection.indices[0])
    noise = torch.randn(_ROWS, *first.shape, generator=torch.Generator().manual_seed(0))
    scale = job.smoothed.settings["sigma"] or 0.0
    logits, agreement = job.smoothed.unchecked_logits(first + scale * noise.to(first))
    return Probe(logits, agreement, f"{process} on {socket.gethostname()}")


def rejecting_others(each: Each, known: Probe | None) -> Each:
    """Reject workers whose logits differ, and discard their results.

    Args:
        each: yields lists of ``Reply`` for questions.
        known: the probe of this process; None if the model does not run here, so that the first worker is the
            reference.

    Returns:
        A function that yields the values of the replies.
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
    advice = "its processor, libraries or files differ: use nodes of one kind, or leave this node out"
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
