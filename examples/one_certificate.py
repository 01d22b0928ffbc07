"""Certify one input in two ways, at the same risk and number of samples.

The classifier has three classes in the plane, with linear logits, so that its Lipschitz constant is known exactly.
"""

import torch
from torch import Tensor

from lvmrs import LVM, Cohen, SmoothedClassifier, radius

WEIGHTS = torch.tensor([[2.0, 0.5], [-1.5, 1.0], [-0.5, -1.5]])


def classifier(batch: Tensor) -> Tensor:
    """Logits of a batch of points."""
    return batch @ WEIGHTS.T


def main() -> None:
    """Print both certificates."""
    constant = float(torch.linalg.matrix_norm(WEIGHTS, 2))
    smoothed = SmoothedClassifier(classifier, sigma=0.1, lipschitz=constant, batch=1000)
    x = torch.tensor([0.8, 0.4])
    for planner in (Cohen(), LVM()):
        certificate = smoothed.certify(x, planner, n0=1_000, n=100_000, alpha=0.001, seed=0)
        plan, proved = certificate.plan, radius.text(certificate.radius, 3)
        print(f"{plan.planner:6} {plan.map:10} class {certificate.prediction}, radius {proved}")


if __name__ == "__main__":
    main()
