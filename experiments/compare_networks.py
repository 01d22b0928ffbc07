"""Four kinds of base classifier on digits, each trained here and certified in four ways from the same noise.

    python experiments/compare_networks.py [--inputs 120] [--n0 500] [--n 5000]

A network trained with noise, one by SmoothAdv, a sandwich network of constant 5, and one that never saw noise behind a
diffusion model, which is trained here too; that network alone is shown for comparison. Needs the extras digits and
diffusion.
"""

import argparse
import sys
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

import torch
from torch import nn

from lvmrs import LVM, Cohen, Planner, SmoothedClassifier, Votes, training
from lvmrs.data import Dataset, load
from lvmrs.models import Denoised, DiffusionDenoiser, ready

diffusers: Any = import_module("diffusers")  # not typed for strict checks

PLANNERS: dict[str, Planner | None] = {
    "Cohen": Cohen(),
    "votes, R2": Votes(),
    "LVM": LVM(),
    "duels": None,
}  # the default
RADII = (0.0, 0.25, 0.5, 0.75, 1.0)


def trained(name: str, aim: training.Objective, epochs: int, lr: float) -> nn.Module:
    """A ready network, on the training digits."""
    torch.manual_seed(0)
    model = ready.build(name)
    start = time.perf_counter()
    training.train(model, load("digits", split="train"), aim, training.Settings(epochs=epochs, lr=lr, augment="shift"))
    print(f"{name}, {aim}: {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
    return model


def diffusion(epochs: int) -> Callable[[float], nn.Module]:
    """A small diffusion model of digits, as a denoiser for any noise up to σ = 0.96."""
    torch.manual_seed(0)
    unet = diffusers.UNet2DModel(
        sample_size=8,
        in_channels=1,
        out_channels=1,
        block_out_channels=(16, 32),
        layers_per_block=1,
        norm_num_groups=4,
        down_block_types=("DownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "UpBlock2D"),
    )
    schedule = diffusers.DDPMScheduler(num_train_timesteps=50, beta_start=0.001, beta_end=0.06)
    kept = tuple(schedule.alphas_cumprod.double().tolist())
    start = time.perf_counter()
    settings = training.Settings(epochs=epochs, batch=64, lr=0.005)
    training.train(unet, load("digits", split="train"), training.Diffusion(kept), settings)
    print(f"diffusion: {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
    return lambda sigma: DiffusionDenoiser(unet, kept, sigma).eval()


def networks(sigma: float, clean: nn.Module, denoiser: Callable[[float], nn.Module]) -> dict[str, nn.Module]:
    """The four kinds, for noise of this strength."""
    return {
        "no noise": clean,
        "noise": trained("small_cnn", training.Gaussian(sigma), 60, 0.01),
        "SmoothAdv": trained("small_cnn", training.SmoothAdv(sigma, epsilon=0.5, steps=4, samples=4), 60, 0.01),
        "sandwich": trained("sandwich_small,channels=1,side=8,gamma=5", training.Margin(sigma, margin=0.3), 30, 0.003),
        "denoised": Denoised(denoiser(sigma), clean),
    }


def certify(model: nn.Module, sigma: float, data: Dataset, options: argparse.Namespace) -> dict[str, list[float]]:
    """Radii of all inputs for each planner, −1 where the answer is wrong or missing."""
    smoothed = SmoothedClassifier(model, sigma)
    numbers = {"n0": options.n0, "n": options.n, "alpha": options.alpha}
    radii: dict[str, list[float]] = {name: [] for name in PLANNERS}
    step = len(data) // options.inputs
    for index in range(0, step * options.inputs, step):
        x, label = data[index]
        for name, planner in PLANNERS.items():  # the noise depends on seed and index alone
            certificate = smoothed.certify(x, planner, seed=options.seed, index=index, **numbers)
            radii[name].append(certificate.radius if certificate.prediction == label else -1.0)
    return radii


def main() -> int:
    """Print the table, in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=120, help="test digits, evenly spread")
    parser.add_argument("--n0", type=int, default=500)
    parser.add_argument("--n", type=int, default=5_000)
    parser.add_argument("--alpha", type=float, default=0.001)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    digits = load("digits")
    clean = trained("small_cnn", training.Gaussian(0.0), 60, 0.01)
    denoiser = diffusion(epochs=60)
    print(
        f"{options.inputs} test digits, α = {options.alpha:g}, n0 = {options.n0}, n = {options.n}, "
        f"seed {options.seed}; certified accuracy in % at each radius, and average certified radius\n"
    )
    print(f"| σ | network | method |{'|'.join(f' {radius:g} ' for radius in RADII)}| ACR |")
    print(f"|---|---|---|{'---|' * len(RADII)}---|")
    for sigma in (0.25, 0.5):
        for kind, model in networks(sigma, clean, denoiser).items():
            for name, radii in certify(model, sigma, digits, options).items():
                shares = [100 * sum(radius >= at for radius in radii) / len(radii) for at in RADII]
                average = sum(max(radius, 0.0) for radius in radii) / len(radii)
                cells = " | ".join(f"{share:.1f}" for share in shares)
                print(f"| {sigma:g} | {kind} | {name} | {cells} | {average:.3f} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
