"""Certifies a data set with a model of one's own in one call: makes the job, and runs it in memory or on disk."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import Progress
from torch import Tensor
from torch.utils import data as torch_data
from torch.utils.data import DataLoader, RandomSampler, SubsetRandomSampler, WeightedRandomSampler

from lvmrs._util.facts import DataFacts
from lvmrs.analysis.certificates import Certificates
from lvmrs.analysis.diagnosis import diagnose, warn_of
from lvmrs.data.base import Dataset, check_labels
from lvmrs.errors import DataError, InvalidArgumentError, guarded
from lvmrs.kernel import checks
from lvmrs.kernel.method import Goal, Method
from lvmrs.models.load import Loaded
from lvmrs.record import Selection
from lvmrs.runs.certify import certify
from lvmrs.runs.dispatch import prepared
from lvmrs.runs.job import Job, Sampling
from lvmrs.smoothed import SmoothedClassifier, as_tensor


def certify_dataset(
    smoothed: SmoothedClassifier,
    data: Dataset | torch_data.Dataset[Any] | Iterable[Any],
    method: Method | None = None,
    *,
    labels: Sequence[int] | NDArray[Any] | Tensor | None = None,
    n0: int = 1_000,
    n: int = 100_000,
    alpha: float = 0.001,
    seed: int = 0,
    goal: Goal | None = None,
    skip: int = 1,
    max: int | None = None,  # noqa: A002
    out: str | Path | None = None,
    resume: bool = False,
    progress: bool = False,
    model: Loaded | None = None,
) -> Certificates:
    """Certify the inputs of a data set, with the same certificates as ``SmoothedClassifier.certify`` one by one.

    Args:
        smoothed: the smoothed classifier.
        data: inputs in [0, 1], or pairs of input and label: a torch data set or loader, a tensor or NumPy array of
            inputs, any iterable of them, or a data set of ``lvmrs.data``. The inputs to certify are read into memory,
            except those of ``lvmrs.data``.
        method: the method; by default that of ``certify``.
        labels: the class of each input, if ``data`` has inputs only. Without labels, accuracy is unknown.
        n0: as in ``certify``, like n, alpha, seed and goal.
        n: samples to prove on.
        alpha: the risk of each certificate.
        seed: the noise of an input depends on it and on the index of the input.
        goal: when sampling stops; a budget in it is shared by all inputs.
        skip: certify every ``skip``-th input.
        max: certify only inputs below this index.
        out: a directory for a run, in which each row is on disk before the next input begins; None to keep the
            certificates in memory only.
        resume: continue the run in ``out``, which must have the same model, data and settings.
        progress: whether to show a progress bar on stderr.
        model: the model of ``smoothed`` as ``lvmrs.models.load`` gave it, so that the run records how to load it; by
            default the run records the name of its class.

    Returns:
        The certificates, in the order of the inputs. Warns with ``SuspiciousWarning`` if they look like a mistake.

    >>> smoothed = SmoothedClassifier(torch.nn.Identity(), sigma=0.5, batch=100)  # two logits: the input itself
    >>> certificates = certify_dataset(smoothed, np.eye(2), labels=[0, 1], n0=100, n=1000)
    >>> certificates.predictions, certificates.accuracy([0.0, 0.5, 1.0])
    (array([0, 1]), [1.0, 1.0, 0.0])
    """
    checks.instance("smoothed", smoothed, SmoothedClassifier, "a SmoothedClassifier")
    if resume and out is None:
        raise InvalidArgumentError("resume continues a run on disk; give its directory as out")
    Selection(0, skip=skip, max=max)  # raises for other numbers before data are read
    if isinstance(data, Dataset):
        if labels is not None:
            raise InvalidArgumentError(f"{data.name} has labels of its own; leave labels out")
    else:
        data = Inputs.read(data, skip, max, labels)
    selection = Selection(len(data), skip=skip, max=max)
    loaded = Loaded.of(smoothed.model, _name(smoothed.model)) if model is None else model
    chosen = smoothed.default_method if method is None else smoothed.check_method(method)
    job = Job(loaded, data, smoothed, chosen, Sampling(alpha, n0, n, seed, goal), selection)
    with Progress(console=Console(stderr=True), disable=not progress) as bar:
        task = bar.add_task("inputs certified", total=len(selection.indices))
        if out is not None:
            shown: dict[str, Any] = {"on_begin": lambda estimate: bar.update(task, completed=estimate.done)}
            return Certificates.of(certify(job, out, resume=resume, on_row=lambda row: bar.advance(task), **shown))
        how = prepared(None, "", job)
        check_labels(data, how.throughput.classes, job.input(selection.indices[0])[1])
        made = []
        for pair in job.certified(selection.indices):
            made.append(pair)
            bar.advance(task)
    rows, certificates = zip(*made, strict=True)
    table = Certificates(how.manifest, rows, certificates)
    warn_of(diagnose(table.results))
    return table


_RANDOM = (RandomSampler, SubsetRandomSampler, WeightedRandomSampler)


class Inputs(Dataset):
    """Inputs in memory, those of a selection only. ``Inputs.read`` makes it."""

    split = "given"

    def __init__(self, name: str, size: int, items: dict[int, tuple[Tensor, Any]]) -> None:
        self.name, self._size, self._items = name, size, items
        if all(label is None for _, label in items.values()):
            self.facts = DataFacts(labels="none")

    @classmethod
    def read(cls, data: Any, skip: int, stop: int | None, labels: Any = None) -> Inputs:
        """Read every ``skip``-th input below index ``stop``: of a torch data set or loader, an array, an iterable.

        ``labels`` are those of all inputs, if the items of ``data`` have none.
        """
        loader = data if isinstance(data, DataLoader) else None
        name = _name(data if loader is None else loader.dataset)
        if isinstance(data, str):
            raise InvalidArgumentError(
                f"data must be a data set, a loader or an array of inputs, got {data!r}; lvmrs.data.load loads a data "
                "set by its name"
            )
        arrays = isinstance(data, tuple) and all(isinstance(part, Tensor | np.ndarray) for part in data)
        if arrays and len(data) == 2 and data[0].ndim > data[1].ndim == 1:
            raise InvalidArgumentError(
                "data is a pair of two arrays; pass the second one as labels=, if it has the labels"
            )
        samplers = () if loader is None else (loader.sampler, getattr(loader.batch_sampler, "sampler", None))
        if any(isinstance(sampler, _RANDOM) for sampler in samplers):
            raise InvalidArgumentError(
                f"the loader of {name} shuffles, so that the indices of inputs mean nothing; give a loader with "
                "shuffle=False, or its data set"
            )
        sized = loader is None and hasattr(data, "__getitem__") and hasattr(data, "__len__")
        found: dict[int, Any] = {}
        with guarded(f"{name}: its inputs cannot be read", error=DataError):
            if sized:
                size = len(data)
                found = {k: data[k] for k in range(size)[:stop:skip]}
            else:
                items = iter(checks.iterable("data", data, "a data set, a loader or an array of inputs"))
                if loader is not None and loader.batch_sampler is not None:
                    items = (item for batch in items for item in _items_of(name, batch))
                size = 0
                for size, item in enumerate(islice(items, stop), start=1):
                    if (size - 1) % skip == 0:
                        found[size - 1] = item
        pairs = {k: _pair(name, k, item) for k, item in found.items()}
        if labels is not None:
            known = checks.class_numbers("labels", labels)
            if any(label is not None for _, label in pairs.values()):
                raise InvalidArgumentError(f"{name} has labels of its own; leave labels out")
            if len(known) != size and (sized or not stop == size < len(known)):
                raise InvalidArgumentError(f"{len(known)} labels for {size} inputs; give one for each")
            pairs = {k: (x, known[k]) for k, (x, _) in pairs.items()}
        return cls(name, size, pairs)

    def __len__(self) -> int:
        """The number of inputs, including those that are not selected."""
        return self._size

    def __getitem__(self, index: int) -> tuple[Tensor, int | None]:
        """One input and its label; None if there are no labels."""
        return self._items[index]

    def fingerprint(self) -> str:
        """A hash of indices, types, shapes, values and labels of the selected inputs."""
        digest = hashlib.sha256(f"{self._size}".encode())
        for k, (x, label) in self._items.items():
            digest.update(f"\n{k} {label} {x.dtype} {tuple(x.shape)}\n".encode())
            digest.update(x.cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
        return digest.hexdigest()


def _name(thing: object) -> str:
    """The name of a function, or of the class of another object."""
    return str(getattr(thing, "__name__", type(thing).__name__))


def _items_of(name: str, batch: Any) -> Iterator[Any]:
    """The items of a batch of a loader: inputs, or pairs of input and label."""
    if isinstance(batch, Tensor | np.ndarray):
        return iter(batch)
    if isinstance(batch, tuple | list) and len(batch) in (1, 2):
        return zip(*batch, strict=True)
    raise DataError(f"{name}: a batch is {type(batch).__name__}; expected inputs, or a pair of inputs and labels")


def _pair(name: str, index: int, item: Any) -> tuple[Tensor, Any]:
    """An input in [0, 1], and its label or None."""
    pair = isinstance(item, tuple | list) and len(item) in (1, 2)
    x, label, *_ = (*item, None) if pair else (item, None)
    x = as_tensor(f"input {index} of {name}", x)
    if not isinstance(x, Tensor):
        raise DataError(f"{name}: input {index} is {type(x).__name__}; expected a tensor or array, as ToTensor() gives")
    x = checks.finite_tensor(f"input {index} of {name}", x.detach(), dims=0)
    if not 0 <= float(x.min()) <= float(x.max()) <= 1:
        raise DataError(
            f"{name}: input {index} has values outside [0, 1]; if it is normalised, put the normalisation into the "
            "model (lvmrs.models.Preprocessed); certify_batch takes inputs in other units"
        )
    return x, label.item() if getattr(label, "ndim", None) == 0 else label
