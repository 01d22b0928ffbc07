"""The command line: one file per verb, over the library; only this package prints or exits."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from lvmrs._util import signals
from lvmrs._util.machine import keep_freed
from lvmrs.cli.console import exit_code, output, own_stdout, tell
from lvmrs.cli.options import HEADINGS, OUTPUT, with_address

__all__ = ["app", "main"]

_GUIDE = """lvmrs proves how far an input can be moved before a classifier changes its answer.

Start here:
  lvmrs demo                               train, certify and compare, in a minute
  lvmrs radius 0.99 0.005 --sigma 0.5      radii from two probabilities
  lvmrs train --model ready:fast_cnn --data cifar10:cifar10.npz --sigma 0.5 \\
      --out nets/a.safetensors             a network for this noise
  lvmrs check --model trained:nets/a.safetensors --data cifar10:cifar10.npz \\
      --sigma 0.5                          forecast, and likely mistakes
  lvmrs certify --model trained:nets/a.safetensors --data cifar10:cifar10.npz \\
      --sigma 0.5 --out runs/a             one certificate for each input
  lvmrs certify … --out runs/a --resume    continue a run that was stopped
  lvmrs analyze runs/a                     certified accuracy and average radius
  lvmrs report runs/a -o report.html       an HTML page about the run

Commands: demo, train, sigma, check, certify, launch, predict, calibrate,
recertify, merge, verify, attack, safe, import, export, analyze, compare, plot,
report, lipschitz, radius.
Each has --help, with examples. --debug shows where an error comes from."""

_DEBUG = "--debug"

_CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 110}
_VERBS = {
    "demo": "train, certify, compare and report, in a minute",
    "train": "train a classifier for noise, or a denoiser",
    "sigma": "forecast which sigma to take",
    "check": "forecast certificates, and find likely mistakes",
    "certify": "certify the inputs of a data set",
    "launch": "certify as an array of Slurm jobs",
    "predict": "print the answer of the smoothed classifier",
    "calibrate": "choose one classifier for all inputs",
    "recertify": "certify kept scores again, without a network",
    "merge": "make one run from its shards",
    "verify": "compute rows of a run again and compare them",
    "attack": "search for points that break certificates",
    "analyze": "certified accuracy and average radius of runs",
    "compare": "compare two runs input by input",
    "safe": "list the inputs that are certified at a radius",
    "import": "make a run from the results of another project",
    "export": "write a run for other programs",
    "plot": "draw a figure of runs",
    "report": "write an HTML page about runs",
    "lipschitz": "bound the Lipschitz constant of a network",
    "radius": "compute radii from two probabilities",
}
"""What each command does. Its module is imported when it is used, so that help needs no other library."""


class _Verb(TyperCommand):
    """A command that alone writes to stdout while it works, and whose help lists options under headings."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the options, and say which of them are given several times: only the last value counts."""
        _, _, order = self.make_parser(ctx).parse_args(args=list(args))
        parsed: list[str] = super().parse_args(ctx, args)
        single = [each for each in order if not (each.multiple or getattr(each, "is_flag", True))]  # no arguments
        for parameter in dict.fromkeys(single):
            if single.count(parameter) > 1:
                tell(f"caution: {parameter.opts[0]} is given {single.count(parameter)} times; the last value counts")
        return parsed

    def invoke(self, ctx: Any) -> Any:
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


class _Verbs(TyperGroup):
    """All commands; each is imported when it is used."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(_VERBS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of this name; None if there is none."""
        if cmd_name in _VERBS and cmd_name not in self.commands:
            name = f"{cmd_name}_" if cmd_name == "import" else cmd_name
            single = typer.Typer(add_completion=False, rich_markup_mode=None, context_settings=_CONTEXT)
            single.command(cmd_name, cls=_Verb)(getattr(import_module(f"lvmrs.cli.{name}"), name))
            self.commands[cmd_name] = get_command(single)
        return self.commands.get(cmd_name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that is named first; an unknown name is answered with the nearest one."""
        if args and args[0] not in _VERBS and not args[0].startswith("-"):
            near = get_close_matches(args[0], _VERBS, n=1)
            hint = f"did you mean {near[0]}?" if near else "lvmrs --help lists the commands"
            ctx.fail(f"No such command {args[0]!r:.80}; {hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """List all commands, without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(_VERBS.items()))


app = typer.Typer(
    cls=_Verbs,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings=_CONTEXT,
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


_command: Any = get_command(app)


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
    signals.ignore()
    sys.exit(code)


def _run(words: list[str]) -> None:
    # Not ``app(words)``: typer would exit by itself, and treat an EOFError of the user's code as Control-D.
    with _command.make_context("lvmrs", words) as context:
        _command.invoke(context)
