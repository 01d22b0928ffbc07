"""``lvmrs calibrate``: choose one classifier for all inputs, on held-out inputs."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from lvmrs.cli import options
from lvmrs.cli.console import command_line, output, tell, writing
from lvmrs.cli.options import METHOD, OUTPUT, grouped, option
from lvmrs.cli.setup import Setup, known_name
from lvmrs.kernel import checks
from lvmrs.registry import MAPS, METHODS

if TYPE_CHECKING:
    from lvmrs.kernel.method import Method

_OBJECTIVES = {"radius": "average radius", "accuracy": "accuracy"}
# Options that affect only the choice of a map.
_OF_MAPS = ("objective", "epsilon", "map", "temperature", "mass", "alpha", "n")


@grouped(split="train", max=100)
def calibrate(
    setup: Setup,
    method: Annotated[
        str, option(METHOD, "duels finds a width of soft duels, and fixed a map, for all inputs.")
    ] = "duels",
    objective: Annotated[
        str,
        option(
            METHOD, "For fixed: radius maximises the average radius, and accuracy the accuracy certified at --epsilon."
        ),
    ] = "radius",
    epsilon: Annotated[float, option(METHOD, "Radius at which to certify accuracy, for --objective accuracy.")] = 0.0,
    map: options.Map = None,  # noqa: A002
    temperature: options.Temperature = None,
    mass: options.Mass = None,
    alpha: options.Alpha = 0.001,
    n0: options.N0 = 1_000,
    n: options.N = 100_000,
    out: Annotated[Path | None, option(OUTPUT, "New file with all settings, for certify and predict.")] = None,
    as_json: options.Json = False,
) -> None:
    """Choose one classifier for all inputs, on inputs that will not be certified: the training split.

    The command prints the options that define this classifier. With --out it also writes a file for --settings of
    certify and predict, which has all digits.

    \b
    Examples:
      lvmrs calibrate --model trained:nets/a.safetensors --data digits \\
          --sigma 0.5 --max 100
      lvmrs calibrate --model trained:nets/a.safetensors --data digits \\
          --sigma 0.5 --method fixed --out settings.json
      lvmrs certify --model trained:nets/a.safetensors --data digits \\
          --settings settings.json --out runs/a
    """
    checks.one_of("method", method, ("duels", "fixed"))
    checks.one_of("objective", objective, _OBJECTIVES)
    setup.check_sigma(None)
    from lvmrs import runs
    from lvmrs.planners.base import keeps_constant

    if method == "duels":
        setup.refuse(_OF_MAPS, "the width of duels is half the median deviation of the margin")
    if objective != "accuracy":
        setup.refuse(("epsilon",), "the average radius is taken over all radii")
    name = known_name(MAPS, map)
    if name is not None and not keeps_constant(name):
        setup.refuse(("lipschitz",), f"scores of {name} have no Lipschitz constant")
    only = {"maps": name, "temperatures": temperature}
    search: dict[str, Any] = {key: (value,) for key, value in only.items() if value is not None}
    search |= {} if mass is None else {"mass": mass}
    loaded, dataset, smoothed = setup.load()
    inputs, sampling = setup.selection(dataset), runs.Sampling(alpha, n0, n, setup.seed)
    found: Method
    goal: dict[str, Any] = {}
    if method == "duels":
        found = runs.calibrate_duels(smoothed, dataset, inputs, n0=n0, seed=setup.seed)
    else:
        goal = {"objective": _OBJECTIVES[objective], "epsilon": epsilon}
        found = runs.calibrate(smoothed, dataset, inputs, **goal, **sampling.of_all, **search)
    job = runs.Job(loaded, dataset, smoothed, found, sampling, inputs)
    record = runs.calibration_record(job, **goal, command=command_line()).to_json()
    if out is not None:
        with writing(out) as file:
            file.write(record.encode())
    output(record.rstrip("\n") if as_json else _options(found))
    use = _options(found) if out is None else f"--settings {shlex.quote(str(out))}"
    tell(f"from {len(inputs.indices)} inputs; give certify and predict {use}")


def _options(found: Method) -> str:
    """Options that define a calibrated method, with all digits of its numbers."""
    from lvmrs.planners import settings as method_settings

    settings = method_settings.settings(found)
    usual = {"temperature": 1.0, "mass": 1.0, "bounds": settings.get("bounds")}  # a calibration chooses no bounds
    chosen = {name: value for name, value in settings.items() if value != usual.get(name)}
    words = ["--method", str(METHODS.name_of(type(found).__name__, settings))]
    return " ".join([*words, *(word for name, value in chosen.items() for word in (f"--{name}", str(value)))])
