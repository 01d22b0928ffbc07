"""One input, end to end, as a user does it."""

import math
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor, nn

from lvmrs import (
    LVM,
    Certificate,
    Cohen,
    Deterministic,
    Duels,
    Fixed,
    Lipschitz,
    Paper,
    Planner,
    SmoothedClassifier,
    Terms,
    Votes,
    models,
)
from lvmrs.engine.way import Way
from lvmrs.errors import InvalidArgumentError, LvmrsError, ModelError, SuspiciousWarning
from lvmrs.kernel import proof as prove
from tests.tiny_models import RowByRow, WithDropout

X = torch.linspace(0, 1, 12)
QUICK: dict[str, Any] = {"n0": 200, "n": 1000, "alpha": 0.01, "seed": 3}


EVERY = [
    *(Cohen(), Votes(), LVM(), Paper(), Fixed("softmax", 0.5), Lipschitz("ramp")),
    *(Duels(), Duels(0.5), Duels("chosen")),
]


@pytest.mark.parametrize("planner", EVERY, ids=repr)
def test_same_certificate_for_any_batch_size(planner: Planner) -> None:
    made = [
        SmoothedClassifier(RowByRow(), 0.25, 9.0, batch=batch).certify(X, planner, **QUICK)
        for batch in (1, 7, 128, 1000)
    ]
    assert all(certificate == made[0] for certificate in made)


def test_same_certificates_for_any_order_of_inputs() -> None:
    smoothed = SmoothedClassifier(RowByRow(), 0.25, batch=50)
    inputs = [X * scale for scale in (0.2, 0.5, 1.0)]
    forward = smoothed.certify_batch(inputs, **QUICK)
    backward = [smoothed.certify(inputs[i], index=i, **QUICK) for i in (2, 1, 0)]
    assert forward == backward[::-1]
    assert [c.stream.index for c in forward if c.stream] == [0, 1, 2]
    assert smoothed.certify_batch(inputs[1:], first=1, **QUICK) == forward[1:]


def test_certificates_of_a_linear_classifier_are_right() -> None:
    """Between two classes with linear logits the smoothed classifier turns where the logits do: the radius is known."""
    weights = torch.tensor([[1.0, 2.0], [-1.0, 0.5]])
    x = torch.tensor([0.5, 0.25])
    true = float((weights[0] - weights[1]) @ x / (weights[0] - weights[1]).norm())
    smoothed = SmoothedClassifier(
        lambda batch: batch @ weights.T.to(batch), 0.3, float(torch.linalg.matrix_norm(weights, 2))
    )
    procedures = (Lipschitz("ramp"), Lipschitz("both"), Deterministic())
    for planner in (Cohen(), Votes(), LVM(), Duels(), Duels(0.5), *procedures):
        certificate = smoothed.certify(x, planner, n=20_000)
        assert certificate.prediction == 0
        assert 0 < certificate.radius <= true
    assert smoothed.certify(x, Cohen(), n=20_000).radius > 0.9 * true


def test_cohen_from_the_very_scores() -> None:
    smoothed = SmoothedClassifier(RowByRow(), 0.25)
    certificate = smoothed.certify(X, Cohen(), **QUICK)
    selection = torch.cat(list(smoothed.scores(X, 200, seed=3, stage="selection").logits()))
    scores = torch.cat(list(smoothed.scores(X, 1000, seed=3).logits()))
    top = int(torch.bincount(selection.argmax(dim=1)).argmax())
    votes = int((scores.argmax(dim=1) == top).sum())
    p = stats.beta.ppf(0.01, votes, 1000 - votes + 1)
    assert certificate.p_lower == p
    assert certificate.radius == max(0.0, 0.25 * stats.norm.ppf(p))


def test_certify_is_plan_and_prove() -> None:
    smoothed = SmoothedClassifier(RowByRow(), 0.25)
    terms = Terms(0.25, 0.01, 1000)
    for planner in (Cohen(), Duels(), LVM()):
        plan = planner.plan(smoothed.scores(X, 200, seed=3, stage="selection"), terms)
        assert prove.prove(plan, terms, smoothed.scores(X, 1000, seed=3)) == smoothed.certify(X, planner, **QUICK)


def test_certificate_records_how_it_was_made() -> None:
    certificate = SmoothedClassifier(RowByRow(), 0.25).certify(X, index=5, **QUICK)
    assert isinstance(certificate, Certificate)
    assert (certificate.n0, certificate.n, certificate.alpha, certificate.sigma) == (200, 1000, 0.01, 0.25)
    assert certificate.stream is not None
    assert (certificate.stream.seed, certificate.stream.index) == (3, 5)
    assert certificate.plan is not None
    assert certificate.plan.origin.stage == "selection"
    assert certificate.plan.planner == "Duels"
    assert certificate.lipschitz == math.inf


@pytest.mark.parametrize("shape", [(), (12,), (3, 4), (3, 2, 2), (2, 1, 3, 2)])
def test_inputs_of_any_shape(shape: tuple[int, ...]) -> None:
    x = torch.rand(shape)
    certificate = SmoothedClassifier(RowByRow(max(1, x.numel())), 0.25).certify(x, **QUICK)
    assert certificate.n == 1000


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_inputs_of_any_precision(dtype: torch.dtype) -> None:
    x = X.clone().to(dtype).requires_grad_()
    smoothed = SmoothedClassifier(RowByRow(), 0.25)
    assert smoothed.certify(x, **QUICK).n == 1000
    assert x.grad is None


def test_modules_are_left_as_found() -> None:
    model = WithDropout().train()
    modes = {name: module.training for name, module in model.named_modules()}
    before = {name: value.clone() for name, value in model.state_dict().items()}
    smoothed = SmoothedClassifier(model, 0.25)
    first = smoothed.certify(X, **QUICK)
    assert smoothed.certify(X, **QUICK) == first  # dropout was off
    assert {name: module.training for name, module in model.named_modules()} == modes
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_the_constant_of_a_model_is_picked_up() -> None:
    model = RowByRow()
    model.lipschitz = 4.0  # type: ignore[attr-defined]
    assert SmoothedClassifier(model, 0.25).lipschitz == 4.0
    assert SmoothedClassifier(model, 0.25, 3.0).lipschitz == 3.0


def test_the_default_method_uses_a_constant_where_there_is_one() -> None:
    unknown, known = SmoothedClassifier(RowByRow(), 0.25), SmoothedClassifier(RowByRow(), 0.25, 9.0)
    assert unknown.certify(X, **QUICK) == unknown.certify(X, Duels(), **QUICK)
    assert known.certify(X, **QUICK) == known.certify(X, Duels("chosen"), **QUICK)


def test_images_in_another_layout_and_a_real_network() -> None:
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4)
    ).eval()
    x = torch.rand(3, 16, 16)
    radii = {SmoothedClassifier(network, 0.1, batch=size).certify(x, **QUICK).radius for size in (16, 100)}
    assert max(radii) - min(radii) < 1e-3  # the network's own rounding may depend on its batch


def test_a_network_that_cannot_be_traced_runs_under_autocast() -> None:
    linear = nn.Linear(12, 3).eval()
    smoothed = SmoothedClassifier(linear, 0.25, batch=8, precision="bfloat16")
    assert smoothed._samplers.of(X).autocast is None  # it is cast to bfloat16
    smoothed = SmoothedClassifier(lambda x: linear(x), 0.25, batch=8, precision="bfloat16")
    assert smoothed._samplers.of(X).autocast == torch.bfloat16


def compiled_and_plain(fast: bool, **options: Any) -> tuple[Certificate, Certificate]:
    network = nn.Sequential(nn.Linear(12, 8), nn.Dropout(), nn.ReLU(), nn.Linear(8, 3)).train()
    compile_ = torch.compile
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "compile", lambda model, **given: compile_(model, **(options or given)))
        compiled = SmoothedClassifier(network, 0.25, batch=64, compile=True, fast=fast)
        assert compiled.prepare(X).way == Way(64, folded=fast, compiled=True)
        certificates = compiled.certify(X, **QUICK), SmoothedClassifier(network, 0.25, batch=64).certify(X, **QUICK)
    assert network.training
    assert network[1].training
    return certificates


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # from within torch.compile
@pytest.mark.parametrize("fast", [True, False])
def test_a_compiled_model_gives_the_same_certificate(fast: bool) -> None:
    compiled, plain = compiled_and_plain(fast, backend="eager")  # traced and guarded, but no C++ compiler needed
    assert compiled == plain


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # from within torch.compile
@pytest.mark.parametrize("fast", [True, False])
def test_a_model_compiled_to_machine_code_gives_the_same_certificate(fast: bool) -> None:
    compiled, plain = compiled_and_plain(fast)
    assert compiled.prediction == plain.prediction
    assert compiled.radius == pytest.approx(plain.radius, rel=1e-3)


def test_certifies_within_inference_mode_too() -> None:
    smoothed = SmoothedClassifier(RowByRow(3 * 32 * 32), 0.25, batch=64)
    x = torch.rand(3, 32, 32)
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with torch.inference_mode():
            inside = smoothed.certify(x, **QUICK)
    finally:
        torch.set_num_threads(threads)
    assert inside == smoothed.certify(x, **QUICK)


def test_scores_are_not_overwritten_when_a_model_answers_with_its_input() -> None:
    smoothed = SmoothedClassifier(lambda x: x[:, :3], 0.25, batch=10)
    scores = list(smoothed.scores(X, 30).logits())
    assert not torch.equal(scores[0], scores[1])
    at_once = SmoothedClassifier(lambda x: x[:, :3], 0.25, batch=30).scores(X, 30)
    assert torch.equal(torch.cat(scores), next(at_once.logits()))


def test_prediction_and_its_abstention() -> None:
    smoothed = SmoothedClassifier(RowByRow(), 0.25)
    logits = torch.cat(list(smoothed.scores(X, 1000, seed=0, stage="prediction").logits()))
    votes = torch.bincount(logits.argmax(dim=1), minlength=3).numpy()
    assert smoothed.predict(X, Votes(), n=1000) == int(votes.argmax())
    assert smoothed.predict(X, n=1000) == int(votes.argmax())
    undecided = SmoothedClassifier(lambda x: torch.stack([x[:, 0], -x[:, 0]], dim=1), 0.25)
    assert undecided.predict(torch.zeros(1), Votes(), n=200) == -1
    assert undecided.predict(torch.zeros(1), n=200) == -1


def split_votes(x: Tensor) -> Tensor:
    """Class 0 is second for everyone, and never first."""
    logits = torch.zeros(len(x), 4)
    logits[:, 0] = 2.0
    logits[torch.arange(len(x)), 1 + (x[:, 0].abs() * 1e4).long() % 3] = 3.0
    return logits


def test_the_winner_of_all_duels_need_not_have_votes() -> None:
    smoothed = SmoothedClassifier(split_votes, 0.25)
    assert smoothed.predict(X, n=1000) == 0
    assert smoothed.predict(X, Votes(), n=1000) == -1
    assert smoothed.certify(X, **QUICK).prediction == 0
    assert smoothed.certify(X, Votes(), **QUICK).prediction == -1


def test_calibration_gives_a_planner_for_all_inputs() -> None:
    smoothed = SmoothedClassifier(RowByRow(), 0.25)
    planner = smoothed.calibrate([X, 2 * X], labels=[0, 0], n0=200, n=1000)
    assert isinstance(planner, Fixed)
    certificate = smoothed.certify(X, planner, **QUICK)
    assert certificate.plan is not None
    assert certificate.plan.scope == "all inputs"
    duels = smoothed.calibrate_duels([X, 2 * X], n0=200)
    assert isinstance(duels, Duels)
    assert isinstance(duels.width, float)
    certificate = smoothed.certify(X, duels, **QUICK)
    assert certificate.plan is not None
    assert (certificate.plan.scope, certificate.plan.map.temperature) == ("all inputs", duels.width)
    with pytest.raises(InvalidArgumentError, match="1 labels for 2 inputs"):
        smoothed.calibrate([X, X], labels=[0])


def noisy(x: Tensor) -> Tensor:
    return torch.stack([x[:, 0], -x[:, 0]], dim=1) + torch.randn(len(x), 2)


def sometimes_nan(x: Tensor) -> Tensor:
    logits = torch.stack([x[:, 0], -x[:, 0]], dim=1)
    return torch.where(x[:, :1] > 0.5, math.nan, logits)


def changing() -> Callable[[Tensor], Tensor]:
    sizes = iter([3, 3, 3, 3] + [4] * 1000)
    return lambda x: torch.zeros(len(x), next(sizes)) + x[:, :1]


BAD_MODELS: dict[str, tuple[Callable[[Tensor], Any], str]] = {
    "number": (lambda x: 3.0, "the model returned float, not a tensor of logits"),
    "tuple": (lambda x: (x, x), "the model returned tuple, not a tensor of logits"),
    "shape": (lambda x: torch.zeros(3), "the model returned shape (3,) for 8 inputs; expected (8, classes)"),
    "rows": (lambda x: torch.zeros(7, 3), "the model returned shape (7, 3) for 8 inputs"),
    "one class": (lambda x: x[:, :1], "the model returned fewer than two classes"),
    "whole numbers": (lambda x: torch.zeros(len(x), 3, dtype=torch.int64), "the model returned torch.int64"),
    "NaN": (lambda x: torch.full((len(x), 3), math.nan), "NaN or infinity for 8 of 8 noisy inputs"),
    "NaN for some noise": (sometimes_nan, "the model returned NaN or infinity for"),
    "random": (noisy, "the model gives different answers to the same inputs"),
    "batch statistics": (
        nn.Sequential(nn.BatchNorm1d(12, track_running_stats=False), nn.Linear(12, 3)),
        "the model's answer to an input depends on the other inputs in its batch",
    ),
    "own failure": (
        nn.Linear(7, 3),
        "fails on a batch of shape (8, 12), torch.float32 (RuntimeError: mat1 and mat2",
    ),
    "classes": (changing(), "the model returned 4 classes after 3"),
}


@pytest.mark.parametrize("case", BAD_MODELS)
def test_models_that_cannot_be_certified_are_refused(case: str) -> None:
    model, sentence = BAD_MODELS[case]
    with pytest.raises(ModelError) as caught:
        SmoothedClassifier(model, 0.25, batch=64).certify(X * 0, n0=500, n=1000)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def good(x: Tensor) -> Tensor:
    return torch.stack([x[:, 0], -x[:, 0]], dim=1)


BAD_ARGUMENTS: dict[str, tuple[Callable[[], object], str]] = {
    "sigma": (lambda: SmoothedClassifier(good, 0.0), "sigma must be positive and finite, got 0.0"),
    "model by name": (
        lambda: SmoothedClassifier("ready:small_cnn", 0.5),  # type: ignore[arg-type]
        "lvmrs.models.load(NAME).model loads a model",
    ),
    "loaded model": (
        lambda: SmoothedClassifier(models.load("ready:small_cnn"), 0.5),  # type: ignore[arg-type]
        "got Loaded; pass its attribute model",
    ),
    "model": (lambda: SmoothedClassifier(3, 0.5), "model must be callable on a batch of inputs, got int"),  # type: ignore[arg-type]
    "lipschitz": (lambda: SmoothedClassifier(good, 0.5, -1.0), "lipschitz must be positive, got -1.0"),
    "batch": (lambda: SmoothedClassifier(good, 0.5, batch=0), "batch must be a whole number of at least 1, got 0.0"),
    "x NaN": (lambda: SmoothedClassifier(good, 0.5).certify(X * math.nan), "x must be finite, got nan"),
    "x list": (lambda: SmoothedClassifier(good, 0.5).certify([1.0]), "x must be a torch.Tensor, got list"),  # type: ignore[arg-type]
    "x bytes": (
        lambda: SmoothedClassifier(good, 0.5).certify(torch.zeros(3, dtype=torch.uint8)),
        "x must be a floating-point tensor, got torch.uint8",
    ),
    "n0": (lambda: SmoothedClassifier(good, 0.5).certify(X, n0=0), "n0 must be a whole number of at least 1, got 0.0"),
    "n": (lambda: SmoothedClassifier(good, 0.5).certify(X, n=1), "n must be a whole number of at least 2, got 1.0"),
    "alpha": (lambda: SmoothedClassifier(good, 0.5).certify(X, alpha=1.0), "alpha must lie strictly between 0 and 1"),
    "seed": (lambda: SmoothedClassifier(good, 0.5).certify(X, seed=-1), "seed must be a whole number from 0"),
    "planner": (lambda: SmoothedClassifier(good, 0.5).certify(X, "lvm"), "method must be a Planner such as Duels()"),  # type: ignore[arg-type]
    "no constant": (
        lambda: SmoothedClassifier(good, 0.5).certify(X, Lipschitz("ramp")),
        "lipschitz is not known and Lipschitz needs it",
    ),
    "planner of an answer": (
        lambda: SmoothedClassifier(good, 0.5).predict(X, "votes"),  # type: ignore[arg-type]
        "method must be a Planner such as Duels()",
    ),
    "samples to plan votes": (
        lambda: SmoothedClassifier(good, 0.5).predict(X, Votes(), n0=10),
        "n0 has no effect on votes, whose test needs no candidate; leave it out",
    ),
    "device": (lambda: SmoothedClassifier(good, 0.5, device="gpu0"), "device 'gpu0' cannot be used here ("),
    "precision": (
        lambda: SmoothedClassifier(good, 0.5, precision="bf16"),
        "precision must be one of float32, bfloat16, float16, autocast-bfloat16, autocast-float16, got 'bf16'",
    ),
    "index": (lambda: SmoothedClassifier(good, 0.5).certify_batch([X], index=3), "index is counted from first="),
    "temperatures": (lambda: LVM(temperatures=1.0), "temperatures must be a tuple of numbers, got 1.0"),  # type: ignore[arg-type]
    "scores": (lambda: SmoothedClassifier(good, 0.5).scores(X, 0), "n must be a whole number of at least 1, got 0.0"),
}


@pytest.mark.parametrize("case", BAD_ARGUMENTS)
def test_bad_arguments_get_one_clear_sentence(case: str) -> None:
    call, sentence = BAD_ARGUMENTS[case]
    with pytest.raises(LvmrsError) as caught:
        call()
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


MEMORY = """
import re, torch
from pathlib import Path
torch.set_num_threads(1)
from lvmrs import LVM, Paper, SmoothedClassifier
weights = torch.randn(8, {classes}, generator=torch.Generator().manual_seed(0))
smoothed = SmoothedClassifier(lambda x: x @ weights, 0.3, batch=500)
for n in {sizes}:
    for planner in (LVM(), Paper()):
        smoothed.certify(torch.rand(8), planner, n0=1000, n=n)
    # Not getrusage: what it says of a new process begins with the memory of the one that started it.
    print(int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) // 1024)
"""


def megabytes(classes: int, sizes: list[int]) -> list[int]:
    code = MEMORY.format(classes=classes, sizes=sizes)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603
    return [int(line) for line in done.stdout.split()]


def test_memory_is_flat_in_n() -> None:
    few, many = megabytes(10, [10_000, 1_000_000])
    assert many - few <= 50


def test_memory_of_a_thousand_classes() -> None:
    start, many = megabytes(1000, [1_000, 40_000])  # of which the logits alone are 160 MB
    assert many < 1000
    assert many - start < 100


def test_classifiers_are_short_to_read() -> None:
    assert (
        repr(SmoothedClassifier(WithDropout(), 0.25, 2.0)) == "SmoothedClassifier(WithDropout, sigma=0.25, lipschitz=2)"
    )
    assert np.isinf(SmoothedClassifier(good, 0.5).lipschitz)


@pytest.mark.parametrize("kind", [torch.uint8, torch.int64, torch.bool])
def test_whole_numbers_are_no_images(kind: torch.dtype) -> None:
    with pytest.raises(InvalidArgumentError, match=r"use \.float\(\), and divide by 255 if it is bytes"):
        SmoothedClassifier(nn.Flatten(), 0.5, batch=4).certify(torch.ones(3, 2, 2, dtype=kind), n0=10, n=20)


def test_odd_tensors_are_no_inputs() -> None:
    smoothed = SmoothedClassifier(nn.Flatten(), 0.5, batch=4)
    for x, sentence in {
        torch.rand(3, 2).to_sparse(): "x must be a dense tensor, got torch.sparse_coo",
        torch.rand(3, 2).to(torch.complex64): "x must be a floating-point tensor, got torch.complex64",
        torch.rand(3, 0): "x is empty",
    }.items():
        with pytest.raises(InvalidArgumentError, match=sentence):
            smoothed.answer(x)


def test_odd_tensors_are_refused_before_sigma_is_judged() -> None:
    smoothed = SmoothedClassifier(nn.Flatten(), 0.5, batch=4)
    for x, sentence in {
        torch.zeros(1, 4, 4, dtype=torch.bool): "x must be a floating-point tensor, got torch.bool",
        torch.zeros(1, 4, 4, dtype=torch.uint16): "x must be a floating-point tensor, got torch.uint16",
        torch.rand(1, 4, 4).to_sparse(): "x must be a dense tensor, got torch.sparse_coo",
        torch.rand(1, 4, 4, device="meta"): "x is on the device meta",
    }.items():
        with pytest.raises(InvalidArgumentError, match=sentence):
            smoothed.certify(x, n0=10, n=20)


def test_images_that_look_like_bytes_are_told_the_units_of_sigma() -> None:
    smoothed = SmoothedClassifier(nn.Flatten(), 0.5, batch=4)
    with pytest.warns(UserWarning, match="x has whole numbers up to 200, as pixels from 0 to 255 have; sigma and"):
        smoothed.answer(torch.tensor([0.0, 200.0, 7.0, 255.0 - 55.0]).view(1, 2, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for fine in (
            torch.tensor([0.0, 1.0, 1.0, 0.0]).view(1, 2, 2),  # black and white
            torch.tensor([0.5, 1.9, 0.7, 0.3]).view(1, 2, 2),  # no bytes
            torch.tensor([-3.0, 200.0, 7.0, 3.0]).view(1, 2, 2),
            torch.tensor([0.0, 200.0, 7.0, 3.0]).view(2, 1, 2),  # no channels of an image
            torch.tensor([0.0, 200.0, 7.0]),
        ):
            smoothed.answer(fine)


@pytest.mark.parametrize("noise", ["gaussian", "exact:255"])
@pytest.mark.parametrize("call", ["certify", "certify_batch", "certificates", "predict"])
def test_other_units_are_told_once_in_each_call(call: str, noise: str) -> None:
    pixels = torch.rand(3, 1, 4, 4, generator=torch.Generator().manual_seed(0)).mul(255).round() / 255
    told: dict[float, list[str]] = {}
    for sigma, given in ((0.5, pixels * 254.9999 if noise == "gaussian" else pixels * 255), (30.0, pixels)):
        smoothed = SmoothedClassifier(nn.Flatten(), sigma, batch=20, noise=noise)
        inputs: Any = {"certificates": list(enumerate(given)), "certify_batch": given}.get(call, given[0])
        with warnings.catch_warnings(record=True, action="always") as caught:
            list(found) if isinstance(found := getattr(smoothed, call)(inputs, n0=10, n=50), Iterator) else found
        assert all(each.category is SuspiciousWarning for each in caught)
        told[sigma] = [str(each.message) for each in caught]
    ((pixel,), (other,)) = told.values()
    assert "numbers up to 2" in pixel
    assert "divide by 255 if they are meant for pixels in [0, 1]" in pixel
    assert other.startswith("sigma = 30 is far larger than all values of x: it looks to be in other units")
