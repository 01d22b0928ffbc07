"""``lvmrs predict``: what the smoothed classifier answers."""

from __future__ import annotations

import dataclasses
import json
from typing import Annotated, Optional

import typer

from lvmrs._decimals import percent
from lvmrs.cli import options
from lvmrs.cli.console import output, tell
from lvmrs.cli.setup import Setup, with_setup
from lvmrs.cli.stoppable import stoppable

__all__ = ["predict"]


@with_setup()
def predict(
    setup: Setup,
    alpha: options.Alpha = 0.001,
    n0: Annotated[
        Optional[int], typer.Option("--n0", "--N0", help="Samples to plan on, for duels; 100 if not given.")
    ] = None,
    n: options.N = 1_000,
    by: Annotated[str, typer.Option("--by", help="Who answers: the winner of all duels, or of most votes.")] = "duels",
    width: Annotated[Optional[float], typer.Option("--width", help="Soft duels of this width; else hard ones.")] = None,
    as_json: options.Json = False,
) -> None:
    """Answer with the class that wins all its duels under noise (or most votes), or −1 where that is in doubt.

    Rows go to stdout as they come: idx, label, predict, correct, name. An answer is wrong with probability ALPHA at
    most.

    \b
    Examples:
      lvmrs predict --model python:nets.py:resnet --weights w.safetensors --data digits --sigma 0.5 --max 20
      lvmrs predict --model onnx:net.onnx --data npz:test.npz --sigma 0.25 --n 10000 > answers.tsv
    """
    from lvmrs import jobs
    from lvmrs.answers import ABSTAIN
    from lvmrs.runs.input_names import escaped
    from lvmrs.runs.result_file import UNKNOWN

    _, dataset, smoothed = setup.load()
    numbers = {"n": n, "n0": n0, "alpha": alpha, "seed": setup.seed, "width": width}
    selection = setup.selection(dataset)
    inputs = right = abstained = 0
    with stoppable(lambda: _where_it_stopped(inputs, len(selection.indices))):
        for answer in jobs.predict(smoothed, dataset, selection, by=by, **numbers):
            row = dataclasses.asdict(answer)
            if not inputs and not as_json:
                output("\t".join(row))
            named = row | {"name": UNKNOWN if answer.name is None else escaped(answer.name)}
            output(json.dumps(row) if as_json else "\t".join(map(str, named.values())))
            inputs, right, abstained = inputs + 1, right + answer.correct, abstained + (answer.predict == ABSTAIN)
    tell(f"{inputs} inputs: {percent(right / inputs)} % correct, {abstained} in doubt")


def _where_it_stopped(done: int, inputs: int) -> tuple[str]:
    return (f"stopped after {done} of {inputs} inputs; the rows that were printed are good",)
