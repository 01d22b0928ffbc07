"""Programs for batches of one size run on batches of any size."""

import pytest
import torch
from torch import Tensor

from lvmrs.models.fixed_batch import InParts


def doubled(x: Tensor) -> Tensor:
    return 2 * x


@pytest.mark.parametrize("rest", [None, doubled])
@pytest.mark.parametrize("rows", [1, 3, 4, 5, 8, 11])
def test_answers_are_in_order_for_batches_of_any_size(rows: int, rest: object) -> None:
    sizes: list[int] = []

    def program(x: Tensor) -> Tensor:
        sizes.append(len(x))
        return doubled(x)

    x = torch.rand(rows, 2)
    assert torch.equal(InParts(program, 4, doubled if rest else None)(x), 2 * x)
    assert sizes == [4] * (rows // 4 if rest else -(-rows // 4))


def test_what_fills_up_the_last_part_is_its_last_row() -> None:
    seen: list[Tensor] = []

    def program(x: Tensor) -> Tensor:
        seen.append(x)
        return x

    x = torch.rand(5, 2)
    InParts(program, 4)(x)
    assert torch.equal(seen[1], x[4:].expand(4, 2))
