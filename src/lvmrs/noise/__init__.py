"""Noise: the kinds of noise, one in each file, and the streams that noise is drawn from.

To add a kind, derive from ``Noise`` and write a form of the radius for it: ``Form.noises`` says which kinds the theorem
of a form is about. CONTRIBUTING.md has the recipe.
"""

from lvmrs.noise.base import Noise, check_noise
from lvmrs.noise.choice import suited_noise
from lvmrs.noise.exact import ExactGaussian
from lvmrs.noise.gaussian import GAUSSIAN, Gaussian
from lvmrs.noise.stream import Draws, Stage, Stream

__all__ = [
    "GAUSSIAN", "Draws", "ExactGaussian", "Gaussian", "Noise", "Stage", "Stream", "check_noise",
    "suited_noise",
]  # fmt: skip
