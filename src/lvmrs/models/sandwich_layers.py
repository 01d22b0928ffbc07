"""The sandwich layers of Wang and Manchester (2023), which have the Lipschitz constant 1 for any parameters.

A layer computes h ↦ √2 Aᵀ Ψ relu(√2 Ψ⁻¹ B h + b), where the rows of [A B] are orthonormal and Ψ is diagonal. Its
derivative is 2 Aᵀ S B with S diagonal in [0, 1]. This is an average of matrices of the same form whose S has only zeros
and ones. Each of these is 2 A'ᵀ B' with A'A'ᵀ + B'B'ᵀ = S² ≤ 1, so ‖2 A'ᵀ B' v‖² ≤ 4 vᵀ B'ᵀ(1 − B'B'ᵀ) B' v ≤ ‖v‖²,
since 4 s(1 − s) ≤ 1. So every layer has the constant 1. The Cayley transform makes orthonormal rows from free
parameters; a convolution wraps around the image and has a matrix with orthonormal rows at each frequency.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from lvmrs.errors import ModelError
from lvmrs.models.lipschitz.fourier import Grid, applied, spectrum_of

__all__ = ["NormPool", "SandwichConv", "SandwichDense", "SandwichLast", "cayley", "contracted"]

# Rows that are orthonormal up to the first number are not changed: a network of ten layers then keeps its constant up
# to a relative 10⁻⁹. Rows that deviate by more than the second number are an error.
_NEGLIGIBLE, _MOST = 1e-10, 1e-6


def cayley(free: Tensor) -> Tensor:
    """The Cayley transform: matrices with orthonormal rows from arbitrary matrices of the same shape.

    Args:
        free: real or complex matrices (…, rows, columns), with no more rows than columns.

    >>> rows = cayley(torch.ones(2, 3, dtype=torch.float64))
    >>> bool(torch.allclose(rows @ rows.T, torch.eye(2, dtype=torch.float64)))
    True
    """
    size = free.shape[-2]
    square, rest = free[..., :size], free[..., size:]
    skew = square - square.mH + rest @ rest.mH
    one = torch.eye(size, dtype=free.dtype, device=free.device)
    inverse = torch.linalg.inv(one + skew)
    return torch.cat([(one - skew) @ inverse, -2 * inverse @ rest], dim=-1)


def contracted(rows: Tensor) -> Tensor:
    """Scale rows [A B] down if rounding made them longer than orthonormal rows; raises if the deviation is large.

    A layer needs A Aᴴ + B Bᴴ ≤ 1 for its constant. With the computed E = A Aᴴ + B Bᴴ − 1, it suffices to divide the
    rows by √(1 + ‖E‖), and the Frobenius norm is an upper bound on ‖E‖.

    Args:
        rows: real or complex matrices (…, rows, columns), results of ``cayley``.

    >>> bool(contracted(torch.eye(2, 3, dtype=torch.float64) * (1 + 1e-8)).norm(dim=1).max() <= 1)
    True
    """
    one = torch.eye(rows.shape[-2], dtype=rows.dtype, device=rows.device)
    excess = torch.linalg.matrix_norm(rows @ rows.mH - one).max()
    if not bool(excess <= _MOST):  # also for NaN
        raise ModelError(
            f"the weights of a sandwich layer of {rows.shape[-2]} outputs are too large or too nearly dependent, so "
            "that rounding breaks its Lipschitz constant; train with smaller weights"
        )
    return rows if bool(excess <= _NEGLIGIBLE) else rows / torch.sqrt(1 + excess)


def _rows(free: Tensor, checked: bool) -> Tensor:
    """The rows [A B] of a layer. ``checked`` is for eval mode; in training it would cost time in each step."""
    return contracted(cayley(free)) if checked else cayley(free)


class _Sandwich(nn.Module):
    """The parameters of a layer: weights with the norm ``scale``, Ψ = exp(psi), and the bias."""

    def __init__(self, before: int, after: int, *kernel: int) -> None:
        super().__init__()
        self.before, self.after = before, after
        self.weight = nn.Parameter(torch.empty(after, after + before, *kernel))
        nn.init.xavier_normal_(self.weight)
        self.scale = nn.Parameter(self.weight.detach().norm())
        self.psi = nn.Parameter(torch.zeros(after))
        self.bias = nn.Parameter(torch.zeros(after))

    def _free(self, dtype: torch.dtype | None = None) -> Tensor:
        weight = self.weight.to(dtype or self.weight.dtype)
        size: Tensor = torch.linalg.vector_norm(weight)
        return weight * (self.scale.to(weight) / size)

    def _split(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return √2 Ψ⁻¹ B and √2 Aᴴ Ψ."""
        psi = self.psi.to(rows.real.dtype)
        into = math.sqrt(2) * torch.exp(-psi)[:, None] * rows[..., self.after :]
        return into, math.sqrt(2) * rows[..., : self.after].mH * torch.exp(psi)


class SandwichDense(_Sandwich):
    """A sandwich layer for vectors."""

    def forward(self, x: Tensor) -> Tensor:
        """Apply the layer to a batch of vectors."""
        into, out_of = self.maps()
        return functional.relu(x @ into.T + self.bias) @ out_of.T

    def maps(self, dtype: torch.dtype | None = None, *, checked: bool = False) -> tuple[Tensor, Tensor]:
        """The matrices before and after the activation."""
        return self._split(_rows(self._free(dtype), checked))


class SandwichLast(_Sandwich):
    """The last layer, B h + b, without activation. Its constant is 1 as well."""

    def __init__(self, before: int, after: int) -> None:
        super().__init__(before, after)
        del self.psi

    def forward(self, x: Tensor) -> Tensor:
        """Apply the layer to a batch of vectors."""
        into, _ = self.maps()
        return x @ into.T + self.bias

    def maps(self, dtype: torch.dtype | None = None, *, checked: bool = False) -> tuple[Tensor, None]:
        """The matrix B; there is no second one."""
        return _rows(self._free(dtype), checked)[:, self.after :], None


class SandwichConv(_Sandwich):
    """A sandwich layer of circular convolutions. With a ``stride`` s, squares of s × s pixels become channels first."""

    def __init__(self, before: int, after: int, kernel: int = 3, stride: int = 1) -> None:
        extent = max(1, kernel // stride)
        super().__init__(before * stride**2, after, extent, extent)
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        """Apply the layer to a batch of images."""
        if self.stride > 1:
            x = functional.pixel_unshuffle(x, self.stride)
        into, out_of = self.maps((x.shape[-2], x.shape[-1]))
        return applied(out_of, functional.relu(applied(into, x) + self.bias[:, None, None]))

    def maps(self, grid: Grid, dtype: torch.dtype | None = None, *, checked: bool = False) -> tuple[Tensor, Tensor]:
        """The spectra before and after the activation."""
        return self._split(_rows(spectrum_of(self._free(dtype), grid), checked))


class NormPool(nn.Module):
    """Sums over squares of ``size`` × ``size`` pixels and divides by ``size``, so that its Lipschitz constant is 1."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.stride = size

    def forward(self, x: Tensor) -> Tensor:
        """Pool a batch of images."""
        return functional.avg_pool2d(x, self.stride) * self.stride
