"""``lvmrs predict``: classify inputs with the smoothed classifier."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from lvmrs._util.text import percent
from lvmrs.cli import options
from lvmrs.cli.console import output, stoppable, tell
from lvmrs.cli.options import METHOD, OUTPUT, SAMPLES, grouped, option
from lvmrs.cli.setup import MethodOptions, Setup, load_as_recorded

if TYPE_CHECKING:
    from lvmrs.runs import Answer


@grouped()
def predict(
    *,
    setup: Setup,
    method_options: MethodOptions,
    settings: options.Settings = None,
    like: Annotated[Path | None, option(METHOD, "Run whose certified classifier is to answer.")] = None,
    alpha: Annotated[
        float,
        option(SAMPLES, "Risk: the probability that an answer or certificate is wrong.", check=options.check_alpha),
    ] = 0.001,
    n0: Annotated[
        int | None,
        option(SAMPLES, "Samples to find the candidate on. Default: 100; votes need none.", "--n0", "--N0"),
    ] = None,
    n: Annotated[int, option(SAMPLES, "Samples to test the candidate on.", "--n", "--N")] = 1_000,
    radius: Annotated[
        bool, option(OUTPUT, "Certify each answer, with --n samples at risk --alpha.", "--radius")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Print the answer of the smoothed classifier for each input, or −1 where that is in doubt.

    --method names the method that certifies this classifier, by default hard duels; it must use one classifier for all
    inputs. Each row is printed once it is computed: idx, label, predict, correct, name; with --radius also radius,
    p_lower, p_upper. Inputs without labels, such as images:new, have no label and correct.

    \b
    Examples:
      lvmrs predict --model python:nets.py:resnet --weights w.safetensors \\
          --data digits --sigma 0.5 --max 20
      lvmrs predict --model onnx:net.onnx --data npz:new.npz --like runs/a \\
          --n 10000 > answers.tsv
      lvmrs predict --model onnx:net.onnx --data images:photo.png \\
          --settings settings.json --radius --json
    """
    setup.check_sigma(method_options.method, settings, like)
    from lvmrs import runs
    from lvmrs.kernel.method import ABSTAIN
    from lvmrs.planners import Duels

    chosen = method_options.chosen()
    if chosen is None and settings is None and like is None:
        chosen = Duels()
    chosen, _, dataset, smoothed = load_as_recorded(setup, chosen, settings, like)
    numbers = {"n": n, "n0": n0, "alpha": alpha, "seed": setup.seed}
    selection = setup.selection(dataset)
    answers = runs.predict(smoothed, dataset, selection, chosen, radius=radius, **numbers)
    tell(f"method {chosen}")
    inputs = right = abstained = 0
    where = f"of {len(selection.indices)} inputs; the rows that were printed are good"
    with stoppable(lambda: (f"stopped after {inputs} {where}",)):
        for answer in answers:
            row = _row(answer, radius=radius)
            if not inputs and not as_json:
                output("\t".join(row))
            output(json.dumps(row, allow_nan=False) if as_json else _line(row))
            inputs, abstained = inputs + 1, abstained + (answer.predict == ABSTAIN)
            right += answer.correct or 0
    correct = f"{percent(right / inputs)} % correct, " if dataset.labelled else ""
    tell(f"{inputs} {'input' if inputs == 1 else 'inputs'}: {correct}{abstained} in doubt")


def _row(answer: Answer, *, radius: bool) -> dict[str, Any]:
    """The fields of an answer; an infinite number becomes None, since JSON has none."""
    names = ("idx", "predict") if answer.label is None else ("idx", "label", "predict", "correct")
    row: dict[str, Any] = {name: getattr(answer, name) for name in names}
    for name in ("radius", "p_lower", "p_upper") if radius else ():
        row[name] = number if math.isfinite(number := getattr(answer, name)) else None
    return {**row, "name": answer.name}


def _line(row: dict[str, Any]) -> str:
    from lvmrs.record.result_file import UNKNOWN, escaped

    name = row["name"]
    texts = {**row, "name": UNKNOWN if name is None else escaped(name)}
    return "\t".join("inf" if value is None else str(value) for value in texts.values())
