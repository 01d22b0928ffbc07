"""Exact noise: what reaches the model is on the grid, certificates hold, and the attack on the last bits is over."""

import dataclasses
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor, nn

from lvmrs import LVM, Certificate, Cohen, Duels, Fixed, Lipschitz, Paper, SmoothedClassifier, Terms, Votes, runs
from lvmrs.data import Arrays
from lvmrs.errors import DataError, InvalidArgumentError, ProofError
from lvmrs.kernel.exact_noise import ExactGaussian, suited_noise
from lvmrs.kernel.method import Method
from lvmrs.kernel.noise import GAUSSIAN, Gaussian, Stream
from lvmrs.kernel.proof import prove
from lvmrs.kernel.sampler import Sampler
from lvmrs.models import Denoised, Loaded
from lvmrs.record import Run, Selection
from lvmrs.registry import noise_named
from lvmrs.testing import too_many
from tests.tiny_models import RowByRow

BYTES = torch.randint(0, 256, (3, 8, 8), generator=torch.Generator().manual_seed(0))
IMAGE = BYTES / 255


class Watching(nn.Module):
    """Keeps what it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Tensor] = []

    def forward(self, x: Tensor) -> Tensor:
        self.seen.append(x.clone())
        return x.flatten(1)[:, :3]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("levels", [255, 16, 2040])
def test_the_model_sees_points_of_the_grid_only(dtype: torch.dtype, levels: int) -> None:
    """Each is the number that the division of its steps gives, so nothing but its place on the grid can be read."""
    x = (torch.randint(0, levels + 1, (3, 4, 4)) / levels).to(dtype)
    x = (torch.round(x.double() * levels) / levels).to(dtype)
    model = Watching()
    list(Sampler(model, 0.1, 50, noise=ExactGaussian(levels)).scores(x, Stream(0, 0, "certification"), 100))
    for batch in model.seen:
        steps = torch.round(batch.double() * levels)
        assert batch.dtype == dtype
        assert torch.equal(batch, (steps.to(dtype) / levels))
        assert float((batch - x).std()) == pytest.approx(0.1, rel=0.1)


def low_bits(x: Tensor) -> Callable[[Tensor], Tensor]:
    """A classifier after Voráček and Hein (2022): class 0 exactly if each pixel could be fl(x + σe) for a float e.

    A sum of two floats is a multiple of the smaller unit in the last place of its terms and itself. Where x has few
    bits and the sum is small, most floats near it are no such sums.
    """

    def spacing(values: Tensor) -> Tensor:
        return torch.from_numpy(np.spacing(np.abs(values.numpy())).astype(np.float32))

    def reachable(y: Tensor) -> Tensor:
        # y − x is exact in float64; it is σe for a float e if it is a multiple of the spacing of floats there.
        difference = y.double() - x.double()
        unit = spacing(difference.float()).double()
        remainder = torch.remainder(difference, unit) / unit
        return ((remainder < 1e-3) | (remainder > 1 - 1e-3)).flatten(1)

    def classify(y: Tensor) -> Tensor:
        whole = reachable(y).double().mean(dim=1)
        return torch.stack([whole - 0.995, 0.995 - whole], dim=1).float()

    return classify


def test_the_last_bits_of_floats_give_a_false_certificate_and_exact_noise_does_not() -> None:
    """In floating point, x and a point 10⁻⁴ away are certified as different classes, far beyond their distance."""
    generator = torch.Generator().manual_seed(1)
    x = torch.randint(64, 192, (3, 32, 32), generator=generator) / 256
    near = x + 1e-4 * torch.nn.functional.normalize(torch.randn(x.numel(), generator=generator), dim=0).reshape(x.shape)
    distance = float((near - x).norm())
    model = low_bits(x)
    floating = SmoothedClassifier(model, 0.25, batch=100)
    at_x, at_near = (floating.certify(point, n0=50, n=500) for point in (x, near))
    assert {at_x.prediction, at_near.prediction} == {0, 1}  # both cannot be right:
    assert distance < min(at_x.radius, at_near.radius)
    exact = SmoothedClassifier(model, 0.25, batch=100, noise=ExactGaussian(256))
    certificate = exact.certify(x, n0=50, n=500)
    assert certificate.prediction == 0  # all points of the grid can be reached from x, and from every other point of it
    moved = x.clone()
    moved[0, 0, 0] += 1 / 256
    assert exact.certify(moved, n0=50, n=500).prediction == 0
    with pytest.raises(InvalidArgumentError, match=r"not on the grid of this noise: .* is not a multiple of 1/256"):
        exact.certify(near, n0=50, n=500)


def truth(steps: float, sigma: float, levels: int) -> float:
    """P(round(x + δ) > 0) where x is ``steps`` of the grid, in one dimension."""
    return float(stats.norm.sf((0.5 - steps) / (sigma * levels)))


METHODS = [Cohen(), Votes(), Duels(), Duels(0.05), LVM(), Paper(), Fixed("softmax", 0.1), Fixed("sparsemax", 0.1)]


QUICK = (Cohen(), Duels(), Fixed("softmax", 0.1))


@pytest.mark.statistical
@pytest.mark.parametrize(
    "method", [each if each in QUICK else pytest.param(each, marks=pytest.mark.slow) for each in METHODS], ids=str
)
@pytest.mark.parametrize("levels", [2, pytest.param(16, marks=pytest.mark.slow), 255])
def test_false_certificates_are_no_more_frequent_than_alpha(method: Method, levels: int) -> None:
    """On a linear classifier of inputs on a grid, one step from the boundary, where rounding matters most."""
    alpha, sigma, repeats = 0.05, 0.3, 200
    x = torch.tensor([1 / levels, 0.0])

    def model(points: Tensor) -> Tensor:
        return torch.stack([points[:, 0], torch.zeros(len(points))], dim=1)

    smoothed = SmoothedClassifier(model, sigma, batch=200, noise=ExactGaussian(levels))
    # Ties of the logits go to class 0 in votes and are lost in duels, so the boundary is where a step is rounded.
    false = 0
    for seed in range(repeats):
        certificate = smoothed.certify(x, method, n0=50, n=200, alpha=alpha, seed=seed)
        if certificate.prediction == 0 and certificate.radius > 0:
            false += certificate.radius > true_radius(certificate, sigma, levels)
    assert not too_many(false, repeats, alpha)


def true_radius(certificate: Certificate, sigma: float, levels: int) -> float:
    """How far x can move to the left before the mean score of class 0 is that of class 1, by bisection."""
    plan = certificate.plan
    assert plan is not None
    steps = torch.arange(-40 * levels, 40 * levels + 1, dtype=torch.float64)
    logits = torch.stack([steps / levels, torch.zeros(len(steps), dtype=torch.float64)], dim=1)
    columns = plan.map.columns(logits, 0, torch.tensor([1]), torch.tensor([], dtype=torch.long)).double().numpy()
    gain = 2 * columns[:, 0] - 1 if plan.map.paired else columns[:, 0] - columns[:, 1]

    def lead(x: float) -> float:
        edges = stats.norm.cdf((steps.numpy() + 0.5 - x * levels) / (sigma * levels))
        return float(np.diff(np.concatenate([[0.0], edges])) @ gain)

    low, high = 1 / levels - 10.0, 1 / levels
    if lead(high) <= 0:
        return 0.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if lead(middle) > 0 else (middle, high)
    return 1 / levels - low


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_every_planner_works(method: Method) -> None:
    smoothed = SmoothedClassifier(RowByRow(192), 0.25, 2.0, batch=100, noise="exact")
    certificate = smoothed.certify(IMAGE, method, n0=100, n=400)
    assert certificate.noise == ExactGaussian()
    assert certificate.plan is not None
    assert certificate.plan.risk <= 0.001 - certificate.noise_risk
    assert math.isinf(certificate.lipschitz)  # that of the network is not one of what is smoothed


def test_constants_of_the_network_are_not_used() -> None:
    smoothed = SmoothedClassifier(RowByRow(192), 0.25, 2.0, batch=100, noise="exact")
    assert smoothed.default_method == Duels()
    for method in (Lipschitz("both"), Duels("chosen")):
        with pytest.raises(InvalidArgumentError, match="exact noise rounds inputs, which leaves none; take gaussian"):
            smoothed.certify(IMAGE, method, n0=10, n=20)
    with pytest.raises(InvalidArgumentError, match="lipschitz must be infinite with exact noise"):
        Terms(0.5, 0.01, 100, lipschitz=1.0, noise=ExactGaussian())


def test_the_risk_of_the_noise_is_counted_and_said() -> None:
    terms = Terms(0.5, 0.001, 100_000, noise=ExactGaussian(), dimensions=3072)
    assert terms.noise_risk == ExactGaussian().error(0.5) * 100_000 * 3072
    assert 1e-9 < terms.noise_risk < 1e-7
    assert terms.spendable == 0.001 - terms.noise_risk
    assert Terms(0.5, 0.001, 100_000, dimensions=3072).noise_risk == 0
    certificate = SmoothedClassifier(RowByRow(192), 0.25, batch=100, noise="exact").certify(IMAGE, n0=100, n=400)
    assert certificate.noise_risk == ExactGaussian().error(0.25) * 400 * 192
    assert certificate.prediction >= 0
    assert certificate.guarantee.endswith(
        " Here x is the input, each number of which stands for the nearest multiple of 1/255. The noise is exact up to "
        f"a probability of {certificate.noise_risk:.1e}, which is part of that risk."
    )
    with pytest.raises(InvalidArgumentError, match=r"alpha = 1e-15 is not above the risk that exact noise takes"):
        Terms(0.5, 1e-15, 100_000, noise=ExactGaussian(), dimensions=3072)


def test_a_plan_cannot_spend_the_risk_of_the_noise() -> None:
    smoothed = SmoothedClassifier(RowByRow(192), 0.25, batch=100, noise="exact")
    terms = Terms(0.25, 1e-10, 400, noise=ExactGaussian(), dimensions=192)
    plan = Duels().plan(smoothed.scores(IMAGE, 50, stage="selection"), terms)
    assert prove(plan, terms, smoothed.scores(IMAGE, 400)).alpha == 1e-10
    greedy = dataclasses.replace(plan, risk_rival=terms.alpha)
    with pytest.raises(ProofError, match=r"more than alpha = 1e-10, of which the noise takes"):
        prove(greedy, terms, smoothed.scores(IMAGE, 400))
    small = Terms(0.25, 1e-10, 400, noise=ExactGaussian(), dimensions=191)
    with pytest.raises(ProofError, match="192 numbers, and the terms count the risk of 191"):
        prove(plan, small, smoothed.scores(IMAGE, 400))
    with pytest.raises(ProofError, match="the scores have exact noise, and the terms say exact:16 noise"):
        prove(plan, dataclasses.replace(terms, noise=ExactGaussian(16)), smoothed.scores(IMAGE, 400))


def test_spellings() -> None:
    assert noise_named("exact") == ExactGaussian() == ExactGaussian(255)
    assert noise_named("exact:16") == ExactGaussian(16)
    assert [noise.spelling for noise in (ExactGaussian(), ExactGaussian(16), GAUSSIAN)] == [
        "exact",
        "exact:16",
        "gaussian",
    ]
    for wrong in ("exact:", "exact:0", "exact:x", "exact:-1", "exact:1.5", "gaussian:3", "exact:٣", "nothing"):
        if wrong == "exact:":
            assert noise_named(wrong) == ExactGaussian()
            continue
        with pytest.raises(InvalidArgumentError):
            noise_named(wrong)
    assert suited_noise(None) == Gaussian()
    assert suited_noise(16) == ExactGaussian(16)
    assert suited_noise(16, 2.0) == Gaussian()


@pytest.mark.parametrize("value", [0.1, 1 / 256, 1e-5, 0.50001])
def test_inputs_off_the_grid_are_refused_with_the_fix(value: float) -> None:
    smoothed = SmoothedClassifier(nn.Identity(), 0.5, batch=10, noise="exact")
    with pytest.raises(
        InvalidArgumentError, match=r"is not a multiple of 1/255; round inputs to the grid, take exact:L"
    ):
        smoothed.certify(torch.tensor([value, 0.0]), n0=10, n=20)


def test_inputs_stand_for_the_points_of_the_grid_that_they_are_nearest_to() -> None:
    """However a byte k was made a number, it stands for k/255: the certificate is the same, and says so."""
    smoothed = SmoothedClassifier(RowByRow(192), 0.25, batch=100, noise="exact")
    divided, doubled = BYTES.float().div(255), BYTES.double() / 255
    made = [divided, BYTES * torch.tensor(1 / 255), (divided - 0.5) / 0.25 * 0.25 + 0.5, doubled.float()]
    assert len({tuple(each.flatten().tolist()) for each in made}) > 1
    near = [x for x in made if float((x.double() - doubled).abs().max()) < 1e-6 and is_taken(smoothed, x)]
    assert len(near) >= 3
    certificates = [smoothed.certify(x, n0=50, n=200) for x in near]
    assert all(certificate == certificates[0] for certificate in certificates)
    assert smoothed.certify(doubled, n0=50, n=200).radius == pytest.approx(certificates[0].radius)
    with pytest.raises(InvalidArgumentError, match=r"is not on the grid of this noise: .* round inputs to the grid"):
        smoothed.certify(divided.double(), n0=50, n=200)


def is_taken(smoothed: SmoothedClassifier, x: Tensor) -> bool:
    try:
        smoothed.scores(x, 1)
    except InvalidArgumentError:
        return False
    return True


def test_inputs_too_large_to_count_are_refused() -> None:
    smoothed = SmoothedClassifier(nn.Identity(), 0.5, batch=10, noise="exact")
    with pytest.raises(InvalidArgumentError, match=r"the input is larger than torch.float32 counts in steps of 1/255"):
        smoothed.certify(torch.tensor([float(1 << 30), 0.0]), n0=10, n=20)


def test_a_denoiser_before_the_model() -> None:
    model = Denoised(nn.Sequential(nn.AvgPool2d(2), nn.Upsample(scale_factor=2)), RowByRow(192))
    certificate = SmoothedClassifier(model, 0.25, batch=100, noise="exact").certify(IMAGE, n0=100, n=400)
    assert certificate.noise == ExactGaussian()


def data(inputs: list[Tensor]) -> Arrays:
    return Arrays("bytes", "test", np.stack([x.numpy().astype(np.uint8) for x in inputs]), np.zeros(len(inputs), int))


def test_runs_record_and_recertify_it(tmp_path: Path) -> None:
    loaded = Loaded.of(RowByRow(192), "python:tests.models:RowByRow")
    smoothed = SmoothedClassifier(loaded.model, 0.25, batch=100, noise=suited_noise(data([BYTES]).levels))
    job = runs.Job(
        loaded, data([BYTES, 255 - BYTES]), smoothed, Duels(), runs.Sampling(0.01, 40, 200), Selection(2), True
    )
    run = runs.certify(job, tmp_path / "a")
    assert (run.manifest.terms.noise, run.manifest.terms.dimensions) == ("exact", 192)
    again = runs.recertify(Run(tmp_path / "a"), tmp_path / "b", Duels())
    assert [row.radius for row in again.rows()] == [row.radius for row in run.rows()]
    assert runs.recertify(run, tmp_path / "c", LVM()).count == 2
    with pytest.raises(InvalidArgumentError, match="made without a Lipschitz constant"):
        runs.recertify(run, tmp_path / "d", Lipschitz("ramp"))


def test_no_input_of_a_run_is_larger_than_the_first(tmp_path: Path) -> None:
    class Growing(Arrays):
        def __getitem__(self, index: int) -> tuple[Tensor, int]:
            return torch.zeros(2 + index), 0

    grown = Growing("growing", "test", np.zeros((2, 2), np.uint8), np.zeros(2, int))
    loaded = Loaded.of(nn.Identity(), "python:tests.models:Identity")
    for noise, fails in ((ExactGaussian(), True), (GAUSSIAN, False)):
        smoothed = SmoothedClassifier(lambda x: x[:, :2], 0.25, batch=20, noise=noise)
        loaded = Loaded.of(smoothed.model, "python:tests.models:two")
        job = runs.Job(loaded, grown, smoothed, Duels(), runs.Sampling(0.01, 40, 200), Selection(2))
        if fails:
            with pytest.raises(DataError, match="input 1 has 3 numbers, and the first has 2: with exact noise"):
                runs.certify(job, tmp_path / noise.name)
        else:
            assert runs.certify(job, tmp_path / noise.name).count == 2


def test_draws_do_not_depend_on_the_portions() -> None:
    smoothed = [SmoothedClassifier(Watching(), 0.25, batch=batch, noise="exact") for batch in (7, 64, 1000)]
    whole = [torch.cat([p.logits for p in each.scores(IMAGE, 700, seed=3)]) for each in smoothed]
    assert torch.equal(whole[0], whole[1])
    assert torch.equal(whole[0], whole[2])
    assert Stream(3, 0, "certification").generator(0).bit_generator.random_raw() != 0
