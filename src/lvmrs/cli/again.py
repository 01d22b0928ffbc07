"""The job of a run that is named on the command line: what moved, or what could run code, is named by options."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from lvmrs._util.text import printable
from lvmrs.cli.own_parts import OWN, known_name, own, whole_class
from lvmrs.errors import InvalidArgumentError
from lvmrs.registry import BOUNDS, FORMS, MAPS, NOISES

if TYPE_CHECKING:
    from lvmrs.kernel import method
    from lvmrs.record import Run
    from lvmrs.runs import Job

__all__ = [
    "Bound", "ClassIndex", "Data", "Denoiser", "Device", "Form", "Map", "Method", "Model", "Noise", "Weights",
    "job_again", "kind_of_device",
]  # fmt: skip

_MOVED = "needed if it could run code, as python:…, or is elsewhere now"
_OWN_PART = "of RUN, if it is your own: python:MODULE:"
Model = Annotated[Optional[str], typer.Option("--model", help=f"The model of RUN; {_MOVED}.")]
Weights = Annotated[Optional[Path], typer.Option("--weights", help="The weights that were put into the model of RUN.")]
Denoiser = Annotated[Optional[str], typer.Option("--denoiser", help=f"The denoiser of RUN; {_MOVED}.")]
Data = Annotated[Optional[str], typer.Option("--data", help=f"The data of RUN; {_MOVED}.")]
ClassIndex = Annotated[Optional[Path], typer.Option("--class-index", help="The class index file of RUN, with --data.")]
Method = Annotated[Optional[str], typer.Option("--method", help=f"The method {_OWN_PART}PLANNER.")]
Map = Annotated[Optional[str], typer.Option("--map", help=f"A map {_OWN_PART}MAP.")]
Bound = Annotated[Optional[str], typer.Option("--bound", help=f"A bound {_OWN_PART}BOUND.")]
Form = Annotated[Optional[str], typer.Option("--form", help=f"A form of the radius {_OWN_PART}FORM.")]
Noise = Annotated[Optional[str], typer.Option("--noise", help=f"The noise {_OWN_PART}NOISE.")]
Device = Annotated[Optional[str], typer.Option("--device", help="Where to run it; else the kind of device of RUN.")]


def kind_of_device(run: Run, typed: str | None) -> str:
    """Where a run is to be computed again: where the user says, or else on the kind of device that it was made on."""
    return typed or run.manifest.model.device or "auto"


def job_again(run: Run, *, method: str | None = None, parts: dict[str, str | None], **named: Any) -> Job:
    """The job of a run.

    Args:
        run: the run.
        method: its method, if that is the user's own.
        parts: maps, bounds, forms and noises of the user's own, by the names of their options.
        named: the other arguments of ``lvmrs.runs.job_of_run``.
    """
    from lvmrs import runs as jobs  # torch takes seconds to import
    from lvmrs.runs.again import NotNamedError

    tables = {"map": MAPS, "bound": BOUNDS, "form": FORMS, "noise": NOISES}
    used = {name.rpartition(".")[2] for name in run.manifest.method.own_code}
    for option, word in parts.items():
        name = known_name(tables[option], _own_code(option, word))
        if name is not None and tables[option].find(name).__name__ not in used:
            raise InvalidArgumentError(f"{option} has no effect: {run.directory} was made without {word}; leave it out")
    try:
        return jobs.job_of_run(run, method=_own_method(method), **named)
    except NotNamedError as error:
        what = "" if error.recorded is None else f" {shlex.quote(printable(error.recorded)):.200}"
        raise InvalidArgumentError(f"{error}: --{error.argument}{what or ' …'}") from error


def _own_code(option: str, word: str | None) -> str | None:
    if word is not None and not word.startswith(OWN):
        raise InvalidArgumentError(f"{option} must be {OWN}MODULE:NAME here, got {word!r:.80}; else the run decides it")
    return word


def _own_method(word: str | None) -> method.Method | type[method.Method] | None:
    """A class of the user's own, which gets the settings of the run; or what a function of theirs makes."""
    from lvmrs.cli.chosen_method import chosen_method
    from lvmrs.kernel.method import Method as Base

    if _own_code("method", word) is None or word is None:
        return None
    named = own(word)
    if not isinstance(named, type):
        return chosen_method(word)
    return whole_class(word, named, Base, "Planner", "lvmrs.planners")
