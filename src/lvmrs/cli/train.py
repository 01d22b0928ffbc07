"""``lvmrs train``: train a base classifier or a denoiser into a file for ``--model trained:FILE``."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from lvmrs._util.settings import parse_name
from lvmrs._util.text import percent, printable
from lvmrs._util.user_code import called
from lvmrs.cli import options
from lvmrs.cli.console import command_line, output, stoppable, tell
from lvmrs.cli.options import EXECUTION, INPUTS, METHOD, MODEL, OUTPUT, SAMPLES, numbers, option
from lvmrs.cli.progress import displaying, duration
from lvmrs.cli.setup import OWN, own_code, whole_class
from lvmrs.errors import DataError, InvalidArgumentError, ModelError, RunError
from lvmrs.registry import DATA, MODELS, OBJECTIVES

if TYPE_CHECKING:
    from lvmrs.training import Epoch, Objective, Prepared, Trained, TrainingJob

_MEASURED = ("clean accuracy", "noisy accuracy", "mean squared error")


def _check_objective(word: str) -> None:
    if not word.startswith(OWN):
        OBJECTIVES.check(word)


def train(
    model: Annotated[str, option(MODEL, "ready:NAME, python:MODULE:FUNCTION, or trained:FILE to train it further.")],
    data: options.Data,
    sigma: options.Sigma,
    out: Annotated[Path, option(OUTPUT, "New file of weights, NAME.safetensors.")],
    objective: Annotated[
        str,
        option(METHOD, f"Training objective: {OBJECTIVES.listed}, or python:MODULE:CLASS.", check=_check_objective),
    ] = "gaussian",
    weights: Annotated[Path | None, option(MODEL, "File of initial weights.")] = None,
    mean: options.Mean = None,
    std: options.Std = None,
    split: Annotated[str, option(INPUTS, "Split of the data to train on.", check=options.check_split)] = "train",
    test_split: Annotated[
        str, option(INPUTS, "Split to measure on at the end, or none.", check=options.check_split)
    ] = "test",
    image_size: options.ImageSize = None,
    class_index: options.ClassIndex = None,
    epsilon: Annotated[
        float | None, option(METHOD, "For smoothadv: largest distance of the attack. Default: 0.5.")
    ] = None,
    steps: Annotated[
        int | None, option(METHOD, "For smoothadv, smoothmix: steps of the attack. Default: 2, 4.")
    ] = None,
    step_size: Annotated[float | None, option(METHOD, "For smoothmix: length of a step. Default: 2 sigma.")] = None,
    mix_step: Annotated[
        int | None, option(METHOD, "For smoothmix: steps after which adversarial inputs replace inputs. Default: 0.")
    ] = None,
    samples: Annotated[
        int | None,
        option(METHOD, "For smoothadv, consistency, smoothmix, macer: noisy copies of an input. Default: 2, 2, 2, 16."),
    ] = None,
    lbd: Annotated[
        float | None,
        option(METHOD, "For consistency, macer: weight of the divergence, of the penalty. Default: by sigma."),
    ] = None,
    eta: Annotated[
        float | None,
        option(METHOD, "For consistency, smoothmix: weight of the entropy, of the mixtures. Default: 0.5, 5."),
    ] = None,
    beta: Annotated[float | None, option(METHOD, "For macer: inverse temperature of the softmax. Default: 16.")] = None,
    gamma: Annotated[
        float | None, option(METHOD, "For macer: difference of quantiles without a penalty. Default: 8.")
    ] = None,
    margin: Annotated[
        float | None, option(METHOD, "For margin: distance by which the right class should win. Default: 1.")
    ] = None,
    epochs: Annotated[int, option(METHOD, "Passes over the data.", check=options.at_least("epochs", 1))] = 20,
    batch: Annotated[int, option(METHOD, "Inputs in a step.", check=options.at_least("batch", 1))] = 128,
    lr: Annotated[float, option(METHOD, "Largest learning rate.", check=options.positive("lr"))] = 0.005,
    optimizer: Annotated[
        str, option(METHOD, "adam, or sgd with momentum 0.9.", check=options.among("optimizer", "adam", "sgd"))
    ] = "adam",
    weight_decay: Annotated[float, option(METHOD, "Decay of weights, not of biases.")] = 0.0,
    schedule: Annotated[
        str,
        option(
            METHOD,
            "Schedule of the learning rate: one-cycle or cosine.",
            check=options.among("schedule", "one-cycle", "cosine"),
        ),
    ] = "one-cycle",
    augment: Annotated[
        str,
        option(
            METHOD,
            "none, shift (by up to an eighth of the side), or shift-mirror.",
            check=options.among("augment", "none", "shift", "shift-mirror"),
        ),
    ] = "none",
    seed: Annotated[int, option(SAMPLES, "Seed of weights, order and noise.")] = 0,
    device: options.Device = "auto",
    autocast: options.Autocast = None,
    workers: Annotated[
        int, option(EXECUTION, "Processes that read the data.", check=options.at_least("workers", 0))
    ] = 0,
    resume: Annotated[
        bool, option(OUTPUT, "Continue from OUT.checkpoint, if it exists; it must have the same settings.", "--resume")
    ] = False,
    tracker: options.Tracker = None,
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
    options.check_tracker(tracker)
    options.check_both(mean, std)
    parse_name(MODELS, model, Path.cwd(), error=ModelError)
    parse_name(DATA, data, Path.cwd(), error=DataError)
    from lvmrs.training import Settings, StoppedTrainingError, TrainingJob, run

    job = TrainingJob(
        model,
        data,
        _chosen_objective(
            objective,
            sigma,
            epsilon=epsilon,
            steps=steps,
            step_size=step_size,
            mix_step=mix_step,
            samples=samples,
            lbd=lbd,
            eta=eta,
            beta=beta,
            gamma=gamma,
            margin=margin,
        ),
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
        with (
            stoppable(lambda: _how_to_continue(job, resume=resume)),
            displaying("steps") as display,
            ExitStack() as held,
        ):
            log = _log(held, tracker, job)

            def begin(prepared: Prepared) -> None:
                _tell_begin(prepared)
                display.begin(prepared.steps)

            def on_epoch(epoch: Epoch) -> None:
                _tell_epoch(epoch, epochs)
                log(epoch.number, {"loss": epoch.loss, "seconds": epoch.seconds})

            done = run(job, resume=resume, on_begin=begin, on_epoch=on_epoch, on_step=display.show)
            log(epochs, {name.replace(" ", "_"): done.measured[name] for name in _MEASURED if name in done.measured})
    except StoppedTrainingError as error:
        raise RunError(f"{error} (add --resume to resume it)") from error
    _print_end(done, as_json=as_json)


def _log(held: ExitStack, tracker: str | None, job: TrainingJob) -> Callable[[int, dict[str, float]], None]:
    """What takes the values of each epoch: a tracker, which is open until ``held`` closes, or nothing."""
    if tracker is None:
        return lambda step, values: None
    from lvmrs.runs.trackers import opened

    recorded = {"out": str(job.out), "model": job.model, "data": job.data, "objective": str(job.objective)}
    return held.enter_context(opened(tracker, {**recorded, **asdict(job.settings)})).log


def _chosen_objective(name: str, sigma: float, **settings: float | None) -> Objective:
    """Make the training objective of this name; settings that are None keep their defaults."""
    from lvmrs import training

    if not name.startswith(OWN):
        return training.objective(name, sigma, **settings)
    chosen = whole_class(name, own_code(name), training.Objective, "Objective", "lvmrs.training.objectives.base")
    made: Objective = called(name, partial(training.objective, chosen, sigma, **settings), error=InvalidArgumentError)
    return made


def _tell_begin(prepared: Prepared) -> None:
    data = prepared.data
    tell(f"model  {prepared.network.name}; {prepared.network.parameters:,} parameters")
    tell(f"data   {'; '.join((data.name, f'{data.split}, {len(data)} inputs', *data.assumed))}")


def _tell_epoch(epoch: Epoch, epochs: int) -> None:
    left = (epochs - epoch.number) * epoch.seconds
    told = f"  about {duration(left)} left" if left else ""
    tell(f"epoch {epoch.number}/{epochs}  loss {epoch.loss:.4f}  {epoch.seconds:.1f} s{told}")


def _how_to_continue(job: TrainingJob, *, resume: bool) -> tuple[str, str]:
    if job.out.exists():
        return f"stopped; {job.out} is complete, and was made by:", command_line()
    if job.checkpoint.exists():
        return "stopped; continue with:", command_line(*(() if resume else ("--resume",)))
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
