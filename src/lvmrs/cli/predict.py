"""``lvmrs predict``: classify inputs with the smoothed classifier."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

from lvmrs.cli import options
from lvmrs.cli.console import output, stoppable, tell
from lvmrs.cli.options import METHOD, OUTPUT, SAMPLES, grouped, option
from lvmrs.cli.setup import MethodOptions, Recorded, Setup
from lvmrs.kernel.radius import percent

if TYPE_CHECKING:
    from lvmrs.runs import Answer

__all__ = ["predict"]


@grouped()
def predict(
    *,
    setup: Setup,
    method_options: MethodOptions,
    settings: options.Settings = None,
    like: Annotated[
        Optional[Path], option(METHOD, "--like", help="Run whose certified classifier is to answer.")
    ] = None,
    alpha: Annotated[
        float, option(SAMPLES, "--alpha", help="Risk: the probability that an answer or certificate is wrong.")
    ] = 0.001,
    n0: Annotated[
        Optional[int],
        option(SAMPLES, "--n0", "--N0", help="Samples to find the candidate on. Default: 100; votes need none."),
    ] = None,
    n: Annotated[int, option(SAMPLES, "--n", "--N", help="Samples to test the candidate on.")] = 1_000,
    radius: Annotated[
        bool, option(OUTPUT, "--radius", help="Certify each answer, with --n samples at risk --alpha.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Print the answer of the smoothed classifier for each input, or −1 where that is in doubt.

    --method names the method that certifies this classifier, by default hard duels; it must use one classifier for all
    inputs. Each row is printed once it is computed: idx, label, predict, correct, name; with --radius also radius,
    p_lower, p_upper.

    \b
    Examples:
      lvmrs predict --model python:nets.py:resnet --weights w.safetensors \\
          --data digits --sigma 0.5 --max 20
      lvmrs predict --model onnx:net.onnx --data npz:new.npz --like runs/a \\
          --n 10000 > answers.tsv
      lvmrs predict --model onnx:net.onnx --data npz:new.npz \\
          --settings settings.json --radius --json
    """
    from lvmrs import runs as jobs
    from lvmrs.kernel.goals import ABSTAIN
    from lvmrs.planners import Duels

    recorded = Recorded.read(settings, like)
    chosen = method_options.chosen()
    if recorded is None:
        chosen = Duels() if chosen is None else chosen
        _, dataset, smoothed = setup.load(chosen)
    else:
        chosen = recorded.method(chosen)
        _, dataset, smoothed = recorded.load(setup, chosen)
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
    """Replace infinity by None, since JSON has none; certificates write null too."""
    return number if math.isfinite(number) else None


def _line(row: dict[str, Any]) -> str:
    from lvmrs.record.result_file import UNKNOWN, escaped

    name = row["name"]
    texts = {**row, "name": UNKNOWN if name is None else escaped(name)}
    return "\t".join("inf" if value is None else str(value) for value in texts.values())


def _where_it_stopped(done: int, inputs: int) -> tuple[str]:
    return (f"stopped after {done} of {inputs} inputs; the rows that were printed are good",)
