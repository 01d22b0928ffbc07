"""Training objectives: each defines the loss of one batch. Objectives by name, and records of their settings.

The loss takes the model, inputs in [0, 1], labels and a random generator, and draws fresh noise at each call. The
settings of an objective are its fields. A new objective is a subclass of ``Objective`` with ``sigma`` and ``loss``,
in a file of its own, and a line in ``lvmrs.registry.OBJECTIVES``. The functions of ``base`` are for all objectives.
"""

from lvmrs.training.objectives.base import Objective
from lvmrs.training.objectives.consistency import Consistency
from lvmrs.training.objectives.denoising import Denoising, Diffusion
from lvmrs.training.objectives.gaussian import Gaussian
from lvmrs.training.objectives.macer import MACER
from lvmrs.training.objectives.margin import Margin
from lvmrs.training.objectives.settings import description, objective, record
from lvmrs.training.objectives.smoothadv import SmoothAdv
from lvmrs.training.objectives.smoothmix import SmoothMix

__all__ = [
    "MACER",
    "Consistency",
    "Denoising",
    "Diffusion",
    "Gaussian",
    "Margin",
    "Objective",
    "SmoothAdv",
    "SmoothMix",
    "description",
    "objective",
    "record",
]
