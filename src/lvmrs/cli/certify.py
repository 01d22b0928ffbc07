"""``lvmrs certify``: a data set into a run directory."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from lvmrs import analysis
from lvmrs._decimals import percent, rounded_down
from lvmrs.cli import options
from lvmrs.cli.console import INCOMPLETE, command_line, tell
from lvmrs.cli.parsing import shard
from lvmrs.cli.progress import duration, watching
from lvmrs.errors import DataError, InvalidArgumentError, RunError
from lvmrs.runs import Manifest, Run, RunWriter, Selection

if TYPE_CHECKING:
    from lvmrs.data import Dataset
    from lvmrs.smooth import SmoothedClassifier

__all__ = ["certify", "summary"]


def certify(
    model: options.Model,
    data: options.Data,
    sigma: options.Sigma,
    out: options.Out,
    weights: options.Weights = None,
    mean: options.Mean = None,
    std: options.Std = None,
    denoiser: options.Denoiser = None,
    split: options.Split = "test",
    image_size: options.ImageSize = None,
    method: options.Method = None,
    bound: options.Bound = None,
    map: options.Map = None,  # noqa: A002
    temperature: options.Temperature = None,
    mass: options.Mass = None,
    width: options.Width = None,
    lipschitz: Annotated[
        Optional[float],
        typer.Option(
            "--lipschitz",
            help="Lipschitz constant of the logits, for pixels in [0, 1]; else the model's own, if it has one.",
        ),
    ] = None,
    alpha: options.Alpha = 0.001,
    n0: options.N0 = 1_000,
    n: options.N = 100_000,
    batch: options.Batch = None,
    skip: options.Skip = 1,
    max: options.Max = None,  # noqa: A002
    seed: options.Seed = 0,
    shard_: Annotated[
        Optional[str], typer.Option("--shard", help="Do only this share, such as 2/8; merge them with lvmrs merge.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the run in --out, made with the same settings.")
    ] = False,
    keep_scores: Annotated[
        bool, typer.Option("--keep-scores", help="Keep all scores, so that lvmrs recertify can use them.")
    ] = False,
    device: options.Device = "auto",
    autocast: options.Autocast = None,
    compile: options.Compile = False,  # noqa: A002
    as_json: options.Json = False,
) -> None:
    """Certify the inputs of a data set: one row each in OUT/certificates.tsv.

    A run that was stopped, killed or unplugged loses the row in hand at most: the same command with --resume goes on.

    \b
    Examples:
      lvmrs certify --model python:nets:resnet --weights w.safetensors --data cifar10:c.npz --sigma 0.5 --out runs/a
      lvmrs certify --model hf:microsoft/resnet-50 --data imagefolder:val --image-size 224 --sigma 0.25 --out runs/b
      lvmrs certify --model onnx:net.onnx --data npz:test.npz --sigma 0.5 --method cohen --skip 20 --out runs/c
    """
    from lvmrs import provenance, work  # torch takes seconds to import: only those who use it wait
    from lvmrs.cli.chosen_method import chosen_method
    from lvmrs.cli.loading import Request, check_selection
    from lvmrs.data import checked_input

    chosen = chosen_method(method, bound=bound, map=map, temperature=temperature, mass=mass, width=width)
    number, count = shard(shard_)
    out = out.expanduser()
    batch = _batch(out, batch, resume=resume)
    if keep_scores and chosen is not None and not chosen.samples:
        raise InvalidArgumentError(f"keep-scores: the method {method} samples nothing; leave it out")
    request = Request(
        model, weights, mean, std, denoiser, data, split, image_size, sigma, device, autocast, compile, lipschitz
    )  # fmt: skip
    loaded, dataset, smoothed = request.load(batch)
    planner = smoothed.default_method if chosen is None else chosen
    selection = Selection(len(dataset), skip, max, number, count)
    check_selection(dataset, selection)
    first, _ = checked_input(dataset, selection.indices[0])
    settings = provenance.settings_of(loaded, dataset, smoothed, planner, alpha=alpha, n0=n0, n=n, seed=seed)
    about = provenance.about(
        command_line(), **provenance.about_data(dataset), **provenance.about_method(planner, sigma)
    )
    manifest = Manifest(settings, selection, smoothed.batch_for(first), keep_scores, about)
    with RunWriter.begin(out, manifest, resume=resume) as writer:
        waiting, each = len(writer.pending), n0 + n if planner.samples else 1
        if waiting:
            classes = _tell_cost(smoothed, dataset, writer.pending[0], waiting, each)
            largest = dataset.largest_label()
            if largest is not None and largest >= classes:
                raise DataError(f"{dataset.name} has label {largest}, but the model knows {classes} classes")
            if keep_scores:
                size = len(selection.indices) * each * classes * 4
                tell(f"scores {size / 1e9:.3g} GB on disk, for all inputs")
        try:
            with watching(waiting, each) as show:
                work.certify(writer, smoothed, dataset, planner, show)
        except KeyboardInterrupt:
            again = command_line(*(() if resume else ("--resume",)))
            done = len(selection.indices) - len(writer.pending)
            tell(f"stopped after {done} of {len(selection.indices)} inputs; go on with:\n{again}")
            raise typer.Exit(INCOMPLETE) from None
    summary(writer.run, as_json=as_json)


def _batch(out: Path, batch: int | None, *, resume: bool) -> int | None:
    """A resumed run keeps the size it began with: the last digits of a network may depend on it."""
    if not (out / "manifest.json").exists():
        return batch
    if not resume:  # said before anything is loaded
        raise RunError(f"{out} holds a run already; add --resume to go on with it, or choose another --out")
    kept = Run(out).manifest.batch
    if batch is not None and batch != kept:
        raise RunError(f"{out} was begun with --batch {kept}, and is not resumed with {batch}; leave --batch out")
    return kept


def _tell_cost(smoothed: SmoothedClassifier, dataset: Dataset, index: int, inputs: int, each: int) -> int:
    """Inputs × samples at the rate of a first look, which costs half a second or one batch; the number of classes."""
    x, _ = dataset[index]
    size, done, start = smoothed.batch_for(x), 0, time.perf_counter()
    while not done or time.perf_counter() - start < 0.5:
        for logits in smoothed.scores(x, size, stage="prediction").logits():
            done += len(logits)
    rate = done / (time.perf_counter() - start)
    total = inputs * each
    tell(f"cost   {inputs} inputs × {each} samples at {rate:,.0f} samples/s: about {duration(total / rate)}")
    return logits.shape[1]


def summary(run: Run, *, as_json: bool) -> None:
    """The result in one line; and where it is."""
    results = analysis.results_of(run)
    average = analysis.average_certified_radius(results).value
    (accuracy,) = analysis.certified_accuracy(results, [0.0])
    if as_json:
        shown = {
            "run": str(run.directory),
            "inputs": len(results),
            "missing": results.missing,
            "certified accuracy": accuracy,
            "average certified radius": average,
        }
        print(json.dumps(shown))
    else:
        print(
            f"{run.directory}: {len(results)} inputs, certified accuracy {percent(accuracy)} %, "
            f"average certified radius {rounded_down(average)}"
        )
    if results.missing:
        raise typer.Exit(INCOMPLETE)
