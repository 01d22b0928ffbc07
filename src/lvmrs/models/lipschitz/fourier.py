"""Circular convolutions as matrices at each frequency: their composition, and their fast evaluation.

A *spectrum* is a complex tensor of shape (height//2 + 1, width, channels out, channels in): the matrix that a real
convolution applies at each frequency. The other half of the frequencies is conjugate to it.

``RealProducts`` applies the convolution of a spectrum by products of real matrices, to images of the shape (height,
width, channels, batch). For sides of up to about 64 pixels this is faster than the fast Fourier transform, which needs
another memory layout of the batch.
"""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor

__all__ = ["Circulant", "Grid", "RealProducts", "Workspace", "applied", "spectrum_of", "whole_spectrum"]

Grid = tuple[int, int]
_DIMS = (-1, -2)  # the last dimension is the halved one


def spectrum_of(kernel: Tensor, grid: Grid) -> Tensor:
    """The spectrum of y[i] = Σ_j kernel[j] x[i + j − c], where c is the middle of the kernel and indices wrap around.

    Args:
        kernel: weights (channels out, channels in, height, width).
        grid: height and width of the images.
    """
    height, width = (torch.arange(extent) - (extent - 1) // 2 for extent in kernel.shape[-2:])
    down = _waves(torch.arange(grid[0] // 2 + 1), height, grid[0], kernel)
    across = _waves(torch.arange(grid[1]), width, grid[1], kernel)
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
        """Convert a convolution of the output of pixel_unshuffle to one of the image itself, on ``grid``."""
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
        """The composition of this convolution and the following one."""
        fine = _repeated(following.spectrum, self.grid, self.stride)
        return Circulant(fine @ self.spectrum, self.grid, self.stride * following.stride)

    def between_squares(self, split: int) -> Tensor:
        """The spectrum of the same map between images whose squares of pixels are channels (row, column, channel).

        The squares of the inputs have a side of ``stride`` × ``split`` pixels, and the squares of the results a side of
        ``split``. A frequency of the image of squares represents all its aliases: the frequencies of the fine grid that
        are equal to it on one pixel of each square.
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
        """The matrix of this convolution followed by ``matrix``.

        The columns of ``matrix`` are channels × height × width, and those of the result height × width × channels. The
        rows of the result are the rows of ``matrix`` under the transposed convolution.
        """
        after, before = self.spectrum.shape[2:]
        rows = matrix.new_zeros(*self.grid, after, len(matrix))
        rows[:: self.stride, :: self.stride] = matrix.view(len(matrix), after, *self.kept).permute(2, 3, 1, 0)
        transposed = RealProducts(self.spectrum.mH, self.grid, matrix.new_zeros(before))
        return transposed.to(matrix)(rows, None).flatten(0, 2).T


def _repeated(spectrum: Tensor, grid: Grid, stride: int) -> Tensor:
    """Repeat the spectrum of a coarse grid for the frequencies of a grid that is ``stride`` times finer."""
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
    return _waves(torch.arange(extent), torch.arange(side), extent, like)


def _waves(frequencies: Tensor, places: Tensor, size: int, like: Tensor) -> Tensor:
    """The waves e^{2πi k x/size} for each frequency k (rows) and place x (columns)."""
    angle = (2 * math.pi / size) * (torch.outer(frequencies, places) % size).to(like)
    return torch.polar(torch.ones_like(angle), angle)


class Workspace(threading.local):
    """Two alternating buffers per thread, because allocating memory costs as much time as the arithmetic."""

    def __init__(self) -> None:
        self._last, self._other = torch.empty(0), torch.empty(0)

    def __reduce__(self) -> tuple[Any, ...]:
        return Workspace, ()

    def take(self, shape: tuple[int, ...], like: Tensor) -> Tensor:
        """Return a buffer of this shape. The previous result stays valid; the one before it is overwritten."""
        size = math.prod(shape)
        held = self._other
        if len(held) < size or held.dtype != like.dtype:
            with torch.inference_mode(False):
                held = torch.empty(size, dtype=like.dtype)
        self._last, self._other = held, self._last
        return held[:size].view(shape)


class RealProducts:
    """Applies a convolution and adds a bias, by matrix products without copies between them.

    The transform along the height is one product with a matrix of cosines and sines; the transform along the width is
    one product for each frequency of the height. Then channels are mixed at each frequency, and the inverse transforms
    are applied in the same way. The spectrum belongs to the ``grid`` of the results. If its input channels are squares
    of pixels, then ``places`` is the side of the squares that are still pixels in the inputs.
    """

    def __init__(self, spectrum: Tensor, grid: Grid, bias: Tensor, places: int = 1) -> None:
        height, width = grid
        # The pixels at each place of a square are transformed separately, by matrices that are zero between places.
        # This is faster than gathering them first. The mixing sums over the rows of a square; its columns are channels.
        down, across = _transforms(grid, spectrum.real.detach())
        each = torch.eye(places).to(down)
        self.down = torch.einsum("kh,pq->pkhq", down, each).flatten(2).flatten(0, 1)
        self.across = torch.einsum("kfw,pq->kfpwq", across, each).flatten(3).flatten(1, 2).repeat(places, 1, 1)
        # Each frequency also represents its conjugate, except for the self-conjugate frequencies in row 0.
        twice = torch.full_like(down[:, :1], 2.0)
        twice[:2] = 1
        self.back_down = (down * twice / height).T
        twice = torch.ones_like(across[:, :, :1])
        twice[0] = 2
        twice[0].view(width, 2)[_self_conjugate(width)] = 1
        self.back_across = (across * twice / width).mT
        after, before = spectrum.shape[2:]
        by_place = spectrum.reshape(*spectrum.shape[:3], places, before // places).transpose(2, 3)
        self.mixing = _packed(by_place, height).permute(2, 0, 1, 3, 4).flatten(1, 2)
        # A bias adds to the real part at frequency 0.
        self.constant = bias[:, None] * height * width
        self.sizes = height, width, before // places**2, after

    def to(self, like: Tensor) -> Self:
        """Convert the matrices to the device and type of a tensor, make them contiguous, and return self."""
        for name in ("down", "across", "back_across", "back_down", "mixing", "constant"):
            setattr(self, name, getattr(self, name).to(like).contiguous())
        return self

    def __call__(self, x: Tensor, workspace: Workspace | None) -> Tensor:
        """Apply the convolution and add the bias.

        With a workspace, the result is one of its buffers; x may be the buffer that was taken last.
        """
        height, width, before, after = self.sizes
        batch = x.shape[-1]

        def out(*shape: int) -> Tensor | None:
            return None if workspace is None else workspace.take(shape, x)

        x = x.view(len(x), x[0].numel())
        h = torch.mm(self.down, x, out=out(len(self.down), x.shape[1])).view(*self.across.shape[:2], before * batch)
        h = torch.bmm(self.across, h, out=out(*h.shape)).view(*self.mixing.shape[:2], self.mixing.shape[3], batch)
        (mixing, seen), *others = zip(self.mixing.unbind(), h.unbind(), strict=True)
        mixed = torch.bmm(mixing, seen, out=out(*mixing.shape[:2], batch))
        for mixing, seen in others:
            mixed = torch.baddbmm(mixed, mixing, seen, out=None if workspace is None else mixed)
        mixed[0, :after] += self.constant
        h = mixed.view(*self.back_across.shape[:2], after * batch)
        h = torch.bmm(self.back_across, h, out=out(*h.shape)).view(self.back_down.shape[1], width * after * batch)
        h = torch.mm(self.back_down, h, out=out(height, h.shape[1]))
        return h.view(height, width, after, batch)


# Storage of the frequencies of an image as real numbers. An image of even height has as many of them as pixels.
# Row k > 0 is frequency k of the height, as (real, imaginary) at each frequency of the width. Row 0 holds the two
# frequencies of the height that are their own conjugates, 0 and height/2 (if that is whole): frequency 0 up to the
# middle of the width, and height/2 beyond it. Where the frequency of the width is its own conjugate too, both are real:
# frequency 0 is then stored as the real part, and height/2 as the imaginary part.


def _self_conjugate(extent: int) -> list[int]:
    """The self-conjugate frequencies, at which the transform of real numbers is real."""
    return [0] if extent % 2 else [0, extent // 2]


def _transforms(grid: Grid, like: Tensor) -> tuple[Tensor, Tensor]:
    """The matrices of the transforms along height and width.

    Along the height the matrix is (frequency and part, place); along the width it is, for each row, (frequency and
    part, part and place).
    """
    height, width = grid
    rows, places = torch.arange((height + 1) // 2), torch.arange(width)
    wave = _waves(rows, torch.arange(height), height, like)
    down = torch.stack([wave.real, -wave.imag], dim=1)
    if height % 2 == 0:
        down[0, 1] = 1 - 2 * (torch.arange(height) % 2)
    wave = _waves(places, places, width, like)
    middle, alone = width // 2 + 1, _self_conjugate(width)
    across = _parts(wave.conj()).permute(0, 2, 3, 1).repeat(len(rows), 1, 1, 1, 1)
    across[0, middle:, :, 1] = across[0, middle:, :, 0]
    across[0, middle:, :, 0] = 0
    across[0, :middle, :, 1] = 0
    across[0, alone, 1] = across[0, alone, 0].flip(-2)
    return down.flatten(0, 1), across.flatten(3).flatten(1, 2)


def _packed(spectrum: Tensor, height: int) -> Tensor:
    """Convert a spectrum to real matrices for each (row, frequency of the width), of (part and channel) out and in."""
    width = spectrum.shape[1]
    bottom = spectrum[-1] if height % 2 == 0 else torch.zeros_like(spectrum[0])
    middle, alone = width // 2 + 1, _self_conjugate(width)
    first = torch.cat([spectrum[0, :middle], bottom[middle:]])
    packed = torch.cat([first[None], spectrum[1 : (height + 1) // 2]])
    real, imaginary = packed.real, packed.imag
    below = real.clone()
    below[0, alone] = bottom[alone].real
    return torch.cat([torch.cat([real, -imaginary], dim=-1), torch.cat([imaginary, below], dim=-1)], dim=-2)


def _parts(values: Tensor) -> Tensor:
    """Convert complex numbers to real 2 × 2 matrices, (part out, part in) in the last two dimensions."""
    real = torch.stack([values.real, -values.imag], dim=-1)
    imaginary = torch.stack([values.imag, values.real], dim=-1)
    return torch.stack([real, imaginary], dim=-2)
