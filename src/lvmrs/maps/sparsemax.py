"""Sparsemax: the Euclidean projection of z/t on the simplex of mass r.

==========================  ===================================================================================
paper                       here
==========================  ===================================================================================
κ(z), ρ(z)                  ``support`` (how many classes keep mass), ``threshold`` (what every logit loses)
Σ_{j≤k} z_(j) − k z_(k)     ``onset`` of the k-th largest logit: it keeps mass once t·r exceeds this
==========================  ===================================================================================

The order of z/t is the order of z and the onsets do not depend on t, so one sort serves all temperatures. Sparsemax:
Martins and Astudillo (2016); mass r: Delattre et al. (2024), generalised sparsemax.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from lvmrs import _checks
from lvmrs._checks import Numbers
from lvmrs.maps.base import SimplexMap, Slopes, below_largest, usable

__all__ = ["Sparsemax", "sparsemax"]


def sparsemax(logits: Tensor, *, temperature: float = 1.0, mass: float = 1.0) -> Tensor:
    """Euclidean projection of z/t on the simplex of mass r.

    In float64 it agrees with a projection by bisection to a relative 10⁻⁹ and an absolute 10⁻¹⁰ r/t.

    Args:
        logits: finite logits z; the last dimension is the classes.
        temperature: t.
        mass: r, what the scores sum to.

    Returns:
        Scores of the same shape and precision (float32 for 16-bit logits); classes far behind have exactly 0.
        Gradients flow through it.

    >>> sparsemax(torch.tensor([0.0, 1.0, 1.5])).tolist()
    [0.0, 0.25, 0.75]
    """
    logits, temperature, mass = usable(logits, temperature, mass)
    shifted = below_largest(logits)
    threshold = _threshold(*_descending_and_onset(shifted), shifted.new_tensor([temperature * mass]))
    return (shifted - threshold).clamp(min=0) / temperature


class Sparsemax(SimplexMap):
    """Sparsemax: L/t-Lipschitz for any mass."""

    name: ClassVar[str] = "sparsemax"

    def apply(self, logits: Tensor) -> Tensor:
        """Euclidean projection of z/t on the simplex of mass r."""
        return sparsemax(logits, temperature=self.temperature, mass=self.mass)

    @classmethod
    def over_temperatures(cls, shifted: Tensor, temperatures: Sequence[float], mass: float) -> Iterator[Tensor]:
        """Scores at each temperature, from one sort and all in the same memory."""
        reach = shifted.new_tensor(temperatures) * mass
        thresholds = _threshold(*_descending_and_onset(shifted), reach).t().contiguous()
        by_class = shifted.t().contiguous()
        p = torch.empty_like(by_class)
        for t, threshold in zip(temperatures, thresholds, strict=True):
            torch.add(-threshold / t, by_class, alpha=1 / t, out=p).clamp_(min=0)
            yield p

    @classmethod
    def constants(cls, lipschitz: Numbers, *, temperature: Numbers = 1.0, mass: Numbers = 1.0) -> Slopes:
        """L/t, both as a vector and for a class."""
        slope, t, r = _checks.constant(lipschitz), _checks.positive("temperature", temperature), _checks.mass(mass)
        _checks.broadcast(lipschitz=slope, temperature=t, mass=r)
        constant = slope / t * np.ones_like(r)
        return Slopes(constant, constant)


def _descending_and_onset(shifted: Tensor) -> tuple[Tensor, Tensor]:
    """Sorted logits z_(1) ≥ z_(2) ≥ …, and for each k the t·r above which the k-th has mass.

    The onset is Σ_{j≤k} z_(j) − k z_(k), summed from the gaps k (z_(k) − z_(k+1)): no cancellation, never falling.
    """
    descending = shifted.sort(dim=-1, descending=True).values
    ranks = torch.arange(1, shifted.shape[-1], dtype=shifted.dtype, device=shifted.device)
    gaps = (descending[..., :-1] - descending[..., 1:]) * ranks
    return descending, functional.pad(gaps.cumsum(dim=-1), (1, 0))


def _threshold(descending: Tensor, onset: Tensor, reach: Tensor) -> Tensor:
    """What the projection on the simplex of mass t·r subtracts from every logit, for each value of ``reach``."""
    wanted = reach.expand(*onset.shape[:-1], len(reach)).contiguous()
    support = torch.searchsorted(onset.detach(), wanted)  # how many onsets lie below t·r
    last = support - 1
    return descending.gather(-1, last) - (wanted - onset.gather(-1, last)) / support
