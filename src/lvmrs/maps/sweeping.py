"""Moments of a simplex map at many temperatures from one pass over the logits."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from lvmrs import _checks
from lvmrs._checks import Numbers
from lvmrs.errors import InvalidArgumentError, shown
from lvmrs.maps.base import SimplexMap, below_largest, usable
from lvmrs.moments import Moments, statistics_device

__all__ = ["sweep"]

# Numbers handled at a time in a sweep: few megabytes of scratch, and the call overhead spread over many samples.
_CHUNK = 1 << 20


def sweep(
    kind: type[SimplexMap], logits: Tensor, temperatures: Numbers, *, mass: float = 1.0, kept: Tensor | None = None
) -> Moments:
    """Moments of the scores of every class at many temperatures, from one pass over the logits.

    It needs memory for a chunk of the sample, not for T × n × c scores.

    Args:
        kind: class of the simplex map.
        logits: a sample of logits, of shape (…, n, c); n is the number of samples.
        temperatures: T of them.
        mass: what the scores sum to.
        kept: if given, the classes whose scores are wanted. One column more is for the best of the other classes in
            each sample; since a map keeps the order of the logits, its mean is at least that of each of them.

    Returns:
        Moments over the n samples, in float64, of shape (…, T, c); of shape (…, T, kept + 1) with ``kept``.

    >>> from lvmrs.maps import Sparsemax
    >>> sweep(Sparsemax, torch.tensor([[2.0, 0.0], [0.0, 1.0]]), [0.5, 2.0]).mean.tolist()
    [[0.5, 0.5], [0.625, 0.375]]
    """
    if not (isinstance(kind, type) and issubclass(kind, SimplexMap)):
        raise InvalidArgumentError(f"kind must be a class of simplex maps such as Softmax, got {shown(kind)}")
    values = _checks.positive("temperatures", temperatures)
    if values.ndim != 1:
        raise InvalidArgumentError(f"temperatures must be one-dimensional, got shape {values.shape}")
    logits, _, mass = usable(logits.detach() if isinstance(logits, Tensor) else logits, values.min(), mass, dims=2)
    usable(logits[..., :1, :], values.max(), mass)
    *leading, n, c = logits.shape
    swept = values.tolist() if kind.tempered else [1.0]  # one column serves all where the temperature has no effect
    each = [_sweep_sample(sample, swept, kind, mass, kept) for sample in logits.reshape(-1, n, c)]
    shape = (*leading, len(values), c if kept is None else len(kept) + 1)
    mean, squares = (
        torch.stack([getattr(moments, name) for moments in each]).expand(-1, len(values), -1).reshape(shape)
        for name in ("mean", "squares")
    )
    return Moments(n, mean, squares)


def _sweep_sample(
    sample: Tensor, temperatures: Sequence[float], kind: type[SimplexMap], mass: float, kept: Tensor | None
) -> Moments:
    c = sample.shape[1]
    columns = c if kept is None else len(kept) + 1
    where = statistics_device(sample.device)
    total = Moments.empty((len(temperatures), columns), device=where)
    # A map may hold a few numbers for each sample and temperature.
    for chunk in torch.split(sample, max(1, _CHUNK // (c + 4 * len(temperatures)))):
        mean, norm = torch.empty(2, len(temperatures), columns, dtype=torch.float64, device=where)
        scores = torch.empty(columns, len(chunk), dtype=torch.float64, device=where)
        rows = None if kept is None else _kept_and_best_other(chunk, kept)
        # Scores are class-major: sums over classes and over samples then both run along contiguous memory.
        for i, p in enumerate(kind.over_temperatures(below_largest(chunk), temperatures, mass)):
            scores.copy_(p if rows is None else p.gather(0, rows))
            torch.mean(scores, dim=1, out=mean[i])
            scores -= mean[i, :, None]
            torch.linalg.vector_norm(scores, dim=1, out=norm[i])
        total = total + Moments(len(chunk), mean, norm.square_())
    return total


def _kept_and_best_other(logits: Tensor, kept: Tensor) -> Tensor:
    """For each sample, the kept classes and the one with the largest logit among the others: (kept + 1, samples)."""
    others = logits.index_fill(1, kept.to(logits.device), -torch.inf)
    return torch.cat([kept.to(logits.device)[:, None].expand(-1, len(logits)), others.argmax(dim=1)[None]])
