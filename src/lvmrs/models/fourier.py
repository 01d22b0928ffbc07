"""The algebra of circular convolutions, which are matrices at each frequency.

A *spectrum* is a complex tensor of shape (height//2 + 1, width, channels out, channels in): the matrix that a real
convolution applies at each frequency. The other half of the frequencies is conjugate to it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from lvmrs.models.products import Grid, RealProducts, waves

__all__ = ["Circulant", "Grid", "applied", "spectrum_of", "whole_spectrum"]

_DIMS = (-1, -2)  # the last one named is the halved one


def spectrum_of(kernel: Tensor, grid: Grid) -> Tensor:
    """The spectrum of y[i] = Σ_j kernel[j] x[i + j − c], where c is the middle of the kernel and indices wrap around.

    Args:
        kernel: weights (channels out, channels in, height, width).
        grid: height and width of the images.
    """
    height, width = (torch.arange(extent) - (extent - 1) // 2 for extent in kernel.shape[-2:])
    down = waves(torch.arange(grid[0] // 2 + 1), height, grid[0], kernel)
    across = waves(torch.arange(grid[1]), width, grid[1], kernel)
    return torch.einsum("hj,wl,oijl->hwoi", down, across, torch.complex(kernel, torch.zeros_like(kernel)))


def applied(spectrum: Tensor, x: Tensor) -> Tensor:
    """Apply the convolution with this spectrum to a batch of images (batch, channels, height, width)."""
    grid = x.shape[-2:]
    seen = torch.fft.rfftn(x, dim=_DIMS).permute(2, 3, 1, 0)
    answer: Tensor = torch.fft.irfftn((spectrum @ seen).permute(3, 2, 0, 1), s=grid[::-1], dim=_DIMS)
    return answer


@dataclass(frozen=True)
class Circulant:
    """A circular convolution on a grid; every ``stride``-th row and column of its result is kept."""

    spectrum: Tensor
    grid: Grid
    stride: int = 1

    @property
    def kept(self) -> Grid:
        """The grid of its results."""
        return self.grid[0] // self.stride, self.grid[1] // self.stride

    @classmethod
    def unshuffled(cls, spectrum: Tensor, grid: Grid, stride: int) -> Circulant:
        """Turn a convolution of the output of pixel_unshuffle into one of the image itself, which is on ``grid``."""
        if stride == 1:
            return cls(spectrum, grid)
        fine = _repeated(spectrum, grid, stride)
        down, across = (_shifts(extent, stride, fine.real) for extent in grid)
        down = down[: len(fine)]
        shifts = (down[:, None, :, None] * across[None, :, None, :]).flatten(2)[..., None]
        after = fine.shape[2]
        mixed = fine.reshape(*fine.shape[:2], -1, stride**2) @ shifts
        return cls(mixed.reshape(*fine.shape[:2], after, -1), grid, stride)

    @classmethod
    def pooled(cls, channels: int, grid: Grid, stride: int, like: Tensor) -> Circulant:
        """The sum over squares of ``stride`` × ``stride`` pixels, divided by ``stride``, so that its norm is 1."""
        down, across = (_shifts(extent, stride, like) for extent in grid)
        down = down[: grid[0] // 2 + 1]
        alike = torch.outer(down.sum(dim=1), across.sum(dim=1))[..., None, None] / stride
        return cls(alike * torch.eye(channels).to(like), grid, stride)

    def then(self, following: Circulant) -> Circulant:
        """The convolution that applies this one and then the following one."""
        fine = _repeated(following.spectrum, self.grid, self.stride)
        return Circulant(fine @ self.spectrum, self.grid, self.stride * following.stride)

    def between_squares(self, split: int) -> Tensor:
        """The spectrum of the same map between images whose squares of pixels are channels (row, column, channel).

        The squares of the inputs have a side of ``stride`` × ``split`` pixels, and those of the results of ``split``. A
        frequency of the image of squares stands for all frequencies of the fine grid that agree with it on one pixel of
        each square.
        """
        side = self.stride * split
        if side == 1:
            return self.spectrum
        # The dimensions are (alias, frequency of the image of squares, shift).
        down, across = (_shifts(extent, side, self.spectrum.real).view(side, -1, side) for extent in self.grid)
        height, width = (extent // side for extent in self.grid)
        whole = whole_spectrum(self.spectrum, self.grid[0])
        half = height // 2 + 1
        aliases = whole.view(side, height, side, width, *whole.shape[2:])[:, :half]
        down = down[:, :half]
        rows = torch.einsum("akp,akq,akbloi->kpqbloi", down[..., :: self.stride], down.conj(), aliases)
        both = torch.einsum("blr,bls,kpqbloi->klproqsi", across[..., :: self.stride], across.conj(), rows)
        return both.flatten(5).flatten(2, 4) / side**2

    def then_dense(self, matrix: Tensor) -> Tensor:
        """The matrix that applies this convolution and then ``matrix``.

        The columns of ``matrix`` are channels × height × width, and those of the result height × width × channels. The
        rows of the result are the rows of ``matrix`` under the transposed convolution.
        """
        after, before = self.spectrum.shape[2:]
        rows = matrix.new_zeros(*self.grid, after, len(matrix))
        rows[:: self.stride, :: self.stride] = matrix.view(len(matrix), after, *self.kept).permute(2, 3, 1, 0)
        transposed = RealProducts(self.spectrum.mH, self.grid, matrix.new_zeros(before))
        return transposed.to(matrix)(rows, None).flatten(0, 2).T


def _repeated(spectrum: Tensor, grid: Grid, stride: int) -> Tensor:
    """Read the spectrum of a coarse grid at the frequencies of a grid that is ``stride`` times finer."""
    if stride == 1:
        return spectrum
    height, width = grid[0] // stride, grid[1] // stride
    whole = whole_spectrum(spectrum, height)
    rows, columns = torch.arange(grid[0] // 2 + 1) % height, torch.arange(grid[1]) % width
    return whole[rows][:, columns]


def whole_spectrum(half: Tensor, height: int) -> Tensor:
    """Add the other half of the frequencies, which is conjugate to the given half."""
    width = half.shape[1]
    mirrored = half[1 : (height + 1) // 2].flip(0).conj()
    return torch.cat([half, mirrored[:, -torch.arange(width) % width]])


def _shifts(extent: int, side: int, like: Tensor) -> Tensor:
    """The factors by which a shift of 0 … side − 1 pixels (columns) multiplies each frequency (rows)."""
    return waves(torch.arange(extent), torch.arange(side), extent, like)
