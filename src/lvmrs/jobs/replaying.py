"""Spending a budget on kept scores: each input gets as many as would have been sampled for it, without the network."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from lvmrs.certifying import Asked, Planning, certified_within
from lvmrs.errors import InvalidArgumentError, ProofError
from lvmrs.goals import Goal
from lvmrs.plan import Terms
from lvmrs.planners import Planner
from lvmrs.runs import Row
from lvmrs.runs.manifest import TermsRecord
from lvmrs.runs.scores import KeptScores
from lvmrs.sampling import Request, Sampler

__all__ = ["check_can_be_spent", "replayed"]


def check_can_be_spent(goal: Goal, kept: TermsRecord) -> None:
    """Refuse a budget that kept scores cannot be asked with."""
    if kept.goal is not None:
        raise InvalidArgumentError(
            "sampling was stopped by a goal, so that inputs do not have all their scores; a budget needs them"
        )


def replayed(
    kept: KeptScores,
    planner: Planner,
    terms: Terms,
    record: TermsRecord,
    goal: Goal,
    rows: Sequence[Row],
    *,
    labelled: bool = True,
) -> Iterator[Row]:
    """Spend a budget on the kept scores of all inputs.

    Args:
        kept: the scores.
        planner: the method.
        terms: the terms of all certificates; the rounding is made as large as that of any row.
        record: the same, as the run has them.
        goal: the goal, with a budget of samples.
        rows: the rows of the source, of all inputs.
        labelled: whether labels are known, so that samples are spent on right answers.

    Returns:
        The new rows, in the order of the old ones.
    """
    start = time.perf_counter()
    for row in rows:
        kept.check(row)
    terms = replace(terms, rounding=max(terms.rounding, *(row.rounding or 0.0 for row in rows)))
    sampler = Sampler(_no_network, terms.sigma, 1, noise=terms.noise)
    like = torch.zeros(1).expand(max(1, terms.dimensions))  # as many numbers as an input has, in no memory
    seed, n0 = record.seed or 0, record.n0 or 0

    def label(row: Row) -> int | None:
        return row.label if labelled else None

    inputs = [Asked.of(sampler, like, seed, row.idx, n0, terms.n, label(row)) for row in rows]
    found = certified_within(inputs, partial(_kept_logits, kept), Planning(planner, lambda x: terms, goal))
    for row, certificate in zip(rows, found, strict=True):
        seconds = (time.perf_counter() - start) / len(rows)
        known = row.idx, row.label, certificate, seconds
        yield Row.of(*known, clean=row.clean, name=row.name, samples=certificate.n)


def _kept_logits(kept: KeptScores, requests: Iterable[Request]) -> Iterator[Iterator[Tensor]]:
    for request in requests:
        yield kept.logits(request.stream.index, request.stream.stage, request.n)


def _no_network(x: Tensor) -> Tensor:
    raise ProofError("kept scores need no network")
