"""Circular convolutions as matrices at each frequency: their algebra, and a way to apply them that costs little.

A *spectrum* is a complex tensor of shape (height//2 + 1, width, channels out, channels in): the matrix that a real
convolution applies at each frequency. The other half of the frequencies is conjugate to it.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

__all__ = [
    "Circulant",
    "FourierConvolution",
    "Grid",
    "Workspace",
    "applied",
    "chained",
    "spectrum_of",
    "squares_as_channels",
    "whole_spectrum",
]

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
        down, across = (_shifts(extent, stride, fine.real) for extent in grid)
        down = down[: len(fine)]
        shifts = (down[:, None, :, None] * across[None, :, None, :]).flatten(2)[..., None]
        after = fine.shape[2]
        mixed = fine.reshape(*fine.shape[:2], -1, stride**2) @ shifts
        return cls(mixed.reshape(*fine.shape[:2], after, -1), grid, stride)

    @classmethod
    def pooled(cls, channels: int, grid: Grid, stride: int, like: Tensor) -> Circulant:
        """The sum over squares of ``stride`` × ``stride`` pixels, divided by ``stride``: of norm 1."""
        down, across = (_shifts(extent, stride, like) for extent in grid)
        down = down[: grid[0] // 2 + 1]
        alike = torch.outer(down.sum(dim=1), across.sum(dim=1))[..., None, None] / stride
        return cls(alike * torch.eye(channels).to(like), grid, stride)

    def then(self, following: Circulant) -> Circulant:
        """Both in one."""
        fine = _repeated(following.spectrum, self.grid, self.stride)
        return Circulant(fine @ self.spectrum, self.grid, self.stride * following.stride)

    def between_squares(self, split: int) -> Tensor:
        """The spectrum of the same map between images whose squares of pixels are channels (row, column, channel).

        The squares have a side of ``stride`` × ``split`` pixels before it, and of ``split`` after. A frequency of the
        image of squares stands for all those of the fine grid that agree at one pixel of each square.
        """
        side = self.stride * split
        if side == 1:
            return self.spectrum
        # As (alias, frequency of the image of squares, shift).
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


def _shifts(extent: int, side: int, like: Tensor) -> Tensor:
    """What shifting by 0 … side − 1 pixels (columns) does to each frequency (rows)."""
    return _wave(torch.arange(extent), torch.arange(side), extent, like)


class Workspace(threading.local):
    """Two pieces of memory, used in turn: fresh pages cost as much as the arithmetic. Each thread has its own."""

    def __init__(self) -> None:
        self._last, self._other = torch.empty(0), torch.empty(0)

    def __reduce__(self) -> tuple[Any, ...]:
        return Workspace, ()

    def take(self, shape: tuple[int, ...], like: Tensor) -> Tensor:
        """A tensor of that shape. What was taken last is kept, what was taken before that is lost."""
        size = math.prod(shape)
        held = self._other
        if len(held) < size or held.dtype != like.dtype:
            with torch.inference_mode(False):
                held = torch.empty(size, dtype=like.dtype)
        self._last, self._other = held, self._last
        return held[:size].view(shape)


class FourierConvolution:
    """A ``Circulant`` and a bias as products of matrices, without a copy in between.

    Images come and go as (height, width, channels, batch). Down the height, the transform is one product with a matrix
    of cosines and sines; across the width, one for each frequency of the height; then the mixing of channels at each
    frequency; and back. For sides of up to some 64 pixels this beats the fast transform, which needs the batch
    elsewhere in memory. With a stride, channels are mixed on the smaller grid of the results. With a ``split``, the
    results are squares of that side as channels: smaller transforms for more mixing. If ``gathered``, the inputs are
    squares as channels as well, of ``squares`` pixels a side.
    """

    def __init__(self, operator: Circulant, bias: Tensor, gathered: bool = False, split: int = 1) -> None:
        spectrum = operator.between_squares(split)
        height, width = (extent // split for extent in operator.kept)
        self.squares = operator.stride * split
        # The pixels at each place of a square are transformed apart, by matrices that are zero between places: this is
        # quicker than to gather them first. The mixing adds up over the rows of a square; its columns are channels.
        places = 1 if gathered else self.squares
        down, across = _transforms((height, width), spectrum.real.detach())
        each = torch.eye(places).to(down)
        self.down = torch.einsum("kh,pq->pkhq", down, each).flatten(2).flatten(0, 1)
        self.across = torch.einsum("kfw,pq->kfpwq", across, each).flatten(3).flatten(1, 2).repeat(places, 1, 1)
        # Every frequency but the self-conjugate ones, which are in row 0, stands for its conjugate too.
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
        # A bias is the real part at frequency 0.
        self.constant = bias.repeat(split**2)[:, None] * height * width
        self.sizes = height, width, before // places**2, after

    def to(self, like: Tensor) -> FourierConvolution:
        """The same on the device and in the type of a tensor, made for use."""
        for name in ("down", "across", "back_across", "back_down", "mixing", "constant"):
            setattr(self, name, getattr(self, name).to(like).contiguous())
        return self

    def __call__(self, x: Tensor, workspace: Workspace | None) -> Tensor:
        """The results, with the bias; in the workspace, which may have been used last for x, if there is one."""
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


def chained(operators: Sequence[tuple[Circulant, Tensor]], like: Tensor) -> list[FourierConvolution]:
    """Operators with their biases, to be applied to ``squares_as_channels`` one after the other.

    One is split into the squares that the next one takes, where this saves products.
    """
    splits = [1] * len(operators)
    for i in reversed(range(len(operators) - 1)):
        (operator, _), (following, _) = operators[i : i + 2]
        side = following.stride * splits[i + 1]
        apart = _products(operator, 1, True) + _products(following, splits[i + 1], False)
        if _products(operator, side, True) + _products(following, splits[i + 1], True) < apart:
            splits[i] = side
    done: list[FourierConvolution] = []
    for (operator, bias), split in zip(operators, splits, strict=True):
        gathered = not done or splits[len(done) - 1] == operator.stride * split
        done.append(FourierConvolution(operator, bias, gathered, split).to(like))
    return done


def squares_as_channels(x: Tensor, side: int) -> Tensor:
    """A batch of images as (height, width, channels, batch), with squares of pixels as channels."""
    batch, channels, height, width = x.shape
    squares = x.reshape(batch, channels, height // side, side, width // side, side)
    return squares.permute(2, 4, 3, 5, 1, 0).contiguous().flatten(2, 4)


def _products(operator: Circulant, split: int, gathered: bool) -> int:
    """How many multiplications a ``FourierConvolution`` takes for an image, in transforms and in mixing."""
    squares = operator.stride * split
    after, before = operator.spectrum.shape[2] * split**2, operator.spectrum.shape[3] * squares**2
    height, width = (extent // split for extent in operator.kept)
    transformed = after + before * (1 if gathered else squares)
    return height * width * (transformed * (height + 2 * width) + 2 * before * after)


# An image of even height has as many real numbers at its frequencies as it has pixels. Row k > 0 of what follows is
# frequency k of the height, as (real, imaginary) at each frequency of the width. Row 0 holds the two frequencies of the
# height that are their own conjugates, 0 and height/2 (if that is whole): up to the middle of the width the one, beyond
# it the other; and where the frequency of the width is its own conjugate too, so that both are real, one as the real
# part, the other as the imaginary part.


def _self_conjugate(extent: int) -> list[int]:
    """The frequencies at which real numbers have a real transform."""
    return [0] if extent % 2 else [0, extent // 2]


def _transforms(grid: Grid, like: Tensor) -> tuple[Tensor, Tensor]:
    """Down: (frequency and part, place). Across, for each row: (frequency and part, part and place)."""
    height, width = grid
    rows, places = torch.arange((height + 1) // 2), torch.arange(width)
    wave = _wave(rows, torch.arange(height), height, like)
    down = torch.stack([wave.real, -wave.imag], dim=1)
    if height % 2 == 0:
        down[0, 1] = 1 - 2 * (torch.arange(height) % 2)
    wave = _wave(places, places, width, like)
    middle, alone = width // 2 + 1, _self_conjugate(width)
    across = _parts(wave.conj()).permute(0, 2, 3, 1).repeat(len(rows), 1, 1, 1, 1)
    across[0, middle:, :, 1] = across[0, middle:, :, 0]
    across[0, middle:, :, 0] = 0
    across[0, :middle, :, 1] = 0
    across[0, alone, 1] = across[0, alone, 0].flip(-2)
    return down.flatten(0, 1), across.flatten(3).flatten(1, 2)


def _packed(spectrum: Tensor, height: int) -> Tensor:
    """A spectrum as real matrices at (row, frequency of the width), of (part and channel) out and in."""
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
    """Complex numbers as real 2 × 2 matrices, (part out, part in) in the last two dimensions."""
    real = torch.stack([values.real, -values.imag], dim=-1)
    imaginary = torch.stack([values.imag, values.real], dim=-1)
    return torch.stack([real, imaginary], dim=-2)
