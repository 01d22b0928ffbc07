"""Upper bounds on the spectral norms of linear and convolutional layers, and circular convolutions by frequency.

No bound is below the norm. A circular convolution is a matrix at each frequency. Its *spectrum* is a complex tensor of
shape (height//2 + 1, width, channels out, channels in): the matrices of a real convolution at half of the frequencies.
The other half is conjugate to them. ``Circulant`` composes circular convolutions, for sandwich networks, and
``FourierConvolution`` evaluates them fast.
"""

from __future__ import annotations

import math
import sys
import threading
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor
from torch.nn import functional

from lvmrs.errors import ModelError

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
    """Upper bound on the spectral norm of a matrix, or the largest over a batch (…, rows, columns).

    For small matrices the norm is exact, up to a relative 10⁻⁹ by which it is rounded up. For large matrices ``gram``
    gives a bound within 1 %.

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

    The weight is (channels out, channels in / groups, height, width), the grid is the height and width of the images,
    and the other arguments are those of torch.nn.Conv2d.
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
    return max(_wrapped(part, (room[0], room[1]), stride) for part in kernel.chunk(groups))


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


# ---- circular convolutions: composition and evaluation

Grid = tuple[int, int]
_DIMS = (-1, -2)  # the last dimension is the halved one


def spectrum_of(kernel: Tensor, grid: Grid) -> Tensor:
    """The spectrum of y[i] = Σ_j kernel[j] x[i + j − c], where c is the middle of the kernel and indices wrap around.

    The kernel is (channels out, channels in, height, width), and the grid is the height and width of the images.
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
        shifts = (down[: len(fine), None, :, None] * across[None, :, None, :]).flatten(2)[..., None]
        mixed = fine.reshape(*fine.shape[:2], -1, stride**2) @ shifts
        return cls(mixed.reshape(*fine.shape[:3], -1), grid, stride)

    @classmethod
    def pooled(cls, channels: int, grid: Grid, stride: int, like: Tensor) -> Circulant:
        """The sum over squares of ``stride`` × ``stride`` pixels, divided by ``stride``, so that its norm is 1."""
        down, across = (_shifts(extent, stride, like).sum(dim=1) for extent in grid)
        alike = torch.outer(down[: grid[0] // 2 + 1], across)[..., None, None] / stride
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
        half, whole = height // 2 + 1, whole_spectrum(self.spectrum, self.grid[0])
        down, aliases = down[:, :half], whole.view(side, height, side, width, *whole.shape[2:])[:, :half]
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
        transposed = FourierConvolution(Circulant(self.spectrum.mH, self.grid), matrix.new_zeros(before))
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


class FourierConvolution:
    """Applies a ``Circulant`` and adds a bias, to images of the shape (height, width, channels, batch).

    It multiplies real matrices, without copies between the products. For sides of up to about 64 pixels this is faster
    than the fast Fourier transform, which needs another memory layout of the batch. The transform along the height is
    one product with a matrix of cosines and sines; the transform along the width is one product for each frequency of
    the height. Then channels are mixed at each frequency, and the inverse transforms are applied in the same way.

    With a stride, channels are mixed on the smaller grid of the results. With a ``split``, squares of that side become
    channels of the results, which makes transforms smaller and mixing larger. If ``gathered``, the channels of the
    inputs are already squares of ``squares`` pixels on a side.
    """

    def __init__(self, operator: Circulant, bias: Tensor, gathered: bool = False, split: int = 1) -> None:
        self.squares = operator.stride * split
        places = 1 if gathered else self.squares
        spectrum, bias = operator.between_squares(split), bias.repeat(split**2)
        height, width = (extent // split for extent in operator.kept)
        # The pixels at each place of a square are transformed separately, by matrices that are zero between places.
        # This is faster than gathering them first. The mixing sums over the rows of a square; its columns are channels.
        down, across = _transforms((height, width), spectrum.real.detach())
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
        """The result is a buffer of the workspace, if there is one; x may be the buffer that was taken last."""
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
