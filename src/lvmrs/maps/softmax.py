"""Softmax of z/t, times the mass."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from lvmrs import _checks
from lvmrs._checks import Numbers
from lvmrs.maps.base import SimplexMap, Slopes, below_largest, usable

__all__ = ["Softmax", "softmax"]


def softmax(logits: Tensor, *, temperature: float = 1.0, mass: float = 1.0) -> Tensor:
    """Softmax of z/t, times the mass.

    In float64 it agrees with its definition to a relative 10⁻⁹.

    Args:
        logits: finite logits z; the last dimension is the classes.
        temperature: t.
        mass: what the scores sum to.

    Returns:
        Scores of the same shape and precision (float32 for 16-bit logits). Gradients flow through it.

    >>> softmax(torch.tensor([0.0, 2.0]), temperature=2.0).tolist()
    [0.2689414322376251, 0.7310585975646973]
    """
    logits, temperature, mass = usable(logits, temperature, mass)
    p = functional.softmax(below_largest(logits) / temperature, dim=-1)
    return p if mass == 1.0 else p * mass


class Softmax(SimplexMap):
    """Softmax: ½ r L/t-Lipschitz as a vector, (√2/4) r L/t for a class."""

    name: ClassVar[str] = "softmax"

    def apply(self, logits: Tensor) -> Tensor:
        """Softmax of z/t, times the mass."""
        return softmax(logits, temperature=self.temperature, mass=self.mass)

    @classmethod
    def over_temperatures(cls, shifted: Tensor, temperatures: Sequence[float], mass: float) -> Iterator[Tensor]:
        """Scores at each temperature, all in the same memory."""
        by_class = shifted.t().contiguous()
        p = torch.empty_like(by_class)
        # Denormal results are many times slower than normal ones: exponents stop before them, at 1e-35 in float32.
        floor = 0.9 * math.log(torch.finfo(p.dtype).tiny)
        for t in temperatures:
            torch.div(by_class, t, out=p).clamp_(min=floor).exp_()
            p *= mass / p.sum(dim=0)
            yield p

    @classmethod
    def constants(cls, lipschitz: Numbers, *, temperature: Numbers = 1.0, mass: Numbers = 1.0) -> Slopes:
        """½ r L/t as a vector, (√2/4) r L/t for a class."""
        slope, t, r = _checks.constant(lipschitz), _checks.positive("temperature", temperature), _checks.mass(mass)
        _checks.broadcast(lipschitz=slope, temperature=t, mass=r)
        return Slopes(0.5 * r * slope / t, np.sqrt(2) / 4 * r * slope / t)
