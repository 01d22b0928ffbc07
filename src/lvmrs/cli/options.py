"""The options that several commands share: one name, one meaning, one help text."""

from pathlib import Path
from typing import Annotated, Optional

import typer

from lvmrs.analysis.tables import FORMATS
from lvmrs.registry import BOUNDS, DATA, DENOISERS, FORMS, MAPS, METHODS, MODELS, NOISES

__all__ = [
    "N0",
    "RADII",
    "Alpha",
    "Autocast",
    "Batch",
    "Beta",
    "Bound",
    "Budget",
    "ClassIndex",
    "Compile",
    "Confidence",
    "Data",
    "Denoiser",
    "Device",
    "Fast",
    "Form",
    "Format",
    "ImageSize",
    "Json",
    "Lipschitz",
    "Map",
    "Mass",
    "Max",
    "Mean",
    "Method",
    "Model",
    "N",
    "Noise",
    "Out",
    "Radii",
    "Seed",
    "Settings",
    "Sigma",
    "SigmaIfNoisy",
    "Skip",
    "Split",
    "Std",
    "Targets",
    "Temperature",
    "Tolerance",
    "Weights",
    "Width",
]  # fmt: skip

_TAKING_WEIGHTS = " or ".join(f"{name}:" for name in MODELS.having("weights"))

Model = Annotated[str, typer.Option("--model", help=f"One of {MODELS.listed}.")]
Weights = Annotated[Optional[Path], typer.Option("--weights", help=f"Weights for a {_TAKING_WEIGHTS} model.")]
Mean = Annotated[
    Optional[str], typer.Option("--mean", help="Normalise before the model: mean of each channel, as 0.49,0.48,0.45.")
]
Std = Annotated[Optional[str], typer.Option("--std", help="Normalise before the model: deviation of each channel.")]
Denoiser = Annotated[
    Optional[str],
    typer.Option("--denoiser", help=f"Put before the model: one of {DENOISERS.listed}."),
]
Data = Annotated[str, typer.Option("--data", help=f"One of {DATA.listed}.")]
Split = Annotated[str, typer.Option("--split", help="Which split of the data.")]
ImageSize = Annotated[
    Optional[int], typer.Option("--image-size", help="Scale and crop images from files to squares of so many pixels.")
]
ClassIndex = Annotated[
    Optional[Path],
    typer.Option("--class-index", help="Class numbers of the folders of imagefolder: JSON or one class in each line."),
]
_OF_NOISE = "Standard deviation of the noise, for pixels in [0, 1]"
Sigma = Annotated[float, typer.Option("--sigma", help=f"{_OF_NOISE}.")]
SigmaIfNoisy = Annotated[
    Optional[float],
    typer.Option("--sigma", help=f"{_OF_NOISE}; needed by every method that takes samples under noise."),
]
Noise = Annotated[
    Optional[str],
    typer.Option(
        "--noise",
        help=f"Kind of noise: {NOISES.listed}, exact:LEVELS, or python:MODULE:NOISE. By default exact for data on a "
        "grid, such as images of 8 bits, unless a Lipschitz constant is used.",
    ),
]
Alpha = Annotated[float, typer.Option("--alpha", help="Risk that a certificate is wrong.")]
N0 = Annotated[int, typer.Option("--n0", "--N0", help="Samples to plan on; fewer by default if sampling has a goal.")]
N = Annotated[int, typer.Option("--n", "--N", help="Samples to prove on.")]
Targets = Annotated[
    Optional[str],
    typer.Option(
        "--target-radius",
        help="Stop sampling for an input once it is decided whether this radius can be certified; several with commas.",
    ),
]
Tolerance = Annotated[
    Optional[float],
    typer.Option(
        "--tolerance",
        help="Stop sampling for an input once its radius is so close to what infinitely many samples could certify.",
    ),
]
Budget = Annotated[
    Optional[int],
    typer.Option(
        "--budget",
        help="Samples for all inputs together, spent where they gain most for the average radius of right answers.",
    ),
]
Beta = Annotated[
    Optional[float],
    typer.Option(
        "--beta",
        help="With a target radius or tolerance: the probability at most that the radius of the exact means is "
        "above the limit; 0.001 by default.",
    ),
]
Batch = Annotated[Optional[int], typer.Option("--batch", help="Samples at a time; measured if not given.")]
Skip = Annotated[int, typer.Option("--skip", help="Take one input of so many: 20 for every 20th.")]
Max = Annotated[Optional[int], typer.Option("--max", help="Stop before this index of the data set.")]
Seed = Annotated[int, typer.Option("--seed", help="Seed of the noise.")]
Method = Annotated[
    Optional[str],
    typer.Option(
        "--method",
        help=f"How to certify: {METHODS.listed}, or python:MODULE:PLANNER. By default duels, their width chosen for "
        "each input where a Lipschitz constant is known.",
    ),
]
Bound = Annotated[
    Optional[str],
    typer.Option(
        "--bound", help=f"Confidence bound, if not the method's own: {BOUNDS.listed}, or python:MODULE:BOUND."
    ),
]
Map = Annotated[
    Optional[str],
    typer.Option("--map", help=f"Simplex map alone: {', '.join(MAPS.having('simplex'))}, or python:MODULE:MAP."),
]
Form = Annotated[
    Optional[str],
    typer.Option("--form", help=f"Form of the radius, for fixed: {FORMS.listed}, or python:MODULE:FORM."),
]
Temperature = Annotated[Optional[float], typer.Option("--temperature", help="Temperature alone, instead of a search.")]
Width = Annotated[
    Optional[str],
    typer.Option("--width", help="Soft duels of this width, or chosen for each input; else duels are hard."),
]
Mass = Annotated[Optional[float], typer.Option("--mass", help="Mass of the simplex.")]
Lipschitz = Annotated[
    Optional[float],
    typer.Option(
        "--lipschitz",
        help="Lipschitz constant of the logits, for pixels in [0, 1]; else the model's own, if it has one.",
    ),
]
Settings = Annotated[
    Optional[Path], typer.Option("--settings", help="A file by lvmrs calibrate that says which classifier it is.")
]
Device = Annotated[str, typer.Option("--device", help="auto, cpu, cuda, cuda:1, …")]
Autocast = Annotated[Optional[str], typer.Option("--autocast", help="Run the model in bfloat16 or float16.")]
Compile = Annotated[
    Optional[bool],
    typer.Option(
        "--compile/--no-compile", help="Run the model through torch.compile; by default if the run is long enough."
    ),
]
Fast = Annotated[
    bool,
    typer.Option("--fast/--no-fast", help="Run a faster version of the model, where it is shown to be the same."),
]
Out = Annotated[Path, typer.Option("--out", help="Directory of the run that is made.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object, for programs.")]

RADII = "0:1.5:0.25"
Radii = Annotated[str, typer.Option("--radii", help="FIRST:LAST:STEP, or radii with commas between.")]
Format = Annotated[str, typer.Option("--format", help=f"One of {', '.join(FORMATS)}.")]
Confidence = Annotated[float, typer.Option("--confidence", help="Of the intervals for the finite test set.")]
