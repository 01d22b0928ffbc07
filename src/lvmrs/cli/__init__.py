"""The command line: one file per verb, over the library; only this package prints or exits."""

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
from lvmrs.cli.console import exit_code, output, own_stdout
from lvmrs.cli.demo import demo_command
from lvmrs.cli.import_ import import_
from lvmrs.cli.launch import launch
from lvmrs.cli.lipschitz import lipschitz
from lvmrs.cli.merge import merge
from lvmrs.cli.options import HEADINGS, OUTPUT
from lvmrs.cli.plot import plot
from lvmrs.cli.predict import predict
from lvmrs.cli.radius import radius
from lvmrs.cli.recertify import recertify
from lvmrs.cli.report import report
from lvmrs.cli.setup import with_address
from lvmrs.cli.train import train
from lvmrs.cli.verify import verify

__all__ = ["app", "main"]

_GUIDE = """lvmrs proves how far an input can be moved before a classifier changes its answer.

Start here:
  lvmrs demo                               train, certify and compare, in a minute
  lvmrs radius 0.99 0.005 --sigma 0.5      radii from two probabilities
  lvmrs train --model ready:fast_cnn --data cifar10:cifar10.npz --sigma 0.5 \\
      --out nets/a.safetensors             a network for this noise
  lvmrs certify --model trained:nets/a.safetensors --data cifar10:cifar10.npz \\
      --sigma 0.5 --out runs/a             one certificate for each input
  lvmrs certify … --out runs/a --resume    continue a run that was stopped
  lvmrs analyze runs/a                     certified accuracy and average radius
  lvmrs report runs/a -o report.html       an HTML page about the run

Commands: demo, train, certify, launch, predict, calibrate, recertify, merge,
verify, attack, import, analyze, compare, plot, report, lipschitz, radius.
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
        False, _DEBUG, help="Show the traceback of an error; allowed anywhere. LVMRS_DEBUG=1 does the same."
    ),
) -> None:
    """Prove how far an input can be moved before a classifier changes its answer.

    \b
    Examples:
      lvmrs demo
      lvmrs certify --model onnx:net.onnx --data npz:test.npz --sigma 0.5 \\
          --out runs/a
      lvmrs analyze runs/a
    """
    if version:
        from lvmrs import __version__

        output(__version__)
    elif context.invoked_subcommand is None:
        output(_GUIDE)


class _Verb(TyperCommand):
    """A command that alone writes to stdout while it works, and whose help lists options under headings."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command, after its options were parsed."""
        with own_stdout():
            return super().invoke(ctx)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """List arguments, then options under the headings of ``lvmrs.cli.options``, in one column for all of them."""
        sections: dict[str, list[tuple[str, str]]] = {heading: [] for heading in ("Arguments", *HEADINGS)}
        for parameter in self.get_params(ctx):
            is_argument = parameter.param_type_name == "argument"
            heading = "Arguments" if is_argument else getattr(parameter, "rich_help_panel", None) or OUTPUT
            if record := parameter.get_help_record(ctx):
                sections[heading].append(record)
        width = max(len(names) for records in sections.values() for names, _ in records)
        for heading, records in sections.items():
            if records:
                with formatter.section(heading):
                    formatter.write_dl([(names.ljust(width), text) for names, text in records])


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
    """Run a command, and exit with its code: an error is one sentence, with 2 for wrong usage and 1 otherwise."""
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
    """Build the commands, once for programs that run many of them in one process."""
    return get_command(app)


def _run(words: list[str]) -> None:
    # Not ``app(words)``: typer would exit by itself, and treat an EOFError of the user's code as Control-D.
    command = _command()
    with command.make_context("lvmrs", words) as context:
        command.invoke(context)
