"""Networks in a 16-bit type: what is certified is the network in that type, and it is compared with the model."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from lvmrs import Duels, Run, SmoothedClassifier, data, models, runs
from lvmrs.analysis.report.settings import guarantee
from lvmrs.engine import samplers
from lvmrs.engine.execution import fast_version
from lvmrs.engine.tracing import NotTraceableError
from lvmrs.engine.way import Way
from lvmrs.errors import InvalidArgumentError, ModelError
from lvmrs.models import ResNet
from tests.engine.test_sampled import Off
from tests.engine.test_tracing import settled

X = torch.arange(3 * 16 * 16).reshape(3, 16, 16) % 256 / 255
TERMS: dict[str, Any] = {"n0": 50, "n": 400, "alpha": 0.01}


def network() -> nn.Module:
    torch.manual_seed(0)
    return settled(ResNet(8))


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_a_traced_network_is_cast_once(precision: str) -> None:
    made, kind = network(), getattr(torch, precision)
    rows = torch.rand(8, 3, 16, 16)
    fast = fast_version(made, rows, kind)
    assert fast.folded
    assert {weight.dtype for weight in fast.network.parameters()} == {kind}
    with torch.inference_mode():
        logits = fast.network(rows)
        apart = (logits - made(rows)).abs().max()
    assert logits.dtype == torch.float32
    assert 0 < float(apart) < 0.1 * float(logits.std())


def test_certificates_are_about_the_network_in_that_type() -> None:
    plain = SmoothedClassifier(network(), 0.25, batch=32, noise="exact")
    lower = SmoothedClassifier(network(), 0.25, batch=32, noise="exact", precision="bfloat16")
    assert (plain.precision, lower.precision) == (None, "bfloat16")
    assert SmoothedClassifier(network(), 0.25, precision="float32").precision is None
    first, second = plain.certify(X, **TERMS), lower.certify(X, **TERMS)
    assert first.prediction == second.prediction
    assert abs(first.radius - second.radius) < 0.05
    assert "bfloat16" not in first.guarantee
    assert "(the same for all inputs; the network runs in bfloat16) answers with class" in second.guarantee
    assert lower.prepare(X).why_not_fast is None
    clean = plain._logits(X), lower._logits(X)  # the clean answer is that of the network that is certified
    assert 0 < float((clean[0] - clean[1]).abs().max()) < 0.2
    assert plain.answer(X) == lower.answer(X)


class Sized(nn.Module):
    """Computes in float32 for small images, so that its trace cannot be cast for them."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last = nn.Conv2d(3, 4, 3), nn.Linear(4, 5)

    def forward(self, x: Tensor) -> Tensor:
        """Logits of the mean over the image."""
        means = self.first(x).relu().mean((2, 3))
        logits: Tensor = self.last(means.float().relu() if x.shape[2] < 10 else means)
        return logits


class Upcast(nn.Module):
    """Computes a part in float32 whatever its inputs are, so that its trace cannot be cast."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(768, 16), nn.Linear(16, 5)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.last(self.first(x.flatten(1)).float().relu())
        return logits


def test_a_network_that_cannot_be_cast_runs_under_autocast() -> None:
    torch.manual_seed(0)
    smoothed = SmoothedClassifier(Upcast().eval(), 0.25, batch=32, precision="bfloat16")
    assert smoothed.prepare(X).why_not_fast is not None
    sampler = smoothed._samplers.of(X)
    assert sampler.autocast == torch.bfloat16
    assert sampler.answers_as_run(X[None]).dtype == sampler.answers(X[None], 0).dtype == torch.float32
    assert smoothed.precision == "autocast-bfloat16"
    assert "the network runs in bfloat16 under autocast" in smoothed.certify(X, **TERMS).guarantee
    assert "in bfloat16 under autocast; the model runs as it is" in smoothed.prepare(X).words


def lower_logits(**settings: Any) -> tuple[SmoothedClassifier, float]:
    """A classifier in bfloat16, and how far the logits that it certifies are from those of the model in float32."""
    made = network()
    smoothed = SmoothedClassifier(made, 0.25, batch=32, **settings)
    rows = torch.rand(8, 3, 16, 16)
    with torch.inference_mode():
        apart = (smoothed._samplers.of(X).answers_as_run(rows.clone()) - made(rows)).abs().max()
    return smoothed, float(apart)


@pytest.mark.parametrize(
    ("settings", "precision"),
    [
        ({}, "bfloat16"),
        ({"fast": False}, "autocast-bfloat16"),
        ({"way": Way(32)}, "autocast-bfloat16"),  # as a run with fast=False records it
        ({"precision": "autocast-bfloat16"}, "autocast-bfloat16"),
        ({"fast": False, "compile": True}, "autocast-bfloat16"),
    ],
    ids=str,
)
def test_the_network_never_runs_in_another_precision_than_is_said(
    settings: dict[str, Any], precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "compile", lambda model, **_: model)
    smoothed, apart = lower_logits(**{"precision": "bfloat16", **settings})
    assert smoothed.precision == precision
    assert apart > 1e-4
    assert smoothed.certify(X, **TERMS).precision == precision


@pytest.mark.parametrize("model", [network(), Upcast().eval()], ids=["cast", "autocast"])
def test_terms_name_the_precision_before_the_first_sample(model: nn.Module) -> None:
    smoothed = SmoothedClassifier(model, 0.25, batch=32, precision="bfloat16")
    assert smoothed.terms(0.01, 400).precision == "bfloat16"  # no input shows yet whether it can be cast
    terms = smoothed.terms(0.01, 400, X)
    assert terms.precision == smoothed.precision == smoothed.certify(X, **TERMS).precision


def test_one_precision_serves_all_inputs() -> None:
    smoothed = SmoothedClassifier(network(), 0.25, batch=32, precision="bfloat16")
    smoothed.agreement(X)  # casts the network
    smoothed.fix_way(Way(32))
    with pytest.raises(ModelError, match="was begun under autocast, and here the network was cast to bfloat16"):
        smoothed.prepare(X)
    wide = SmoothedClassifier(Sized(), 0.25, batch=32, precision="bfloat16")
    assert wide.certify(X, **TERMS).precision == "bfloat16"
    with pytest.raises(ModelError, match=r"was cast to bfloat16 for other inputs, and cannot be cast for"):
        wide.certify(X[:, :8], **TERMS)
    first = SmoothedClassifier(Sized(), 0.25, batch=32, precision="bfloat16")
    both = [first.certify(x, **TERMS).precision for x in (X[:, :8], X)]
    assert both == ["autocast-bfloat16"] * 2


def test_networks_that_compute_their_weights_run_under_autocast() -> None:
    with pytest.raises(NotTraceableError, match="computes its weights in float32"):
        fast_version(models.load("ready:sandwich_small").model, torch.rand(4, 3, 32, 32), torch.bfloat16)


def test_a_wrong_network_in_bfloat16_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def off(model: object, inputs: Tensor, precision: torch.dtype | None) -> Any:
        made = fast_version(model, inputs, precision)
        return replace(made, network=Off(made.network, 0.5))

    monkeypatch.setattr(samplers, "fast_version", off)
    smoothed = SmoothedClassifier(network(), 0.25, batch=32, precision="bfloat16")
    with pytest.raises(ModelError, match="the fast version of the model gives other logits than the model itself"):
        smoothed.certify_batch([X] * 10, **TERMS)


def test_weights_that_overflow_are_not_cast() -> None:
    last = nn.Linear(768, 5)
    made = nn.Sequential(nn.Flatten(), last).eval()
    with torch.no_grad():
        last.weight *= 1e6
    with pytest.raises(NotTraceableError, match="gives other logits"):
        fast_version(made, torch.rand(8, 3, 16, 16), torch.float16)


def test_a_lipschitz_constant_is_not_used_with_it() -> None:
    smoothed = SmoothedClassifier(network(), 0.25, 10.0, batch=32, precision="bfloat16")
    with pytest.raises(InvalidArgumentError, match="bfloat16 rounds inside of the model"):
        smoothed.certify(X, Duels("chosen"), **TERMS)


def test_runs_record_it_and_keep_to_it(tmp_path: Path) -> None:
    inputs = data.Arrays("three", "test", np.stack([X.numpy()] * 3), np.zeros(3, dtype=np.int64))
    loaded = models.Loaded.of(network(), "resnet")
    smoothed = SmoothedClassifier(loaded.model, 0.25, batch=32, noise="exact", precision="bfloat16")
    job = runs.Job(loaded, inputs, smoothed, Duels(), runs.Sampling(0.01, 50, 400), runs.Selection(3))
    run = runs.certify(job, tmp_path / "a")
    assert run.manifest.model.precision == "bfloat16"
    assert "with the network in bfloat16" in guarantee(run.manifest, list(run.rows()))
    assert run.manifest.any_device
    assert not replace(run.manifest, model=replace(run.manifest.model, precision="autocast-bfloat16")).any_device
    again = replace(job, smoothed=SmoothedClassifier(loaded.model, 0.25, batch=32, noise="exact"))
    with pytest.raises(Exception, match="precision"):
        runs.certify(again, tmp_path / "a", resume=True)
    assert runs.verify(Run(tmp_path / "a"), job).stands


@pytest.mark.parametrize(("kind", "inputs"), [(torch.bfloat16, torch.float32), (torch.float64, torch.float64)], ids=str)
def test_models_whose_weights_have_another_type(kind: torch.dtype, inputs: torch.dtype) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(768, 5)).to(kind).eval()
    smoothed = SmoothedClassifier(model, 0.25, batch=32, precision="bfloat16")
    assert smoothed.certify(X.to(inputs), **TERMS).precision in ("bfloat16", "autocast-bfloat16")
