"""Which inputs of a data set."""

import pytest

from lvmrs.errors import InvalidArgumentError
from lvmrs.runs import Selection


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
