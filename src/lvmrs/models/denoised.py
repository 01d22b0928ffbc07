"""Denoise, then classify: any classifier behind a denoiser that knows how strong the noise is.

Salman et al. (2020) put a denoiser before a classifier that was trained without noise; Carlini et al. (2023) take a
diffusion model as the denoiser, in one step.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn
from torch.nn import functional

from lvmrs.errors import ModelError

__all__ = ["Denoised"]


class Denoised(nn.Module):
    """``classifier`` behind ``denoiser``: both take images in [0, 1]; a ``size`` is what the classifier needs."""

    def __init__(
        self,
        denoiser: Callable[[Tensor], Tensor],
        classifier: Callable[[Tensor], Tensor],
        size: tuple[int, int] | None = None,
    ) -> None:
        super().__init__()
        self.denoiser, self.classifier, self.size = denoiser, classifier, size

    def forward(self, x: Tensor) -> Tensor:
        """The classifier's answer to the denoised images."""
        clean = self.denoiser(x)
        if clean.shape != x.shape:
            raise ModelError(
                f"the denoiser answers {tuple(clean.shape[1:])} to images of {tuple(x.shape[1:])}; it must keep shapes"
            )
        clean = clean.clamp(0, 1)
        if self.size is not None and clean.shape[-2:] != self.size:
            clean = functional.interpolate(clean, size=self.size, mode="bilinear", antialias=True)
        return self.classifier(clean)
