"""A training job from loading the data to writing the weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from torch import nn

from lvmrs._util import files, machine
from lvmrs._util.lock import Lock
from lvmrs._util.user_code import code_hash
from lvmrs.data import Dataset, load
from lvmrs.errors import DataError, InvalidArgumentError, ModelError, RunError, guarded
from lvmrs.models import trained
from lvmrs.models.preprocessing import Preprocessed
from lvmrs.models.weights import load_weights
from lvmrs.record.manifest import written_origin
from lvmrs.training import objectives
from lvmrs.training.loop import Epoch, Settings, train
from lvmrs.training.measure import measured
from lvmrs.training.network import Network, check_fit, network_for
from lvmrs.training.objectives import Objective

_OTHER_FILE = "choose another file"


class StoppedTrainingError(RunError):
    """A checkpoint of a stopped training exists, and ``resume`` is False."""


@dataclass(frozen=True)
class TrainingJob:
    """All settings of one training.

    >>> from lvmrs.training import Gaussian
    >>> job = TrainingJob("ready:small_cnn", "digits", Gaussian(0.5), Path("nets/digits.safetensors"))
    >>> job.checkpoint.name
    'digits.safetensors.checkpoint'
    """

    model: str
    """``ready:NAME``, ``python:MODULE:FUNCTION``, or ``trained:FILE`` to continue from a file."""
    data: str
    """The name of the data, as for ``lvmrs.data.load``."""
    objective: Objective
    out: Path
    """The file of weights to write, NAME.safetensors."""
    settings: Settings = field(default_factory=Settings)
    weights: Path | None = None
    """Initial weights."""
    mean: Sequence[float] | None = None
    """With ``std``, a normalisation before the network."""
    std: Sequence[float] | None = None
    split: str = "train"
    """The split to train on."""
    test_split: str | None = "test"
    """The split to evaluate on at the end. None: no evaluation."""
    image_size: int | None = None
    """Height and width to which images from files are scaled and cropped."""
    class_index: Path | None = None
    """A file with the class number of each folder of images; see ``lvmrs.data.load``."""
    device: str = "auto"
    workers: int = 0
    """Number of processes that read the data."""
    command: str = ""
    """The command line, for the record."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "out", files.place(self.out))
        if self.out.suffix != ".safetensors":
            raise InvalidArgumentError(f"out must end in .safetensors, got {self.out}")
        if not isinstance(self.objective, Objective):
            raise InvalidArgumentError(f"objective must be an Objective such as Gaussian(0.5), got {self.objective!r}")
        machine.device(self.device)
        self.objective.check_sigma()  # a user's class may not call __post_init__

    @property
    def checkpoint(self) -> Path:
        """The checkpoint file: replaced after each epoch, removed at the end."""
        return self.out.with_name(self.out.name + ".checkpoint")

    @property
    def lock(self) -> Path:
        """The lock file that prevents a second training with the same ``out``; removed at the end."""
        return self.out.with_name(f".{self.out.name}.lock")


@dataclass(frozen=True)
class Prepared:
    """A training before its first step."""

    network: Network
    data: Dataset
    steps: int
    """The number of steps of all epochs."""


@dataclass(frozen=True)
class Trained:
    """A finished training; its weights are in a file."""

    out: Path
    model: nn.Module
    """The trained network, in eval mode."""
    network: str
    """The full name of the network."""
    history: tuple[Epoch, ...]
    measured: dict[str, Any]
    """``split``, ``inputs`` and ``sigma`` of the test split, and on it ``clean accuracy`` and ``noisy accuracy`` of a
    classifier, or ``mean squared error`` of a denoiser; empty without a test split.
    """

    @property
    def seconds(self) -> float:
        """The duration of all epochs."""
        return sum(epoch.seconds for epoch in self.history)


def run(
    job: TrainingJob,
    *,
    resume: bool = False,
    on_begin: Callable[[Prepared], None] = lambda prepared: None,
    on_epoch: Callable[[Epoch], None] = lambda epoch: None,
    on_step: Callable[[int], None] = lambda done: None,
) -> Trained:
    """Train a network and write its weights, with a record of the training, to the file of the job.

    A checkpoint file exists beside the file of weights until the training is done. Invalid settings raise an error
    before the first step.

    Args:
        job: the settings of the training.
        resume: continue from the checkpoint of a stopped training, if there is one; the result is the same as without
            the interruption. A training that is finished is loaded, if its file records the same settings.
        on_begin: called once, before the first step.
        on_epoch: called after each epoch.
        on_step: called after each step with the total number of steps done.

    Returns:
        The trained network, the loss of each epoch, and the measurements on the test split. The docstring of
        ``lvmrs.training`` has an example.
    """
    with ExitStack() as held:
        if job.out.parent.is_dir():  # otherwise no other training can use it
            _lock(job, held)
        wanted, resume = resume, resume and job.checkpoint.exists()
        finished: dict[str, Any] = {}
        if job.out.exists() and not resume:  # a training may have stopped after it wrote the weights
            finished = _finished(job.out) if wanted else {}
            if not finished:
                nothing = ", and there is no checkpoint to resume from" if wanted else ""
                raise RunError(f"{job.out} exists already{nothing}; {_OTHER_FILE}")
        if job.checkpoint.exists() and not resume:
            raise StoppedTrainingError(
                f"{job.checkpoint} is a training that was stopped; resume it, or delete the file to begin again"
            )
        data = _data(job, job.split)
        fingerprint = data.fingerprint()
        test = _test_data(job, fingerprint)
        network = network_for(data, job.model, weights=job.weights, mean=job.mean, std=job.std, seed=job.settings.seed)
        job.objective.check(network.module)
        for part in (data,) if test is None else (data, test):
            check_fit(network.module, part, job.objective)
        origin = {**network.origin, "data": fingerprint, **_own_code(job.objective)}
        if finished:
            return _loaded(job, finished, network, origin)
        on_begin(Prepared(network, data, job.settings.epochs * job.settings.steps(len(data))))
        if not job.out.parent.is_dir():
            with files.errors(job.out.parent, _OTHER_FILE):
                files.make_directory(job.out.parent)
            _lock(job, held)
        history = train(
            network.module,
            data,
            job.objective,
            job.settings,
            saved=job.checkpoint,
            resume=resume,
            origin=origin,
            device=job.device,
            workers=job.workers,
            on_epoch=on_epoch,
            on_step=on_step,
        )
        found = {} if test is None else measured(network.module, test, job.objective, seed=job.settings.seed)
        done = Trained(job.out, network.module, network.name, tuple(history), found)
        trained.save(job.out, network.module, network.name, {**_record(job, data, fingerprint, done), "origin": origin})
        with files.errors(job.checkpoint, "make room and resume the training"):
            files.remove(job.checkpoint)
    return done


def _finished(out: Path) -> dict[str, Any]:
    """The record of a finished training; empty if the file has none that could be compared."""
    with suppress(ModelError):
        told: dict[str, Any] = trained.training_record(out)["training"]
        if {"origin", "settings", "objective", "losses", "seconds", "begun", "measured"} <= set(told):
            return told
    return {}


def _loaded(job: TrainingJob, told: dict[str, Any], network: Network, origin: dict[str, str]) -> Trained:
    """The result of a training that was finished before; its epochs get equal shares of the time."""
    now = {"origin": origin, "objective": objectives.description(job.objective), "settings": asdict(job.settings)}
    if changed := [name for name, value in now.items() if told[name] != value]:
        raise RunError(f"{job.out} exists already, and was made with another {' and '.join(changed)}; {_OTHER_FILE}")
    inner = network.module.model if isinstance(network.module, Preprocessed) else network.module
    load_weights(inner, job.out)  # type: ignore[arg-type]
    with guarded(f"{job.out}: its record of the training is damaged; {_OTHER_FILE}", error=RunError):
        losses, each = told["losses"], told["seconds"] / len(told["losses"])
        history = tuple(Epoch(k, loss, each, told["begun"]) for k, loss in enumerate(losses, start=1))
        return Trained(job.out, network.module.eval(), network.name, history, dict(told["measured"]))


def _lock(job: TrainingJob, held: ExitStack) -> None:
    """Lock the job until ``held`` closes; raises RunError if another process trains to the same file."""
    with files.errors(job.out, _OTHER_FILE):
        lock = Lock(job.lock, f"another process is training {job.out}; wait for it, or {_OTHER_FILE}")
    held.callback(lock.release)


def _data(job: TrainingJob, split: str) -> Dataset:
    return load(job.data, split=split, size=job.image_size, class_index=job.class_index)


def _test_data(job: TrainingJob, fingerprint: str) -> Dataset | None:
    """The data of the test split. Raises DataError if their fingerprint is that of the training data."""
    if job.test_split is None:
        return None
    try:
        test = _data(job, job.test_split)
    except DataError as error:
        raise DataError(f"{error}; choose another test split, or none to measure nothing") from error
    if test.fingerprint() == fingerprint:
        raise DataError(
            f"{job.data}: split {job.test_split!r} is the training data; choose another test split, or none"
        )
    return test


def _own_code(objective: Objective) -> dict[str, str]:
    """A hash of the file of a user's objective, so that a training is not resumed with changed code."""
    code = code_hash(type(objective))
    return {} if code is None else {"objective code": code}


def _record(job: TrainingJob, data: Dataset, fingerprint: str, done: Trained) -> dict[str, Any]:
    """The record of the training for the file of weights."""
    return {
        **written_origin(job.command),
        "begun": done.history[0].begun,  # a resumed training began with its first epoch
        "objective": objectives.description(job.objective),
        "objective settings": objectives.record(job.objective),
        **_own_code(job.objective),
        "settings": asdict(job.settings),
        "data": {"name": data.name, "split": data.split, "fingerprint": fingerprint},
        "losses": [epoch.loss for epoch in done.history],
        "seconds": done.seconds,
        "measured": done.measured,
    }
