"""Numbers of papers, to stand beside ours.

They are of Delattre et al. 2024, "The Lipschitz-Variance-Margin Tradeoff …", where nothing else is said.
"""

from __future__ import annotations

__all__ = ["AVERAGE_RADIUS", "BEST", "LIPSCHITZ", "PER_SIGMA", "R2_AGAINST_R3", "SALMAN"]

Row = dict[str, float]


def _row(epsilons: str, shares: str) -> Row:
    return dict(zip(epsilons.split(), map(float, shares.split()), strict=True))


_TABLE_1 = "0.14 0.19 0.25 0.28 0.42 0.5"
LIPSCHITZ = {
    "deterministic": _row(_TABLE_1, "40 33.57 27.18 24.59 13.65 9.15"),
    "noise": _row(_TABLE_1, "47.9 31.99 28.17 27.86 6.42 0.0"),
    "both": _row(_TABLE_1, "52.56 46.17 39.09 35.08 21.9 13.53"),
}
"""Table 1: CIFAR-10, Sandwich Small with constant 5, n = 10⁴; certified accuracy in %."""

_CIFAR = "0 0.14 0.2 0.25 0.3 0.4 0.5 0.6 0.75 0.8 1"
_IMAGENET = "0 0.5 1 1.5 2 3"
PER_SIGMA = {
    "cifar10": {
        "0.25": {
            "cohen": _row(_CIFAR, "86.72 80.73 77.47 74.41 71.15 65.01 58.25 51.15 40.96 37.6 0"),
            "lvm": _row(_CIFAR, "88.49 82.15 79.06 76.21 72.73 66.41 60.22 53.41 43.76 40.27 0"),
        },
        "0.5": {
            "cohen": _row(_CIFAR, "74.11 67.99 65.22 62.89 60.38 55.67 50.43 45.59 39.26 37.11 29.91"),
            "lvm": _row(_CIFAR, "79.79 73.45 70.41 68.04 65.8 60.71 55.48 50.07 43.13 40.83 32.35"),
        },
        "1": {
            "cohen": _row(_CIFAR, "48.97 44.24 42.26 40.76 39.15 35.91 33.08 29.92 25.97 24.72 20.09"),
            "lvm": _row(_CIFAR, "63.72 57.99 55.54 53.4 51.23 47.19 43.19 39.76 34.27 32.35 25.71"),
        },
    },
    "imagenet": {
        "0.25": {
            "cohen": _row(_IMAGENET, "79.88 69.57 0 0 0 0"),
            "lvm": _row(_IMAGENET, "80.66 69.84 0 0 0 0"),
        },
        "0.5": {
            "cohen": _row(_IMAGENET, "74.37 64.56 51.55 36.04 0 0"),
            "lvm": _row(_IMAGENET, "78.18 66.47 53.85 36.04 0 0"),
        },
        "1": {
            "cohen": _row(_IMAGENET, "57.06 49.05 39.74 32.33 25.53 14.01"),
            "lvm": _row(_IMAGENET, "66.87 55.56 44.74 34.83 27.43 14.31"),
        },
    },
}
"""Certified accuracy in % at each σ: a vision transformer behind a diffusion denoiser (Carlini et al. 2023); n = 10⁵ on
CIFAR-10 and 10⁴ on ImageNet. All shares of ImageNet are multiples of 1/999 or 1/998, so that its inputs were about a
thousand."""

BEST = {
    "cifar10": {
        "cohen": _row("0 0.25 0.5 0.75 1", "86.72 74.41 58.25 40.96 29.91"),
        "lvm": _row("0 0.25 0.5 0.75 1", "88.49 76.21 60.22 43.76 32.35"),
    },
    "imagenet": {
        "cohen": _row(_IMAGENET, "79.88 69.57 51.55 36.04 25.53 14.01"),
        "lvm": _row(_IMAGENET, "80.66 69.84 53.85 36.04 27.43 14.31"),
    },
}
"""Tables 2 and 3: the best over σ."""

_SALMAN = "0.14 0.2 0.3 0.4 0.5 0.6 0.7 0.8"
SALMAN = {
    "cohen": _row(_SALMAN, "74.49 73.08 69.84 66.41 62.42 57.75 51.24 0"),
    "lvm": _row(_SALMAN, "76.77 74.99 71.26 67.55 63.43 58.59 51.39 0"),
}
"""Table 4: a residual network that was trained against attacks (Salman et al. 2019), ImageNet, n = 10⁴."""

R2_AGAINST_R3 = {
    "0.25": (0.998, 5.89, 5.89),
    "0.3": (0.996, 4.68, 4.48),
    "0.35": (0.989, 3.68, 3.21),
    "0.4": (0.986, 2.49, 1.97),
    "0.5": (0.976, 1.28, 0.59),
    "0.6": (0.95, 0.56, 0.0),
}
"""Table 5: ImageNet, n = 10⁴, Bernstein: distance to uniform, R2, R3. With that n no bound certifies more than
3.2 σ, so the radii up to σ = 0.4 cannot be those of its caption."""

AVERAGE_RADIUS = {
    "gaussian": {"0.25": 0.424, "0.5": 0.525, "1": 0.542},
    "smoothadv": {"0.25": 0.544, "0.5": 0.684, "1": 0.660},
    "macer": {"0.25": 0.531, "0.5": 0.691, "1": 0.744},
    "consistency": {"0.25": 0.552, "0.5": 0.720, "1": 0.756},
    "smoothmix": {"0.25": 0.553, "0.5": 0.737, "1": 0.773},
}
"""Average radius on CIFAR-10 at each σ by the training objective: ResNet-110 trained for 150 epochs, n = 10⁵, from a
table of Jeong et al. 2021, "SmoothMix: Training Confidence-calibrated Smoothed Classifiers …"."""
