"""Certificates of a network in a 16-bit type beside those in float32, on the same noise, and what rounding explains.

    python benchmarks/precision.py trained:nets/a.safetensors cifar10:cifar10.npz --sigma 0.25 [--inputs 200] [--n 2000]

For each input: whether the class is the same, and how far the radii are apart. The logits of the same noisy copies in
both types give the change that rounding explains. The margin over the strongest rival has the mean m and the standard
deviation s in float32; rounding adds a difference of mean b. In the normal approximation the radius σ m/s becomes
σ (m + b)/s', with the standard deviation s' in the lower type.
"""

import argparse
import time

import numpy as np
import torch

from lvmrs import Certificate, Duels, SmoothedClassifier, data, models


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("data")
    parser.add_argument("--sigma", type=float, required=True)
    parser.add_argument("--precision", default="bfloat16")
    parser.add_argument("--inputs", type=int, default=200)
    parser.add_argument("--n", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    inputs = data.load(given.data, split="test")
    network = models.load(given.model).model
    chosen = np.linspace(0, len(inputs) - 1, given.inputs).astype(int)
    rows = [(int(k), inputs[int(k)][0]) for k in chosen]
    found, seconds, classifiers = [], [], []
    for precision in (None, given.precision):
        classifier = SmoothedClassifier(network, given.sigma, noise="exact", precision=precision)
        classifier.prepare(rows[0][1], given.inputs * given.n)
        start = time.process_time()
        found.append(list(classifier.certificates(rows, Duels(), n0=1000, n=given.n, seed=given.seed)))
        seconds.append(time.process_time() - start)
        classifiers.append(classifier)
    plain, lower = found
    both = [k for k, pair in enumerate(zip(plain, lower, strict=True)) if all(each.prediction >= 0 for each in pair)]
    same = sum(a.prediction == b.prediction for a, b in zip(plain, lower, strict=True))
    radii = np.array([[each.radius for each in certificates] for certificates in found])
    apart = radii[1] - radii[0]
    print(f"{given.inputs} inputs, σ = {given.sigma:g}, duels, n = {given.n}, α = 0.001, seed {given.seed}")
    print(f"{classifiers[1].precision}: the same class for {same} of {given.inputs}")
    print(f"average radius {radii[0].mean():.4f} in float32, {radii[1].mean():.4f}; difference {apart.mean():+.4f}")
    explained = np.array([_explained(classifiers, rows[k], plain[k], given.n, given.seed) for k in both])
    print(f"{len(both)} certified in both: mean size of the difference {np.abs(apart[both]).mean():.4f}, ", end="")
    print(
        f"of the explained one {np.abs(explained).mean():.4f}; correlation {_correlation(apart[both], explained):.2f}"
    )
    print(f"processor time {seconds[0]:.1f} s and {seconds[1]:.1f} s")


def _explained(
    classifiers: list[SmoothedClassifier], row: tuple[int, torch.Tensor], plain: Certificate, n: int, seed: int
) -> float:
    """The change of the radius that the change of the margin explains."""
    torch.set_num_threads(1)  # threads of torch are slower here than one
    index, x = row
    logits = [torch.cat(list(each.scores(x, n, seed=seed, index=index).logits())).double() for each in classifiers]
    margins = [each[:, [plain.top]] - each for each in logits]
    ratios = margins[0].mean(0) / margins[0].std(0)
    ratios[plain.top] = torch.inf
    rival = int(ratios.argmin())
    one, other = (margin[:, rival] for margin in margins)
    return classifiers[0].sigma * float(other.mean() / other.std() - one.mean() / one.std())


def _correlation(one: np.ndarray, other: np.ndarray) -> float:
    return float(np.corrcoef(one, other)[0, 1])


if __name__ == "__main__":
    main()
