"""Upper bounds of the norms of linear and convolutional layers. Nothing here approaches from below."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

from lvmrs.errors import ModelError
from lvmrs.models.fourier import spectrum_of, whole_spectrum

__all__ = ["gram", "of_convolution", "of_matrix"]

# Squared matrices are rescaled, so more steps cost time alone; after this many the bound is within 1 % for any rank
# that fits in memory: rank^(1/2^(steps + 1)).
_STEPS = 10
# Matrices with no side longer than this are taken apart exactly.
_SMALL = 1024
# What float64 loses on the way, generously.
_ROUNDING = 1 + 1e-9


def of_matrix(matrix: Tensor) -> float:
    """Of one matrix, or the largest of several: exact (up to rounding, upwards) where they are small."""
    matrix = matrix.detach().to("cpu", torch.complex128 if matrix.is_complex() else torch.float64)
    if not torch.isfinite(matrix).all():
        raise ModelError("the weights hold numbers that are not finite, so there is no Lipschitz bound")
    if matrix.numel() == 0:
        return 0.0
    if max(matrix.shape[-2:]) <= _SMALL and matrix[..., 0, 0].numel() * min(matrix.shape[-2:]) ** 3 <= 1e10:
        return float(torch.linalg.matrix_norm(matrix, ord=2).max()) * _ROUNDING
    return gram(matrix)


def gram(matrix: Tensor, steps: int = _STEPS) -> float:
    """Gram iteration (Delattre et al. 2023): ‖W‖ ≤ ‖(WᴴW)^(2^t)‖^(1/2^(t+1)) in the Frobenius norm, for every t."""
    unit = float(matrix.abs().max())
    if unit == 0:
        return 0.0
    matrix = matrix / unit
    current = matrix.mH @ matrix if matrix.shape[-1] <= matrix.shape[-2] else matrix @ matrix.mH
    logarithm = torch.zeros(current.shape[:-2], dtype=torch.float64)
    power = 2
    for _ in range(steps):
        size = _frobenius(current)
        logarithm = 2 * (logarithm + size.log())
        current = current / size[..., None, None]
        current = current @ current
        power *= 2
    bound = ((logarithm + _frobenius(current).log()) / power).exp()
    return float(bound.max()) * unit * _ROUNDING


def _frobenius(matrices: Tensor) -> Tensor:
    """Their norms, of zeros a number that has a logarithm."""
    norms: Tensor = torch.linalg.matrix_norm(matrices)
    return norms.clamp_min(1e-300)


def of_convolution(
    weight: Tensor,
    grid: tuple[int, int],
    *,
    stride: tuple[int, int] = (1, 1),
    padding: tuple[int, int] = (0, 0),
    dilation: tuple[int, int] = (1, 1),
    groups: int = 1,
    unrolled: int = _SMALL,
) -> float:
    """Of a convolution with zeros around images of size ``grid``.

    Where an input has at most ``unrolled`` numbers, the whole matrix is taken apart. Elsewhere: the convolution is part
    of one that wraps around a grid with room for the zeros, so its norm is at most the largest among the frequencies of
    that one. Where only every s-th pixel is kept, s frequencies fall on each other.
    """
    weight = weight.detach().to("cpu", torch.float64)
    size = weight.shape[1] * groups * grid[0] * grid[1]
    if size <= unrolled:
        basis = torch.eye(size, dtype=torch.float64).view(size, -1, *grid)
        whole = functional.conv2d(basis, weight, None, stride, padding, dilation, groups)
        return of_matrix(whole.flatten(1))
    kernel = _spread(weight, dilation)
    room = [
        math.ceil(max(side + 2 * edge, extent) / step) * step
        for side, edge, extent, step in zip(grid, padding, kernel.shape[-2:], stride, strict=True)
    ]
    largest = 0.0
    for part in kernel.chunk(groups):
        largest = max(largest, _wrapped(part, (room[0], room[1]), stride))
    return largest


def _spread(kernel: Tensor, dilation: tuple[int, int]) -> Tensor:
    height, width = (1 + (extent - 1) * step for extent, step in zip(kernel.shape[-2:], dilation, strict=True))
    spread = kernel.new_zeros(*kernel.shape[:2], height, width)
    spread[..., :: dilation[0], :: dilation[1]] = kernel
    return spread


def _wrapped(kernel: Tensor, room: tuple[int, int], stride: tuple[int, int]) -> float:
    half = spectrum_of(kernel, room)
    if stride == (1, 1):
        return of_matrix(half.flatten(0, 1))
    whole = whole_spectrum(half, room[0])
    # Frequencies that differ by a multiple of room/stride become one: their matrices stand side by side.
    height, width = room[0] // stride[0], room[1] // stride[1]
    folded = whole.view(stride[0], height, stride[1], width, *whole.shape[2:])
    side_by_side = folded.permute(1, 3, 4, 5, 0, 2).flatten(3).flatten(0, 1)
    return of_matrix(side_by_side) / math.sqrt(stride[0] * stride[1])
