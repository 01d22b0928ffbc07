"""``lvmrs calibrate``: one width of soft duels for all inputs."""

from __future__ import annotations

import json

from lvmrs.cli import options
from lvmrs.cli.console import output, tell
from lvmrs.cli.setup import Setup, with_setup

__all__ = ["calibrate"]


@with_setup(split="train", max=100)
def calibrate(
    setup: Setup,
    n0: options.N0 = 1_000,
    as_json: options.Json = False,
) -> None:
    """Find one width of soft duels for all inputs, on inputs that will not be certified: the training split.

    It is half the median standard deviation of the margin. Soft duels certify more inputs that are close to a tie.

    \b
    Examples:
      lvmrs calibrate --model trained:nets/a.safetensors --data digits --sigma 0.5 --max 100
      lvmrs certify --model trained:nets/a.safetensors --data digits --sigma 0.5 --method duels --width 2.6 --out runs/a
    """
    from lvmrs import jobs

    _, dataset, smoothed = setup.load()
    selection = setup.selection(dataset)
    width = jobs.calibrate_duels(smoothed, dataset, selection, n0=n0, seed=setup.seed).width
    if as_json:
        output(json.dumps({"width": width, "inputs": len(selection.indices)}))
    else:
        output(f"{width:.4g}")
    tell(f"from {len(selection.indices)} inputs; use it with --method duels --width {width:.4g}")
