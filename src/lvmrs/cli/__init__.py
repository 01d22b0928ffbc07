"""The command line: one file per verb, and the only place that prints or exits."""

from __future__ import annotations

import functools
import io
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

import typer
from typer.core import TyperCommand
from typer.main import get_command

from lvmrs._util import signals as _stopping
from lvmrs._util.machine import keep_freed
from lvmrs.cli.analyze import analyze
from lvmrs.cli.attack import attack
from lvmrs.cli.calibrate import calibrate
from lvmrs.cli.certify import certify
from lvmrs.cli.compare import compare
from lvmrs.cli.console import output, own_stdout
from lvmrs.cli.demo import demo_command
from lvmrs.cli.ending import exit_code
from lvmrs.cli.import_ import import_
from lvmrs.cli.launch import launch
from lvmrs.cli.lipschitz import lipschitz
from lvmrs.cli.merge import merge
from lvmrs.cli.plot import plot
from lvmrs.cli.predict import predict
from lvmrs.cli.radius import radius
from lvmrs.cli.recertify import recertify
from lvmrs.cli.report import report
from lvmrs.cli.spread import with_address
from lvmrs.cli.train import train
from lvmrs.cli.verify import verify

__all__ = ["app", "main"]

_GUIDE = """lvmrs proves how far an input can be moved before a classifier changes its answer.

Start here:
  lvmrs demo                                         everything once, in a minute
  lvmrs radius 0.99 0.005 --sigma 0.5                a radius from two probabilities
  lvmrs train --model ready:fast_cnn --data cifar10:cifar10.npz --sigma 0.5 \\
      --out nets/a.safetensors                       a network for noise of that strength
  lvmrs certify --model trained:nets/a.safetensors --data cifar10:cifar10.npz \\
      --sigma 0.5 --out runs/a
  lvmrs certify … --out runs/a --resume              go on where it stopped
  lvmrs analyze runs/a                               certified accuracy and average radius
  lvmrs report runs/a -o report.html                 a page to open and to send

Commands: demo, train, certify, launch, predict, calibrate, recertify, merge, verify, attack, import,
analyze, compare, plot, report, lipschitz, radius.
Each has --help, with examples. --debug shows where an error comes from."""

_DEBUG = "--debug"

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)


@app.callback(invoke_without_command=True)
def _guide(
    context: typer.Context,
    version: bool = typer.Option(False, "--version", help="Print the version."),
    debug: bool = typer.Option(
        False, _DEBUG, help="Show the traceback of an error; it may stand anywhere, and LVMRS_DEBUG=1 does the same."
    ),
) -> None:
    """Prove how far an input can be moved before a classifier changes its answer.

    \b
    Examples:
      lvmrs demo
      lvmrs certify --model onnx:net.onnx --data npz:test.npz --sigma 0.5 --out runs/a
      lvmrs analyze runs/a
    """
    if version:
        from lvmrs import __version__

        output(__version__)
    elif context.invoked_subcommand is None:
        output(_GUIDE)


class _Verb(TyperCommand):
    """A command that has stdout to itself while it works."""

    def invoke(self, ctx: Any) -> Any:
        """Run it, after its options were parsed."""
        with own_stdout():
            return super().invoke(ctx)


_VERBS: dict[str, Callable[..., None]] = {
    "demo": demo_command,
    "train": train,
    "certify": certify,
    "launch": launch,
    "predict": predict,
    "calibrate": calibrate,
    "recertify": recertify,
    "merge": merge,
    "verify": verify,
    "attack": attack,
    "analyze": analyze,
    "compare": compare,
    "import": import_,
    "plot": plot,
    "report": report,
    "lipschitz": lipschitz,
    "radius": radius,
}
for _name, _verb in _VERBS.items():
    app.command(_name, cls=_Verb)(_verb)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command; a mistake gets one sentence, and exit code 2 if it is in the command line, 1 elsewhere."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without σ shows a question mark
    keep_freed()
    words = list(sys.argv[1:] if arguments is None else arguments)
    options = words[: words.index("--")] if "--" in words else words
    debug = _DEBUG in options or os.environ.get("LVMRS_DEBUG", "0") not in ("", "0")
    rest = with_address([word for word in options if word != _DEBUG]) + words[len(options) :]
    code = exit_code(lambda: _run(rest), debug=debug)
    _stopping.ignore()
    sys.exit(code)


@functools.cache
def _command() -> Any:
    """The tree of commands. Programs that run many commands in one process wait for it once."""
    return get_command(app)


def _run(words: list[str]) -> None:
    # Not ``app(words)``: typer would end the program by itself, and take an EOFError of the user's code for Control-D.
    command = _command()
    with command.make_context("lvmrs", words) as context:
        command.invoke(context)
