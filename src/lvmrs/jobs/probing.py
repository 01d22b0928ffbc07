"""Whether a worker runs the same classifier: all run the model on the same few inputs, and their logits are compared.

Weights go with a job, and versions of libraries are compared. That leaves processors, libraries that the model calls
besides torch, environments, and buffers that a model makes anew. What they do to the logits is looked at here, at the
cost of two small batches for each worker.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from lvmrs.agreement import Agreement
from lvmrs.errors import RunError
from lvmrs.jobs.job import Job
from lvmrs.workers.base import Each, bytes_of

__all__ = ["Answer", "Comparing", "Probe", "probe"]

# Noisy copies of the first input on which the model is run.
_ROWS = 4


class Probe(NamedTuple):
    """What a model answers to the same inputs everywhere."""

    logits: Tensor
    agreement: Agreement
    """How far rounding may move the logits there."""
    where: str
    """Who computed it, in words."""


class Answer(NamedTuple):
    """What a worker answers to a question, and with its first answer what its model gives for the probe."""

    value: Any
    probe: Probe | None

    @property
    def nbytes(self) -> int:
        """How large the value is, if it is large."""
        return bytes_of(self.value)


def probe(job: Job, who: str) -> Probe:
    """Run the model itself on some noisy copies of the first input of a job.

    Args:
        job: the job; it has the same inputs on all machines.
        who: who computes it, such as "the worker".
    """
    first, _ = job.input(job.selection.indices[0])
    noise = torch.randn(_ROWS, *first.shape, generator=torch.Generator().manual_seed(0))
    scale = job.smoothed.settings["sigma"] or 0.0
    logits, agreement = job.smoothed.unchecked_logits(first + scale * noise.to(first))
    return Probe(logits, agreement, f"{who} on {socket.gethostname()}")


class Comparing:
    """Has workers answer questions; one whose model is another is refused, and nothing that it says is believed.

    Args:
        each: gives an ``Answer`` for each question.
        known: what the model answers here; None if it does not run here, so that the first worker is believed.
    """

    def __init__(self, each: Each, known: Probe | None) -> None:
        self._each, self._known = each, known

    def __call__(self, questions: Iterable[Any]) -> Iterator[list[Any]]:
        """The answers, in lists of those that are there at a time."""
        for answers in self._each(questions):
            for found in (answer.probe for answer in answers if answer.probe is not None):
                self._known = found if self._known is None else self._known
                _check_same(self._known, found)
            yield [answer.value for answer in answers]


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
