"""The arrangement of a chain of circular convolutions so that running it takes few products.

``lvmrs.models.fourier`` says what the convolutions are, and ``lvmrs.models.products`` runs each of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from lvmrs.models.fourier import Circulant
from lvmrs.models.products import RealProducts

__all__ = ["FourierConvolution", "chained", "squares_as_channels"]


class FourierConvolution(RealProducts):
    """Runs a ``Circulant`` and adds a bias.

    With a stride, channels are mixed on the smaller grid of the results. With a ``split``, squares of that side become
    channels of the results, which makes transforms smaller and mixing larger. If ``gathered``, squares of the inputs,
    ``squares`` pixels on a side, are channels already.
    """

    def __init__(self, operator: Circulant, bias: Tensor, gathered: bool = False, split: int = 1) -> None:
        self.squares = operator.stride * split
        height, width = (extent // split for extent in operator.kept)
        places = 1 if gathered else self.squares
        super().__init__(operator.between_squares(split), (height, width), bias.repeat(split**2), places)


def chained(operators: Sequence[tuple[Circulant, Tensor]], like: Tensor) -> list[FourierConvolution]:
    """Arrange operators with their biases in a chain, whose input is made by ``squares_as_channels``.

    The results of one operator are split into the squares that the next one takes, where this saves products.
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
    """Turn a batch of images into (height, width, channels, batch), with squares of pixels as channels."""
    batch, channels, height, width = x.shape
    squares = x.reshape(batch, channels, height // side, side, width // side, side)
    return squares.permute(2, 4, 3, 5, 1, 0).contiguous().flatten(2, 4)


def _products(operator: Circulant, split: int, gathered: bool) -> int:
    """The number of multiplications of a ``FourierConvolution`` for one image, in transforms and in mixing."""
    squares = operator.stride * split
    after, before = operator.spectrum.shape[2] * split**2, operator.spectrum.shape[3] * squares**2
    height, width = (extent // split for extent in operator.kept)
    transformed = after + before * (1 if gathered else squares)
    return height * width * (transformed * (height + 2 * width) + 2 * before * after)
