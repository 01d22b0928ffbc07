"""Random networks: no certificate of a fast version differs from that of the model beyond rounding."""

import pytest
import torch
from torch import nn

from tests.engine import fuzzing
from tests.engine.fuzzing import Outcome, examine, fuzzed, summary, unexplained

NETWORKS, BLOCK = 2000, 100
FEW = 40
# The share of functions that must run fast, since otherwise little is tested, and the share that may be refused: checks
# allow for rounding, and some networks round more than others.
FAST, REFUSED = 0.4, 0.03


def check(outcomes: list[Outcome]) -> None:
    print(summary(outcomes))
    failures = [f"{each.one} ({each.run})\n  {words}" for each in outcomes for words in each.failures]
    assert not failures, "\n".join([f"{len(failures)} certificates are not those of the model", *failures])
    functions = [each for each in outcomes if not each.one.fault]
    assert sum(each.run == "fast" for each in functions) >= FAST * len(functions), summary(outcomes)
    refused = [f"{each.one}\n  {each.reason}" for each in functions if each.reason]
    assert len(refused) <= max(1, REFUSED * len(functions)), "\n".join(["functions that are refused:", *refused])


def test_few_random_networks_certify_as_they_are() -> None:
    check([examine(seed) for seed in range(NETWORKS, NETWORKS + FEW)])


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, NETWORKS, BLOCK))
def test_random_networks_certify_as_they_are(first: int) -> None:
    check([examine(seed) for seed in range(first, first + BLOCK)])


@pytest.mark.slow
def test_all_ingredients_occur() -> None:
    names = {*fuzzing.ON_IMAGES, *fuzzing.ON_VECTORS, *fuzzing.ON_ANYTHING, *fuzzing.ON_LOGITS}
    names |= {name for table in fuzzing.NOT_FUNCTIONS.values() for name in table}
    assert names <= {name for seed in range(NETWORKS) for name in fuzzed(seed).ingredients}


@pytest.mark.parametrize("seed", range(3))
def test_networks_are_made_again(seed: int) -> None:
    one = fuzzed(seed)
    first, second = one.make(), one.make()
    assert str(fuzzed(seed)) == str(one)
    assert first is not second
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))


def test_rounding_explains_rounding_and_nothing_else() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 9), nn.ReLU(), nn.Linear(9, 3))
    rows = torch.randn(50, 5)
    with torch.no_grad():
        expected = model(rows)
        exact = model.double()(rows.double()).float()
        model.float()
        assert not unexplained(model, rows, exact, expected).any()
        wrong = expected.clone()
        wrong[7, 1] *= 1 + 1e-3
        masked = torch.tensor([0.0, 0.0, -1e9])
        assert unexplained(model, rows, wrong, expected).nonzero().tolist() == [[7]]

        class Masked(nn.Module):
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return torch.where(masked < 0, masked, model(x))

        both = [torch.where(masked < 0, masked, each) for each in (wrong, expected)]
        assert unexplained(Masked(), rows, *both).nonzero().tolist() == [[7]]
