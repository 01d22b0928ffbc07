"""Normalisation and resize as a part of the model, so that sigma is in units of pixels in [0, 1]."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from lvmrs.errors import InvalidArgumentError, ModelError, shown
from lvmrs.kernel import checks
from lvmrs.models.lipschitz.stated import known_lipschitz


class Preprocessed(nn.Module):
    """A model with the normalisation (x − mean)/std, and a bilinear resize if ``size`` is given.

    Args:
        model: a callable from normalised images to logits.
        mean: one number for each channel, for pixels in [0, 1].
        std: one positive number for each channel.
        size: height and width for the model; images of another size are resized.

    >>> model = Preprocessed(nn.Flatten(), mean=[0.5], std=[0.25])
    >>> model(torch.tensor([[[[0.5, 1.0]]]]))
    tensor([[0., 2.]])
    """

    def __init__(
        self,
        model: Callable[[Tensor], Tensor],
        mean: Sequence[float],
        std: Sequence[float],
        size: tuple[int, int] | None = None,
    ) -> None:
        super().__init__()
        checks.model(model)
        means, widths = checks.real("mean", mean), checks.positive("std", std)
        checks.require("mean", means, np.isfinite(means), "must be finite")
        if means.ndim != 1 or means.shape != widths.shape:
            raise InvalidArgumentError(
                f"mean and std must have one number for each channel, got {shown(mean)} and {shown(std)}"
            )
        self.model = model
        self.size = size
        self.mean: Tensor
        self.std: Tensor
        self.register_buffer("mean", torch.from_numpy(means).float().view(-1, 1, 1), persistent=False)
        self.register_buffer("std", torch.from_numpy(widths).float().view(-1, 1, 1), persistent=False)

    @property
    def normalisation(self) -> dict[str, list[float]]:
        """The mean and std of each channel."""
        return {"mean": self.mean.flatten().tolist(), "std": self.std.flatten().tolist()}

    @property
    def lipschitz(self) -> float | None:
        """Lipschitz constant with respect to pixels: the constant of the model divided by the smallest std.

        None if the constant of the model is unknown, or if images are resized.
        """
        inner = known_lipschitz(self.model)
        return None if inner is None or self.size is not None else inner * self.steepness

    @property
    def steepness(self) -> float:
        """The Lipschitz constant of the normalisation: 1 divided by the smallest std; infinite for a std of 0."""
        smallest = float(self.std.abs().min())
        return 1 / smallest if smallest else math.inf

    def forward(self, x: Tensor) -> Tensor:
        """The logits for a batch of images (batch, channels, height, width) with pixels in [0, 1]."""
        if x.shape[1:-2] != self.mean.shape[:1]:  # torch would broadcast one channel silently
            raise ModelError(
                f"the inputs have {x.shape[1] if x.dim() > 3 else 1} channels and the model's normalisation has "
                f"{len(self.mean)}; give inputs with the same number of channels"
            )
        if self.size is not None and x.shape[-2:] != self.size:
            x = functional.interpolate(x, size=self.size, mode="bilinear", antialias=True)
        return self.model((x - self.mean) / self.std)
