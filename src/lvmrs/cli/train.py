"""``lvmrs train``: a base classifier or a denoiser, into a file that ``--model trained:FILE`` takes."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from lvmrs._util.text import printable
from lvmrs.cli import options
from lvmrs.cli.chosen_objective import chosen_objective
from lvmrs.cli.console import command_line, output, tell
from lvmrs.cli.parsing import numbers
from lvmrs.cli.progress import duration, stepping
from lvmrs.cli.stoppable import stoppable
from lvmrs.errors import RunError
from lvmrs.kernel.radius import percent
from lvmrs.registry import OBJECTIVES

if TYPE_CHECKING:
    from lvmrs.training import Epoch, Prepared, Trained, TrainingJob

__all__ = ["train"]


def train(
    model: Annotated[
        str, typer.Option("--model", help="ready:NAME, python:MODULE:FUNCTION, or trained:FILE to go on from there.")
    ],
    data: options.Data,
    sigma: options.Sigma,
    out: Annotated[Path, typer.Option("--out", help="File of weights that is made, NAME.safetensors.")],
    objective: Annotated[
        str,
        typer.Option("--objective", help=f"What to train for: {OBJECTIVES.listed}, or python:MODULE:CLASS."),
    ] = "gaussian",
    weights: Annotated[Optional[Path], typer.Option("--weights", help="Weights to begin with.")] = None,
    mean: options.Mean = None,
    std: options.Std = None,
    split: Annotated[str, typer.Option("--split", help="The split of the data to train on.")] = "train",
    test_split: Annotated[
        str, typer.Option("--test-split", help="The split to measure on at the end, or none.")
    ] = "test",
    image_size: options.ImageSize = None,
    class_index: options.ClassIndex = None,
    epochs: Annotated[int, typer.Option("--epochs", help="How often to go through the data.")] = 20,
    batch: Annotated[int, typer.Option("--batch", help="Inputs in a step.")] = 128,
    lr: Annotated[float, typer.Option("--lr", help="The largest learning rate.")] = 0.005,
    optimizer: Annotated[str, typer.Option("--optimizer", help="adam or sgd (with momentum 0.9).")] = "adam",
    weight_decay: Annotated[float, typer.Option("--weight-decay", help="Decay of weights, not of biases.")] = 0.0,
    schedule: Annotated[str, typer.Option("--schedule", help="Learning rate: one-cycle or cosine.")] = "one-cycle",
    augment: Annotated[
        str, typer.Option("--augment", help="none, shift (by up to an eighth of the side), or shift-mirror.")
    ] = "none",
    epsilon: Annotated[
        Optional[float], typer.Option("--epsilon", help="smoothadv: how far the attack moves an input, else 0.5.")
    ] = None,
    steps: Annotated[Optional[int], typer.Option("--steps", help="smoothadv: steps of the attack, else 2.")] = None,
    samples: Annotated[
        Optional[int], typer.Option("--samples", help="smoothadv: noisy copies of an input, else 2.")
    ] = None,
    margin: Annotated[
        Optional[float],
        typer.Option("--margin", help="margin: the distance by which the right class should win, else 1."),
    ] = None,
    autocast: options.Autocast = None,
    seed: Annotated[int, typer.Option("--seed", help="Seed of weights, order and noise.")] = 0,
    workers: Annotated[int, typer.Option("--workers", help="Processes that read the data.")] = 0,
    device: options.Device = "auto",
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from OUT.checkpoint, made with the same settings.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Train a classifier to be right under noise, or a denoiser: OUT is a file for --model trained:OUT.

    After each epoch OUT.checkpoint is replaced: a training that was stopped goes on with --resume, and ends as it would
    have ended.

    \b
    Examples:
      lvmrs train --model ready:small_cnn --data digits --sigma 0.5 --epochs 40 --out digits.safetensors
      lvmrs train --model ready:fast_cnn --data cifar10:c.npz --sigma 0.5 --augment shift-mirror --out c.safetensors
      lvmrs train --model ready:sandwich_small,gamma=5 --data digits --sigma 0.4 --objective margin --out s.safetensors
      lvmrs train --model ready:resnet8 --data digits --sigma 0.5 --objective smoothadv --epsilon 1 --out a.safetensors
    """
    from lvmrs.training import Settings, StoppedTrainingError, TrainingJob, run

    job = TrainingJob(
        model,
        data,
        chosen_objective(objective, sigma, epsilon=epsilon, steps=steps, samples=samples, margin=margin),
        out,
        Settings(epochs, batch, lr, optimizer, weight_decay, schedule, augment, autocast, seed),
        weights=weights,
        mean=numbers("mean", mean),
        std=numbers("std", std),
        split=split,
        test_split=None if test_split == "none" else test_split,
        image_size=image_size,
        class_index=class_index,
        device=device,
        workers=workers,
        command=command_line(),
    )
    try:
        with stoppable(lambda: _how_to_go_on(job, resume=resume)), _Watch(epochs) as watch:
            done = run(job, resume=resume, on_begin=watch.begin, on_epoch=watch.epoch, on_step=watch.step)
    except StoppedTrainingError as error:
        raise RunError(f"{error} (add --resume to resume it)") from error
    _print_end(done, as_json=as_json)


class _Watch(ExitStack):
    """Tells on stderr what is trained and how it goes."""

    def __init__(self, epochs: int) -> None:
        super().__init__()
        self.epochs = epochs

    def begin(self, prepared: Prepared) -> None:
        """Tell what model and data are taken for; from here on steps are counted."""
        data = prepared.data
        tell(f"model  {prepared.network.name}; {prepared.network.parameters:,} parameters")
        tell(f"data   {'; '.join((data.name, f'{data.split}, {len(data)} inputs', *data.assumed))}")
        self._show = self.enter_context(stepping(prepared.steps))

    def step(self, done: int) -> None:
        """Show how many steps are done."""
        self._show(done)

    def epoch(self, epoch: Epoch) -> None:
        """Tell the loss of an epoch, and how long the others will take."""
        left = (self.epochs - epoch.number) * epoch.seconds
        told = f"  about {duration(left)} left" if left else ""
        tell(f"epoch {epoch.number}/{self.epochs}  loss {epoch.loss:.4f}  {epoch.seconds:.1f} s{told}")


def _how_to_go_on(job: TrainingJob, *, resume: bool) -> tuple[str, str]:
    if job.out.exists():
        return f"stopped; {job.out} is complete, and was made by:", command_line()
    if job.checkpoint.exists():
        return "stopped; go on with:", command_line(*(() if resume else ("--resume",)))
    return "stopped before an epoch was finished; begin again with:", command_line()


def _print_end(done: Trained, *, as_json: bool) -> None:
    measured = done.measured
    if as_json:
        output(json.dumps({"weights": str(done.out), "seconds": done.seconds, **measured}))
        return
    words = [f"{done.out}: trained in {duration(done.seconds)}"]
    if measured:
        inputs = f"{measured['inputs']} {measured['split']} inputs"
        if "mean squared error" in measured:
            words.append(f"mean squared error {measured['mean squared error']:.5f} on {inputs}")
        else:
            words.append(f"right on {percent(measured['clean accuracy'])} % of {inputs}")
            if measured["sigma"]:
                words.append(f"on {percent(measured['noisy accuracy'])} % with noise")
    output(printable(", ".join(words)))
