"""A convolution that is given by its spectrum is run here, by products of real matrices.

Images come and go as (height, width, channels, batch). For sides of up to some 64 pixels this beats the fast transform,
which needs the batch elsewhere in memory. ``lvmrs.models.fourier`` says what a spectrum is.
"""

from __future__ import annotations

import math
import threading
from typing import Any, Self

import torch
from torch import Tensor

__all__ = ["Grid", "RealProducts", "Workspace", "waves"]

Grid = tuple[int, int]


class Workspace(threading.local):
    """It has two pieces of memory for use in turn: fresh pages cost as much as the arithmetic. Threads share none."""

    def __init__(self) -> None:
        self._last, self._other = torch.empty(0), torch.empty(0)

    def __reduce__(self) -> tuple[Any, ...]:
        return Workspace, ()

    def take(self, shape: tuple[int, ...], like: Tensor) -> Tensor:
        """The result has that shape. What was taken last is kept, what was taken before that is lost."""
        size = math.prod(shape)
        held = self._other
        if len(held) < size or held.dtype != like.dtype:
            with torch.inference_mode(False):
                held = torch.empty(size, dtype=like.dtype)
        self._last, self._other = held, self._last
        return held[:size].view(shape)


class RealProducts:
    """It applies a convolution and adds a bias by products of matrices, without a copy in between.

    Down the height, the transform is one product with a matrix of cosines and sines; across the width, it is one for
    each frequency of the height; then channels are mixed at each frequency; and the way back is alike. The spectrum
    belongs to the ``grid`` of the results. If it takes squares of pixels as channels, then ``places`` is the side of
    the squares that the inputs still hold as pixels.
    """

    def __init__(self, spectrum: Tensor, grid: Grid, bias: Tensor, places: int = 1) -> None:
        height, width = grid
        # The pixels at each place of a square are transformed apart, by matrices that are zero between places: this is
        # quicker than to gather them first. The mixing adds up over the rows of a square; its columns are channels.
        down, across = _transforms(grid, spectrum.real.detach())
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
        self.constant = bias[:, None] * height * width
        self.sizes = height, width, before // places**2, after

    def to(self, like: Tensor) -> Self:
        """The matrices move to the device and the type of a tensor, and are made ready for use."""
        for name in ("down", "across", "back_across", "back_down", "mixing", "constant"):
            setattr(self, name, getattr(self, name).to(like).contiguous())
        return self

    def __call__(self, x: Tensor, workspace: Workspace | None) -> Tensor:
        """The results, with the bias, are in the workspace if there is one; x may be what was last taken from it."""
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


def waves(frequencies: Tensor, places: Tensor, size: int, like: Tensor) -> Tensor:
    """The result is e^{2πi k x/size} for each frequency k (rows) and place x (columns)."""
    angle = (2 * math.pi / size) * (torch.outer(frequencies, places) % size).to(like)
    return torch.polar(torch.ones_like(angle), angle)


# An image of even height has as many real numbers at its frequencies as it has pixels. Row k > 0 of what follows is
# frequency k of the height, as (real, imaginary) at each frequency of the width. Row 0 holds the two frequencies of the
# height that are their own conjugates, 0 and height/2 (if that is whole): up to the middle of the width the one, beyond
# it the other; and where the frequency of the width is its own conjugate too, so that both are real, one as the real
# part, the other as the imaginary part.


def _self_conjugate(extent: int) -> list[int]:
    """At these frequencies, real numbers have a real transform."""
    return [0] if extent % 2 else [0, extent // 2]


def _transforms(grid: Grid, like: Tensor) -> tuple[Tensor, Tensor]:
    """Down, it is (frequency and part, place); across, for each row, (frequency and part, part and place)."""
    height, width = grid
    rows, places = torch.arange((height + 1) // 2), torch.arange(width)
    wave = waves(rows, torch.arange(height), height, like)
    down = torch.stack([wave.real, -wave.imag], dim=1)
    if height % 2 == 0:
        down[0, 1] = 1 - 2 * (torch.arange(height) % 2)
    wave = waves(places, places, width, like)
    middle, alone = width // 2 + 1, _self_conjugate(width)
    across = _parts(wave.conj()).permute(0, 2, 3, 1).repeat(len(rows), 1, 1, 1, 1)
    across[0, middle:, :, 1] = across[0, middle:, :, 0]
    across[0, middle:, :, 0] = 0
    across[0, :middle, :, 1] = 0
    across[0, alone, 1] = across[0, alone, 0].flip(-2)
    return down.flatten(0, 1), across.flatten(3).flatten(1, 2)


def _packed(spectrum: Tensor, height: int) -> Tensor:
    """A spectrum becomes real matrices at (row, frequency of the width), of (part and channel) out and in."""
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
    """Complex numbers become real 2 × 2 matrices, (part out, part in) in the last two dimensions."""
    real = torch.stack([values.real, -values.imag], dim=-1)
    imaginary = torch.stack([values.imag, values.real], dim=-1)
    return torch.stack([real, imaginary], dim=-2)
