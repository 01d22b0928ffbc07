"""Training base classifiers and denoisers, into files of weights that say how they were made.

``run`` does all of a ``TrainingJob``; ``train`` is the loop alone, for networks and data that are already there.
"""

from lvmrs.training.job import Prepared, StoppedTrainingError, Trained, TrainingJob, run
from lvmrs.training.loop import Epoch, train
from lvmrs.training.measure import accuracy, mean_squared_error, measured
from lvmrs.training.network import Network, check_fit, network_for
from lvmrs.training.objective_settings import objective
from lvmrs.training.objectives import Denoising, Diffusion, Gaussian, Margin, Objective, SmoothAdv
from lvmrs.training.settings import Settings

__all__ = [
    "Denoising",
    "Diffusion",
    "Epoch",
    "Gaussian",
    "Margin",
    "Network",
    "Objective",
    "Prepared",
    "Settings",
    "SmoothAdv",
    "StoppedTrainingError",
    "Trained",
    "TrainingJob",
    "accuracy",
    "check_fit",
    "mean_squared_error",
    "measured",
    "network_for",
    "objective",
    "run",
    "train",
]
