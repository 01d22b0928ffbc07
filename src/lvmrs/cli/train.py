"""``lvmrs train``: train a base classifier or a denoiser into a file for ``--model trained:FILE``."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

from lvmrs._util.text import printable
from lvmrs.cli import options
from lvmrs.cli.console import command_line, output, stoppable, tell
from lvmrs.cli.options import EXECUTION, INPUTS, METHOD, MODEL, OUTPUT, SAMPLES, numbers, option
from lvmrs.cli.progress import duration, stepping
from lvmrs.cli.setup import chosen_objective
from lvmrs.errors import RunError
from lvmrs.kernel.radius import percent
from lvmrs.registry import OBJECTIVES

if TYPE_CHECKING:
    from lvmrs.training import Epoch, Prepared, Trained, TrainingJob

__all__ = ["train"]


def train(
    model: Annotated[
        str,
        option(MODEL, "--model", help="ready:NAME, python:MODULE:FUNCTION, or trained:FILE to train it further."),
    ],
    data: options.Data,
    sigma: options.Sigma,
    out: Annotated[Path, option(OUTPUT, "--out", help="New file of weights, NAME.safetensors.")],
    objective: Annotated[
        str, option(METHOD, "--objective", help=f"Training objective: {OBJECTIVES.listed}, or python:MODULE:CLASS.")
    ] = "gaussian",
    weights: Annotated[Optional[Path], option(MODEL, "--weights", help="File of initial weights.")] = None,
    mean: options.Mean = None,
    std: options.Std = None,
    split: Annotated[str, option(INPUTS, "--split", help="Split of the data to train on.")] = "train",
    test_split: Annotated[
        str, option(INPUTS, "--test-split", help="Split to measure on at the end, or none.")
    ] = "test",
    image_size: options.ImageSize = None,
    class_index: options.ClassIndex = None,
    epsilon: Annotated[
        Optional[float],
        option(METHOD, "--epsilon", help="For smoothadv: largest distance of the attack. Default: 0.5."),
    ] = None,
    steps: Annotated[
        Optional[int], option(METHOD, "--steps", help="For smoothadv: steps of the attack. Default: 2.")
    ] = None,
    samples: Annotated[
        Optional[int], option(METHOD, "--samples", help="For smoothadv: noisy copies of an input. Default: 2.")
    ] = None,
    margin: Annotated[
        Optional[float],
        option(METHOD, "--margin", help="For margin: distance by which the right class should win. Default: 1."),
    ] = None,
    epochs: Annotated[int, option(METHOD, "--epochs", help="Passes over the data.")] = 20,
    batch: Annotated[int, option(METHOD, "--batch", help="Inputs in a step.")] = 128,
    lr: Annotated[float, option(METHOD, "--lr", help="Largest learning rate.")] = 0.005,
    optimizer: Annotated[str, option(METHOD, "--optimizer", help="adam, or sgd with momentum 0.9.")] = "adam",
    weight_decay: Annotated[float, option(METHOD, "--weight-decay", help="Decay of weights, not of biases.")] = 0.0,
    schedule: Annotated[
        str, option(METHOD, "--schedule", help="Schedule of the learning rate: one-cycle or cosine.")
    ] = "one-cycle",
    augment: Annotated[
        str, option(METHOD, "--augment", help="none, shift (by up to an eighth of the side), or shift-mirror.")
    ] = "none",
    seed: Annotated[int, option(SAMPLES, "--seed", help="Seed of weights, order and noise.")] = 0,
    device: options.Device = "auto",
    autocast: options.Autocast = None,
    workers: Annotated[int, option(EXECUTION, "--workers", help="Processes that read the data.")] = 0,
    resume: Annotated[
        bool, option(OUTPUT, "--resume", help="Continue from OUT.checkpoint, which must have the same settings.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Train a classifier for inputs with noise, or a denoiser, into a file for --model trained:OUT.

    After each epoch OUT.checkpoint is replaced. A training that was stopped continues with --resume, and ends with the
    weights that it would have had without the stop.

    \b
    Examples:
      lvmrs train --model ready:small_cnn --data digits --sigma 0.5 --epochs 40 \\
          --out digits.safetensors
      lvmrs train --model ready:fast_cnn --data cifar10:c.npz --sigma 0.5 \\
          --augment shift-mirror --out c.safetensors
      lvmrs train --model ready:sandwich_small,gamma=5 --data digits --sigma 0.4 \\
          --objective margin --out s.safetensors
      lvmrs train --model ready:resnet8 --data digits --sigma 0.5 \\
          --objective smoothadv --epsilon 1 --out a.safetensors
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
        with stoppable(lambda: _how_to_continue(job, resume=resume)), _Watch(epochs) as watch:
            done = run(job, resume=resume, on_begin=watch.begin, on_epoch=watch.epoch, on_step=watch.step)
    except StoppedTrainingError as error:
        raise RunError(f"{error} (add --resume to resume it)") from error
    _print_end(done, as_json=as_json)


class _Watch(ExitStack):
    """Prints model, data and progress of a training to stderr."""

    def __init__(self, epochs: int) -> None:
        super().__init__()
        self.epochs = epochs

    def begin(self, prepared: Prepared) -> None:
        """Print model and data, and start to count steps."""
        data = prepared.data
        tell(f"model  {prepared.network.name}; {prepared.network.parameters:,} parameters")
        tell(f"data   {'; '.join((data.name, f'{data.split}, {len(data)} inputs', *data.assumed))}")
        self._show = self.enter_context(stepping(prepared.steps))

    def step(self, done: int) -> None:
        """Show the number of steps done."""
        self._show(done)

    def epoch(self, epoch: Epoch) -> None:
        """Print the loss of an epoch, and the time left."""
        left = (self.epochs - epoch.number) * epoch.seconds
        told = f"  about {duration(left)} left" if left else ""
        tell(f"epoch {epoch.number}/{self.epochs}  loss {epoch.loss:.4f}  {epoch.seconds:.1f} s{told}")


def _how_to_continue(job: TrainingJob, *, resume: bool) -> tuple[str, str]:
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
