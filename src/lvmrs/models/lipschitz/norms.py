"""Upper bounds on the spectral norms of linear and convolutional layers. No function returns less than the norm."""

from __future__ import annotations

import math
import sys

import torch
from torch import Tensor
from torch.nn import functional

from lvmrs.errors import ModelError
from lvmrs.models.lipschitz.fourier import spectrum_of, whole_spectrum

__all__ = ["finite", "gram", "of_convolution", "of_matrix", "product"]

# Number of Gram iterations. The bound exceeds the norm by a factor of at most rank^(1/2^(steps + 1)), which is within
# 1 % for any rank that fits in memory. Matrices are rescaled in each step, so that more steps cost only time.
_STEPS = 10
# The largest side of a matrix whose singular values are computed.
_SMALL = 1024
# A generous factor for the rounding errors of float64.
_ROUNDING = 1 + 1e-9


def product(first: float, second: float) -> float:
    """The product of two bounds. It is 0 only if a factor is 0, even if the product underflows.

    >>> product(1e-200, 1e-200) > 0, product(0.0, math.inf)
    (True, 0.0)
    """
    return max(first * second, sys.float_info.min) if first and second else 0.0


def finite(weights: Tensor) -> Tensor:
    """Return the weights. Raises ModelError if they contain NaN or infinity."""
    if not torch.isfinite(weights).all():
        raise ModelError("the weights hold NaN or infinity, so there is no Lipschitz bound; check the weights")
    return weights


def of_matrix(matrix: Tensor) -> float:
    """Upper bound on the spectral norm; the largest over a batch.

    For small matrices the norm is exact, up to a relative 10⁻⁹ by which it is rounded up. For large matrices ``gram``
    gives a bound within 1 %.

    Args:
        matrix: a real or complex matrix, or a batch of them (…, rows, columns).

    >>> print(f"{of_matrix(torch.diag(torch.tensor([3.0, 2.0]))):.4f}")
    3.0000
    """
    matrix = finite(matrix.detach().to("cpu", torch.complex128 if matrix.is_complex() else torch.float64))
    if matrix.numel() == 0:
        return 0.0
    if max(matrix.shape[-2:]) <= _SMALL and matrix[..., 0, 0].numel() * min(matrix.shape[-2:]) ** 3 <= 1e10:
        return float(torch.linalg.matrix_norm(matrix, ord=2).max()) * _ROUNDING
    return gram(matrix)


def gram(matrix: Tensor, steps: int = _STEPS) -> float:
    """Upper bound on the spectral norm by Gram iteration (Delattre et al. 2023); the largest over a batch.

    For every t, ‖W‖ ≤ ‖(WᴴW)^(2^t)‖^(1/2^(t+1)) with the Frobenius norm on the right; ``steps`` is t.
    """
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
    """The Frobenius norms; a norm of 0 is replaced by a tiny number, which has a logarithm."""
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
    """Upper bound on the spectral norm of a convolution, with zeros around the image.

    For inputs of at most ``unrolled`` numbers, the whole matrix is computed. For larger inputs, the convolution is a
    restriction of a circular convolution on a grid with room for the zeros. So its norm is at most the largest norm of
    the circular convolution over all frequencies. If only every s-th pixel is kept, groups of s frequencies become one.

    Args:
        weight: (channels out, channels in / groups, height, width).
        grid: height and width of the images.
        stride: as in torch.nn.Conv2d, like ``padding``, ``dilation`` and ``groups``.
        padding: zeros on each side.
        dilation: distance between the weights.
        groups: number of groups of channels.
        unrolled: largest number of inputs for which the whole matrix is computed.
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
    # Frequencies that differ by a multiple of room/stride become one, with their matrices side by side.
    height, width = room[0] // stride[0], room[1] // stride[1]
    folded = whole.view(stride[0], height, stride[1], width, *whole.shape[2:])
    side_by_side = folded.permute(1, 3, 4, 5, 0, 2).flatten(3).flatten(0, 1)
    return of_matrix(side_by_side) / math.sqrt(stride[0] * stride[1])
