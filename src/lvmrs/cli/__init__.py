"""The command line: one file per verb, and the only place that prints or exits."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence

import typer

from lvmrs.cli.analyze import analyze
from lvmrs.cli.calibrate import calibrate
from lvmrs.cli.certify import certify
from lvmrs.cli.compare import compare
from lvmrs.cli.console import INCOMPLETE
from lvmrs.cli.demo import demo_command
from lvmrs.cli.import_ import import_
from lvmrs.cli.lipschitz import lipschitz
from lvmrs.cli.merge import merge
from lvmrs.cli.plot import plot
from lvmrs.cli.predict import predict
from lvmrs.cli.radius import radius
from lvmrs.cli.recertify import recertify
from lvmrs.cli.report import report
from lvmrs.cli.train import train
from lvmrs.errors import InvalidArgumentError, LvmrsError

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

Commands: demo, train, certify, predict, calibrate, recertify, merge, import, analyze,
compare, plot, report, lipschitz, radius.
Each has --help, with examples."""

_INTERRUPTED = 130  # what typer exits with after Control-C

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)


@app.callback(invoke_without_command=True)
def _guide(context: typer.Context, version: bool = typer.Option(False, "--version", help="Print the version.")) -> None:
    """Prove how far an input can be moved before a classifier changes its answer.

    \b
    Examples:
      lvmrs demo
      lvmrs certify --model onnx:net.onnx --data npz:test.npz --sigma 0.5 --out runs/a
      lvmrs analyze runs/a
    """
    if version:
        from lvmrs import __version__

        print(__version__)
    elif context.invoked_subcommand is None:
        print(_GUIDE)


app.command("demo")(demo_command)
app.command()(train)
app.command()(certify)
app.command()(predict)
app.command()(calibrate)
app.command()(recertify)
app.command()(merge)
app.command()(analyze)
app.command()(compare)
app.command("import")(import_)
app.command()(plot)
app.command()(report)
app.command()(lipschitz)
app.command()(radius)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command; a mistake gets one sentence, and exit code 2 if it is in the command line, 1 elsewhere."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without σ shows a question mark
    try:
        app(args=None if arguments is None else list(arguments), prog_name="lvmrs")
    except LvmrsError as error:
        print(f"lvmrs: {error}", file=sys.stderr)
        sys.exit(2 if isinstance(error, InvalidArgumentError) else 1)
    except SystemExit as end:
        if end.code != _INTERRUPTED:
            raise
        print("lvmrs: stopped; what was written is safe", file=sys.stderr)
        sys.exit(INCOMPLETE)
