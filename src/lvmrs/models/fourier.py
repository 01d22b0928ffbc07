"""Circular convolutions as matrices at each frequency: their algebra, and a way to apply them that costs little.

A *spectrum* is a complex tensor of shape (height//2 + 1, width, channels out, channels in): the matrix that a real
convolution applies at each frequency. The other half of the frequencies is conjugate to it.
"""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

__all__ = ["Circulant", "FourierConvolution", "Grid", "Workspace", "applied", "spectrum_of", "whole_spectrum"]

Grid = tuple[int, int]
_DIMS = (-1, -2)  # the last one named is the halved one


def spectrum_of(kernel: Tensor, grid: Grid) -> Tensor:
    """Of y[i] = Σ_j kernel[j] x[i + j − c], c the middle of the kernel, with indices that wrap around the grid."""
    height, width = (torch.arange(extent) - (extent - 1) // 2 for extent in kernel.shape[-2:])
    down = _wave(torch.arange(grid[0] // 2 + 1), height, grid[0], kernel)
    across = _wave(torch.arange(grid[1]), width, grid[1], kernel)
    return torch.einsum("hj,wl,oijl->hwoi", down, across, torch.complex(kernel, torch.zeros_like(kernel)))


def applied(spectrum: Tensor, x: Tensor) -> Tensor:
    """The convolution of a batch of images."""
    grid = x.shape[-2:]
    seen = torch.fft.rfftn(x, dim=_DIMS).permute(2, 3, 1, 0)
    answer: Tensor = torch.fft.irfftn((spectrum @ seen).permute(3, 2, 0, 1), s=grid[::-1], dim=_DIMS)
    return answer


def _wave(frequencies: Tensor, places: Tensor, size: int, like: Tensor) -> Tensor:
    """e^{2πi k x/size} for each frequency k (rows) and place x (columns)."""
    angle = (2 * math.pi / size) * (torch.outer(frequencies, places) % size).to(like)
    return torch.polar(torch.ones_like(angle), angle)


@dataclass(frozen=True)
class Circulant:
    """A convolution on a grid of which every ``stride``-th row and column is kept."""

    spectrum: Tensor
    grid: Grid
    stride: int = 1

    @property
    def kept(self) -> Grid:
        """The grid of its results."""
        return self.grid[0] // self.stride, self.grid[1] // self.stride

    @classmethod
    def unshuffled(cls, spectrum: Tensor, grid: Grid, stride: int) -> Circulant:
        """A convolution on ``kept`` of what pixel_unshuffle makes of an image on ``grid``, as one on that grid."""
        if stride == 1:
            return cls(spectrum, grid)
        fine = _repeated(spectrum, grid, stride)
        down, across = _shifts(grid, stride, fine.real)
        shifts = (down[:, None, :, None] * across[None, :, None, :]).flatten(2)[..., None]
        after = fine.shape[2]
        mixed = fine.reshape(*fine.shape[:2], -1, stride**2) @ shifts
        return cls(mixed.reshape(*fine.shape[:2], after, -1), grid, stride)

    @classmethod
    def pooled(cls, channels: int, grid: Grid, stride: int, like: Tensor) -> Circulant:
        """The sum over squares of ``stride`` × ``stride`` pixels, divided by ``stride``: of norm 1."""
        down, across = _shifts(grid, stride, like)
        alike = torch.outer(down.sum(dim=1), across.sum(dim=1))[..., None, None] / stride
        return cls(alike * torch.eye(channels).to(like), grid, stride)

    def then(self, following: Circulant) -> Circulant:
        """Both in one."""
        fine = _repeated(following.spectrum, self.grid, self.stride)
        return Circulant(fine @ self.spectrum, self.grid, self.stride * following.stride)

    def then_dense(self, matrix: Tensor) -> Tensor:
        """Both in one: a matrix over channels × height × width of the results, as one over height × width × channels.

        The rows of the whole are what the transposed convolution makes of the rows of the matrix.
        """
        after, before = self.spectrum.shape[2:]
        rows = matrix.new_zeros(*self.grid, after, len(matrix))
        rows[:: self.stride, :: self.stride] = matrix.view(len(matrix), after, *self.kept).permute(2, 3, 1, 0)
        transposed = FourierConvolution(Circulant(self.spectrum.mH, self.grid), matrix.new_zeros(before))
        return transposed.to(matrix)(rows, None).flatten(0, 2).T


def _repeated(spectrum: Tensor, grid: Grid, stride: int) -> Tensor:
    """The spectrum of a coarse grid at the frequencies of one that is ``stride`` times finer."""
    if stride == 1:
        return spectrum
    height, width = grid[0] // stride, grid[1] // stride
    whole = whole_spectrum(spectrum, height)
    rows, columns = torch.arange(grid[0] // 2 + 1) % height, torch.arange(grid[1]) % width
    return whole[rows][:, columns]


def whole_spectrum(half: Tensor, height: int) -> Tensor:
    """With the other half of the frequencies, which is conjugate."""
    width = half.shape[1]
    mirrored = half[1 : (height + 1) // 2].flip(0).conj()
    return torch.cat([half, mirrored[:, -torch.arange(width) % width]])


def _shifts(grid: Grid, stride: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """What shifting by 0 … stride − 1 pixels does to each frequency, down and across."""
    places = torch.arange(stride)
    down = _wave(torch.arange(grid[0] // 2 + 1), places, grid[0], like)
    return down, _wave(torch.arange(grid[1]), places, grid[1], like)


class Workspace(threading.local):
    """Memory that is used again: fresh pages cost as much as the arithmetic. Never copied, nor shared by threads."""

    def __init__(self) -> None:
        self._held: dict[int, Tensor] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return Workspace, ()

    def take(self, slot: int, shape: tuple[int, ...], like: Tensor) -> Tensor:
        """A tensor of that shape in a slot, whose last content is lost."""
        size = math.prod(shape)
        held = self._held.get(slot)
        if held is None or len(held) < size or held.dtype != like.dtype:
            with torch.inference_mode(False):
                held = self._held[slot] = torch.empty(size, dtype=like.dtype)
        return held[:size].view(shape)


class FourierConvolution:
    """A ``Circulant`` and a bias as five products of matrices, without a copy in between.

    Images come and go as (height, width, channels, batch). Down the height, the transform is one product with the
    matrix of cosines and sines; across the width, one for each frequency of the height; then the mixing of channels at
    each frequency; and back, at the rows and columns that are kept. For sides of up to some 64 pixels this beats the
    fast transform, which needs the batch elsewhere in memory.
    """

    def __init__(self, operator: Circulant, bias: Tensor) -> None:
        (height, width), stride = operator.grid, operator.stride
        half = height // 2 + 1
        like = operator.spectrum.real
        frequencies = torch.arange(half)
        rows, columns = torch.arange(height), torch.arange(width)
        down = _wave(frequencies, rows, height, like)
        across = _wave(columns, columns, width, like)
        # Real and imaginary parts are separate rows: (frequency, part) down, (part, place) → (frequency, part) across.
        self.down = torch.stack([down.real, -down.imag], dim=1).flatten(0, 1)
        self.across = _parts(across.conj()).permute(0, 2, 3, 1).flatten(0, 1).flatten(1)
        back = across[:, ::stride].T
        self.back_across = _parts(back).permute(2, 0, 1, 3).flatten(0, 1).flatten(1) / width
        once = torch.full((half,), 2.0).to(like)  # each frequency stands for its conjugate too
        once[0] = 1
        if height % 2 == 0:
            once[-1] = 1
        back = down[:, ::stride].T * once / height
        self.back_down = torch.stack([back.real, -back.imag], dim=2).flatten(1)
        self.mixing = _parts(operator.spectrum).permute(0, 1, 4, 2, 5, 3).flatten(4).flatten(2, 3).flatten(0, 1)
        self.constant = bias[:, None] * height * width  # a bias is the real part at frequency 0
        self.sizes = half, width, operator.spectrum.shape[3], operator.spectrum.shape[2], operator.kept

    def to(self, like: Tensor) -> FourierConvolution:
        """The same on the device and in the type of a tensor, made for use."""
        half = self.sizes[0]
        for name in ("down", "across", "back_across", "back_down", "mixing", "constant"):
            setattr(self, name, getattr(self, name).to(like).contiguous())
        self.across = self.across.expand(half, -1, -1)
        self.back_across = self.back_across.expand(half, -1, -1)
        return self

    def __call__(self, x: Tensor, workspace: Workspace | None) -> Tensor:
        """The results, with the bias; in the workspace (slot 2, where x may be) if there is one."""
        half, width, before, after, (rows, columns) = self.sizes
        batch = x.shape[-1]

        def out(slot: int, *shape: int) -> Tensor | None:
            return None if workspace is None else workspace.take(slot, shape, x)

        h = torch.mm(self.down, x.reshape(len(x), -1), out=out(0, 2 * half, width * before * batch))
        h = h.view(half, 2 * width, before * batch)
        h = torch.bmm(self.across, h, out=out(1, *h.shape)).view(half * width, 2 * before, batch)
        h = torch.bmm(self.mixing, h, out=out(0, half * width, 2 * after, batch))
        h[0, :after] += self.constant
        h = h.view(half, 2 * width, after * batch)
        h = torch.bmm(self.back_across, h, out=out(1, half, 2 * columns, after * batch))
        h = torch.mm(self.back_down, h.view(2 * half, -1), out=out(2, rows, columns * after * batch))
        return h.view(rows, columns, after, batch)


def _parts(values: Tensor) -> Tensor:
    """Complex numbers as real 2 × 2 matrices, (part out, part in) in the last two dimensions."""
    real = torch.stack([values.real, -values.imag], dim=-1)
    imaginary = torch.stack([values.imag, values.real], dim=-1)
    return torch.stack([real, imaginary], dim=-2)
