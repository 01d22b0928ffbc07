"""What the proof asks of a map: its columns, against slow and obvious ones."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from lvmrs.kernel.maps import Duel, Hardmax, Map, SimplexMap, SoftDuel, Softmax, Sparsemax
from tests.oracles import random_logits

NONE = torch.tensor([], dtype=torch.long)


@pytest.mark.parametrize("each", [Hardmax(), Hardmax(mass=3.0), Softmax(0.5), Softmax(0.5, 3.0), Sparsemax(0.7)])
@pytest.mark.parametrize("ties", [False, True])
def test_columns_of_a_simplex_map_are_shares_of_the_mass(each: SimplexMap, ties: bool) -> None:
    z = random_logits(60, 6, dtype=torch.float32)
    z = z.round() if ties else z
    shares = each.apply(z).double() / each.mass
    for top, alone, pooled in ((2, [0, 1, 3, 4, 5], []), (0, [3], [1, 2, 4, 5]), (5, [], [0, 1, 2, 3, 4]), (1, [], [])):
        found = each.columns(z, top, torch.tensor(alone, dtype=torch.long), torch.tensor(pooled, dtype=torch.long))
        expected = [shares[:, [top]], shares[:, alone]]
        if pooled:
            expected.append(shares[:, pooled].sum(dim=1, keepdim=True))
        torch.testing.assert_close(found.double(), torch.cat(expected, dim=1), atol=1e-6, rtol=0)
        assert (found.dtype == torch.bool) == each.binary
        if not each.binary:
            generic = SimplexMap.columns(each, z, top, torch.tensor(alone).long(), torch.tensor(pooled).long())
            assert torch.equal(found, generic)


@given(data=st.data(), width=st.floats(0.01, 20))
def test_duels_by_definition(data: st.DataObject, width: float) -> None:
    z = torch.from_numpy(data.draw(arrays(np.float64, (3, 4), elements=st.integers(-3, 3).map(float))))
    top = data.draw(st.integers(0, 3))
    rivals = [k for k in range(4) if k != top]
    alone, pooled = rivals[:1], rivals[1:]
    arguments = top, torch.tensor(alone), torch.tensor(pooled)
    hard, soft = Duel().columns(z, *arguments), SoftDuel(width).columns(z, *arguments)
    for i, row in enumerate(z.tolist()):
        for column, group in enumerate((alone, pooled)):
            margin = min(row[top] - row[k] for k in group)
            assert bool(hard[i, column]) == (margin > 0)  # a tie is a loss
            assert float(soft[i, column]) == pytest.approx(min(max(0.5 + margin / (2 * width), 0.0), 1.0), abs=1e-12)


@given(data=st.data(), width=st.floats(0.05, 20))
def test_the_two_sides_of_a_duel_never_both_win(data: st.DataObject, width: float) -> None:
    z = torch.from_numpy(data.draw(arrays(np.float64, (5, 2), elements=st.floats(-3, 3))))
    for each in (Duel(), SoftDuel(width)):
        mine = each.columns(z, 0, torch.tensor([1]), NONE).double()
        theirs = each.columns(z, 1, torch.tensor([0]), NONE).double()
        assert bool((mine + theirs <= 1 + 1e-12).all())


@given(data=st.data(), width=st.floats(0.05, 20))
def test_soft_duels_are_as_lipschitz_as_said(data: st.DataObject, width: float) -> None:
    pair = torch.from_numpy(data.draw(arrays(np.float64, (2, 4), elements=st.floats(-5, 5))))
    scores = SoftDuel(width).columns(pair, 0, torch.tensor([1, 2, 3]), NONE)
    change = float((scores[0] - scores[1]).abs().max())
    slopes = SoftDuel(width).slopes(1.0)
    assert change <= float(slopes.one) * float((pair[0] - pair[1]).norm()) + 1e-12
    assert float(slopes.one) == pytest.approx(1 / (math.sqrt(2) * width))
    assert float(slopes.vector) == pytest.approx(math.sqrt(2) * float(slopes.one))


@pytest.mark.parametrize("each", [Hardmax(), Softmax(0.5, 2.0), Sparsemax(0.7), Duel(), SoftDuel(0.3)])
def test_slopes_are_constants_as_shares_of_the_mass(each: Map) -> None:
    constants: Any = each.constants(3.0, temperature=each.temperature, mass=each.mass)
    assert each.slopes(3.0).vector == constants.vector / each.mass
    assert each.slopes(3.0).one == constants.one / each.mass
    assert math.isinf(float(each.slopes(math.inf).vector))
    assert math.isinf(float(each.slopes(3.0).vector)) == each.binary
