"""Training base classifiers and denoisers: a small loop, the objectives, and files that remember how they were made."""

from lvmrs.training.loop import Epoch, Settings, accuracy, mean_squared_error, train
from lvmrs.training.objectives import Denoising, Diffusion, Gaussian, Margin, Objective, SmoothAdv

__all__ = [
    "Denoising",
    "Diffusion",
    "Epoch",
    "Gaussian",
    "Margin",
    "Objective",
    "Settings",
    "SmoothAdv",
    "accuracy",
    "mean_squared_error",
    "train",
]
