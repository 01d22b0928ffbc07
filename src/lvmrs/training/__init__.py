"""Trains base classifiers and denoisers, and writes files of weights with a record of the training.

``run`` performs a whole ``TrainingJob``; ``train`` is only the training loop, for networks and data in memory.

>>> import tempfile
>>> from pathlib import Path
>>> import numpy as np
>>> from lvmrs import training
>>> dark, light = np.zeros((8, 1, 8, 8)), np.ones((8, 1, 8, 8))
>>> with tempfile.TemporaryDirectory() as folder:
...     x, y = np.concatenate([dark, light]), np.repeat([0, 1], 8)
...     np.savez(Path(folder, "data.npz"), x_train=x, y_train=y, x_test=x[4:12], y_test=y[4:12])
...     job = training.TrainingJob(
...         "ready:small_cnn", f"npz:{folder}/data.npz", training.Gaussian(0.25), Path(folder, "net.safetensors")
...     )
...     done = training.run(job)
...     print(done.measured["clean accuracy"], done.out.name, done.out.exists())
1.0 net.safetensors True
"""

from lvmrs.training.job import Prepared, StoppedTrainingError, Trained, TrainingJob, run
from lvmrs.training.loop import Epoch, Settings, train
from lvmrs.training.measure import accuracy, mean_squared_error
from lvmrs.training.objectives import (
    MACER,
    Consistency,
    Denoising,
    Diffusion,
    Gaussian,
    Margin,
    Objective,
    SmoothAdv,
    SmoothMix,
    objective,
)

__all__ = [
    "MACER",
    "Consistency",
    "Denoising",
    "Diffusion",
    "Epoch",
    "Gaussian",
    "Margin",
    "Objective",
    "Prepared",
    "Settings",
    "SmoothAdv",
    "SmoothMix",
    "StoppedTrainingError",
    "Trained",
    "TrainingJob",
    "accuracy",
    "mean_squared_error",
    "objective",
    "run",
    "train",
]
