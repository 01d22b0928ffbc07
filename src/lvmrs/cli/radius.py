"""``lvmrs radius``: compute radii from two probabilities."""

from __future__ import annotations

import json
import math
from typing import Annotated

import typer

from lvmrs.cli import options
from lvmrs.cli.console import output
from lvmrs.cli.options import METHOD, MODEL, option
from lvmrs.kernel.radius import rounded_down


def radius(
    p_a: Annotated[float, typer.Argument(help="Lower bound on the mean score of the top class.")],
    p_b: Annotated[
        float | None, typer.Argument(help="Upper bound on every other mean score. Default: mass − P_A.")
    ] = None,
    sigma: options.Sigma = 1.0,
    lipschitz: Annotated[float | None, option(MODEL, "Lipschitz constant of the vector of scores.")] = None,
    mass: Annotated[float, option(METHOD, "Mass of the simplex.")] = 1.0,
    as_json: options.Json = False,
) -> None:
    """Compute certified radii from bounds on two mean scores, rounded down.

    \b
    Examples:
      lvmrs radius 0.99 0.005 --sigma 0.5
      lvmrs radius 0.8 0.1 --sigma 0.25 --lipschitz 1
    """
    from lvmrs import lipschitz as constants
    from lvmrs import radius as radii

    rival = mass - p_a if p_b is None else p_b
    slope = math.inf if lipschitz is None else lipschitz
    smoothed = constants.smoothed(slope, sigma=sigma, of="vector", mass=mass)
    found = {
        "R1": (radii.r1(p_a, rival, lipschitz=smoothed, mass=mass), "margin / (√2 L of the smoothed scores)"),
        "R2": (radii.r2(p_a, rival, sigma=sigma, mass=mass), "σ (Φ⁻¹(p_a) − Φ⁻¹(p_b)) / 2"),
        "R3": (radii.r3(p_a, sigma=sigma, mass=mass), "σ Φ⁻¹(p_a)"),
    }
    if lipschitz is not None:
        ramp = radii.ramp(p_a, rival, sigma=sigma, lipschitz=lipschitz, mass=mass)
        found["ramp"] = (ramp, "noise and Lipschitz constant together")
    values = {name: max(0.0, float(value)) for name, (value, _) in found.items()}
    if as_json:
        output(json.dumps({name: value if math.isfinite(value) else None for name, value in values.items()}))
    else:
        for name, (_, how) in found.items():
            output(f"{name:4}  {rounded_down(values[name])}  {how}")
