"""``lvmrs train``: a base classifier or a denoiser, into a file that ``--model trained:FILE`` takes."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from lvmrs._decimals import percent
from lvmrs.cli import options
from lvmrs.cli.console import INCOMPLETE, command_line, tell
from lvmrs.cli.parsing import numbers
from lvmrs.cli.progress import duration, stepping
from lvmrs.errors import DataError, InvalidArgumentError, RunError

if TYPE_CHECKING:
    from torch import nn

    from lvmrs.data import Dataset
    from lvmrs.models import Loaded
    from lvmrs.training import Epoch, Objective

__all__ = ["train"]


def train(
    model: Annotated[
        str, typer.Option("--model", help="ready:NAME, python:MODULE:FUNCTION, or trained:FILE to go on from there.")
    ],
    data: options.Data,
    sigma: options.Sigma,
    out: Annotated[Path, typer.Option("--out", help="File of weights that is made, NAME.safetensors.")],
    objective: Annotated[
        str, typer.Option("--objective", help="What to train for: gaussian, smoothadv, margin or denoise.")
    ] = "gaussian",
    weights: Annotated[Optional[Path], typer.Option("--weights", help="Weights to begin with.")] = None,
    mean: options.Mean = None,
    std: options.Std = None,
    split: Annotated[str, typer.Option("--split", help="The split of the data to train on.")] = "train",
    test_split: Annotated[
        str, typer.Option("--test-split", help="The split to measure on at the end, or none.")
    ] = "test",
    image_size: options.ImageSize = None,
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
        Optional[float], typer.Option("--margin", help="margin: how far the right class is to win by, else 1.")
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
    from torch import nn

    from lvmrs import provenance, training
    from lvmrs.data import load
    from lvmrs.models import trained

    out = out.expanduser()
    saved = out.with_name(out.name + ".checkpoint")
    _check_place(out, saved, resume=resume)
    aim = _objective(objective, sigma, {"epsilon": epsilon, "steps": steps, "samples": samples, "margin": margin})
    settings = training.Settings(
        epochs, batch, lr, optimizer, weight_decay, schedule, augment, autocast, seed
    )  # fmt: skip
    source = load(data, split=split, size=image_size)
    test = None if test_split == "none" else _test_data(data, test_split, image_size)
    fingerprint = source.fingerprint()
    if test is not None and test.fingerprint() == fingerprint:
        raise DataError(f"{data}: split {test_split!r} is what is trained on; name another --test-split, or none")
    loaded, name = _network(model, source, weights, numbers("mean", mean), numbers("std", std), seed)
    network = loaded.model
    assert isinstance(network, nn.Module)  # noqa: S101
    aim.check(network)
    for part in (source,) if test is None else (source, test):
        _check_fit(network, part, aim)
    parameters = sum(p.numel() for p in network.parameters())
    tell(f"model  {name}; {parameters:,} parameters")
    tell(f"data   {'; '.join((source.name, f'{source.split}, {len(source)} inputs', *source.assumed))}")
    _make_folder(out)
    origin = {
        "model": name,
        "assumed": "; ".join(loaded.assumed),
        "first weights": loaded.fingerprint,
        "code": str(loaded.code),
        "data": fingerprint,
    }
    try:
        with stepping(epochs * max(1, len(source) // batch)) as step:
            history = training.train(
                network,
                source,
                aim,
                settings,
                saved=saved,
                resume=resume,
                origin=origin,
                device=device,
                workers=workers,
                on_epoch=_tell_epoch(epochs),
                on_step=step,
            )
    except KeyboardInterrupt:
        if saved.exists():
            tell(f"stopped; go on with:\n{command_line(*(() if resume else ('--resume',)))}")
        else:
            tell(f"stopped before an epoch was finished; begin again with:\n{command_line()}")
        raise typer.Exit(INCOMPLETE) from None
    measured = {} if test is None else _measured(network, test, aim, seed)
    seconds = sum(epoch.seconds for epoch in history)
    about = {
        **provenance.about(command_line()),
        "objective": repr(aim),
        "settings": vars(settings),
        "data": {"name": source.name, "split": source.split, "fingerprint": fingerprint},
        "losses": [epoch.loss for epoch in history],
        "seconds": seconds,
        "measured": measured,
    }
    trained.save(out, network, name, about)
    saved.unlink(missing_ok=True)
    _tell_end(out, seconds, measured, as_json=as_json)


def _check_place(out: Path, saved: Path, *, resume: bool) -> None:
    if out.suffix != ".safetensors":
        raise InvalidArgumentError(f"out must end in .safetensors, got {out}")
    if out.exists():
        raise RunError(f"{out} exists already; choose another --out")
    if saved.exists() and not resume:
        raise RunError(f"{saved} is a training that was stopped; add --resume to go on, or delete it to begin anew")


def _test_data(name: str, split: str, size: int | None) -> Dataset:
    from lvmrs.data import load

    try:
        return load(name, split=split, size=size)
    except DataError as error:
        raise DataError(f"{error}; to measure on nothing, add --test-split none") from error


def _make_folder(out: Path) -> None:
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"{out}: its folder cannot be made: {error.strerror}") from error


def _objective(name: str, sigma: float, options: dict[str, float | int | None]) -> Objective:
    from lvmrs import training

    kinds: dict[str, type[Objective]] = {
        "gaussian": training.Gaussian,
        "smoothadv": training.SmoothAdv,
        "margin": training.Margin,
        "denoise": training.Denoising,
    }
    if name not in kinds:
        raise InvalidArgumentError(f"objective must be one of {', '.join(kinds)}, got {name!r}")
    given = {key: value for key, value in options.items() if value is not None}
    known = {field.name for field in dataclasses.fields(kinds[name])}  # type: ignore[arg-type]
    if foreign := sorted(set(given) - known):
        raise InvalidArgumentError(f"{foreign[0]} is not a setting of --objective {name}; leave it out")
    return kinds[name](sigma, **given)  # type: ignore[call-arg]


def _network(
    name: str, data: Dataset, weights: Path | None, mean: list[float] | None, std: list[float] | None, seed: int
) -> tuple[Loaded, str]:
    """The model and its whole name, with what the data say filled in."""
    import torch
    from torch import nn

    from lvmrs import models
    from lvmrs.data import checked_input
    from lvmrs.models import ready
    from lvmrs.models.trained import training_record

    kind, _, rest = name.partition(":")
    if kind == "trained" and rest.endswith(".safetensors") and Path(rest).expanduser().is_file() and weights is None:
        weights = Path(rest).expanduser()
        name = training_record(weights)["network"]  # goes on from there, under its own name
        kind, _, rest = name.partition(":")
    if kind not in ("ready", "python"):
        raise InvalidArgumentError(
            f"model: {name} cannot be trained; give ready:NAME, python:MODULE:FUNCTION or trained:FILE"
        )
    if kind == "ready":
        x, _ = checked_input(data, 0)
        largest = data.largest_label()
        known = len(data.classes) if data.classes else None if largest is None else largest + 1
        facts = {"channels": x.shape[0], "side": x.shape[-1], **({} if known is None else {"classes": known})}
        name = f"ready:{ready.fitted(rest, facts)}"
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        loaded = models.load(name, weights=weights, mean=mean, std=std)
    if not isinstance(loaded.model, nn.Module) or not any(p.requires_grad for p in loaded.model.parameters()):
        raise InvalidArgumentError(f"model: {name} has no parameters to train; give a ready: or python: module")
    return loaded, name


def _check_fit(network: nn.Module, data: Dataset, aim: Objective) -> None:
    """One forward pass, before hours of them."""
    import torch

    from lvmrs.errors import LvmrsError, ModelError, first_line

    x, _ = data.many([0])
    network.eval()
    try:
        with torch.no_grad():
            answer = network(x)
    except LvmrsError:
        raise
    except Exception as error:  # whatever a user's module raises
        shape = tuple(x.shape[1:])
        raise ModelError(f"the model fails on {data.split} inputs of shape {shape}: {first_line(error)}") from error
    if not isinstance(answer, torch.Tensor):
        raise ModelError(f"the model answers with {type(answer).__name__}; expected a tensor")
    if not aim.classifies:
        if answer.shape != x.shape:
            raise ModelError(f"the model answers {tuple(answer.shape[1:])} to {tuple(x.shape[1:])}: not a denoiser")
        return
    if answer.shape == x.shape:
        raise ModelError("the model answers with images: it is a denoiser; add --objective denoise")
    largest = data.largest_label()
    if answer.dim() != 2 or (largest is not None and largest >= answer.shape[1]):
        raise DataError(
            f"{data.name}, {data.split}, has label {largest}, but the model answers with shape {tuple(answer.shape)}"
        )


def _tell_epoch(epochs: int) -> Any:
    def show(epoch: Epoch) -> None:
        left = (epochs - epoch.number) * epoch.seconds
        told = f"  about {duration(left)} left" if left else ""
        tell(f"epoch {epoch.number}/{epochs}  loss {epoch.loss:.4f}  {epoch.seconds:.1f} s{told}")

    return show


def _measured(network: nn.Module, test: Dataset, aim: Objective, seed: int) -> dict[str, Any]:
    from lvmrs import training

    told: dict[str, Any] = {"split": test.split, "inputs": len(test), "sigma": aim.sigma}
    if aim.classifies:
        told["clean accuracy"] = training.accuracy(network, test, seed=seed)
        told["noisy accuracy"] = training.accuracy(network, test, aim.sigma, seed=seed)
    else:
        told["mean squared error"] = training.mean_squared_error(network, test, aim.sigma, seed=seed)
    return told


def _tell_end(out: Path, seconds: float, measured: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"weights": str(out), "seconds": seconds, **measured}))
        return
    words = [f"{out}: trained in {duration(seconds)}"]
    if measured:
        inputs = f"{measured['inputs']} {measured['split']} inputs"
        if "mean squared error" in measured:
            words.append(f"mean squared error {measured['mean squared error']:.5f} on {inputs}")
        else:
            words.append(f"right on {percent(measured['clean accuracy'])} % of {inputs}")
            if measured["sigma"]:
                words.append(f"on {percent(measured['noisy accuracy'])} % with noise")
    print(", ".join(words))
