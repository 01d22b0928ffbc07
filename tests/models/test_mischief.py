"""No Lipschitz bound is below the truth, whatever is done to a network: it holds, or the network is refused by name."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from lvmrs import Deterministic, SmoothedClassifier
from lvmrs.errors import ModelError
from lvmrs.models import Preprocessed, SandwichNetwork, lipschitz_bound
from lvmrs.sampling import evaluating
from tests.models.mischief import CATALOGUE, IMAGE, SHAPE


def steepest_found(model: nn.Module, shape: tuple[int, ...], points: int = 3) -> float:
    """The largest slope found by differences, for single inputs and for a batch whose rows all move alike."""
    random = torch.Generator().manual_seed(1)
    size, step = math.prod(shape), 1e-6
    moves = step * torch.eye(size, dtype=torch.float64)
    found = 0.0
    with evaluating(model):
        for _ in range(points):
            for rows in (1, 3):
                x = torch.randn(rows, *shape, generator=random, dtype=torch.float64)
                columns = [
                    first_answer(model, x + move) - first_answer(model, x - move) for move in moves.view(size, *shape)
                ]
                found = max(found, float(torch.linalg.matrix_norm(torch.stack(columns), ord=2)) / (2 * step))
    return found


def first_answer(model: nn.Module, x: Tensor) -> Tensor:
    answer: Tensor = model(x.clone())[0]
    return answer.clone().flatten()


@pytest.mark.parametrize("name", CATALOGUE)
def test_mischief_is_refused_by_name_or_bounded(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    entry = CATALOGUE[name]
    model = entry.make(monkeypatch).double().eval()
    if entry.refused is None:
        bound = lipschitz_bound(model, entry.shape)
        assert 0 < steepest_found(model, entry.shape) <= bound * (1 + 1e-6)
    else:
        with pytest.raises(ModelError, match=entry.refused):
            lipschitz_bound(model, entry.shape)


def test_the_catalogue_is_large() -> None:
    assert len(CATALOGUE) >= 80
    assert sum(entry.refused is None for entry in CATALOGUE.values()) >= 15
