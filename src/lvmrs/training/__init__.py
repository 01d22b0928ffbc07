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
