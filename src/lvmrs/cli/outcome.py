"""What a command that makes a run prints at its end."""

from __future__ import annotations

import json

import typer

from lvmrs import analysis
from lvmrs._util.text import printable
from lvmrs.cli.console import INCOMPLETE, output
from lvmrs.kernel.radius import percent, rounded_down
from lvmrs.record import Run

__all__ = ["show_run"]


def show_run(run: Run, *, as_json: bool) -> None:
    """Print the result in one line and where it is; an unfinished run ends the command with its own exit code.

    Args:
        run: the run.
        as_json: whether to print JSON.
    """
    results = analysis.results_of(run)
    average = analysis.average_certified_radius(results).value
    spent = analysis.spending(results)
    (accuracy,) = analysis.certified_accuracy(results, [0.0])
    if as_json:
        shown = {
            "run": str(run.directory),
            "inputs": len(results),
            "missing": results.missing,
            "certified accuracy": accuracy,
            "average certified radius": average,
            **({} if spent is None else {"samples": analysis.spending_object(spent)}),
        }
        output(json.dumps(shown))
    else:
        output(
            f"{printable(str(run.directory))}: {len(results)} inputs, certified accuracy {percent(accuracy)} %, "
            f"average certified radius {rounded_down(average)}"
        )
        for words in () if spent is None else analysis.spending_words(spent):
            output(words)
    if results.missing:
        raise typer.Exit(INCOMPLETE)
