"""Certificates that rely on a Lipschitz constant allow for rounding, and what cannot be followed is refused."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from lvmrs import Cohen, Deterministic, Duels, Fixed, Lipschitz, Planner, SmoothedClassifier, Terms, Votes
from lvmrs.engine.samplers import Samplers
from lvmrs.errors import InvalidArgumentError, ModelError, ProofError
from lvmrs.kernel import proof as prove
from lvmrs.kernel.maps import Hardmax, SoftDuel, Softmax
from lvmrs.kernel.radius import R2, Ramp
from lvmrs.kernel.rounding import InFloat64, points_around
from lvmrs.kernel.terms import Choice
from lvmrs.models import sandwich
from lvmrs.testing import SELECTION, made_up_scores
from tests.rounded_models import Shifted, distance_as_it_runs, hurtful

QUICK: dict[str, Any] = {"n0": 50, "n": 200, "alpha": 0.01}
X = torch.linspace(0, 1, 12)


def inputs(name: str) -> list[Tensor]:
    random = torch.Generator().manual_seed(0)
    size = {"bfloat16": 6.0, "float32": 2.0}[name]
    return list(size * torch.rand(40, 2, generator=random))


@pytest.mark.parametrize("name", ["bfloat16", "float32"])
def test_a_deterministic_certificate_holds_for_the_model_as_it_runs(name: str) -> None:
    """Before rounding was allowed for, many of these were false: the margin of the logits as they run over √2 L."""
    model = hurtful(name)
    smoothed = SmoothedClassifier(model, None, 1.0, batch=32)
    false, positive = 0, 0
    for x in inputs(name):
        first, second = model(x[None])[0].detach().double().topk(2).values.tolist()
        naive = (first - second) / math.sqrt(2)
        turns = distance_as_it_runs(model, x, most=naive + 1)
        exact = float((x[0] - x[1]).abs()) / math.sqrt(2)
        false += naive > min(turns, exact) + 1e-9
        certificate = smoothed.certify(x, Deterministic())
        assert certificate.radius <= min(turns, exact)
        assert certificate.rounding > 0
        positive += certificate.radius > 0
    assert false > 10
    assert positive > 10


def test_the_allowance_is_small_where_rounding_is() -> None:
    torch.manual_seed(0)
    model = nn.Linear(12, 3)
    smoothed = SmoothedClassifier(model, 0.25, 2.0, batch=32)
    certain = smoothed.certify(X, Deterministic())
    exact = model.double()(X.double()).detach().topk(2).values
    assert certain.radius == pytest.approx(float(exact[0] - exact[1]) / (2 * math.sqrt(2)), rel=1e-5)
    assert 0 < certain.rounding < 1e-5
    assert "and on rounding moving each of them by at most" in certain.guarantee
    soft = SmoothedClassifier(model.float(), 0.25, 2.0, batch=32).certify(X, Duels(1.0), **QUICK)
    assert 0 < soft.rounding < 1e-5
    assert "and on rounding moving them by at most" in soft.guarantee
    hard = SmoothedClassifier(model, 0.25, 2.0, batch=32).certify(X, Duels(), **QUICK)
    assert hard.rounding == 0
    assert "rounding" not in hard.guarantee


def test_what_the_allowance_is() -> None:
    """Three times what rounding moves a score by: the slope of the map times what it moves the logits by."""
    terms = Terms(0.5, 0.01, 100, 4.0, rounding=1e-3)
    assert terms.allowance(SoftDuel(0.5), Ramp()) == pytest.approx(3 * 1e-3 / (math.sqrt(2) * 0.5))
    assert terms.allowance(Softmax(0.1, 2.0), Ramp()) == pytest.approx(3 * 1e-3 * math.sqrt(2) / 4 / 0.1)
    assert terms.allowance(SoftDuel(0.5), R2()) == terms.allowance(Hardmax(), Ramp()) == 0
    assert Terms(0.5, 0.01, 100, rounding=1e-3).allowance(SoftDuel(0.5), Ramp()) == 0
    with pytest.raises(InvalidArgumentError, match="rounding must be at least 0 and finite, got -1"):
        Terms(0.5, 0.01, 100, rounding=-1.0)


@pytest.mark.parametrize("planner", [Duels(2.0), Fixed("softmax", 0.5, form="ramp"), Lipschitz("both")], ids=repr)
def test_the_proof_takes_the_allowance_from_its_bounds(planner: Planner) -> None:
    logits = torch.randn(400, 3, generator=torch.Generator().manual_seed(0)) + torch.tensor([1.5, 0.0, -1.0])
    made = {}
    for rounding in (0.0, 0.01):
        terms = Terms(0.5, 0.01, 400, 2.0, rounding=rounding)
        plan = planner.plan(made_up_scores(logits, SELECTION), terms)
        made[rounding] = prove.prove(plan, terms, made_up_scores(logits))
    assert made[0.0].plan == made[0.01].plan
    assert made[0.0].plan == plan
    mass = plan.map.mass
    less = mass * Terms(0.5, 0.01, 400, 2.0, rounding=0.01).allowance(plan.map, plan.form)
    assert made[0.01].p_lower == pytest.approx(made[0.0].p_lower - less)
    assert made[0.01].p_upper == pytest.approx(min(made[0.0].p_upper + less, mass - made[0.01].p_lower))
    assert 0 < made[0.01].radius < made[0.0].radius


def test_scores_are_computed_in_float64_where_the_constant_is_used() -> None:
    """A temperature that float32 would round: the allowance is for logits, and scores must add nothing to it."""
    logits = 1e4 + torch.rand(300, 2, generator=torch.Generator().manual_seed(0))
    terms = Terms(0.5, 0.01, 300, 1.0)
    plan = Fixed("sparsemax", 3.0, form="ramp").plan(made_up_scores(logits, SELECTION), terms)
    single, double = (prove.prove(plan, terms, made_up_scores(each)) for each in (logits, logits.double()))
    assert single == double


class Casts(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.linear(x.bfloat16(), self.weight.bfloat16(), self.bias.bfloat16()).to(x.dtype)


class EndsInFloat32(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).float()


class ThroughNumpy(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(torch.from_numpy(np.asarray(x)))


class ThroughNumbers(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(torch.tensor(x.tolist()).to(x))


class NoCopies(nn.Linear):
    def __deepcopy__(self, memo: Any) -> Any:
        raise TypeError("no")


CONSTANT = torch.ones(3, 12)
CANNOT: dict[str, tuple[Callable[[Tensor], Tensor], str]] = {
    "casts": (Casts(12, 3), "the model rounds to torch.bfloat16 inside"),
    "ends in float32": (EndsInFloat32(12, 3), "the model rounds to torch.float32 inside"),
    "NumPy": (ThroughNumpy(12, 3), "the model computes outside of torch"),
    "numbers": (ThroughNumbers(12, 3), "the model computes outside of torch"),
    "no copies": (NoCopies(12, 3), "the model cannot be copied to run in float64"),
    "float32 in a closure": (lambda x: x @ CONSTANT.T + x[:, :3], "the model cannot run in float64"),
    "float32 whatever comes": (lambda x: torch.zeros(len(x), 3) + 1, "gives torch.float32 logits for inputs in"),
}  # fmt: skip


@pytest.mark.parametrize("case", CANNOT)
def test_what_cannot_be_followed_in_float64_is_refused_where_the_constant_is_used(case: str) -> None:
    model, sentence = CANNOT[case]
    smoothed = SmoothedClassifier(model, 0.25, 1.0, batch=32)
    for method in (Deterministic(), Duels("chosen"), Lipschitz("both")):
        with pytest.raises(ModelError) as caught:
            smoothed.certify(X, method, **QUICK)
        assert sentence in str(caught.value)
        assert "take a method that does not use the constant, such as hard duels or votes" in str(caught.value)
        assert "\n" not in str(caught.value)
    for planner in (Duels(), Votes(), Cohen(), Lipschitz("noise")):
        assert smoothed.certify(X, planner, **QUICK).rounding == 0


def test_what_is_given_is_used_and_nothing_is_measured() -> None:
    smoothed = SmoothedClassifier(Casts(12, 3), 0.25, 1.0, batch=32, rounding=0.05)
    assert smoothed.certify(X, Deterministic()).rounding == 0.05
    assert smoothed.certify(X, Duels(1.0), **QUICK).rounding == 0.05
    assert smoothed.settings["rounding"] == 0.05
    large = smoothed.certify(1e7 * X, Duels(1e7), **QUICK)
    assert large.rounding > 0.05  # the noisy copies themselves are rounded by more
    with pytest.raises(InvalidArgumentError, match="rounding must be at least 0 and finite, got -1"):
        SmoothedClassifier(Casts(12, 3), 0.25, 1.0, rounding=-1.0)


def test_certificates_do_not_depend_on_the_inputs_before() -> None:
    smoothed = SmoothedClassifier(hurtful("float32"), 0.1, 1.0, batch=32)
    first = smoothed.certify(torch.tensor([1.0, 0.0]), Duels(2.0), **QUICK)
    smoothed.certify(torch.tensor([900.0, 0.0]), Duels(2.0), **QUICK)
    assert smoothed.certify(torch.tensor([1.0, 0.0]), Duels(2.0), **QUICK) == first


@pytest.mark.parametrize("method", [Deterministic(), Duels("chosen"), Lipschitz("both")], ids=repr)
def test_a_16_bit_precision_is_refused_where_the_constant_is_used(method: Any) -> None:
    smoothed = SmoothedClassifier(nn.Linear(12, 3), 0.25, 1.0, batch=32, precision="bfloat16")
    with pytest.raises(InvalidArgumentError, match=r"bfloat16 rounds inside of the model, so \w+ cannot rely on"):
        smoothed.certify(X, method, **QUICK)
    assert smoothed.certify(X, **QUICK) == smoothed.certify(X, Duels(), **QUICK)  # the default uses no constant


def test_the_copy_follows_the_weights() -> None:
    model = nn.Linear(12, 3)
    exact = InFloat64(model)
    before = exact(X[None])
    with torch.no_grad():
        model.weight.add_(1)
    torch.testing.assert_close(exact(X[None]), before + X.double().sum())
    assert model.weight.dtype == torch.float32
    assert model.training
    with torch.inference_mode():
        torch.testing.assert_close(exact(X[None]), before + X.double().sum())


class Scaled(nn.Linear):
    shift: Tensor

    def __init__(self) -> None:
        super().__init__(12, 3)
        self.scale = 1.0
        self.register_buffer("shift", torch.zeros(3))

    def forward(self, x: Tensor) -> Tensor:
        return self.scale * super().forward(x) + self.shift


CHANGES: dict[str, Callable[[Scaled], object]] = {
    "weights as torch counts changes": lambda model: model.weight.detach().add_(1),
    "weights behind its back": lambda model: model.weight.data.add_(1),
    "a buffer behind its back": lambda model: model.shift.data.add_(1),
    "an attribute": lambda model: setattr(model, "scale", 2.0),
    "other weights": lambda model: setattr(model, "weight", nn.Parameter(torch.ones(3, 12))),
}


@pytest.mark.parametrize("change", CHANGES)
def test_the_copy_follows_changes_of_any_kind(change: str) -> None:
    """A copy of what the model was before makes certificates about another model."""
    model = Scaled()
    exact = InFloat64(model)
    before = exact(X[None])
    assert exact._copied(X.device) is exact._copied(X.device)
    CHANGES[change](model)
    after = exact(X[None])
    assert float((after - before).abs().max()) > 0.01
    torch.testing.assert_close(after, InFloat64(model)(X[None]), rtol=0, atol=0)


def test_sandwich_networks_run_in_float64() -> None:
    torch.manual_seed(0)
    network = sandwich(1, 8, gamma=5.0)
    x = torch.rand(2, 1, 8, 8)
    exact = InFloat64(network)(x)
    with torch.no_grad():
        torch.testing.assert_close(exact, network.double().layer_by_layer(x.double()), rtol=0, atol=1e-12)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # from within torch.compile
def test_compiled_models_are_followed_too() -> None:
    model = nn.Sequential(nn.Linear(12, 3), nn.ReLU())
    given = torch.compile(model, backend="eager")
    torch.testing.assert_close(InFloat64(given)(X[None]), InFloat64(model)(X[None]))


def test_points_are_the_same_each_time_and_near() -> None:
    x = torch.rand(3, 4, 4)
    points = points_around(x, 0.5)
    assert torch.equal(points, points_around(x, 0.5))
    lengths = (points - x).flatten(1).norm(dim=1)
    assert float(lengths.max()) == pytest.approx(0.5, rel=1e-3)
    assert points_around(torch.tensor(1.0), 0.0).tolist() == [1.0] * len(points)


def test_the_constant_is_not_needed_for_what_does_not_use_it() -> None:
    """Nothing is copied or run in float64 for methods without the constant."""
    model = NoCopies(12, 3)
    assert isinstance(SmoothedClassifier(model, 0.25, 1.0, batch=32)._samplers, Samplers)
    assert SmoothedClassifier(model, 0.25, batch=32).certify(X, Duels(0.5), **QUICK).rounding == 0


def test_a_deterministic_certificate_by_hand() -> None:
    logits = torch.tensor([3.0, 1.0, 0.0], dtype=torch.float64)
    assert Deterministic().certify(logits, 1.0, 0.25).radius == pytest.approx(1.5 / math.sqrt(2))
    assert Deterministic().certify(logits, 1.0, 1.0).prediction == -1
    least = Deterministic().certify(logits, 1.0)
    assert least.rounding == 3 * 2.0**-28
    assert Deterministic().certify(logits.bfloat16(), 1.0).rounding == 3 * 2.0**-7
    with pytest.raises((InvalidArgumentError, ProofError), match="rounding must be at least 0"):
        Deterministic().certify(logits, 1.0, -1.0)


def test_models_that_hurt_are_what_they_should_be() -> None:
    model = Shifted(0.0, torch.float32)
    assert distance_as_it_runs(model, torch.tensor([1.0, 0.0]), most=2.0) == pytest.approx(1 / math.sqrt(2), abs=1e-3)


def test_what_was_settled_on_one_input_is_not_believed_for_another() -> None:
    """Rounding grows with the logits: a dark first input says little about a bright one."""
    network = torch.nn.Linear(2, 2, bias=False)
    with torch.no_grad():
        network.weight.copy_(torch.eye(2))
    network = network.bfloat16()

    class Coarse(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = network

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            answer: torch.Tensor = self.inner(x.to(self.inner.weight.dtype)).to(x.dtype)
            return answer

    x = torch.tensor([100.26, 99.74]) / 128
    settled = SmoothedClassifier(Coarse(), 1e-4, 1.0, batch=50)
    fresh = settled.rounding.of_samples(x, 1e-4)
    settled.rounding.settle(torch.tensor([0.001, 0.0]), 1e-4)
    assert settled.rounding.given is None
    assert settled.rounding.least is not None
    assert settled.rounding.least < fresh / 10
    assert settled.rounding.of_samples(x, 1e-4) == fresh
    again = SmoothedClassifier(Coarse(), 1e-4, 1.0, batch=50)
    assert settled.certify(x, Deterministic()).radius <= again.certify(x, Deterministic()).radius


class CastsBrightInputs(nn.Linear):
    """A model that rounds where inputs are large: nothing can be measured there.

    Its weights are whole numbers, so that sums of a batch and of a row alone are the same.
    """

    def __init__(self) -> None:
        super().__init__(12, 3)
        with torch.no_grad():
            self.weight.copy_(torch.eye(3, 12))
            self.bias.zero_()

    def forward(self, x: Tensor) -> Tensor:
        logits = super().forward(x)
        rounded = logits.bfloat16().to(x.dtype) if bool((x > 50).any()) else logits
        return torch.where((x > 50).any(dim=1, keepdim=True), rounded, logits)


def test_what_was_settled_is_not_believed_of_an_input_that_cannot_be_measured() -> None:
    """Once the value of the first input was settled, it passed for the user's word on all others."""
    torch.manual_seed(0)
    smoothed = SmoothedClassifier(CastsBrightInputs(), 0.25, 1.0, batch=32)
    smoothed.rounding.settle(X, 0.25)
    assert smoothed.certify(X, Duels(1.0), **QUICK).rounding > 0
    for method in (Duels(1.0), Deterministic()):
        with pytest.raises(ModelError, match=r"the model rounds to torch\.bfloat16 inside"):
            smoothed.certify(100 * X, method, **QUICK)
    stated = SmoothedClassifier(CastsBrightInputs(), 0.25, 1.0, batch=32, rounding=2.0)
    assert stated.certify(100 * X, Duels(1.0), **QUICK).rounding == 2.0


def test_what_is_measured_has_three_digits_and_is_no_less() -> None:
    """Machines differ in the last digits of what they measure, and rows should not."""
    smoothed = SmoothedClassifier(nn.Linear(12, 3), 0.25, 1.0, batch=32)
    rounding = smoothed.rounding.of_samples(X, 0.25)
    exact = smoothed.rounding._of_logits(X, 0.25) + smoothed.rounding._of_inputs(X, float(X.norm()), 0.25)
    assert exact <= rounding <= 1.01 * exact
    assert rounding == float(f"{rounding:.3g}")


@dataclass(frozen=True)
class SaysItUsesNone(Planner):
    """Relies on the constant, and says that it does not."""

    @property
    def uses_constant(self) -> bool:
        return False

    def choose(self, logits: Iterable[Tensor], terms: Terms) -> Choice:
        return Duels(1.0).choose(logits, terms)


@pytest.mark.parametrize("precision", [None, "bfloat16"])
def test_a_planner_cannot_rely_on_the_constant_without_an_allowance(precision: str | None) -> None:
    """What a planner says of itself must not decide whether a certificate holds: it gets no constant then."""
    smoothed = SmoothedClassifier(nn.Linear(12, 3), 0.25, 1.0, batch=32, precision=precision)
    certificate = smoothed.certify(X, SaysItUsesNone(), **QUICK)
    assert (certificate.lipschitz, certificate.rounding) == (math.inf, 0.0)
    assert "relies" not in certificate.guarantee
    assert smoothed.terms(0.01, 100, X, method=Duels()).lipschitz == math.inf


def test_terms_of_an_input_allow_for_rounding_whatever_the_method() -> None:
    """Whoever plans and proves by hand gets terms that hold; without an input they are for planning."""
    smoothed = SmoothedClassifier(nn.Linear(12, 3), 0.25, 1.0, batch=32)
    assert smoothed.terms(0.01, 100, X) == smoothed.terms(0.01, 100, X, method=Duels(1.0))
    assert smoothed.terms(0.01, 100, X).rounding > 0
    assert smoothed.terms(0.01, 100).rounding == 0


def test_a_deterministic_certificate_allows_for_no_less_than_was_given() -> None:
    torch.manual_seed(0)
    model = nn.Linear(12, 3)
    measured = SmoothedClassifier(model, None, 1.0, batch=32).certify(X, Deterministic())
    stated = SmoothedClassifier(model, None, 1.0, batch=32, rounding=0.05).certify(X, Deterministic())
    assert stated.rounding == 0.05 > measured.rounding
    assert stated.radius == pytest.approx(measured.radius - 2 * (0.05 - measured.rounding) / math.sqrt(2))
    assert SmoothedClassifier(model, None, 1.0, batch=32, rounding=0.0).certify(X, Deterministic()) == measured


def test_what_is_calibrated_with_autocast_can_be_certified_with_it() -> None:
    """The form of the radius used to be one that relies on the constant, which is refused with autocast."""
    torch.manual_seed(0)
    smoothed = SmoothedClassifier(nn.Linear(12, 3), 0.25, 1.0, batch=32, precision="bfloat16")
    assert smoothed.terms(0.01, 100, X).lipschitz == math.inf
    found = smoothed.calibrate([X, -X], n0=50, n=1000)
    assert not found.uses_constant
    assert smoothed.certify(X, found, **QUICK).n == 200
