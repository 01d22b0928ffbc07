"""``lvmrs lipschitz``: an upper bound on the Lipschitz constant of a network."""

from __future__ import annotations

import json
import math
from decimal import ROUND_CEILING, Context, Decimal
from typing import Annotated

import typer

from lvmrs.cli import options
from lvmrs.cli.console import output, tell
from lvmrs.cli.parsing import numbers
from lvmrs.errors import InvalidArgumentError

__all__ = ["lipschitz"]


def lipschitz(
    model: options.Model,
    shape: Annotated[str, typer.Option("--shape", help="Shape of an input: channels, height and width, as 3,32,32.")],
    weights: options.Weights = None,
    mean: options.Mean = None,
    std: options.Std = None,
    as_json: options.Json = False,
) -> None:
    """Bound the Lipschitz constant of a network from above, for lvmrs certify --lipschitz.

    The bound is the product of the norms of the layers; branches of residual networks are added. It always holds, and
    it is often large. A sandwich network has a constant that you choose, and its bound is that constant.

    \b
    Examples:
      lvmrs lipschitz --model trained:net.safetensors --shape 1,8,8
      lvmrs lipschitz --model ready:resnet20 --weights w.safetensors --shape 3,32,32
    """
    from torch import nn

    from lvmrs import models

    sides = numbers("shape", shape) or []
    if not sides or any(not math.isfinite(side) or side < 1 or side != int(side) for side in sides):
        raise InvalidArgumentError(f"shape must be positive whole numbers with commas between them, got {shape!r}")
    loaded = models.load(model, weights=weights, mean=numbers("mean", mean), std=numbers("std", std))
    tell(f"model  {'; '.join((loaded.name, *loaded.assumed))}")
    if not isinstance(loaded.model, nn.Module):
        raise InvalidArgumentError(f"model: {model} is not a torch module, so its layers cannot be seen")
    bound = models.lipschitz_bound(loaded.model, [int(side) for side in sides])
    up = Context(prec=6, rounding=ROUND_CEILING).create_decimal(Decimal(bound))
    output(json.dumps({"model": model, "lipschitz": float(up)}) if as_json else f"{up:f}")
