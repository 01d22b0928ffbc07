"""Batches: all of the data, in an order of the seed, shifted and mirrored."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from lvmrs.data import Dataset
from lvmrs.errors import DataError
from lvmrs.training.batches import augmented, generator, in_order, shuffled
from tests.training.helpers import seeded, some_digits


def test_batches_are_all_of_the_data_in_an_order_of_the_seed() -> None:
    data = some_digits(100)
    whole, labels = data.many(range(100))
    x = torch.cat([x for x, _ in shuffled(data, 25, seed=1, epoch=2, workers=0)])
    assert not torch.equal(x, whole)
    assert torch.equal(x.flatten(1).sum(dim=1).sort().values, whole.flatten(1).sum(dim=1).sort().values)
    again = torch.cat([x for x, _ in shuffled(data, 25, seed=1, epoch=2, workers=0)])
    assert torch.equal(x, again)
    for seed, epoch in ((1, 3), (2, 2)):
        assert not torch.equal(x, torch.cat([x for x, _ in shuffled(data, 25, seed=seed, epoch=epoch, workers=0)]))
    assert [len(x) for x, _ in shuffled(data, 30, 0, 0, workers=0)] == [30, 30, 30]
    assert [len(x) for x, _ in shuffled(data, 300, 0, 0, workers=0)] == [100]
    parts = list(in_order(data, 30))
    assert torch.equal(torch.cat([x for x, _ in parts]), whole)
    assert torch.equal(torch.cat([y for _, y in parts]), labels)


def test_processes_read_the_same_batches() -> None:
    data = some_digits(60)
    here = list(shuffled(data, 20, 0, 0, workers=0))
    there = list(shuffled(data, 20, 0, 0, workers=1))
    assert all(torch.equal(a[0], b[0]) and torch.equal(a[1], b[1]) for a, b in zip(here, there, strict=True))


def test_augmentation_shifts_and_mirrors() -> None:
    x = torch.rand(64, 3, 16, 16)
    moved = augmented(x, "shift", seeded())
    mirrored = augmented(x, "shift-mirror", seeded())
    assert augmented(x, "none", seeded()) is x
    padded = functional.pad(x, [2] * 4)
    flips = set()
    for image, moved_one, mirrored_one in zip(padded, moved, mirrored, strict=True):
        places = [
            (i, j) for i in range(5) for j in range(5) if torch.equal(image[:, i : i + 16, j : j + 16], moved_one)
        ]
        assert len(places) == 1
        i, j = places[0]
        cut = image[:, i : i + 16, j : j + 16]
        assert torch.equal(cut, mirrored_one) != torch.equal(cut.flip(2), mirrored_one)
        flips.add(torch.equal(cut.flip(2), mirrored_one))
    assert flips == {True, False}


class Mixed(Dataset):
    """Images of several sizes."""

    name, split = "mixed", "train"

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return torch.zeros(1, 4, 4 + index), 0

    def fingerprint(self) -> str:
        return "mixed"


def test_images_of_several_sizes_are_refused() -> None:
    with pytest.raises(DataError, match=r"mixed: the inputs have several shapes \(\(1, 4, 4\), \(1, 4, 5\)\)"):
        Mixed().many([0, 1])


def test_random_numbers_depend_on_all_that_is_named() -> None:
    seeds = {
        generator(torch.device("cpu"), *numbers).initial_seed() for numbers in ((0, 1), (1, 0), (0, 0, 1), (2,), (0,))
    }
    assert len(seeds) == 5
