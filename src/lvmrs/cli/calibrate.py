"""``lvmrs calibrate``: one classifier for all inputs, found on held-out inputs."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from lvmrs.cli import options, parsing
from lvmrs.cli.console import command_line, output, tell
from lvmrs.cli.output_file import writing
from lvmrs.cli.setup import Setup, with_setup
from lvmrs.registry import MAPS, METHODS

if TYPE_CHECKING:
    from lvmrs.kernel.method import Method

__all__ = ["calibrate"]

_METHODS = ("duels", "fixed")
_OBJECTIVES = {"radius": "average radius", "accuracy": "accuracy"}
# Options that have an effect on the choice of a map only.
_OF_MAPS = ("objective", "epsilon", "map", "temperature", "mass", "alpha", "n")


@with_setup(split="train", max=100)
def calibrate(
    setup: Setup,
    method: Annotated[
        str, typer.Option("--method", help="What to find: a width of soft duels, or with fixed a map for all inputs.")
    ] = "duels",
    objective: Annotated[
        str,
        typer.Option(
            "--objective", help="For fixed: the average radius, or the accuracy certified at --epsilon (accuracy)."
        ),
    ] = "radius",
    epsilon: Annotated[
        float, typer.Option("--epsilon", help="The radius at which accuracy is certified, for --objective accuracy.")
    ] = 0.0,
    map: options.Map = None,  # noqa: A002
    temperature: options.Temperature = None,
    mass: options.Mass = None,
    lipschitz: options.Lipschitz = None,
    alpha: options.Alpha = 0.001,
    n0: options.N0 = 1_000,
    n: options.N = 100_000,
    autocast: options.Autocast = None,
    out: Annotated[
        Optional[Path], typer.Option("--out", help="Write all settings to this file, for certify and predict.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Find one classifier for all inputs, on inputs that will not be certified: the training split.

    It prints the options that name it. With --out, certify and predict take it with --settings, to the last digit.

    \b
    Examples:
      lvmrs calibrate --model trained:nets/a.safetensors --data digits --sigma 0.5 --max 100
      lvmrs calibrate --model trained:nets/a.safetensors --data digits --sigma 0.5 --method fixed --out settings.json
      lvmrs certify --model trained:nets/a.safetensors --data digits --settings settings.json --out runs/a
    """
    from lvmrs import runs as jobs
    from lvmrs.cli.own_parts import known_name
    from lvmrs.planners.base import keeps_constant

    parsing.choice("method", method, _METHODS)
    parsing.choice("objective", objective, tuple(_OBJECTIVES))
    if method == "duels":
        setup.refuse(_OF_MAPS, "the width of duels is half the median deviation of the margin")
    if objective != "accuracy":
        setup.refuse(("epsilon",), "the average radius is taken over all radii")
    name = known_name(MAPS, map)
    if name is not None and not keeps_constant(name):
        setup.refuse(("lipschitz",), f"scores of {name} have no Lipschitz constant")
    search = _search(name, temperature, mass)
    loaded, dataset, smoothed = setup.load(None, lipschitz=lipschitz, autocast=autocast)
    inputs, sampling = setup.selection(dataset), jobs.Sampling(alpha, n0, n, setup.seed)
    found: Method
    goal: dict[str, Any] = {}
    if method == "duels":
        found = jobs.calibrate_duels(smoothed, dataset, inputs, n0=n0, seed=setup.seed)
    else:
        goal = {"objective": _OBJECTIVES[objective], "epsilon": epsilon}
        found = jobs.calibrate(smoothed, dataset, inputs, **goal, **sampling.of_all, **search)
    job = jobs.Job(loaded, dataset, smoothed, found, sampling, inputs)
    record = jobs.calibration_record(job, **goal, command=command_line()).to_json()
    if out is not None:
        with writing(out) as file:
            file.write(record.encode())
    output(record.rstrip("\n") if as_json else _options(found))
    use = _options(found) if out is None else f"--settings {shlex.quote(str(out))}"
    tell(f"from {len(inputs.indices)} inputs; give certify and predict {use}")


def _search(map_: str | None, temperature: float | None, mass: float | None) -> dict[str, Any]:
    """What the search is restricted to, if anything."""
    several = {"maps": map_, "temperatures": temperature}
    one = {name: (value,) for name, value in several.items() if value is not None}
    return one if mass is None else {**one, "mass": mass}


def _options(found: Method) -> str:
    """The options that name a calibrated method, with all digits of its numbers."""
    from lvmrs.planners import settings as method_settings

    settings = method_settings.settings(found)
    usual = {"temperature": 1.0, "mass": 1.0, "bounds": settings.get("bounds")}  # a calibration chooses no bounds
    chosen = {name: value for name, value in settings.items() if value != usual.get(name)}
    words = ["--method", str(METHODS.name_of(type(found).__name__, settings))]
    return " ".join([*words, *(word for name, value in chosen.items() for word in (f"--{name}", str(value)))])
