"""A denoiser for noise of a known standard deviation, followed by a classifier.

Salman et al. (2020) put a denoiser before a classifier that was trained without noise; Carlini et al. (2023) use one
step of a diffusion model as the denoiser.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn
from torch.nn import functional

from lvmrs.errors import ModelError

__all__ = ["Denoised"]


class Denoised(nn.Module):
    """A classifier of denoised images.

    Args:
        denoiser: a callable from a batch of noisy images to images of the same shape, with pixels about in [0, 1].
        classifier: a callable from a batch of images in [0, 1] to logits.
        size: height and width for the classifier; denoised images of another size are resized.

    >>> import torch
    >>> model = Denoised(lambda x: x.clamp(0.25, 0.75), lambda x: x.flatten(1))
    >>> model(torch.tensor([[[[0.0, 1.0]]]]))
    tensor([[0.2500, 0.7500]])
    """

    def __init__(
        self,
        denoiser: Callable[[Tensor], Tensor],
        classifier: Callable[[Tensor], Tensor],
        size: tuple[int, int] | None = None,
    ) -> None:
        super().__init__()
        self.denoiser, self.classifier, self.size = denoiser, classifier, size

    def forward(self, x: Tensor) -> Tensor:
        """The logits for a batch of noisy images."""
        clean = self.denoiser(x)
        if clean.shape != x.shape:
            raise ModelError(
                f"the denoiser turns images of shape {tuple(x.shape[1:])} into {tuple(clean.shape[1:])}; "
                "it must keep the shape"
            )
        clean = clean.clamp(0, 1)
        if self.size is not None and clean.shape[-2:] != self.size:
            clean = functional.interpolate(clean, size=self.size, mode="bilinear", antialias=True)
        return self.classifier(clean)
