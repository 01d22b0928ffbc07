"""Certificates of fast versions, by several threads: the same as those of the model itself, or refused."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from lvmrs import Cohen, Duels, SmoothedClassifier, runs
from lvmrs.data import Dataset
from lvmrs.engine import samplers
from lvmrs.engine.execution import Fast
from lvmrs.engine.execution import fast_version as fast_version_
from lvmrs.engine.threads import torch_threads
from lvmrs.engine.way import Way
from lvmrs.errors import DataError, InvalidArgumentError, ModelError
from lvmrs.kernel.exact_noise import ExactGaussian
from lvmrs.models import Loaded
from lvmrs.planners import Planner
from lvmrs.record import Run, Selection
from lvmrs.testing import check_planner
from tests.engine.test_tracing import settled
from tests.runs.helpers import INPUTS, job_of

X = torch.rand(3, 8, 8, generator=torch.Generator().manual_seed(3))
TERMS: dict[str, Any] = {"n0": 100, "n": 1000, "alpha": 0.01}


@pytest.fixture
def three_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three worker threads, whatever machine this is."""
    monkeypatch.setattr(samplers, "cores", lambda: 3)


class Network(nn.Module):
    """A network with normalisation, whose answers to noisy copies of X vary."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.fc = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Linear(288, 3)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.fc(self.norm(self.conv(x)).relu().flatten(1))
        return logits


def network() -> Network:
    torch.manual_seed(0)
    made = Network()
    settled(made)
    with torch.no_grad():
        mean: Tensor = made(X + 0.5 * torch.randn(200, *X.shape, generator=torch.Generator().manual_seed(1))).mean(0)
        made.fc.bias.sub_(mean)
    return made


def scores(smoothed: SmoothedClassifier, n: int = 500) -> Tensor:
    return torch.cat(list(smoothed.scores(X, n).logits()))


@pytest.mark.usefixtures("three_threads")
@pytest.mark.parametrize("noise", ["gaussian", ExactGaussian(16)])
def test_a_crew_gives_the_scores_of_one_thread(noise: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    x = (X * 16).round() / 16
    many = SmoothedClassifier(network(), 0.5, batch=16, noise=noise)
    assert many.prepare(x).workers == 3
    certificates = many.certify_batch([x, x + 1 / 16, x], **TERMS)
    monkeypatch.setattr(samplers, "cores", lambda: 1)
    one = SmoothedClassifier(network(), 0.5, noise=noise, way=many.prepare(x).way)
    assert one.prepare(x).workers == 1
    assert certificates == [one.certify(each, index=k, **TERMS) for k, each in enumerate([x, x + 1 / 16, x])]
    assert torch.equal(*(torch.cat(list(each.scores(x, 300).logits())) for each in (many, one)))


@pytest.mark.usefixtures("three_threads")
def test_scores_are_those_of_the_model_itself() -> None:
    fast, plain = (SmoothedClassifier(network(), 0.5, batch=16, fast=fast) for fast in (True, False))
    assert fast.prepare(X).way.folded
    assert plain.prepare(X).way == Way(16)
    expected = scores(plain)
    torch.testing.assert_close(scores(fast), expected, rtol=0, atol=1e-5 * float(expected.abs().max()))
    assert len(set(expected.argmax(1).tolist())) > 1
    assert fast.certify(X, **TERMS) == plain.certify(X, **TERMS)


@pytest.mark.usefixtures("three_threads")
def test_weights_that_change_are_never_stale() -> None:
    made = network()
    smoothed = SmoothedClassifier(made, 0.5, batch=16)
    smoothed.certify(X, **TERMS)
    with torch.no_grad():
        made.fc.weight *= 1 + 1e-5
    with pytest.raises(ModelError, match="weights or attributes of the model have changed"):
        smoothed.certify(X, **TERMS)


@pytest.mark.usefixtures("three_threads")
def test_a_change_that_torch_does_not_count_is_found() -> None:
    made = network()
    smoothed = SmoothedClassifier(made, 0.5, batch=16)
    smoothed.certify(X, **TERMS)
    made.fc.weight.data *= 2
    with pytest.raises(ModelError, match="weights or attributes of the model have changed"):
        smoothed.certify(X, **TERMS)


class Off(nn.Module):
    """A fast version that is wrong for some inputs, as a compiler with a mistake would make it."""

    def __init__(self, inner: nn.Module, share: float) -> None:
        super().__init__()
        self.inner, self.share = inner, share

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.inner(x)
        wrong = x.flatten(1).sum(1).mul(1e3).frac().abs() < self.share
        return torch.where(wrong[:, None], logits.roll(1, dims=1), logits)


@pytest.mark.usefixtures("three_threads")
def test_a_fast_version_that_is_wrong_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def off(model: object, inputs: Tensor, precision: object) -> Fast | None:
        made = fast_version_(model, inputs)
        assert made is not None
        return replace(made, network=Off(made.network, 0.5))

    monkeypatch.setattr(samplers, "fast_version", off)
    smoothed = SmoothedClassifier(network(), 0.5, batch=16)
    with pytest.raises(ModelError, match="the fast version of the model gives other logits than the model itself"):
        smoothed.certify_batch([X] * 10, **TERMS)  # three rows of the last piece of each input are compared


@pytest.mark.usefixtures("three_threads")
def test_what_is_wrong_with_an_input_is_said_when_its_turn_comes() -> None:
    smoothed = SmoothedClassifier(network(), 0.5, batch=16)

    def inputs() -> Iterator[tuple[int, Tensor]]:
        yield 0, X
        yield 1, X
        yield 2, X * torch.nan
        raise AssertionError("nothing is asked for after an error")

    found = smoothed.certificates(inputs(), **TERMS)
    assert next(found).prediction >= -1
    assert next(found).prediction >= -1
    with pytest.raises(InvalidArgumentError, match="x must be finite"):
        next(found)

    def failing() -> Iterator[tuple[int, Tensor]]:
        yield 0, X
        raise DataError("the disk is gone")

    found = smoothed.certificates(failing(), **TERMS)
    assert next(found).prediction >= -1
    with pytest.raises(DataError, match="the disk is gone"):
        next(found)


class Blind(Planner):
    """Reads no scores, or one piece of them."""

    pieces = 0

    def choose(self, logits: Any, terms: Any) -> Any:
        for _ in range(self.pieces):
            next(iter(logits))
        return Cohen().choose([torch.eye(3)], terms)


@pytest.mark.usefixtures("three_threads")
@pytest.mark.parametrize("pieces", [0, 1])
def test_planners_need_not_read_all_scores(pieces: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Blind, "pieces", pieces)
    smoothed = SmoothedClassifier(network(), 0.5, batch=16)
    found = smoothed.certify_batch([X, X], Blind(), **TERMS)
    assert [certificate.top for certificate in found] == [0, 0]
    expected = smoothed.scores(X, 1000, index=1)
    won = sum(int((portion.logits.argmax(1) == 0).sum()) for portion in expected)
    assert found[1].p_lower == pytest.approx(_lower(won, 1000, 0.01), rel=1e-9)


def _lower(won: int, n: int, risk: float) -> float:
    from lvmrs.kernel.bounds import clopper_pearson

    return float(clopper_pearson.lower(won, n, risk))


@pytest.mark.usefixtures("three_threads")
def test_a_planner_that_fails_leaves_no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    import threading

    class Failing(Blind):
        def choose(self, logits: Any, terms: Any) -> Any:
            raise ArithmeticError("on purpose")

    smoothed, alive = SmoothedClassifier(network(), 0.5, batch=16), threading.active_count()
    with torch_threads(2):
        with pytest.raises(Exception, match="on purpose"):
            smoothed.certify(X, Failing(), **TERMS)
        assert torch.get_num_threads() == 2
    assert threading.active_count() == alive
    check_planner(Duels())


@pytest.mark.usefixtures("three_threads")
def test_rows_of_a_run_are_those_of_one_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def linear() -> nn.Module:
        made = nn.Sequential(nn.Flatten(), nn.Linear(12, 5), nn.ReLU(), nn.Linear(5, 3))
        generator = torch.Generator().manual_seed(0)
        for parameter in made.parameters():
            nn.init.normal_(parameter, generator=generator)
        return made.eval()

    def rows(name: str, made: Callable[[], Any]) -> tuple[str, Run]:
        run = runs.certify(made(), tmp_path / name)
        lines = run.file.read_text().splitlines()
        column = lines[0].split("\t").index("time")
        return "\n".join("\t".join(c for k, c in enumerate(line.split("\t")) if k != column) for line in lines), run

    first, run = rows("crew", lambda: job_of(Duels(), model=linear(), keep=True, selection=Selection(INPUTS)))
    assert run.manifest.running is not None
    assert run.manifest.running.folded
    monkeypatch.setattr(samplers, "cores", lambda: 1)
    second, _ = rows("one", lambda: job_of(Duels(), model=linear(), keep=True, selection=Selection(INPUTS)))
    assert first == second


def test_a_run_that_was_begun_folded_is_not_continued_otherwise() -> None:
    smoothed = SmoothedClassifier(lambda x: x.flatten(1)[:, :3], 0.5, way=Way(16, folded=True))
    with pytest.raises(ModelError, match="begun with the model as a list of steps"):
        smoothed.prepare(X)
    with pytest.raises(InvalidArgumentError, match="batch must be 16 here, got 8"):
        SmoothedClassifier(network(), 0.5, batch=8, way=Way(16))


@pytest.mark.usefixtures("three_threads")
def test_inputs_are_copied_before_they_are_read_ahead() -> None:
    """Data sets and loops may use the memory of an input again."""
    eye = nn.Linear(5, 5, bias=False)
    with torch.no_grad():
        eye.weight.copy_(torch.eye(5))
    memory = torch.zeros(5)

    def again() -> Iterator[tuple[int, Tensor]]:
        for index in range(5):
            memory.zero_()
            memory[index] = 1.0
            yield index, memory

    smoothed = SmoothedClassifier(eye.eval(), 0.2, batch=16)
    assert smoothed.prepare(memory).workers == 3
    found = [certificate.top for certificate in smoothed.certificates(again(), Cohen(), **TERMS)]
    assert found == [0, 1, 2, 3, 4]


class Reusing(Dataset):
    """Gives each input in the same memory."""

    name, split = "reusing", "test"

    def __init__(self) -> None:
        self.memory = torch.zeros(5)

    def __len__(self) -> int:
        return 5

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        self.memory.zero_()
        self.memory[index] = 1.0
        return self.memory, index

    def fingerprint(self) -> str:
        return "reusing"


@pytest.mark.usefixtures("three_threads")
def test_rows_are_of_their_inputs_whatever_the_indices_come_in() -> None:
    eye = nn.Linear(5, 5, bias=False)
    with torch.no_grad():
        eye.weight.copy_(torch.eye(5))
    model = Loaded.of(eye.eval(), "eye")
    smoothed = SmoothedClassifier(model.model, 0.2, batch=16)
    job = runs.Job(model, Reusing(), smoothed, Cohen(), runs.Sampling(n0=50, n=200), Selection(5))
    rows = list(job.rows(iter(range(5))))
    assert [(row.idx, row.label, row.clean, row.predict) for row in rows] == [(k, k, k, k) for k in range(5)]


@pytest.mark.usefixtures("three_threads")
def test_autocast_around_a_call_does_not_depend_on_threads() -> None:
    smoothed = SmoothedClassifier(network(), 0.5, batch=16)
    assert smoothed.sampler(X)[0].workers == 3
    with torch.autocast("cpu", torch.bfloat16):
        assert next(smoothed.scores(X, 10).logits()).dtype == torch.bfloat16
    assert next(smoothed.scores(X, 10).logits()).dtype == torch.float32


@pytest.mark.usefixtures("three_threads")
def test_a_caller_with_a_certificate_has_its_own_number_of_threads() -> None:
    smoothed = SmoothedClassifier(network(), 0.5, batch=16)
    with torch_threads(2):
        first, second = (smoothed.certificates(enumerate([X] * 3), Cohen(), **TERMS) for _ in range(2))
        for certificates in (first, second, first):
            next(certificates)
            assert torch.get_num_threads() == 2
        first.close()  # type: ignore[attr-defined]
        second.close()  # type: ignore[attr-defined]
        assert torch.get_num_threads() == 2
