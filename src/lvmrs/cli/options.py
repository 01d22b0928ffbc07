"""Options that several commands share, each with the heading under which help lists it, and parsers of their values.

A class derived from ``Group`` holds options that go together; ``grouped`` gives them to a command.
"""

from __future__ import annotations

import functools
import inspect
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from lvmrs.errors import DataError, InvalidArgumentError, ModelError
from lvmrs.registry import DATA, MAPS, MODELS, TRACKERS

HEADINGS = MODEL, INPUTS, METHOD, SAMPLES, EXECUTION, OUTPUT = (
    "Model", "Data", "Method", "Noise and samples", "Execution", "Output",
)  # fmt: skip
"""Headings of groups of options, in the order in which every command lists them."""


def option(
    heading: str,
    help: str,  # noqa: A002
    *names: str,
    metavar: str | None = None,
    check: Callable[[Any], object] | None = None,
) -> Any:
    """Declare an option under a heading; without names it has that of its parameter.

    ``check`` raises if a value is wrong. It runs before the command, which may import torch for seconds.
    """

    def checked(value: Any) -> Any:
        if check is not None and value is not None:
            check(value)
        return value

    return typer.Option(*names, help=help, metavar=metavar, rich_help_panel=heading, callback=checked)


def at_least(name: str, least: int) -> Callable[[int], object]:
    """A check of whole numbers, for ``option``."""

    def check(value: int) -> object:
        from lvmrs.kernel import checks  # imports NumPy, which lvmrs --help does without

        if value < least:
            raise InvalidArgumentError(f"{name} must be a whole number of at least {least}, got {value}")
        return checks.count(name, value, least=least)

    return check


def positive(name: str, *, infinite: bool = False) -> Callable[[float], object]:
    """A check of numbers above 0, for ``option``."""

    def check(value: float) -> object:
        from lvmrs.kernel import checks

        return checks.positive_number(name, value, infinite=infinite)

    return check


def among(name: str, *choices: str) -> Callable[[str], None]:
    """A check of words, for ``option``."""

    def check(value: str) -> None:
        from lvmrs.kernel import checks

        checks.one_of(name, value, choices)

    return check


def check_split(value: str) -> None:
    """Refuse a split that is no word."""
    from lvmrs._util.settings import is_word

    if not is_word(value):
        raise DataError(f"split must be a word such as test, got {value!r:.40}")


def check_device(value: str) -> None:
    """Refuse what names no device on any machine; whether this machine has it, torch knows."""
    from lvmrs._util.machine import DEVICES

    if not re.fullmatch(DEVICES, value):
        raise InvalidArgumentError(
            f"device {value!r:.80} cannot be used here (there is no device of that name); give auto, cpu, cuda or a "
            "device such as cuda:1"
        )


def check_precision(value: str) -> None:
    """Refuse an unknown precision."""
    from lvmrs.kernel import checks

    checks.precision("precision", value, autocast=True)


def check_both(mean: str | None, std: str | None) -> None:
    """Refuse half of a normalisation."""
    if (numbers("mean", mean) is None) != (numbers("std", std) is None):
        raise ModelError("mean and std go together; give both")


def check_alpha(value: float) -> None:
    """Refuse a risk outside (0, 1)."""
    from lvmrs.kernel import checks

    checks.alpha(value)


_TAKING_WEIGHTS = " or ".join(f"{name}:" for name in MODELS.having("weights"))

Model = Annotated[str, option(MODEL, f"Source of the model: {MODELS.listed}.")]
Weights = Annotated[Path | None, option(MODEL, f"File of weights for a {_TAKING_WEIGHTS} model.")]
Mean = Annotated[
    str | None, option(MODEL, "Mean of each channel, to normalise before the model, such as 0.49,0.48,0.45.")
]
Std = Annotated[str | None, option(MODEL, "Standard deviation of each channel, to normalise before the model.")]

Data = Annotated[str, option(INPUTS, f"Source of the data: {DATA.listed}.")]
Split = Annotated[str, option(INPUTS, "Split of the data.", check=check_split)]
ImageSize = Annotated[int | None, option(INPUTS, "Scale and crop images from files to squares of this side.")]
ClassIndex = Annotated[
    Path | None, option(INPUTS, "Class numbers of imagefolder folders: JSON, or text with one class a line.")
]
Checked = Annotated[int, option(INPUTS, "Inputs to check, spread evenly over those that are selected.")]

Settings = Annotated[Path | None, option(METHOD, "File made by lvmrs calibrate, which defines the classifier.")]
Map = Annotated[
    str | None,
    option(METHOD, f"Simplex map, instead of a search: {', '.join(MAPS.having('simplex'))}, or python:MODULE:MAP."),
]
Temperature = Annotated[float | None, option(METHOD, "Temperature, instead of a search.")]
Mass = Annotated[float | None, option(METHOD, "Mass of the simplex.")]

SIGMA = "Standard deviation of the noise, for pixels in [0, 1]."
Sigma = Annotated[float, option(SAMPLES, SIGMA)]
Alpha = Annotated[float, option(SAMPLES, "Risk: the probability that a certificate is wrong.", check=check_alpha)]
N0 = Annotated[int, option(SAMPLES, "Samples to plan on, for each input.", "--n0", "--N0", check=at_least("n0", 1))]
N = Annotated[int, option(SAMPLES, "Samples to prove on, for each input.", "--n", "--N", check=at_least("n", 2))]
Copies = Annotated[
    int | None, option(SAMPLES, "Noisy copies of each input. Default: 100, or fewer if the network is slow.")
]

Device = Annotated[str, option(EXECUTION, "auto, cpu, cuda, cuda:1, …", check=check_device)]
Autocast = Annotated[str | None, option(EXECUTION, "Train in mixed precision: bfloat16 or float16.")]
RayAddress = Annotated[
    str | None,
    option(
        EXECUTION,
        "Compute on the Ray cluster at this address. Default address: the cluster of this machine, or a new one.",
        metavar="[ADDRESS]",
    ),
]
WorkerCount = Annotated[
    int | None,
    option(
        EXECUTION,
        "Number of workers, on the Ray cluster or as processes of this machine.",
        check=at_least("workers", 1),
    ),
]
CpusPerWorker = Annotated[int | None, option(EXECUTION, "With --ray: cores of a worker.")]

Out = Annotated[Path, option(OUTPUT, "Directory of the new run.")]
RADII = "0:1.5:0.25"
Radii = Annotated[str, option(OUTPUT, "FIRST:LAST:STEP, or radii separated by commas.")]
Confidence = Annotated[float, option(OUTPUT, "Confidence level of the intervals for the finite test set.")]
Names = Annotated[str | None, option(OUTPUT, "Names of the runs, with commas between them. Default: their paths.")]
Tracker = Annotated[str | None, option(OUTPUT, f"Log to an experiment tracker as well: {TRACKERS.listed}.")]
Json = Annotated[bool, option(OUTPUT, "Print JSON, for programs.", "--json")]


@dataclass(frozen=True, kw_only=True)
class Group:
    """Options that several commands share."""

    typed: frozenset[str] = frozenset()
    """Names of all parameters of the command that the user typed, in this group or not."""

    def refuse(self, names: Sequence[str], reason: str) -> None:
        """Refuse the first of these options that the user typed."""
        for name in names:
            if name in self.typed:
                raise InvalidArgumentError(f"{name} has no effect: {reason}; leave it out")

    @classmethod
    def parameters(cls, defaults: dict[str, Any]) -> list[inspect.Parameter]:
        """Parameters of a command for these options, with ``defaults`` in place of those of the class."""
        hints = get_type_hints(cls, include_extras=True)
        return [
            part.replace(kind=part.KEYWORD_ONLY, default=defaults.get(name, part.default), annotation=hints[name])
            for name, part in inspect.signature(cls).parameters.items()
            if name != "typed"
        ]


def grouped(**defaults: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Replace each parameter of a command that is a ``Group`` by the options of that group.

    ``defaults`` are default values of this command, where they are not those of the group.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        hints = get_type_hints(command, include_extras=True)
        parameters = [inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)]
        groups: dict[str, type[Group]] = {}
        for parameter in inspect.signature(command).parameters.values():
            hint = hints[parameter.name]
            if isinstance(hint, type) and issubclass(hint, Group):
                groups[parameter.name] = hint
                parameters += hint.parameters(defaults)
            else:
                parameters.append(parameter.replace(kind=parameter.KEYWORD_ONLY, annotation=hint))

        @functools.wraps(command)
        def wrapped(context: typer.Context, **given: Any) -> None:
            sources = {name: context.get_parameter_source(name) for name in context.params}
            typed = frozenset(name for name, source in sources.items() if source and source.name == "COMMANDLINE")
            made = {
                name: group(**{part.name: given.pop(part.name) for part in group.parameters({})}, typed=typed)
                for name, group in groups.items()
            }
            command(**made, **given)

        wrapped.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        wrapped.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return wrapped

    return decorate


_MOST_RADII = 10_000


def check_tracker(spelling: str | None) -> None:
    """Refuse an unknown tracker, before anything is loaded."""
    if spelling is not None:
        TRACKERS.find(spelling.partition(":")[0], argument="tracker")


def numbers(name: str, text: str | None) -> list[float] | None:
    """Parse numbers separated by commas; None stays None."""
    if text is None:
        return None
    try:
        return [_number(part) for part in text.split(",")]
    except ValueError:
        raise InvalidArgumentError(f"{name} must be numbers with commas between them, got {text!r:.80}") from None


def names(text: str | None) -> list[str] | None:
    """Parse names separated by commas; None stays None."""
    return None if text is None else [name.strip() for name in text.split(",")]


def _number(text: str) -> float:
    """Parse a number in plain digits: Python also accepts 0_5, which is 5, and the digits of all scripts."""
    if not text.isascii() or "_" in text:
        raise ValueError(text)
    return float(text)


def shard(text: str | None) -> tuple[int, int]:
    """Parse a shard: 2/8 is the second of eight, and None is all inputs."""
    if text is None:
        return 1, 1
    found = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", text)
    number, count = (int(found[1]), int(found[2])) if found else (0, 0)
    if not 1 <= number <= count:
        raise InvalidArgumentError(f"shard must be like 2/8, the second of eight, got {text!r:.80}")
    return number, count


def radii(text: str) -> list[float]:
    """Parse radii: 0:1.5:0.25 goes from 0 to 1.5 in steps of 0.25, and 0,0.5,1 is a list."""
    values = numbers("radii", text.replace(":", ",")) or []
    if ":" in text:
        if len(values) != 3 or not (values[2] > 0 and values[1] >= values[0]):
            raise InvalidArgumentError(f"radii must be FIRST:LAST:STEP with a positive step, got {text!r:.80}")
        first, last, step = values
        if not (last - first) / step < _MOST_RADII:
            raise InvalidArgumentError(f"radii {text!r:.80} are more than {_MOST_RADII}; take a larger step")
        values = [round(first + k * step, 12) for k in range(math.floor((last - first) / step + 1e-9) + 1)]
    if len(values) > _MOST_RADII:
        raise InvalidArgumentError(f"radii are {len(values)}, and must be at most {_MOST_RADII}; take fewer")
    if any(not 0 <= value < math.inf for value in values):
        raise InvalidArgumentError(f"radii must be numbers from 0, got {text!r:.80}")
    return values


def width(word: str | None) -> float | str | None:
    """Parse the width of soft duels: a number, or the word ``chosen``; None stays None."""
    if word in (None, "chosen"):
        return word
    from lvmrs.kernel import checks

    try:
        return checks.positive_number("width", _number(str(word)))
    except ValueError as error:
        if isinstance(error, InvalidArgumentError):
            raise
        raise InvalidArgumentError(f"width must be a number or chosen, got {word!r}") from None


ANY = "auto"


def with_address(words: list[str]) -> list[str]:
    """Give ``--ray`` a value where the command line has none, since typer has no options with an optional value.

    >>> with_address(["certify", "--ray", "--workers", "2"])
    ['certify', '--ray=auto', '--workers', '2']
    """
    after = [*words[1:], "-"][: len(words)]
    return [
        f"--ray={ANY}" if word == "--ray" and following.startswith("-") else word
        for word, following in zip(words, after, strict=True)
    ]
