"""The parts of ``make bench`` that can be right or wrong: statistics, tables, folding, counting, processes."""

import contextlib
import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import torch
from scipy import stats
from torch import nn

from lvmrs import SmoothedClassifier
from lvmrs.models import ready
from suite import child, folding, others, page, rounds, spread, targets
from suite.busy import busy
from suite.contest import results
from suite.growth import memory_growth, row_growth
from tests.processes import left_behind


def restless(model: nn.Module) -> nn.Module:
    """The network with running statistics that are not those of a new layer."""
    generator = torch.Generator().manual_seed(0)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            assert module.running_mean is not None
            assert module.running_var is not None
            module.running_mean.normal_(generator=generator)
            module.running_var.uniform_(0.5, 2.0, generator=generator)
            nn.init.normal_(module.weight, generator=generator)
            nn.init.normal_(module.bias, generator=generator)
    return model.eval()


@pytest.mark.parametrize(
    "name", ["resnet20", "cifar_resnet20", "fast_resnet", "fast_cnn", "small_cnn,channels=3,side=32"]
)
def test_a_folded_network_is_the_network(name: str) -> None:
    torch.manual_seed(0)
    model = restless(ready.build(name)).double()
    made = folding.folded(model)
    x = torch.rand(3, 3, 32, 32, dtype=torch.float64)
    torch.testing.assert_close(made(x), model(x), rtol=1e-9, atol=1e-9)
    assert not any(isinstance(module, nn.BatchNorm2d) for module in made.modules())


class Shared(nn.Module):
    """A layer that runs twice, of which only one run is normalised."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.norm = nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.layer(x)) + self.layer(x)  # type: ignore[no-any-return]


def test_a_layer_that_is_used_twice_is_not_folded() -> None:
    torch.manual_seed(0)
    model = restless(Shared())
    x = torch.rand(2, 3, 4, 4)
    torch.testing.assert_close(folding.folded(model)(x), model(x))


def test_the_loop_of_the_field_counts_as_we_do() -> None:
    torch.manual_seed(0)
    model, n = nn.Linear(4, 3).eval(), 3000
    x = torch.tensor([0.1, -0.2, 0.3, 0.0])
    theirs = others.field_counts(model, x, n, 100, 3)
    logits = torch.cat(list(SmoothedClassifier(model, 0.5, batch=100).scores(x, n).logits()))
    ours = logits.argmax(dim=1).bincount(minlength=3).numpy()
    seen = ours + theirs > 0
    assert theirs.sum() == n
    assert stats.chi2_contingency([ours[seen], theirs[seen]]).pvalue > 1e-4


def test_the_loop_of_the_field_certifies_what_leads() -> None:
    model = nn.Identity()
    top, radius = others.field_certificate(model, torch.tensor([1.0, 0.0]), 100, 2000, 1000, 2)
    assert (top, 0.5 < radius < 0.7072) == (0, True)
    assert others.field_certificate(model, torch.tensor([0.0, 0.0]), 100, 200, 100, 2) == (-1, 0.0)


def test_every_contestant_has_its_turn_in_each_round() -> None:
    order: list[str] = []

    def taken(name: str) -> float:
        order.append(name)
        return 1.0

    times = rounds.rounds_of({name: partial(taken, name) for name in "abc"}, 2)
    assert [sorted(order[k : k + 3]) for k in (0, 3, 6)] == [["a", "b", "c"]] * 3
    assert order[3] != order[6]
    assert {name: len(of_name) for name, of_name in times.items()} == {"a": 2, "b": 2, "c": 2}


def test_the_limit_is_the_better_finalist() -> None:
    times = {"limit": [2.0, 2.0], "limit, second": [1.0, 1.5], "ours": [2.0, 3.0]}
    found = results(times, {"limit": "eager", "limit, second": "compiled"})["contestants"]
    assert found["limit"]["setting"] == "compiled"
    assert found["ours"]["to_limit"] == {"median": 2.0, "low": 2.0, "high": 2.0}
    assert "limit, second" not in found


def contests(times: dict[str, list[float]]) -> dict[str, object]:
    found = results({**times, "limit, second": times["limit"]}, {"limit": "eager", "limit, second": "eager"})
    more = {"title": "ResNet-20", "n": 10, "long": 20, "rounds": 2, "preparing": {"short": 1.0, "long": 2.0}}
    return {"resnet20": {**more, **found}}


def measurement(*, quick: bool = False) -> dict[str, object]:
    machine = {
        "cores": 2,
        "cpu": "a CPU",
        "threads": 2,
        "python": "3",
        "torch": "2",
        "lvmrs": "0",
        "date": "",
        "load": 0,
    }
    times = {"limit": [1.0, 1.0], "ours, Cohen, long": [1.05, 1.05], "ART, best batch": [1.5, 1.6]}
    points = [
        {"kind": "n", "method": "LVM", "value": n, "seconds": 1.0, "samples": n, "peak": peak}
        for n, peak in ((10_000, 300.0), (1_000_000, 351.0))
    ]
    rows = {"kind": "rows", "method": "Cohen", "value": 50, "seconds": 1.0, "samples": 1, "peak": 1.0}
    return {
        "machine": machine,
        "quick": quick,
        "contests": contests(times),
        "growth": [*points, {**rows, "first": 1.0, "last": 1.05}],
    }


def test_targets_are_judged() -> None:
    found = {each.target.what: each for each in targets.verdicts(measurement())}
    assert found["ours / limit, long run, ResNet-20"].word == "met"
    assert found["ART at its best batch / ours, ResNet-20"].word == "missed"
    assert found["ours / limit, long run, ResNet-110"].word == "not measured"
    assert found["peak memory, n = 10⁶ against 10⁴, MB more"].word == "missed"
    assert found["last rows / first rows of the longest run"].word == "met"
    assert {each.word for each in targets.verdicts(measurement(quick=True))} == {"not judged", "not measured"}


def test_growth_of_nothing_is_not_known() -> None:
    assert memory_growth([], 1, 2) is None
    assert row_growth([]) is None


def test_tables_stand_between_the_marks() -> None:
    made = page.tables(measurement())
    assert "| ours, Cohen, long | 1.05 (1.05–1.05) |" in made
    assert "| ours / limit, long run, ResNet-20 | ≤ 1.1 | 1.05 | met |" in made
    text = page.replaced(f"# Speed\n\n{page.BEGIN}\nstale\n{page.END}\n\nmore\n", made)
    assert text == page.replaced(text, made)
    assert text.startswith("# Speed\n\n<!--")
    assert text.endswith("-->\n\nmore\n")
    assert "stale" not in text
    with pytest.raises(SystemExit, match="once each"):
        page.replaced("# Speed", made)


def test_the_page_has_its_marks() -> None:
    text = (Path(__file__).parents[2] / "docs" / "speed.md").read_text(encoding="utf-8")
    assert (text.count(page.BEGIN), text.count(page.END)) == (1, 1)


def test_busy_processes_end_with_their_block() -> None:
    before = left_behind()
    with contextlib.suppress(KeyError), busy(2):
        assert len(left_behind()) == len(before) + 2
        raise KeyError
    assert left_behind() == before


def test_what_a_process_answers_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "_FOLDER", Path(__file__).parents[2] / "benchmarks")
    done = child.command(["-c", "import os; print(os.environ['XDG_CACHE_HOME'])"])
    assert done.text.strip() != os.environ.get("XDG_CACHE_HOME", "")
    assert done.megabytes > 1
    with pytest.raises(SystemExit, match="exit code 3"):
        child.command(["-c", "import sys; sys.exit(3)"])


def test_what_starts_the_processes_is_small() -> None:
    code = "import json, sys, suite.parts; print(json.dumps([m for m in ('torch', 'numpy') if m in sys.modules]))"
    folder = Path(__file__).parents[2] / "benchmarks"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=folder)  # noqa: S603
    assert json.loads(done.stdout) == []


def test_medians_have_their_range() -> None:
    assert spread.spread([2.0, 1.0, 4.0]).text(1) == "2.0 (1.0–4.0)"
