"""What a command that makes a run prints at its end."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import typer

from lvmrs import analysis
from lvmrs._decimals import percent, rounded_down
from lvmrs._printable import printable
from lvmrs.cli.console import INCOMPLETE, output
from lvmrs.runs import Run

if TYPE_CHECKING:
    from lvmrs.jobs import Evenly

__all__ = ["show_run"]


def show_run(run: Run, *, as_json: bool, evenly: Evenly | None = None) -> None:
    """Print the result in one line and where it is; an unfinished run ends the command with its own exit code.

    Args:
        run: the run.
        as_json: whether to print JSON.
        evenly: what the same samples would give if they were spread evenly, for a run with a budget.
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
            **({} if evenly is None else {"spread evenly": evenly.object}),
        }
        output(json.dumps(shown))
    else:
        output(
            f"{printable(str(run.directory))}: {len(results)} inputs, certified accuracy {percent(accuracy)} %, "
            f"average certified radius {rounded_down(average)}"
        )
        for words in () if spent is None else analysis.spending_words(spent):
            output(words)
        if evenly is not None:
            output(evenly.words)
    if results.missing:
        raise typer.Exit(INCOMPLETE)
