"""``lvmrs lipschitz``: bound the Lipschitz constant of a network."""

from __future__ import annotations

import json
import math
from decimal import ROUND_CEILING, Context, Decimal
from typing import Annotated

from lvmrs.cli import options
from lvmrs.cli.console import output, tell
from lvmrs.cli.options import MODEL, numbers, option
from lvmrs.errors import InvalidArgumentError


def lipschitz(
    model: options.Model,
    shape: Annotated[str, option(MODEL, "Shape of an input: channels, height and width, such as 3,32,32.")],
    weights: options.Weights = None,
    mean: options.Mean = None,
    std: options.Std = None,
    as_json: options.Json = False,
) -> None:
    """Bound the Lipschitz constant of a network from above, for lvmrs certify --lipschitz.

    The bound is the product of the norms of the layers, where branches of residual networks are added. The bound always
    holds, and is often large. For a sandwich network it is the constant that you chose.

    \b
    Examples:
      lvmrs lipschitz --model trained:net.safetensors --shape 1,8,8
      lvmrs lipschitz --model ready:resnet20 --weights w.safetensors \\
          --shape 3,32,32
    """
    from torch import nn

    from lvmrs import models

    sides = numbers("shape", shape) or []
    if not sides or any(not math.isfinite(side) or side < 1 or side != int(side) for side in sides):
        raise InvalidArgumentError(f"shape must be positive whole numbers with commas between them, got {shape!r}")
    loaded = models.load(model, weights=weights, mean=numbers("mean", mean), std=numbers("std", std))
    tell(f"model  {'; '.join((loaded.name, *loaded.assumed))}")
    if not isinstance(loaded.model, nn.Module):
        raise InvalidArgumentError(f"model: {model} is not a torch module, so that its layers cannot be read")
    bound = models.lipschitz_bound(loaded.model, [int(side) for side in sides])
    up = Context(prec=6, rounding=ROUND_CEILING).create_decimal(Decimal(bound))
    output(json.dumps({"model": model, "lipschitz": float(up)}) if as_json else f"{up:f}")
