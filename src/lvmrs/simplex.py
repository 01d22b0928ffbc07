"""Simplex maps: from logits to probability vectors, with temperature and mass.

A map s sends logits z ∈ R^c (the last dimension) to Δ_r = {p ≥ 0, Σp = r}; the temperature divides: s(z/t).

==============  =====================================================================================
paper           here
==============  =====================================================================================
z, t, r         ``logits``, ``temperature``, ``mass``
κ(z), ρ(z)      ``support`` (how many classes keep mass), ``threshold`` (what is taken off every logit)
Σ_{j≤k} z_(j) − k z_(k)   ``onset`` of the k-th largest logit: it keeps mass once t·r exceeds this
s^{t,r}         ``hardmax``, ``softmax``, ``sparsemax``
==============  =====================================================================================

All computations are on logits shifted by their maximum, which changes no map and keeps tiny temperatures from
overflowing. Sparsemax: Martins and Astudillo (2016); mass r: Delattre et al. (2024), generalised sparsemax.
"""

import math
from collections.abc import Callable, Iterator
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from lvmrs import _checks
from lvmrs._checks import Numbers
from lvmrs.errors import InvalidArgumentError
from lvmrs.moments import Moments, statistics_device

__all__ = ["MapName", "hardmax", "softmax", "sparsemax", "sweep"]

MapName = Literal["hardmax", "softmax", "sparsemax"]

# Logits handled at a time in a sweep: few megabytes of scratch, and the call overhead spread over many samples.
_CHUNK = 1 << 20


def hardmax(logits: Tensor, *, temperature: float = 1.0, mass: float = 1.0) -> Tensor:
    """All mass on the largest logit; ties go to the lowest index. The temperature is of no effect."""
    logits, _, mass = _guard(logits, temperature, mass)
    return torch.zeros_like(logits).scatter_(-1, logits.argmax(dim=-1, keepdim=True), mass)


def softmax(logits: Tensor, *, temperature: float = 1.0, mass: float = 1.0) -> Tensor:
    """Softmax of z/t, times the mass."""
    logits, temperature, mass = _guard(logits, temperature, mass)
    p = functional.softmax(_below_largest(logits) / temperature, dim=-1)
    return p if mass == 1.0 else p * mass


def sparsemax(logits: Tensor, *, temperature: float = 1.0, mass: float = 1.0) -> Tensor:
    """Euclidean projection of z/t on the simplex of mass r."""
    logits, temperature, mass = _guard(logits, temperature, mass)
    shifted = _below_largest(logits)
    threshold = _threshold(*_descending_and_onset(shifted), shifted.new_tensor([temperature * mass]))
    return (shifted - threshold).clamp(min=0) / temperature


def _guard(logits: Tensor, temperature: Numbers, mass: Numbers, *, dims: int = 1) -> tuple[Tensor, float, float]:
    """The logits in single precision or better, and two numbers, once all are known to be usable."""
    _checks.finite_tensor("logits", logits, dims=dims)
    if logits.dtype.itemsize < 4:
        logits = logits.float()
    t = _checks.single("temperature", _checks.positive("temperature", temperature))
    r = _checks.single("mass", _checks.mass(mass))
    limits = torch.finfo(logits.dtype)
    for name, value in (("temperature", t), ("mass", r), ("temperature × mass", t * r)):
        if not limits.tiny <= value <= limits.max:
            span = f"[{limits.tiny:.2g}, {limits.max:.2g}] of {logits.dtype}"
            raise InvalidArgumentError(f"{name} must lie within {span}, got {value:.3g}")
    return logits, t, r


def _below_largest(logits: Tensor) -> Tensor:
    """Logits minus their largest, kept finite."""
    return (logits - logits.amax(dim=-1, keepdim=True)).clamp(min=torch.finfo(logits.dtype).min)


def _descending_and_onset(shifted: Tensor) -> tuple[Tensor, Tensor]:
    """Sorted logits z_(1) ≥ z_(2) ≥ …, and for each k the t·r above which the k-th has mass.

    The onset is Σ_{j≤k} z_(j) − k z_(k), summed from the gaps k (z_(k) − z_(k+1)): no cancellation, never falling.
    """
    descending = shifted.sort(dim=-1, descending=True).values
    ranks = torch.arange(1, shifted.shape[-1], dtype=shifted.dtype, device=shifted.device)
    gaps = (descending[..., :-1] - descending[..., 1:]) * ranks
    return descending, functional.pad(gaps.cumsum(dim=-1), (1, 0))


def _threshold(descending: Tensor, onset: Tensor, reach: Tensor) -> Tensor:
    """What the projection on the simplex of mass t·r takes off every logit, for each of the T values of ``reach``."""
    wanted = reach.expand(*onset.shape[:-1], len(reach)).contiguous()
    support = torch.searchsorted(onset.detach(), wanted)  # how many onsets lie below t·r
    last = support - 1
    return descending.gather(-1, last) - (wanted - onset.gather(-1, last)) / support


def sweep(logits: Tensor, temperatures: Numbers, *, map: MapName, mass: float = 1.0) -> Moments:  # noqa: A002
    """Moments of every class under every temperature at once, over a sample of logits.

    ``logits`` is (..., n, c) and ``temperatures`` (T,): the result holds means and squares of shape (..., T, c) in
    float64 over the n samples. One sort serves all temperatures: the order of z/t is the order of z, and the onsets do
    not depend on t. Memory is that of a chunk of the sample, not T × n × c.
    """
    values = _checks.positive("temperatures", temperatures)
    if values.ndim != 1:
        raise InvalidArgumentError(f"temperatures must be one-dimensional, got shape {values.shape}")
    _checks.one_of("map", map, _PROBABILITIES)
    logits, _, mass = _guard(logits.detach() if isinstance(logits, Tensor) else logits, values.min(), mass, dims=2)
    _guard(logits[..., :1, :], values.max(), mass)
    *leading, n, c = logits.shape
    # Hardmax has no temperature: one column serves all.
    swept = values.tolist() if map != "hardmax" else [1.0]
    each = [_sweep_sample(sample, swept, map, mass) for sample in logits.reshape(-1, n, c)]
    shape = (*leading, len(values), c)
    mean, squares = (
        torch.stack([getattr(moments, name) for moments in each]).expand(-1, len(values), -1).reshape(shape)
        for name in ("mean", "squares")
    )
    return Moments(n, mean, squares)


def _sweep_sample(sample: Tensor, temperatures: list[float], name: MapName, mass: float) -> Moments:
    c = sample.shape[1]
    where = statistics_device(sample.device)
    total = Moments.empty((len(temperatures), c), device=where)
    # Sparsemax also holds a few numbers for each sample and temperature.
    numbers_per_sample = c + (4 * len(temperatures) if name == "sparsemax" else 0)
    for chunk in torch.split(sample, max(1, _CHUNK // numbers_per_sample)):
        shifted = _below_largest(chunk)
        mean, norm = torch.empty(2, len(temperatures), c, dtype=torch.float64, device=where)
        scores = torch.empty(c, len(chunk), dtype=torch.float64, device=where)
        for i, p in enumerate(_PROBABILITIES[name](shifted, temperatures, mass)):
            scores.copy_(p)
            torch.mean(scores, dim=1, out=mean[i])
            scores -= mean[i, :, None]
            torch.linalg.vector_norm(scores, dim=1, out=norm[i])
        total = total + Moments(len(chunk), mean, norm.square_())
    return total


# The maps of one chunk at each temperature in turn, class-major (c, n): sums over classes and over samples then both
# run along contiguous memory, also when there are few classes. Each overwrites what it yielded before.


def _hardmaxes(shifted: Tensor, temperatures: list[float], mass: float) -> Iterator[Tensor]:
    p = hardmax(shifted, mass=mass).t().contiguous()
    return (p for _ in temperatures)


def _softmaxes(shifted: Tensor, temperatures: list[float], mass: float) -> Iterator[Tensor]:
    by_class = shifted.t().contiguous()
    p = torch.empty_like(by_class)
    # Denormal results are many times slower than normal ones: exponents stop short of them, at about 1e-35 in float32.
    floor = 0.9 * math.log(torch.finfo(p.dtype).tiny)
    for t in temperatures:
        torch.div(by_class, t, out=p).clamp_(min=floor).exp_()
        p *= mass / p.sum(dim=0)
        yield p


def _sparsemaxes(shifted: Tensor, temperatures: list[float], mass: float) -> Iterator[Tensor]:
    reach = shifted.new_tensor(temperatures) * mass
    thresholds = _threshold(*_descending_and_onset(shifted), reach).t().contiguous()
    by_class = shifted.t().contiguous()
    p = torch.empty_like(by_class)
    for t, threshold in zip(temperatures, thresholds, strict=True):
        torch.add(-threshold / t, by_class, alpha=1 / t, out=p).clamp_(min=0)
        yield p


_PROBABILITIES: dict[str, Callable[[Tensor, list[float], float], Iterator[Tensor]]] = {
    "hardmax": _hardmaxes,
    "softmax": _softmaxes,
    "sparsemax": _sparsemaxes,
}
