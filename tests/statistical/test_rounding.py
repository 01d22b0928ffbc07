"""Rounded logits do not make certificates false that rely on a Lipschitz constant; without the allowance they do."""

import math

import pytest
import torch

from lvmrs import Duels, Lipschitz, Planner, SmoothedClassifier
from lvmrs.kernel.rounding import Rounding
from lvmrs.testing import too_many
from tests.rounded_models import Shifted

ALPHA, REPEATS = 0.05, 40
# The logits come in steps of ½. The noise is small against that, so that it does not average over them.
MODELS = {"bfloat16": Shifted(100.0, torch.bfloat16), "float32": Shifted(5e6, torch.float32)}
SIGMA, SIZE = 0.05, 8.0
PLANNERS: dict[str, Planner] = {
    "ramp, soft duels": Duels(4.0),
    "ramp, chosen width": Duels("chosen"),
    "ramp, sparsemax": Lipschitz("ramp", temperature=8.0),
    "R1, sparsemax": Lipschitz("both", temperature=8.0),
}


def false_ones(name: str, planner: Planner, rounding: float | None) -> tuple[int, int]:
    """How many certificates reach beyond the decision boundary of the exact network, and how many certify anything.

    The logits are linear and two, so the smoothed classifier turns where the network does.
    """
    smoothed = SmoothedClassifier(MODELS[name], SIGMA, 1.0, batch=1000, rounding=rounding)
    random = torch.Generator().manual_seed(1)
    false = positive = 0
    for index in range(REPEATS):
        x = SIZE * torch.rand(2, generator=random)
        made = smoothed.certify(x, planner, n0=50, n=1000, alpha=ALPHA, index=index)
        right = made.top == int(x.argmax())
        false += made.radius > (float((x[0] - x[1]).abs()) / math.sqrt(2) if right else 0.0)
        positive += made.radius > 0
    return false, positive


@pytest.mark.parametrize("planner", PLANNERS)
@pytest.mark.parametrize("name", MODELS)
def test_rounding_makes_no_certificate_false(name: str, planner: str) -> None:
    false, positive = false_ones(name, PLANNERS[planner], None)
    assert not too_many(false, REPEATS, ALPHA), f"{false} of {REPEATS} certificates are false"
    assert positive > REPEATS / 4


@pytest.mark.parametrize("planner", ["ramp, soft duels", "R1, sparsemax"])
@pytest.mark.parametrize("name", MODELS)
def test_a_proof_without_the_allowance_is_caught(name: str, planner: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Rounding, "of_samples", lambda *_: 0.0)
    false, _ = false_ones(name, PLANNERS[planner], None)
    assert too_many(false, REPEATS, ALPHA)
