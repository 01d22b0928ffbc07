"""``lvmrs calibrate``: one width of soft duels for all inputs."""

from __future__ import annotations

import json

from lvmrs.cli import options
from lvmrs.cli.console import tell
from lvmrs.runs import Selection

__all__ = ["calibrate"]


def calibrate(
    model: options.Model,
    data: options.Data,
    sigma: options.Sigma,
    weights: options.Weights = None,
    mean: options.Mean = None,
    std: options.Std = None,
    denoiser: options.Denoiser = None,
    split: options.Split = "train",
    image_size: options.ImageSize = None,
    n0: options.N0 = 1_000,
    batch: options.Batch = None,
    skip: options.Skip = 1,
    max: options.Max = 100,  # noqa: A002
    seed: options.Seed = 0,
    device: options.Device = "auto",
    as_json: options.Json = False,
) -> None:
    """Find one width of soft duels for all inputs, on inputs that will not be certified: the training split.

    It is half the median standard deviation of the margin. Soft duels certify more inputs that are close to a tie.

    \b
    Examples:
      lvmrs calibrate --model trained:nets/a.safetensors --data digits --sigma 0.5 --max 100
      lvmrs certify --model trained:nets/a.safetensors --data digits --sigma 0.5 --method duels --width 2.6 --out runs/a
    """
    from lvmrs.cli.loading import Request, check_selection
    from lvmrs.data import checked_input

    _, dataset, smoothed = Request(
        model, weights, mean, std, denoiser, data, split, image_size, sigma, device
    ).load(batch)  # fmt: skip
    selection = Selection(len(dataset), skip, max)
    check_selection(dataset, selection)
    inputs = (checked_input(dataset, index)[0] for index in selection.indices)
    width = smoothed.calibrate_duels(inputs, n0=n0, seed=seed).width
    if as_json:
        print(json.dumps({"width": width, "inputs": len(selection.indices)}))
    else:
        print(f"{width:.4g}")
    tell(f"from {len(selection.indices)} inputs; use it with --method duels --width {width:.4g}")
