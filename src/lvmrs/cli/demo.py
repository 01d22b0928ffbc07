"""``lvmrs demo``: train, certify, compare and report, in a minute."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Optional

from lvmrs import analysis
from lvmrs._util import files as _disk
from lvmrs.analysis.tables import summary_table
from lvmrs.cli import options
from lvmrs.cli.console import command_line, output, stoppable, tell
from lvmrs.cli.options import OUTPUT, option
from lvmrs.cli.progress import Watcher
from lvmrs.errors import InvalidArgumentError

__all__ = ["demo_command"]

_RADII = [0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5]


def demo_command(
    out: Annotated[
        Optional[Path],
        option(OUTPUT, "--out", help="New directory for weights and runs. Default: lvmrs-demo-1, or the next number."),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Train a small network on digits with noise, certify 100 test digits with four methods, and compare these.

    \b
    Examples:
      lvmrs demo
      lvmrs demo --out runs/demo
    """
    from lvmrs.analysis.report import pictures_of, write_report
    from lvmrs.cli import demonstration as demo

    place = _new_directory() if out is None else _disk.place(out)
    weights = place / "digits.safetensors"
    if place == Path() or place.is_file() or weights.exists():
        raise InvalidArgumentError(f"out: {str(place)!r} must be a new directory for the demo")
    with stoppable(lambda: (f"stopped; delete {place} and begin again with:", command_line())):
        _disk.make_directory(place)
        accuracy = demo.train(weights, sigma=demo.SIGMA)
        tell(f"trained on digits with noise σ = {demo.SIGMA:g}: right on {accuracy:.1%} of noisy test digits")
        with Watcher(demo.INPUTS) as watcher:
            watcher.begin(demo.INPUTS, demo.N0 + demo.N)
            runs = demo.certify_all(place, weights, watcher.row)
    results = [analysis.results_of(run) for run in runs]
    if as_json:
        averages = {result.name: analysis.average_certified_radius(result).value for result in results}
        output(json.dumps(averages))
        return
    output(
        f"certified accuracy in %, {demo.INPUTS} digits, σ = {demo.SIGMA:g}, α = {demo.ALPHA:g}, "
        f"n0 = {demo.N0}, n = {demo.N}\n{summary_table([analysis.summarise(result, _RADII) for result in results])}"
    )
    page = place / "report.html"
    pictures = pictures_of(runs[0])
    if pictures.why_none is not None:
        tell(f"no pictures: {pictures.why_none}")
    write_report(runs, page, radii=_RADII, picture=pictures.of)
    tell(f"open {page} in a browser; or look closer: lvmrs compare {runs[1].directory} {runs[-1].directory}")


def _new_directory() -> Path:
    number = 1
    while (path := Path(f"lvmrs-demo-{number}")).exists():
        number += 1
    return path
