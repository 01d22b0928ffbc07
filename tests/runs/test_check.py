"""A check forecasts what certifying then gives, and finds mistakes in jobs that were made with one."""

import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
import transformers
from scipy import stats
from torch import nn

from lvmrs import Duels, SmoothedClassifier, Votes, data, models, runs
from lvmrs.analysis import Results
from lvmrs.data import Arrays
from lvmrs.errors import SuspiciousWarning
from lvmrs.kernel.deterministic import Deterministic
from lvmrs.kernel.method import Goal, Method
from lvmrs.models.preprocessing import Preprocessed
from lvmrs.runs import Check, Job, Sampling, Selection, check
from tests.quick import without_trials

CENTERS = torch.rand(5, 32, generator=torch.Generator().manual_seed(3))


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    without_trials(monkeypatch)


class Nearest(nn.Module):
    """Answers with the nearest of five points."""

    def __init__(self, scale: float = 1.0, strict: bool = False) -> None:
        super().__init__()
        self.scale, self.strict = scale, strict

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.strict and float(x.max()) > 100:
            raise ValueError("not pixels")
        return -torch.cdist(x.flatten(1) / self.scale, CENTERS.to(x))


def points(shift: int = 0, count: int = 60) -> Arrays:
    """Points between the centers, with the nearest as their label."""
    generator = torch.Generator().manual_seed(0)
    ends = torch.randint(0, 5, (2, count), generator=generator)
    place = 0.45 * torch.rand(count, 1, generator=generator)
    inputs = (1 - place) * CENTERS[ends[0]] + place * CENTERS[ends[1]]
    return Arrays("points", "test", inputs.numpy(), (ends[0].numpy() + shift) % 5)


def job_of(
    inputs: data.Dataset,
    model: nn.Module | None = None,
    method: Method | None = None,
    sigma: float = 0.5,
    **sampling: object,
) -> Job:
    loaded = models.Loaded.of(Nearest() if model is None else model, "nearest")
    smoothed = SmoothedClassifier(loaded.model, sigma, 2.0 if method == Deterministic() else None, batch=100)
    settings = Sampling(**{"n0": 100, "n": 1000, **sampling})  # type: ignore[arg-type]
    return Job(loaded, inputs, smoothed, method or Duels(), settings, Selection(len(inputs)))


def mistakes(found: Check) -> list[str]:
    return [finding.mistake for finding in found.findings]


@pytest.mark.parametrize(("method", "sigma", "n"), [(Duels(), 0.5, 500), (Votes(), 1.0, 200)])
def test_the_forecast_is_near_what_certifying_gives(method: Method, sigma: float, n: int) -> None:
    job = job_of(points(), method=method, sigma=sigma, n=n)
    found = check(job, copies=100)
    rows = list(job.rows(job.selection.indices))
    radii = np.array([row.radius * bool(row.correct) for row in rows])
    average = found.average_certified_radius
    assert average.low < radii.mean() < average.high
    assert abs(average.value - radii.mean()) < 0.1 * radii.mean()
    assert abs(found.abstention - np.mean([row.predict < 0 for row in rows])) < 0.1
    assert found.clean_accuracy == 1.0
    for radius in (0.0, sigma / 2, sigma):
        assert (
            abs(found.certified_accuracy(radius) - np.mean([bool(r.correct) and r.radius >= radius for r in rows]))
            < 0.08
        )
    assert max(radii) <= found.evidence.ceiling
    assert (
        found.evidence.ceiling == pytest.approx(sigma * stats.norm.ppf(0.001 ** (1 / n)), rel=1e-6) or method == Votes()
    )
    assert mistakes(found) == []


def test_it_draws_only_selection_samples_and_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    stages = []
    scores = SmoothedClassifier.scores

    def watched(self: SmoothedClassifier, x: torch.Tensor, n: int, *, seed: int, index: int, stage: str) -> object:
        stages.append((stage, n))
        return scores(self, x, n, seed=seed, index=index, stage=stage)  # type: ignore[arg-type]

    monkeypatch.setattr(SmoothedClassifier, "scores", watched)
    found = check(job_of(points()), inputs=7, copies=30)
    assert stages == [("selection", 30)] * 7
    assert found.index.tolist() == [0, 10, 20, 30, 39, 49, 59]
    assert list(tmp_path.iterdir()) == []


def test_rows_are_the_same_after_a_check() -> None:
    job = job_of(points(count=3))
    check(job)
    before, after = (
        [(row.predict, row.radius, row.p_lower) for row in each.rows(range(3))]
        for each in (job_of(points(count=3)), job)
    )
    assert before == after


def test_shifted_labels_and_other_units() -> None:
    assert mistakes(check(job_of(points(shift=1)), copies=20)) == ["labels shifted"]
    scaled = check(job_of(points(), Nearest(scale=255.0), sigma=0.1), copies=20)
    assert mistakes(scaled) == ["pixels in other units"]
    assert "made for pixels from 0 to 255" in scaled.findings[0].text
    images = Arrays("images", "test", points().inputs[:, None, None], points().labels)
    twice = check(job_of(images, Preprocessed(Nearest(), [5.0], [5.0]), sigma=0.1), copies=20)
    assert mistakes(twice) == ["pixels in other units"]
    assert "made for pixels without this normalisation" in twice.findings[0].text


class Constant(nn.Module):
    """Answers nearly always with class 3, or only under noise."""

    def __init__(self, only_under_noise: bool) -> None:
        super().__init__()
        self.only_under_noise, self.nearest = only_under_noise, Nearest()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.flatten(1)
        noisy = (x.amin(dim=1) < 0) | (x.amax(dim=1) > 1) | (not self.only_under_noise)
        same = 0.01 * x[:, :5] + 9 * nn.functional.one_hot(torch.tensor(3), 5)
        return torch.where(noisy[:, None], same, self.nearest(x))


@pytest.mark.parametrize("labelled", [True, False])
@pytest.mark.parametrize(("under_noise", "mistake"), [(False, "one class"), (True, "one class under noise")])
def test_one_class_is_found_with_and_without_labels(labelled: bool, under_noise: bool, mistake: str) -> None:
    inputs = points()
    given = inputs if labelled else Arrays("points", "test", inputs.inputs, None)
    assert mistakes(check(job_of(given, Constant(under_noise)), copies=20)) == [mistake]
    assert mistakes(check(job_of(given), copies=20)) == []


def test_a_network_that_is_right_by_votes_alone_is_found() -> None:
    found = check(job_of(points(), sigma=3.0), copies=100)
    assert np.mean(found.evidence.noisy == found.evidence.label) > 0.8
    assert mistakes(found) == ["trained for other noise"]
    assert "of noisy copies with sigma = 3, and on 100.0 % without noise" in found.findings[0].text


def onnx_model(folder: Path) -> str:
    """The nearest of five points as an ONNX file: logits 2 x·c − |c|²."""
    weights = {"w": 2 * CENTERS.T, "b": -CENTERS.square().sum(dim=1)}
    held = [onnx.numpy_helper.from_array(value.contiguous().numpy(), name) for name, value in weights.items()]
    ends = [
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n", width])
        for name, width in (("x", 32), ("y", 5))
    ]
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Gemm", ["x", "w", "b"], ["y"])], "nearest", ends[:1], ends[1:], held
    )
    made = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8)
    onnx.save(made, folder / "net.onnx", save_as_external_data=True, location="net.onnx.data", size_threshold=0)
    return f"onnx:{folder / 'net.onnx'}"


def transformers_model(folder: Path) -> str:
    """A tiny network of transformers: random features of noisy digits, and a last layer fitted to them."""
    torch.manual_seed(0)
    config = transformers.ResNetConfig(
        num_channels=1,
        embedding_size=64,
        hidden_sizes=[64, 256],
        depths=[1, 1],
        layer_type="basic",
        num_labels=10,  # type: ignore[call-arg]
    )
    model = transformers.ResNetForImageClassification(config).eval()  # type: ignore[no-untyped-call]
    x, y = data.load("digits", split="train").many(range(1437))
    noisy = torch.cat([x + 0.1 * torch.randn_like(x) for _ in range(2)])
    with torch.no_grad():
        features = model.resnet(noisy).pooler_output.flatten(1).double()
        ridge = features.T @ features + 1e-3 * len(features) * torch.eye(features.shape[1])
        fitted = torch.linalg.solve(ridge, features.T @ (nn.functional.one_hot(y.repeat(2), 10).double() - 0.1))
        model.classifier[1].weight.copy_(20 * fitted.T)
        model.classifier[1].bias.zero_()
    model.save_pretrained(folder)
    settings = {"image_processor_type": "ConvNextImageProcessor", "do_normalize": False, "do_resize": False}
    (folder / "preprocessor_config.json").write_text(json.dumps(settings))
    return f"hf:{folder}"


@pytest.mark.parametrize("sigma", [0.05, 0.1])
@pytest.mark.parametrize("made", [onnx_model, transformers_model])
def test_healthy_networks_of_other_projects_have_no_finding(
    made: Callable[[Path], str], sigma: float, tmp_path: Path
) -> None:
    loaded = models.load(made(tmp_path))
    inputs = points() if made is onnx_model else data.load("digits")
    smoothed = SmoothedClassifier(loaded.model, sigma, batch=100)
    job = Job(loaded, inputs, smoothed, Duels(), Sampling(n0=100, n=1000), Selection(len(inputs)))
    found = check(job, inputs=60, copies=20)
    assert mistakes(found) == []
    assert found.clean_accuracy is not None
    assert found.clean_accuracy > 0.6


def test_a_model_that_refuses_other_units_is_checked_without_them() -> None:
    found = check(job_of(points(), Nearest(strict=True)), copies=20)
    assert found.evidence.other_units == {}
    assert found.clean_accuracy == 1.0


def test_targets_beyond_reach_say_how_many_samples_they_need() -> None:
    found = check(job_of(points(count=5), n=100, goal=Goal((0.25, 1.0, 1.2))), copies=20)
    assert found.evidence.ceiling == pytest.approx(0.5 * stats.norm.ppf(0.001 ** (1 / 100)), rel=1e-6)
    needed = {radius: math.ceil(math.log(0.001) / stats.norm.logcdf(2 * radius)) for radius in (1.0, 1.2)}
    assert found.evidence.out_of_reach == needed
    assert "radius out of reach" in mistakes(found)
    assert mistakes(check(job_of(points(count=5), n=9), copies=20)) == ["too few samples"]


def test_without_samples_radii_are_exact() -> None:
    job = job_of(points(count=3), method=Deterministic())
    found = check(job)
    (radii,) = [[row.radius for row in job.rows(range(3))]]
    assert found.radii[:, 0].tolist() == radii
    assert (found.copies, found.noisy_accuracy, found.seconds) == (0, None, 0.0)


def test_a_run_warns_at_its_end_unless_told_otherwise(tmp_path: Path) -> None:
    with pytest.warns(SuspiciousWarning, match="labels look shifted"):
        runs.certify(job_of(points(shift=2, count=40), n=100), tmp_path / "a")
    ended: list[Results] = []
    runs.certify(job_of(points(shift=2, count=40), n=100), tmp_path / "b", on_end=ended.append)
    assert [len(results) for results in ended] == [40]


def test_one_input_with_sigma_in_other_units_warns() -> None:
    smoothed = SmoothedClassifier(Nearest(), 128.0, batch=100)
    with pytest.warns(SuspiciousWarning, match="sigma = 128 is far larger than all values of x"):
        smoothed.certify(CENTERS[0], n0=20, n=50)
