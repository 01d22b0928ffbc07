"""Models that look around in their batch, are random or remember are found; honest ones pass, and cost little more."""

import math
import random
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from scipy import stats
from torch import Tensor, nn
from torch.nn import functional

from lvmrs import Cohen, Deterministic, SmoothedClassifier, Terms, models, runs
from lvmrs import runs as jobs
from lvmrs.errors import ModelError
from lvmrs.kernel.noise import Stream
from lvmrs.kernel.proof import prove
from lvmrs.kernel.sampler import Sampler
from lvmrs.models import Denoised, ResNet
from lvmrs.models.fixed_batch import InParts
from lvmrs.models.networks import DnCNN
from lvmrs.record import Selection
from tests.models.test_load import network, write_onnx
from tests.runs.helpers import INPUTS, job_of

SHAPE, SIGMA = (3, 8, 8), 0.25
WEIGHTS = functional.normalize(torch.randn(192, generator=torch.Generator().manual_seed(3)), dim=0)
MIDDLE = torch.rand(SHAPE, generator=torch.Generator().manual_seed(4))
LOOKS = r"depends on the other inputs in its batch"
RANDOM = r"gives different answers to the same inputs"

Batch = Callable[[Tensor], Tensor]


def margin(x: Tensor) -> Tensor:
    """The distance of each row from a plane, with its sign."""
    return (x - MIDDLE).flatten(1) @ WEIGHTS.to(x.dtype)


def honest(x: Tensor) -> Tensor:
    """Two classes, one on each side of the plane."""
    distance = margin(x)
    return torch.stack([distance, -distance], dim=1)


def at(distance: float, index: int = 0) -> Tensor:
    """An input at that distance from the plane; its smoothed answer is robust so far and no farther."""
    along = torch.randn(192, generator=torch.Generator().manual_seed(10 + index)) * 0.1
    return MIDDLE + ((along - (along @ WEIGHTS) * WEIGHTS) + distance * WEIGHTS).reshape(SHAPE)


def voted(logits: Tensor) -> Tensor:
    """The answer of most rows, for all rows."""
    return functional.one_hot(logits.argmax(dim=1).mode().values, logits.shape[1]).expand_as(logits).to(logits)


def near_ones(x: Tensor) -> Tensor:
    """Each row has the answer of most rows that are close to it."""
    close = torch.cdist(x.flatten(1), x.flatten(1)) < 8 * SIGMA * math.sqrt(192)
    return honest(x).sign()[None].expand(len(x), -1, -1).mul(close[..., None]).sum(dim=1).sign()


LOOKING_AROUND: dict[str, Batch] = {
    "majority": lambda x: voted(honest(x)),
    "majority, scaled up": lambda x: voted(honest(x)) + 1e5,
    "mean logits": lambda x: honest(x).mean(dim=0).expand(len(x), -1),
    "a little of the mean": lambda x: honest(x) + 0.05 * honest(x).mean(dim=0),
    "mean subtracted": lambda x: honest(x) - honest(x).mean(dim=0),
    "normalised in train mode": lambda x: honest(functional.batch_norm(x, None, None, training=True)),
    "scaled by the largest of the batch": lambda x: honest(x / x.abs().max()),
    "place in the batch": lambda x: honest(x) + torch.arange(len(x))[:, None] * torch.tensor([0.01, 0.0]),
    "batch size": lambda x: honest(x) + len(x) * torch.tensor([0.01, 0.0]),
    "first row": lambda x: honest(x) + honest(x[:1]),
    "last row": lambda x: honest(x) + honest(x[-1:]),
    "neighbour": lambda x: honest(x) + 0.5 * honest(x).roll(1, dims=0),
    "majority in large batches": lambda x: voted(honest(x)) if len(x) > 100 else honest(x),
    "majority of the rows close by": near_ones,
    "an answer depends on half of the batch": lambda x: torch.cat([honest(x[::2]), honest(x[1::2])]),
    "softmax over the batch": lambda x: honest(x).softmax(dim=0),
}


def is_found(model: Batch, inputs: int, n: int, seed: int = 0) -> bool:
    """Whether the model is refused before these inputs are certified."""
    smoothed = SmoothedClassifier(model, SIGMA, batch=128)
    try:
        for index in range(inputs):
            smoothed.certify(at(0.2, index), Cohen(), n0=100, n=n, index=index, seed=seed)
    except ModelError:
        return True
    return False


@pytest.mark.parametrize("case", LOOKING_AROUND)
def test_a_model_that_looks_around_in_its_batch_is_refused_at_the_first_input(case: str) -> None:
    smoothed = SmoothedClassifier(LOOKING_AROUND[case], SIGMA, batch=128)
    with pytest.raises(ModelError, match=LOOKS) as caught:
        smoothed.certify(at(0.2), Cohen(), n0=100, n=3000)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("batch", [2, 10, 500])
def test_a_majority_is_found_in_batches_of_any_size(batch: int) -> None:
    for index in range(10):
        with pytest.raises(ModelError, match=LOOKS):
            SmoothedClassifier(LOOKING_AROUND["majority"], SIGMA, batch=batch).certify(at(0.2, index), n0=100, n=1000)


def test_a_majority_far_from_the_decision_is_found_by_a_mixed_batch() -> None:
    """All noisy copies have one answer, so that only rows of another class show what happens."""
    with pytest.raises(ModelError, match=LOOKS):
        SmoothedClassifier(LOOKING_AROUND["majority"], SIGMA, batch=128).certify(at(1.2), n0=100, n=1000)


@pytest.mark.parametrize("program", ["majority", "mean subtracted", "first row"])
def test_programs_for_batches_of_one_size_are_checked_too(program: str) -> None:
    with pytest.raises(ModelError, match=LOOKS):
        SmoothedClassifier(InParts(LOOKING_AROUND[program], 16), SIGMA, batch=64).certify(at(0.2), n0=100, n=1000)


@pytest.mark.statistical
def test_rows_alone_find_what_they_promise() -> None:
    """A share q of the answers in large batches is wrong: m rows find it with probability 1 − (1 − q)ᵐ."""
    share, rows = 0.2, 3  # of the last batch
    wrong = stats.norm.ppf(share) * math.sqrt(0.1)

    def sometimes(x: Tensor) -> Tensor:
        logits, other = honest(x), (x - at(0.2)).flatten(1)[:, :10].mean(dim=1) < wrong * SIGMA
        return torch.where(other[:, None] & (len(x) > 100), -logits, logits)

    found = sum(is_found(sometimes, inputs=1, n=256, seed=seed) for seed in range(200))
    assert stats.binomtest(found, 200, 1 - (1 - share) ** rows).pvalue > 1e-4


# ---- models that are random or remember


class Dropout(nn.Module):
    """It is left on, whatever the mode of the module."""

    def forward(self, x: Tensor) -> Tensor:
        return honest(functional.dropout(x, 0.1, training=True))


class RunningMean(nn.Module):
    """It updates its statistics in eval mode too."""

    def __init__(self) -> None:
        super().__init__()
        self.mean = torch.zeros(2)

    def forward(self, x: Tensor) -> Tensor:
        logits = honest(x) - self.mean
        self.mean = 0.9 * self.mean + 0.1 * honest(x).mean(dim=0)
        return logits


class Changing(nn.Module):
    """It is honest up to its n-th call, and another function after it."""

    def __init__(self, calls: int, after: Callable[[Tensor, int], Tensor]) -> None:
        super().__init__()
        self.calls, self.after, self.left = 0, after, calls
        self.generator = torch.Generator().manual_seed(0)

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return honest(x) if self.calls < self.left else self.after(x, self.calls - self.left)


def noisy(x: Tensor, calls: int) -> Tensor:
    return honest(x) + torch.randn(len(x), 2, generator=torch.Generator().manual_seed(calls))


FORGETFUL: dict[str, Callable[[], Batch]] = {
    "dropout": Dropout,
    "running statistics": RunningMean,
    "previous batch": lambda: Previous(),
    "counts its calls": lambda: Changing(0, lambda x, calls: honest(x) + calls * torch.tensor([0.1, 0.0])),
}


class Previous(nn.Module):
    """It answers with the logits of the call before."""

    def __init__(self) -> None:
        super().__init__()
        self.before = torch.zeros(4096, 2)

    def forward(self, x: Tensor) -> Tensor:
        before = self.before[: len(x)].clone()
        self.before[: len(x)] = honest(x)
        return before


@pytest.mark.parametrize("case", FORGETFUL)
def test_a_model_that_is_random_or_remembers_is_refused(case: str) -> None:
    with pytest.raises(ModelError, match=RANDOM):
        SmoothedClassifier(FORGETFUL[case](), SIGMA, batch=128).certify(at(0.2), n0=100, n=1000)


CHANGES: dict[str, Callable[[Tensor, int], Tensor]] = {
    "random": noisy,
    "other weights": lambda x, calls: honest(x) + torch.tensor([0.1, 0.0]),
    "slow drift": lambda x, calls: honest(x) + calls * torch.tensor([1e-4, 0.0]),
    "majority": lambda x, calls: voted(honest(x)),
}


@pytest.mark.parametrize("case", CHANGES)
@pytest.mark.parametrize("calls", [50, 90, 140])
def test_a_model_that_changes_is_found_before_the_row_is_written(case: str, calls: int) -> None:
    """Slow drift is found when it is larger than rounding, the others in the input that they begin in."""
    model = Changing(calls, CHANGES[case])
    smoothed = SmoothedClassifier(model, SIGMA, batch=32)
    certified = []

    def certify_ten() -> None:
        for index in range(10):
            smoothed.certify(at(0.2, index), Cohen(), n0=32, n=1000, index=index)
            certified.append(model.calls)

    with pytest.raises(ModelError, match=r" \(found while input \d+ was sampled\)$"):
        certify_ten()
    assert case == "slow drift" or all(made < calls for made in certified)


def test_other_weights_need_a_new_classifier() -> None:
    linear = nn.Linear(192, 3)
    network = nn.Sequential(nn.Flatten(), linear)
    smoothed = SmoothedClassifier(network, SIGMA, batch=64)
    smoothed.certify(at(0.2), n0=100, n=300)
    with torch.no_grad():
        linear.bias.add_(torch.tensor([0.5, 0.0, 0.0]))
    with pytest.raises(ModelError, match="weights or attributes of the model have changed"):
        smoothed.certify(at(0.2), n0=100, n=300)
    assert SmoothedClassifier(network, SIGMA, batch=64).certify(at(0.2), n0=100, n=300).n == 300


@pytest.mark.statistical
def test_a_model_that_is_rarely_random_is_found_with_a_known_probability() -> None:
    """A check depends on four calls, each of which is random with probability 0.01."""
    found = 0
    for seed in range(40):
        chance = random.Random(seed)  # noqa: S311

        def rarely(x: Tensor, calls: int, chance: random.Random = chance) -> Tensor:
            return noisy(x, calls) if chance.random() < 0.01 else honest(x)

        found += is_found(Changing(60, rarely), inputs=20, n=1024)
    # In the last batch of 20 inputs: that batch, a row between unlike rows, and two rows alone.
    assert stats.binomtest(found, 40, 1 - 0.99 ** (20 * 4)).pvalue > 1e-4


def test_a_run_stops_and_keeps_the_rows_that_were_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = 0

    def turning(x: Tensor) -> Tensor:
        nonlocal calls
        calls += 1
        logits = x[:, :3].double()
        return logits + torch.randn(logits.shape, generator=torch.Generator().manual_seed(calls)) * (calls > 120)

    written: list[int] = []
    with pytest.raises(ModelError, match=rf"{RANDOM}.*\(found while input \d+ was sampled\)$"):
        jobs.certify(job_of(Cohen(), model=turning), tmp_path / "a", on_row=lambda row: written.append(row.idx))
    assert 0 < len(written) < INPUTS
    job = job_of(Cohen(), model=lambda x: x[:, :3].double(), selection=Selection(INPUTS))
    expected = [job.row(index) for index in written]
    kept = runs.Run(tmp_path / "a").file.read_text().splitlines()
    assert [line.split("\t")[:5] for line in kept[1:]] == [row.text(runs.COLUMNS).split("\t")[:5] for row in expected]


# ---- answers in memory that is used again


class StaticBuffer(nn.Module):
    """It writes its answers into the same memory each time."""

    def __init__(self, model: Batch) -> None:
        super().__init__()
        self.model, self.memory = model, torch.zeros(4096, 2)

    def forward(self, x: Tensor) -> Tensor:
        self.memory[: len(x)] = self.model(x)
        return self.memory[: len(x)]


def test_answers_in_a_static_buffer_are_copied_at_once() -> None:
    plain, buffered = (SmoothedClassifier(model, SIGMA, batch=64) for model in (honest, StaticBuffer(honest)))
    kept = list(buffered.scores(at(0.2), 300).logits())
    assert torch.equal(torch.cat(kept), torch.cat(list(plain.scores(at(0.2), 300).logits())))
    ours, theirs = (smoothed.certify(at(0.2), n0=300, n=1000) for smoothed in (plain, buffered))
    assert ours.radius == theirs.radius


@pytest.mark.parametrize("case", ["majority", "mean subtracted", "place in the batch"])
def test_a_static_buffer_hides_nothing(case: str) -> None:
    with pytest.raises(ModelError, match=LOOKS):
        SmoothedClassifier(StaticBuffer(LOOKING_AROUND[case]), SIGMA, batch=64).certify(at(0.2), n0=100, n=1000)
    with pytest.raises(ModelError, match=RANDOM):
        SmoothedClassifier(StaticBuffer(Dropout()), SIGMA, batch=64).certify(at(0.2), n0=100, n=1000)


# ---- honest models


def cnn(kind: torch.dtype = torch.float32, layout: torch.memory_format = torch.contiguous_format) -> nn.Module:
    torch.manual_seed(0)
    network: nn.Module = nn.Sequential(
        nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.Conv2d(8, 16, 3, 2, 1), nn.ReLU(),
        nn.Dropout(0.5), nn.Flatten(), nn.Linear(64, 10),
    ).to(dtype=kind, memory_format=layout)  # type: ignore[call-overload]  # fmt: skip
    return network


class Cast(nn.Module):
    """It runs a network in its own precision."""

    def __init__(self, network: nn.Module, kind: torch.dtype) -> None:
        super().__init__()
        self.network, self.kind = network, kind

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.network(x.to(self.kind))
        return logits.float()


class Standardised(nn.Module):
    """Each image has mean 0 and deviation 1; an image of one colour has neither."""

    def forward(self, x: Tensor) -> Tensor:
        return honest((x - x.mean(dim=(1, 2, 3), keepdim=True)) / x.std(dim=(1, 2, 3), keepdim=True))


def in_place(x: Tensor) -> Tensor:
    """It changes its input."""
    return honest(x.sub_(0.5).mul_(2))


HONEST: dict[str, Callable[[], Batch]] = {
    "a plane": lambda: honest,
    "a plane far from 0": lambda: lambda x: honest(x) + 1e5,
    "one answer for all": lambda: lambda x: torch.zeros(len(x), 3),
    "votes": lambda: (
        lambda x: voted(honest(x)[:1]) if len(x) == 1 else functional.one_hot(honest(x).argmax(1), 2) * 1.0
    ),
    "in place": lambda: in_place,
    "view of its input": lambda: lambda x: x.flatten(1)[:, :5],
    "standardised": Standardised,
    "cnn with BatchNorm and Dropout": cnn,
    "float64 inside": lambda: lambda x: honest(x.float()).double(),
    "bfloat16": lambda: Cast(cnn(torch.bfloat16), torch.bfloat16),
    "float16": lambda: Cast(cnn(torch.float16), torch.float16),
    "bfloat16 logits": lambda: lambda x: honest(x).bfloat16(),
    "channels last": lambda: cnn(layout=torch.channels_last),
    "layer normalisation": lambda: nn.Sequential(nn.Flatten(), nn.LayerNorm(192), nn.Linear(192, 3)),
    "fixed batch of 16": lambda: InParts(cnn().eval(), 16),
    "fixed batch of 1": lambda: InParts(cnn().eval(), 1),
    "denoised": lambda: Denoised(DnCNN(channels=3, depth=3, width=4), cnn()),
    "rounds its input": lambda: lambda x: honest((x * 8).round() / 8),
}


def passes(model: Batch, inputs: list[Tensor], n: int = 300, precision: str | None = None) -> None:
    smoothed = SmoothedClassifier(model, SIGMA, batch=64, precision=precision)
    for index, x in enumerate(inputs):
        before = x.clone()
        smoothed.certify(x, n0=20, n=n, index=index)
        smoothed.answer(x)
        assert torch.equal(x, before)


@pytest.mark.parametrize("case", HONEST)
def test_honest_models_pass(case: str) -> None:
    passes(HONEST[case](), [at(0.2, 0), at(-0.1, 1), at(1.5, 2)])


@pytest.mark.parametrize("precision", [None, "bfloat16"])
def test_ready_networks_pass(precision: str | None) -> None:
    torch.manual_seed(0)
    passes(ResNet(8), list(torch.rand(2, 3, 32, 32)), n=70, precision=precision)


@pytest.mark.slow
@pytest.mark.parametrize("precision", [None, "bfloat16"])
@pytest.mark.parametrize("name", ["resnet20", "cifar_resnet20", "sandwich_small", "fast_cnn"])
def test_every_ready_network_passes(name: str, precision: str | None) -> None:
    torch.manual_seed(0)
    passes(models.load(f"ready:{name}").model, list(torch.rand(3, 3, 32, 32)), precision=precision)


@pytest.mark.parametrize("shape", [(), (1,), (5,), (2, 3), (1, 2, 3, 4)])
@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
def test_inputs_of_any_shape_pass(shape: tuple[int, ...], kind: torch.dtype) -> None:
    def summed(x: Tensor) -> Tensor:
        total = x.reshape(len(x), -1).sum(dim=1)
        return torch.stack([total, -total, 0 * total], dim=1)

    passes(summed, [torch.zeros(shape, dtype=kind), torch.ones(shape, dtype=kind), torch.full(shape, -3.0, dtype=kind)])


@pytest.mark.parametrize("batch", ["n", 4])
def test_onnx_models_pass(tmp_path: Path, batch: int | str) -> None:
    write_onnx(tmp_path / "net.onnx", network(), batch)
    passes(models.load(f"onnx:{tmp_path / 'net.onnx'}").model, list(torch.rand(3, 1, 8, 8)))


@pytest.mark.slow
def test_compiled_models_pass() -> None:
    smoothed = SmoothedClassifier(cnn(), SIGMA, compile=True)
    for index in range(3):
        assert smoothed.certify(at(0.2, index), n0=100, n=1000, index=index).n == 1000


def test_a_deterministic_certificate_needs_an_honest_model_too() -> None:
    assert SmoothedClassifier(honest, None, 1.5).certify(at(0.2), Deterministic()).radius > 0.1
    with pytest.raises(ModelError, match=LOOKS):
        SmoothedClassifier(LOOKING_AROUND["mean subtracted"], None, 1.5).certify(at(0.2), Deterministic())


# ---- what the check leaves alone, and what it costs


def test_the_check_changes_no_score_and_no_random_state() -> None:
    x, terms = at(0.2), Terms(SIGMA, 0.001, 1000)
    state, other = torch.get_rng_state(), random.getstate()
    checked = SmoothedClassifier(honest, SIGMA, batch=64).certify(x, Cohen(), n0=100, n=1000, seed=3, index=5)
    assert torch.equal(torch.get_rng_state(), state)
    assert random.getstate() == other
    plain = Sampler(honest, SIGMA, 64)
    plan = Cohen().plan(plain.scores(x, Stream(3, 5, "selection"), 100), terms)
    unchecked = prove(plan, terms, plain.scores(x, Stream(3, 5, "certification"), 1000))
    assert (checked.radius, checked.p_lower) == (unchecked.radius, unchecked.p_lower)


@pytest.mark.parametrize(("model_batch", "calls", "rows"), [(1, 6, 10), (16, 2, 10)])
def test_a_run_is_checked_in_few_calls(model_batch: int, calls: int, rows: int) -> None:
    """In the 16th batch and the last: a row between two unlike rows, and two alone where this costs no batch."""
    sizes: list[int] = []

    def counting(x: Tensor) -> Tensor:
        sizes.append(len(x))
        return honest(x)

    class Program(nn.Module):
        runs_in_parts_of = model_batch

        def forward(self, x: Tensor) -> Tensor:
            return counting(x)

    smoothed = SmoothedClassifier(Program(), SIGMA, batch=128)
    smoothed.certify(at(0.2), n0=1000, n=3000)
    sizes.clear()
    smoothed.certify(at(0.3), n0=1000, n=3000, index=1)
    assert len(sizes) == 8 + 24 + calls
    assert sum(sizes) == 4000 + rows
