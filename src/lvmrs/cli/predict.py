"""``lvmrs predict``: what the smoothed classifier answers."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from lvmrs.cli import options
from lvmrs.cli.console import output, tell
from lvmrs.cli.setup import Setup, with_setup
from lvmrs.cli.stoppable import stoppable
from lvmrs.kernel.radius import percent

if TYPE_CHECKING:
    from lvmrs.runs import Answer

__all__ = ["predict"]


@with_setup()
def predict(
    setup: Setup,
    method: Annotated[
        Optional[str],
        typer.Option("--method", help="The method that certifies this classifier, such as duels, votes or fixed."),
    ] = None,
    bound: options.Bound = None,
    map: options.Map = None,  # noqa: A002
    temperature: options.Temperature = None,
    mass: options.Mass = None,
    form: options.Form = None,
    width: options.Width = None,
    settings: options.Settings = None,
    like: Annotated[
        Optional[Path], typer.Option("--like", help="A run: answer with the classifier that it certified.")
    ] = None,
    radius: Annotated[
        bool, typer.Option("--radius", help="Certify each answer, with N samples at risk ALPHA.")
    ] = False,
    lipschitz: options.Lipschitz = None,
    alpha: options.Alpha = 0.001,
    n0: Annotated[
        Optional[int],
        typer.Option("--n0", "--N0", help="Samples to find the candidate on; 100 if not given. Votes need none."),
    ] = None,
    n: options.N = 1_000,
    autocast: options.Autocast = None,
    as_json: options.Json = False,
) -> None:
    """Answer with the class that the smoothed classifier answers with, or −1 where that is in doubt.

    The classifier is that of the method, by default hard duels; it must be one for all inputs. Rows go to stdout as
    they come: idx, label, predict, correct, name; with --radius also radius, p_lower, p_upper. An answer is wrong with
    probability ALPHA at most.

    \b
    Examples:
      lvmrs predict --model python:nets.py:resnet --weights w.safetensors --data digits --sigma 0.5 --max 20
      lvmrs predict --model onnx:net.onnx --data npz:new.npz --like runs/a --n 10000 > answers.tsv
      lvmrs predict --model onnx:net.onnx --data npz:new.npz --settings settings.json --radius --json
    """
    from lvmrs import runs as jobs
    from lvmrs.cli.chosen_method import chosen_method
    from lvmrs.cli.recorded import Recorded
    from lvmrs.kernel.goals import ABSTAIN
    from lvmrs.planners import Duels

    recorded = Recorded.read(settings, like)
    chosen = chosen_method(method, bound=bound, map=map, temperature=temperature, mass=mass, form=form, width=width)
    if recorded is None:
        chosen = Duels() if chosen is None else chosen
        _, dataset, smoothed = setup.load(chosen, lipschitz=lipschitz, autocast=autocast)
    else:
        chosen = recorded.method(chosen)
        _, dataset, smoothed = recorded.load(setup, chosen, lipschitz=lipschitz, autocast=autocast)
    numbers = {"n": n, "n0": n0, "alpha": alpha, "seed": setup.seed}
    selection = setup.selection(dataset)
    answers = jobs.predict(smoothed, dataset, selection, chosen, radius=radius, **numbers)
    tell(f"method {chosen}")
    inputs = right = abstained = 0
    with stoppable(lambda: _where_it_stopped(inputs, len(selection.indices))):
        for answer in answers:
            row = _row(answer, radius=radius)
            if not inputs and not as_json:
                output("\t".join(row))
            output(json.dumps(row, allow_nan=False) if as_json else _line(row))
            inputs, right, abstained = inputs + 1, right + answer.correct, abstained + (answer.predict == ABSTAIN)
    tell(f"{inputs} inputs: {percent(right / inputs)} % correct, {abstained} in doubt")


def _row(answer: Answer, *, radius: bool) -> dict[str, Any]:
    row: dict[str, Any] = {name: getattr(answer, name) for name in ("idx", "label", "predict", "correct")}
    if radius:
        row |= {name: _finite(getattr(answer, name)) for name in ("radius", "p_lower", "p_upper")}
    return {**row, "name": answer.name}


def _finite(number: float) -> float | None:
    """JSON has no infinity; a certificate writes null for it, too."""
    return number if math.isfinite(number) else None


def _line(row: dict[str, Any]) -> str:
    from lvmrs.record.result_file import UNKNOWN, escaped

    name = row["name"]
    texts = {**row, "name": UNKNOWN if name is None else escaped(name)}
    return "\t".join("inf" if value is None else str(value) for value in texts.values())


def _where_it_stopped(done: int, inputs: int) -> tuple[str]:
    return (f"stopped after {done} of {inputs} inputs; the rows that were printed are good",)
