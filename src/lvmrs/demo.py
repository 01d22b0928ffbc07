"""The demonstration: a small network trained on digits with noise, certified in two ways from the same samples."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn import functional

from lvmrs import data, methods, models, work
from lvmrs.models.small import small_cnn
from lvmrs.runs import Manifest, Row, Run, RunWriter, Selection
from lvmrs.smooth import SmoothedClassifier

__all__ = ["ALPHA", "INPUTS", "N0", "SIGMA", "N", "certify_both", "network", "train"]

SIGMA, ALPHA, N0, N, INPUTS = 0.5, 0.001, 1_000, 10_000, 100


def network() -> nn.Module:
    """The untrained network, for ``--model python:lvmrs.demo:network``."""
    return small_cnn()


def train(weights: Path, *, sigma: float, epochs: int = 40, seed: int = 0) -> float:
    """Train on noisy digits, write the weights, and say how often the network is right on noisy test digits."""
    torch.manual_seed(seed)
    model = network()
    x, y = _tensors("train")
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    steps = epochs * -(-len(x) // 128)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1e-2, total_steps=steps)
    for _ in range(epochs):
        for part in torch.split(torch.randperm(len(x)), 128):
            noisy = x[part] + sigma * torch.randn_like(x[part])
            optimizer.zero_grad()
            functional.cross_entropy(model(noisy), y[part]).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()
    save_file(model.state_dict(), weights)
    x, y = _tensors("test")
    with torch.inference_mode():
        right = model(x + sigma * torch.randn_like(x)).argmax(dim=1) == y
    return float(right.float().mean())


def _tensors(split: str) -> tuple[Tensor, Tensor]:
    digits = data.load("digits", split=split)
    inputs, labels = zip(*(digits[i] for i in range(len(digits))), strict=True)
    return torch.stack(inputs), torch.tensor(labels)


def certify_both(out: Path, weights: Path, on_row: Callable[[Row], None]) -> tuple[Run, Run]:
    """Certify test digits with LVM, keeping the scores, and certify the same scores as Cohen et al. (2019)."""
    digits = data.load("digits")
    loaded = models.load("python:lvmrs.demo:network", weights=weights)
    smoothed = SmoothedClassifier(loaded.model, SIGMA)
    planner = methods.planner("lvm")
    settings = work.settings_of(loaded, digits, smoothed, planner, alpha=ALPHA, n0=N0, n=N, seed=0)
    manifest = Manifest(
        settings,
        Selection(len(digits), max=INPUTS),
        smoothed.batch_for(digits[0][0]),
        keeps_scores=True,
        about=work.about("lvmrs demo", **work.about_data(digits)),
    )
    with RunWriter.begin(out / "lvm", manifest) as writer:
        work.certify(writer, smoothed, digits, planner, on_row)
    lvm = writer.run
    cohen = work.recertify(lvm, out / "cohen", methods.planner("cohen"), command="lvmrs demo")
    return lvm, cohen
