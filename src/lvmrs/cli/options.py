"""Options of the commands: each is declared once, with the heading under which help lists it.

A class derived from ``Group`` holds options that several commands share; ``grouped`` gives them to a command.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Optional, get_type_hints

import typer

from lvmrs.analysis.tables import FORMATS
from lvmrs.errors import InvalidArgumentError
from lvmrs.registry import BOUNDS, DATA, DENOISERS, FORMS, MAPS, METHODS, MODELS, NOISES

__all__ = [
    "EXECUTION", "HEADINGS", "INPUTS", "METHOD", "MODEL", "N0", "OUTPUT", "RADII", "SAMPLES", "Alpha", "Autocast",
    "Batch", "Beta", "Bound", "BoundOfRun", "Budget", "ClassIndex", "ClassIndexOfRun", "Compile", "Confidence",
    "CpusPerWorker", "Data", "DataOfRun", "Denoiser", "DenoiserOfRun", "Device", "DeviceOfRun", "Fast", "Form",
    "FormOfRun", "Format", "GpusPerWorker", "Group", "ImageSize", "Json", "Lipschitz", "Map", "MapOfRun", "Mass",
    "Max", "Mean", "Method", "MethodOfRun", "Model", "ModelOfRun", "N", "Noise", "NoiseOfRun", "Out", "Radii",
    "RayAddress", "Seed", "Settings", "Sigma", "SigmaIfNoisy", "Skip", "Split", "Std", "Targets", "Temperature",
    "Tolerance", "Weights", "WeightsOfRun", "Width", "WorkerCount", "choice", "grouped", "numbers", "option", "radii",
    "shard", "width",
]  # fmt: skip

HEADINGS = MODEL, INPUTS, METHOD, SAMPLES, EXECUTION, OUTPUT = (
    "Model", "Data", "Method", "Noise and samples", "Execution", "Output",
)  # fmt: skip
"""Headings of groups of options, in the order in which every command lists them."""


def option(heading: str, *names: str, help: str, metavar: str | None = None) -> Any:  # noqa: A002
    """Declare an option under a heading."""
    return typer.Option(*names, help=help, metavar=metavar, rich_help_panel=heading)


_TAKING_WEIGHTS = " or ".join(f"{name}:" for name in MODELS.having("weights"))

Model = Annotated[str, option(MODEL, "--model", help=f"Source of the model: {MODELS.listed}.")]
Weights = Annotated[Optional[Path], option(MODEL, "--weights", help=f"File of weights for a {_TAKING_WEIGHTS} model.")]
Mean = Annotated[
    Optional[str],
    option(MODEL, "--mean", help="Mean of each channel, to normalise before the model, such as 0.49,0.48,0.45."),
]
Std = Annotated[
    Optional[str], option(MODEL, "--std", help="Standard deviation of each channel, to normalise before the model.")
]
Denoiser = Annotated[Optional[str], option(MODEL, "--denoiser", help=f"Denoiser before the model: {DENOISERS.listed}.")]
Lipschitz = Annotated[
    Optional[float],
    option(
        MODEL,
        "--lipschitz",
        help="Lipschitz constant of the logits, for pixels in [0, 1]. Default: the model's own, if it has one.",
    ),
]

Data = Annotated[str, option(INPUTS, "--data", help=f"Source of the data: {DATA.listed}.")]
Split = Annotated[str, option(INPUTS, "--split", help="Split of the data.")]
ImageSize = Annotated[
    Optional[int], option(INPUTS, "--image-size", help="Scale and crop images from files to squares of this side.")
]
ClassIndex = Annotated[
    Optional[Path],
    option(
        INPUTS,
        "--class-index",
        help="Class numbers of imagefolder folders: JSON, or text with one class a line.",
    ),
]
Skip = Annotated[int, option(INPUTS, "--skip", metavar="K", help="Take every K-th input.")]
Max = Annotated[Optional[int], option(INPUTS, "--max", help="Stop before this index of the data set.")]

Method = Annotated[
    Optional[str], option(METHOD, "--method", help=f"How to certify: {METHODS.listed}, or python:MODULE:PLANNER.")
]
Settings = Annotated[
    Optional[Path], option(METHOD, "--settings", help="File made by lvmrs calibrate, which defines the classifier.")
]
Bound = Annotated[
    Optional[str],
    option(
        METHOD,
        "--bound",
        help=f"Confidence bound: {BOUNDS.listed}, or python:MODULE:BOUND. Default: the method's own.",
    ),
]
Map = Annotated[
    Optional[str],
    option(
        METHOD,
        "--map",
        help=f"Simplex map, instead of a search: {', '.join(MAPS.having('simplex'))}, or python:MODULE:MAP.",
    ),
]
Temperature = Annotated[Optional[float], option(METHOD, "--temperature", help="Temperature, instead of a search.")]
Mass = Annotated[Optional[float], option(METHOD, "--mass", help="Mass of the simplex.")]
Form = Annotated[
    Optional[str],
    option(METHOD, "--form", help=f"Form of the radius, for method fixed: {FORMS.listed}, or python:MODULE:FORM."),
]
Width = Annotated[
    Optional[str],
    option(METHOD, "--width", help="Width of soft duels: a number, or chosen, for each input. Default: hard duels."),
]

_SIGMA = "Standard deviation of the noise, for pixels in [0, 1]."
Sigma = Annotated[float, option(SAMPLES, "--sigma", help=_SIGMA)]
SigmaIfNoisy = Annotated[
    Optional[float], option(SAMPLES, "--sigma", help=f"{_SIGMA} Required by every method that samples.")
]
Noise = Annotated[
    Optional[str],
    option(
        SAMPLES,
        "--noise",
        help=f"Kind of noise: {NOISES.listed}, exact:LEVELS, or python:MODULE:NOISE. Default: exact for data on a "
        "grid, such as 8-bit images, unless a Lipschitz constant is used.",
    ),
]
Alpha = Annotated[float, option(SAMPLES, "--alpha", help="Risk: the probability that a certificate is wrong.")]
N0 = Annotated[int, option(SAMPLES, "--n0", "--N0", help="Samples to plan on, for each input.")]
N = Annotated[int, option(SAMPLES, "--n", "--N", help="Samples to prove on, for each input.")]
Targets = Annotated[
    Optional[str],
    option(
        SAMPLES,
        "--target-radius",
        help="Sample an input until it is decided whether this radius can be certified; commas separate several radii.",
    ),
]
Tolerance = Annotated[
    Optional[float],
    option(
        SAMPLES,
        "--tolerance",
        help="Sample an input until its radius is this close to what infinitely many samples could certify.",
    ),
]
Budget = Annotated[
    Optional[int],
    option(
        SAMPLES,
        "--budget",
        help="Samples for all inputs together, allocated to increase the average radius of right answers most.",
    ),
]
Beta = Annotated[
    Optional[float],
    option(
        SAMPLES,
        "--beta",
        help="With --target-radius or --tolerance: the probability that the radius of the exact means exceeds its "
        "upper limit. Default: 0.001.",
    ),
]
Seed = Annotated[int, option(SAMPLES, "--seed", help="Seed of the noise.")]

Device = Annotated[str, option(EXECUTION, "--device", help="auto, cpu, cuda, cuda:1, …")]
Batch = Annotated[Optional[int], option(EXECUTION, "--batch", help="Samples in a batch. Default: found by trials.")]
Fast = Annotated[
    bool,
    option(
        EXECUTION, "--fast/--no-fast", help="Run a faster version of the model, where that is shown to be equivalent."
    ),
]
Autocast = Annotated[Optional[str], option(EXECUTION, "--autocast", help="Run the model in bfloat16 or float16.")]
Compile = Annotated[
    Optional[bool],
    option(
        EXECUTION, "--compile/--no-compile", help="Run the model through torch.compile. Default: if the run is long."
    ),
]
RayAddress = Annotated[
    Optional[str],
    option(
        EXECUTION,
        "--ray",
        metavar="[ADDRESS]",
        help="Compute on the Ray cluster at this address. Default address: the cluster of this machine, or a new one.",
    ),
]
WorkerCount = Annotated[
    Optional[int],
    option(EXECUTION, "--workers", help="Number of workers, on the Ray cluster or as processes of this machine."),
]
CpusPerWorker = Annotated[Optional[int], option(EXECUTION, "--cpus-per-worker", help="With --ray: cores of a worker.")]
GpusPerWorker = Annotated[
    Optional[float],
    option(EXECUTION, "--gpus-per-worker", help="With --ray: GPUs of a worker. Default: 1 if the model runs on a GPU."),
]

Out = Annotated[Path, option(OUTPUT, "--out", help="Directory of the new run.")]
RADII = "0:1.5:0.25"
Radii = Annotated[str, option(OUTPUT, "--radii", help="FIRST:LAST:STEP, or radii separated by commas.")]
Format = Annotated[str, option(OUTPUT, "--format", help=f"Format of the table: {', '.join(FORMATS)}.")]
Confidence = Annotated[
    float, option(OUTPUT, "--confidence", help="Confidence level of the intervals for the finite test set.")
]
Json = Annotated[bool, option(OUTPUT, "--json", help="Print JSON, for programs.")]

# Parts of a run that exists: its manifest names them, but options must name those that moved or that could run code.
_MOVED = "of RUN, if it moved or could run code, such as python:…"
_OWN = "of RUN, if it is your own code: python:MODULE:"
ModelOfRun = Annotated[Optional[str], option(MODEL, "--model", help=f"Model {_MOVED}")]
WeightsOfRun = Annotated[
    Optional[Path], option(MODEL, "--weights", help="File of weights that was loaded into the model of RUN.")
]
DenoiserOfRun = Annotated[Optional[str], option(MODEL, "--denoiser", help=f"Denoiser {_MOVED}")]
DataOfRun = Annotated[Optional[str], option(INPUTS, "--data", help=f"Data {_MOVED}")]
ClassIndexOfRun = Annotated[
    Optional[Path], option(INPUTS, "--class-index", help="Class index file of RUN, with --data.")
]
MethodOfRun = Annotated[Optional[str], option(METHOD, "--method", help=f"Method {_OWN}PLANNER.")]
MapOfRun = Annotated[Optional[str], option(METHOD, "--map", help=f"Map {_OWN}MAP.")]
BoundOfRun = Annotated[Optional[str], option(METHOD, "--bound", help=f"Bound {_OWN}BOUND.")]
FormOfRun = Annotated[Optional[str], option(METHOD, "--form", help=f"Form of the radius {_OWN}FORM.")]
NoiseOfRun = Annotated[Optional[str], option(SAMPLES, "--noise", help=f"Noise {_OWN}NOISE.")]
DeviceOfRun = Annotated[
    Optional[str], option(EXECUTION, "--device", help="auto, cpu, cuda, cuda:1, … Default: the kind of device of RUN.")
]


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
            inspect.Parameter(
                field.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=defaults.get(
                    field.name,
                    inspect.Parameter.empty if field.default is dataclasses.MISSING else field.default,
                ),
                annotation=hints[field.name],
            )
            for field in dataclasses.fields(cls)
            if field.name != "typed"
        ]


def grouped(**defaults: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Replace each parameter of a command that is a ``Group`` by the options of that group.

    Args:
        defaults: default values of this command, where they are not those of the group.
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
                parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hint))

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


def numbers(name: str, text: str | None) -> list[float] | None:
    """Parse numbers separated by commas; None stays None."""
    if text is None:
        return None
    try:
        return [_number(part) for part in text.split(",")]
    except ValueError:
        raise InvalidArgumentError(f"{name} must be numbers with commas between them, got {text!r:.80}") from None


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
    try:
        return _number(str(word))
    except ValueError:
        raise InvalidArgumentError(f"width must be a number or chosen, got {word!r}") from None


def choice(name: str, word: str, known: Sequence[str]) -> str:
    """Return the word; raises if it is not one of those known."""
    if word not in known:
        raise InvalidArgumentError(f"{name} must be one of {', '.join(known)}, got {word!r}")
    return word
