"""Batches of a data set, shuffled by seed and epoch, and data augmentation by random shifts and flips."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Generator, Tensor
from torch.nn import functional
from torch.utils.data import DataLoader
from torch.utils.data import Dataset as TorchDataset

from lvmrs.data import Dataset
from lvmrs.errors import LvmrsError

AUGMENTATIONS = ("none", "shift", "shift-mirror")

_Batch = tuple[Tensor, Tensor]


def generator(device: torch.device, *numbers: int) -> Generator:
    """A generator that depends only on ``numbers``, so that checkpoints need no random state."""
    seed = 0
    for number in numbers:
        seed = (seed * 1_000_003 + number + 1) % (2**63 - 1)
    return Generator(device).manual_seed(seed)


class _Rows(TorchDataset["_Batch | LvmrsError"]):
    """A torch data set of whole batches. It returns errors, because DataLoader workers rewrite raised errors."""

    def __init__(self, data: Dataset) -> None:
        self.data = data

    def __getitem__(self, indices: list[int]) -> _Batch | LvmrsError:
        try:
            return self.data.many(indices)
        except LvmrsError as error:
            return error


def shuffled(data: Dataset, size: int, seed: int, epoch: int, workers: int) -> Iterator[_Batch]:
    """Batches of all inputs in random order; drops an incomplete last batch unless it is the only one."""
    order = torch.randperm(len(data), generator=generator(torch.device("cpu"), seed, epoch))
    parts = [part.tolist() for part in torch.split(order, size)]
    if len(parts) > 1 and len(parts[-1]) < size:  # a batch of one has no batch statistics
        parts.pop()
    return _loaded(data, parts, workers)


def in_order(data: Dataset, size: int, workers: int = 0) -> Iterator[_Batch]:
    """Batches of all inputs in the order of the data."""
    return _loaded(data, [part.tolist() for part in torch.split(torch.arange(len(data)), size)], workers)


def _loaded(data: Dataset, parts: list[list[int]], workers: int) -> Iterator[_Batch]:
    loader = DataLoader(
        _Rows(data), sampler=parts, batch_size=None, num_workers=workers, pin_memory=torch.cuda.is_available()
    )
    for batch in loader:
        if isinstance(batch, LvmrsError):
            raise batch
        yield batch


def augmented(x: Tensor, kind: str, random: Generator) -> Tensor:
    """Shift images at random by up to an eighth of their side, with black padding; "shift-mirror" also flips them."""
    if kind == "none":
        return x
    reach = max(1, x.shape[-1] // 8)
    padded = functional.pad(x, [reach] * 4)
    down, right = (torch.randint(2 * reach + 1, (len(x),), generator=random, device=x.device) for _ in range(2))
    rows = down[:, None] + torch.arange(x.shape[-2], device=x.device)
    columns = right[:, None] + torch.arange(x.shape[-1], device=x.device)
    if kind == "shift-mirror":
        flip = torch.rand(len(x), generator=random, device=x.device) < 0.5
        columns = torch.where(flip[:, None], columns.flip(1), columns)
    image = torch.arange(len(x), device=x.device)[:, None, None]
    # With index arrays on both sides of the channel slice, the indexed dimensions come first in the result.
    return padded[image, :, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)
