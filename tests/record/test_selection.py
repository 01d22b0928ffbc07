"""Which inputs of a data set."""

import numpy as np
import pytest

from lvmrs.errors import InvalidArgumentError
from lvmrs.record import Selection


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        (Selection(10), list(range(10))),
        (Selection(10, skip=4), [0, 4, 8]),
        (Selection(10, skip=4, max=8), [0, 4]),
        (Selection(10, max=100), list(range(10))),
        (Selection(10, skip=2, shard=2, shards=3), [2, 8]),
    ],
)
def test_which_inputs(selection: Selection, expected: list[int]) -> None:
    assert list(selection.indices) == expected


def test_shards_cover_everything_once() -> None:
    for shards in (1, 2, 3, 7, 20):
        parts = [list(Selection(17, skip=2, shard=k, shards=shards).indices) for k in range(1, shards + 1)]
        assert sorted(index for part in parts for index in part) == list(range(0, 17, 2))
    with pytest.raises(InvalidArgumentError, match="shard 4 of 3 does not exist"):
        Selection(10, shard=4, shards=3)


@pytest.mark.parametrize(
    "selection",
    [Selection(20), Selection(20, skip=3), Selection(20, skip=3, shard=2, shards=2), Selection(20, only=[1, 2, 7, 19])],
)
def test_positions_are_those_in_the_list(selection: Selection) -> None:
    indices = list(selection.indices)
    assert [selection.position(index) for index in indices] == list(range(len(indices)))
    every = np.arange(-3, 30)
    assert selection.has(every).tolist() == [index in indices for index in every]
    for index in set(every.tolist()) - set(indices):
        with pytest.raises(ValueError, match="is not in"):
            selection.position(index)


def test_a_data_set_of_any_size_takes_no_memory() -> None:
    large = Selection(2**53 - 1, skip=3)
    assert large.position(3 * 10**15) == 10**15
    assert large.has(np.array([3 * 10**15, 10**15])).tolist() == [True, False]
    with pytest.raises(InvalidArgumentError, match="size must be a whole number from 0 to 2⁵³ − 1"):
        Selection(2**63)
