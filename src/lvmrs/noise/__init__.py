"""Noise: which kind it is, one per file, and the streams that it is drawn from.

To add a noise, derive from ``Noise`` and give it a form of the radius: ``Form.noises`` says which noise the theorem
of a form is about. CONTRIBUTING.md has the recipe.
"""

from lvmrs.noise.base import Noise
from lvmrs.noise.gaussian import GAUSSIAN, Gaussian
from lvmrs.noise.stream import Draws, Stage, Stream

__all__ = ["GAUSSIAN", "Draws", "Gaussian", "Noise", "Stage", "Stream"]
