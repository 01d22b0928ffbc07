"""Average certified radius of every planner on the same noise of the same CIFAR-10 test images.

    python experiments/compare_planners.py --data cifar10.npz --weights small_l2.pth --sigma 0.5 --inputs 80

The network is the small convolutional one of Wong and Kolter's provable-defence papers, trained for ℓ2 robustness; its
checkpoint holds the state dict at ``state_dict[0]``. ``cifar10.npz`` has x_test (N × 3 × 32 × 32, uint8) and y_test.
"""

import argparse
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from lvmrs import LVM, Cohen, Paper, Plan, Planner, SmoothedClassifier, Terms, prove, radius
from lvmrs.planners.survey import Survey
from lvmrs.sampling import Stream


@dataclass(frozen=True)
class HardmaxUnion(Planner):
    """Hardmax with Clopper–Pearson for every class, the risk shared by all, and R2."""

    def plan(self, scores: Iterable[Tensor], terms: Terms, origin: Stream) -> Plan:
        """The class with most votes."""
        votes = Survey.of(scores, maps=("hardmax",), temperatures=(), mass=1.0).mean[0]
        top, c = int(votes.argmax()), len(votes)
        groups = tuple((k,) for k in range(c) if k != top)
        share = terms.alpha / c
        return Plan(
            "HardmaxUnion", top, c, "hardmax", "clopper_pearson", "r2", share, groups, (share,) * (c - 1), origin=origin
        )


PLANNERS: dict[str, Planner] = {
    "Cohen": Cohen(),
    "hardmax, Clopper–Pearson, R2": HardmaxUnion(),
    "Paper": Paper(),
    "LVM": LVM(),
}


def network(weights: Path) -> nn.Module:
    """The network with its normalisation in front, so that noise is in pixel units."""
    layers = nn.Sequential(
        nn.Conv2d(3, 16, 4, 2, 1), nn.ReLU(), nn.Conv2d(16, 32, 4, 2, 1), nn.ReLU(), nn.Flatten(),
        nn.Linear(2048, 100), nn.ReLU(), nn.Linear(100, 10),
    )  # fmt: skip
    layers.load_state_dict(torch.load(weights, weights_only=True, map_location="cpu")["state_dict"][0])

    class Normalised(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = layers
            self.mean = nn.Buffer(torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1))

        def forward(self, x: Tensor) -> Tensor:
            logits: Tensor = self.layers((x - self.mean) / 0.225)
            return logits

    return Normalised()


def main() -> int:
    """Print one table per pair of n0 and n."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--sigma", type=float, default=0.5)
    parser.add_argument("--alpha", type=float, default=0.001)
    parser.add_argument("--inputs", type=int, default=80, help="test images, evenly spread")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--sizes", default="200:1000,1000:10000", help="pairs n0:n")
    options = parser.parse_args()
    sizes = [tuple(int(part) for part in pair.split(":")) for pair in options.sizes.split(",")]
    data = np.load(options.data)
    chosen = np.linspace(0, len(data["x_test"]) - 1, options.inputs).astype(int)
    classifier = SmoothedClassifier(network(options.weights), options.sigma)
    radii: dict[tuple[int, int], dict[str, list[float]]] = {(n0, n): {name: [] for name in PLANNERS} for n0, n in sizes}
    for number, index in enumerate(chosen.tolist()):
        x, label = torch.from_numpy(data["x_test"][index]).float() / 255, int(data["y_test"][index])
        selection, certification = (Stream(options.seed, index, stage) for stage in ("selection", "certification"))
        planned, proved = (
            torch.cat(list(classifier.scores(x, most, seed=stream.seed, index=index, stage=stream.stage)))
            for stream, most in zip((selection, certification), np.max(sizes, axis=0).tolist(), strict=True)
        )
        for n0, n in sizes:
            terms = Terms(options.sigma, options.alpha, n)
            for name, planner in PLANNERS.items():
                plan = planner.plan([planned[:n0]], terms, selection)
                made = prove.prove(plan, terms, [proved[:n]], certification, n0=n0)
                radii[n0, n][name].append(made.radius if made.prediction == label else 0.0)
        print(f"\r{number + 1} of {len(chosen)}", end="", file=sys.stderr)
    print(file=sys.stderr)
    print(f"CIFAR-10, {len(chosen)} images, sigma {options.sigma}, alpha {options.alpha}, seed {options.seed}")
    print("| planner | " + " | ".join(f"n0 = {n0}, n = {n}" for n0, n in sizes) + " |")
    print("|---|" + "---|" * len(sizes))
    for name in PLANNERS:
        print(f"| {name} | " + " | ".join(radius.text(float(np.mean(radii[size][name]))) for size in radii) + " |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
