"""``certify_dataset`` and ``Certificates``: any data, the same certificates as one by one, and runs on disk."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    IterableDataset,
    RandomSampler,
    SubsetRandomSampler,
    TensorDataset,
)

import lvmrs
from lvmrs import Certificates, Cohen, Deterministic, Duels, Goal, Run, SmoothedClassifier, analysis, certify_dataset
from lvmrs.data import Arrays
from lvmrs.errors import DataError, InvalidArgumentError, LvmrsError, RunError
from lvmrs.models import Loaded
from tests.cli.helpers import run as command
from tests.tiny_models import RowByRow

QUICK: dict[str, Any] = {"n0": 30, "n": 100, "seed": 2}
X = torch.rand(5, 3, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
Y = torch.tensor([0, 1, 2, 0, 1])
PAIRS = [(x, int(y)) for x, y in zip(X, Y, strict=True)]


def smoothed() -> SmoothedClassifier:
    return SmoothedClassifier(RowByRow(), 0.25, 9.0, batch=50)


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Any:
        return iter(PAIRS)


LABELLED: dict[str, Callable[[], Any]] = {
    "data set": lambda: TensorDataset(X, Y),
    "loader": lambda: DataLoader(TensorDataset(X, Y), batch_size=2),
    "loader without batches": lambda: DataLoader(TensorDataset(X, Y), batch_size=None),
    "iterable data set": Stream,
    "loader of it": lambda: DataLoader(Stream(), batch_size=2),
    "list": lambda: PAIRS,
    "generator": lambda: (pair for pair in PAIRS),
    "arrays": lambda: [(x.numpy(), np.int64(y)) for x, y in PAIRS],
}
UNLABELLED: dict[str, Callable[[], Any]] = {
    "tensor": lambda: X,
    "array": X.numpy,
    "other order of bytes": lambda: X.numpy().astype(">f8"),
    "reversed twice": lambda: np.ascontiguousarray(X.numpy()[::-1])[::-1],
    "data set": lambda: TensorDataset(X),
    "loader": lambda: DataLoader(TensorDataset(X), batch_size=2),
    "loader of inputs": lambda: DataLoader(list(X), batch_size=3),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("method", [None, Cohen(), Deterministic()], ids=repr)
def test_certificates_are_those_of_certify(method: Any) -> None:
    classifier = smoothed()
    found = certify_dataset(classifier, TensorDataset(X, Y), method, skip=2, **QUICK)
    sampling = QUICK if method is None or method.samples else {}
    one_by_one = [classifier.certify(X[k], method, index=k, **sampling) for k in (0, 2, 4)]
    assert found.proved == tuple(one_by_one)
    assert found.indices.tolist() == [0, 2, 4]
    assert found.labels is not None
    assert found.labels.tolist() == [0, 2, 1]
    assert found.predictions.tolist() == [certificate.prediction for certificate in one_by_one]
    assert found.radii.tolist() == [certificate.radius for certificate in one_by_one]
    assert [row.clean for row in found] == [classifier.answer(X[k]) for k in (0, 2, 4)]


@pytest.mark.parametrize("kind", LABELLED)
def test_data_with_labels(kind: str) -> None:
    expected = certify_dataset(smoothed(), PAIRS, Duels(), max=4, skip=3, **QUICK)
    found = certify_dataset(smoothed(), LABELLED[kind](), Duels(), max=4, skip=3, **QUICK)
    assert found.proved == expected.proved
    assert found.labels is not None
    assert (found.indices.tolist(), found.labels.tolist()) == ([0, 3], [0, 0])


@pytest.mark.parametrize("kind", UNLABELLED)
def test_data_without_labels(kind: str) -> None:
    found = certify_dataset(smoothed(), UNLABELLED[kind](), Duels(), max=2, **QUICK)
    assert found.proved == certify_dataset(smoothed(), PAIRS, Duels(), max=2, **QUICK).proved
    assert found.labels is None
    assert found.average_radius == pytest.approx(found.radii.mean())
    with pytest.raises(RunError, match="has no labels, so that accuracy is unknown"):
        found.accuracy([0.0])
    labelled = certify_dataset(smoothed(), UNLABELLED[kind](), Duels(), max=2, labels=Y, **QUICK)
    assert [row.label for row in labelled] == [0, 1]


def test_measures_are_those_of_analysis() -> None:
    found = certify_dataset(smoothed(), PAIRS, labels=None, **QUICK)
    right = [row.radius if row.predict == row.label else -1.0 for row in found]
    assert found.accuracy([0.0, 0.1]) == [sum(r >= 0 for r in right) / 5, sum(r >= 0.1 for r in right) / 5]
    assert found.average_radius == pytest.approx(sum(max(0.0, r) for r in right) / 5)
    assert found[-1] is found.rows[4]
    assert len(found[1:3]) == 2


def test_saved_certificates_are_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = certify_dataset(smoothed(), PAIRS, Cohen(), goal=Goal((0.05,)), **QUICK)
    saved = found.save(tmp_path / "a")
    read = Certificates.load(tmp_path / "a")
    assert saved.complete
    assert (read.rows, read.manifest, read.proved) == (found.rows, found.manifest, None)
    assert repr(read) == repr(found)
    assert analysis.certified_accuracy(analysis.read(tmp_path / "a"), [0.0, 0.1]) == found.accuracy([0.0, 0.1])
    for line in (f"analyze {tmp_path / 'a'}", f"report {tmp_path / 'a'} --out {tmp_path / 'a.html'}"):
        code, _, err = command(line, capsys)
        assert code == 0, err
    with pytest.raises(RunError, match="holds a run already"):
        found.save(tmp_path / "a")


def test_a_run_on_disk_in_one_call_and_its_resumption(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = certify_dataset(smoothed(), PAIRS, Cohen(), out=tmp_path / "a", max=5, **QUICK)
    assert Run(tmp_path / "a").complete
    text = (tmp_path / "a" / "certificates.tsv").read_text()
    assert [row.radius for row in first] == [row.radius for row in certify_dataset(smoothed(), PAIRS, Cohen(), **QUICK)]
    (tmp_path / "a" / "certificates.tsv").write_text("\n".join(text.split("\n")[:3]) + "\n")
    assert len(Certificates.load(tmp_path / "a")) == 2
    settings: dict[str, Any] = {"out": tmp_path / "a", "max": 5, "resume": True, **QUICK}
    resumed = certify_dataset(smoothed(), PAIRS, Cohen(), progress=True, **settings)
    assert "100%" in capsys.readouterr().err
    assert [(row.idx, row.radius) for row in resumed] == [(row.idx, row.radius) for row in first]
    with pytest.raises(RunError, match="data hash"):
        certify_dataset(smoothed(), 1 - X, Cohen(), labels=Y, **settings)
    with pytest.raises(RunError, match="holds a run already"):
        certify_dataset(smoothed(), PAIRS, Cohen(), out=tmp_path / "a", **QUICK)


def test_kept_scores_stay_behind(tmp_path: Path) -> None:
    data = Arrays("tiny", "test", X.numpy(), Y.numpy())
    classifier = smoothed()
    job = lvmrs.runs.Job(
        Loaded.of(classifier.model, "tiny"), data, classifier, Cohen(), lvmrs.runs.Sampling(n0=30, n=100),
        lvmrs.runs.Selection(5), keeps_scores=True,
    )  # fmt: skip
    kept = Certificates.of(lvmrs.runs.certify(job, tmp_path / "a"))
    copied = kept.save(tmp_path / "b")
    assert not copied.manifest.keeps_scores
    assert {row.scores for row in copied.rows()} == {"-"}


def test_a_data_set_of_lvmrs_and_a_loaded_model_keep_their_names() -> None:
    data, classifier = Arrays("tiny", "test", X.numpy(), Y.numpy()), smoothed()
    found = certify_dataset(classifier, data, Cohen(), max=1, model=Loaded.of(classifier.model, "mine"), **QUICK)
    assert (found.manifest.data.name, found.manifest.model.name) == ("tiny", "mine")
    assert found.manifest.data.hash == data.fingerprint()
    with pytest.raises(InvalidArgumentError, match="tiny has labels of its own"):
        certify_dataset(classifier, data, labels=Y)


def test_tables_figure_and_frame() -> None:
    classifier = smoothed()
    named = Loaded.of(classifier.model, "<b>mine</b>")
    found = certify_dataset(classifier, PAIRS, Cohen(), model=named, **QUICK)
    heading, header, line = repr(found).split("\n")
    assert heading == "<Certificates by Cohen: sigma=0.25, alpha=0.001, n0=30, n=100, seed=2>"
    assert header.split()[:5] == ["run", "inputs", "clean", "0", "0.25"]
    assert "ACR" in header
    assert "<b>mine</b>" in line
    page = found._repr_html_()
    assert page.startswith("<table><caption>Certificates by Cohen")
    assert "&lt;b&gt;mine&lt;/b&gt;" in page
    assert "<b>" not in page
    assert found.to_pandas()["radius"].tolist() == found.radii.tolist()
    assert found.plot().axes[0].get_xlabel() == "radius"


def test_pages_say_how_a_goal_limits_radii() -> None:
    page = certify_dataset(smoothed(), PAIRS, Duels(), goal=Goal(targets=(0.1,)), **QUICK)._repr_html_()
    assert "</table><p>" in page
    assert "<p>sampling stopped when it was decided whether 0.1 can be certified" in page


def test_progress_is_shown_where_wanted(capsys: pytest.CaptureFixture[str]) -> None:
    certify_dataset(smoothed(), PAIRS, Cohen(), max=1, **QUICK)
    assert capsys.readouterr() == ("", "")
    certify_dataset(smoothed(), PAIRS, Cohen(), max=1, progress=True, **QUICK)
    out, err = capsys.readouterr()
    assert (out, "inputs certified" in err, "100%" in err) == ("", True, True)


Call = Callable[[], object]
BAD: dict[str, tuple[Call, str]] = {
    "shuffled": (
        lambda: certify_dataset(smoothed(), DataLoader(TensorDataset(X, Y), shuffle=True)),
        "the loader of TensorDataset shuffles",
    ),
    "shuffled batches": (
        lambda: certify_dataset(
            smoothed(),
            DataLoader(TensorDataset(X), batch_sampler=BatchSampler(RandomSampler(X), 2, drop_last=False)),
            labels=Y,
        ),
        "the loader of TensorDataset shuffles",
    ),
    "a random subset": (
        lambda: certify_dataset(smoothed(), DataLoader(TensorDataset(X, Y), sampler=SubsetRandomSampler([1, 0]))),
        "the loader of TensorDataset shuffles",
    ),
    "normalised": (lambda: certify_dataset(smoothed(), 3 * X), "Tensor: input 0 has values outside [0, 1]; if it is"),
    "bytes": (
        lambda: certify_dataset(smoothed(), (255 * X).byte()),
        "input 0 of Tensor must be a floating-point tensor, got torch.uint8; use .float(), and divide by 255",
    ),
    "dictionaries": (lambda: certify_dataset(smoothed(), [{"x": X[0]}]), "list: input 0 is dict; expected a tensor"),
    "batches of dictionaries": (
        lambda: certify_dataset(smoothed(), DataLoader([{"x": X[0]}])),  # type: ignore[arg-type]
        "list: a batch is dict; expected inputs, or a pair",
    ),
    "a name": (lambda: certify_dataset(smoothed(), "digits"), "got 'digits'; lvmrs.data.load loads a data set by its"),
    "inputs and labels": (lambda: certify_dataset(smoothed(), (X, Y)), "pass the second one as labels="),
    "a number": (lambda: certify_dataset(smoothed(), 3), "data must be a data set, a loader or an array"),  # type: ignore[arg-type]
    "nothing": (lambda: certify_dataset(smoothed(), []), "list: no inputs are selected"),
    "few labels": (lambda: certify_dataset(smoothed(), X, labels=[0]), "1 labels for 5 inputs; give one for each"),
    "labels twice": (lambda: certify_dataset(smoothed(), PAIRS, labels=Y), "list has labels of its own"),
    "a label too many": (lambda: certify_dataset(smoothed(), X, labels=[3] * 5, **QUICK), "has label 3, but the model"),
    "some labels": (lambda: certify_dataset(smoothed(), [PAIRS[0], X[1]], **QUICK), "list: input 1 has label None"),
    "resumed in memory": (lambda: certify_dataset(smoothed(), X, resume=True), "give its directory as out"),
    "no classifier": (lambda: certify_dataset(RowByRow(), X), "smoothed must be a SmoothedClassifier"),  # type: ignore[arg-type]
    "a method by name": (lambda: certify_dataset(smoothed(), X, "cohen"), "method must be a Planner"),  # type: ignore[arg-type]
    "no run": (lambda: Certificates.load("nowhere"), "nowhere is not a run"),
}


@pytest.mark.parametrize("what", BAD)
def test_what_is_refused(what: str) -> None:
    call, words = BAD[what]
    with pytest.raises(LvmrsError) as caught:
        call()
    assert words in str(caught.value)


def test_failing_data_get_one_sentence() -> None:
    class Broken(list[Tensor]):
        def __len__(self) -> int:
            return 2

    with pytest.raises(DataError, match="Broken: its inputs cannot be read"):
        certify_dataset(smoothed(), Broken())


# ---------------------------------------------------------------------------------------------------------------------
# Inputs of one certificate: NumPy arrays, float64, and a batch dimension by mistake.


class Seen(nn.Module):
    """A network that notes the precision of its inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.kinds = set[torch.dtype]()
        self.layer = nn.Linear(12, 3)

    def forward(self, x: Tensor) -> Tensor:
        self.kinds.add(x.dtype)
        answer: Tensor = self.layer(x.flatten(1))
        return answer


def seen() -> Seen:
    torch.manual_seed(0)
    return Seen()


def test_arrays_in_float64_are_rounded_for_a_network_in_float32() -> None:
    model = seen()
    classifier = SmoothedClassifier(model, 0.25, batch=50, fast=False)
    found = classifier.certify(X[0].numpy(), **QUICK)
    assert found == classifier.certify(X[0].float(), **QUICK)
    assert classifier.certify_batch(X[:1].numpy(), **QUICK) == [found]
    assert classifier.predict(X[0].numpy()) == classifier.predict(X[0].float())
    assert model.kinds == {torch.float32}
    with pytest.raises(InvalidArgumentError, match="x must be finite, got inf"):
        classifier.certify(np.full((3, 4), 1e300), **QUICK)


def test_a_network_in_float64_gets_float64() -> None:
    model = seen().double()
    SmoothedClassifier(model, 0.25, batch=50, fast=False).certify(X[0].numpy(), **QUICK)
    assert model.kinds == {torch.float64}


def test_rounding_to_float32_keeps_values_on_the_grid() -> None:
    x = np.random.default_rng(0).integers(0, 256, (3, 4)) / 255
    classifier = SmoothedClassifier(seen(), 0.25, batch=50, noise="exact")
    in_float64 = SmoothedClassifier(seen().double(), 0.25, batch=50, noise="exact")
    _, single = classifier.sampler(x)
    _, double = in_float64.sampler(x)
    assert (single.dtype, double.dtype) == (torch.float32, torch.float64)
    assert torch.equal((single * 255).round().double(), (double * 255).round())
    assert classifier.certify(x, **QUICK) == classifier.certify((torch.tensor(x) * 255).round().float() / 255, **QUICK)
    assert classifier.certify(x, **QUICK).p_lower == in_float64.certify(x, **QUICK).p_lower


@pytest.mark.parametrize("count", [1, 2])
def test_a_batch_by_mistake_gets_the_sentence_that_helps(count: int) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2, 3))
    classifier = SmoothedClassifier(model, 0.25, batch=50)
    x = torch.rand(count, 1, 8, 8)
    advice = r"x has a batch dimension \(shape .*\); pass x\[0\], or use certify_batch"
    for call in (classifier.certify, classifier.predict, classifier.answer, classifier.classes):
        with pytest.raises(InvalidArgumentError, match=advice):
            call(x)
    assert len(classifier.certify_batch(x, **QUICK)) == count


def test_other_failures_of_a_model_keep_their_own_sentence() -> None:
    with pytest.raises(LvmrsError, match="the model fails on a batch of shape"):
        SmoothedClassifier(seen(), 0.25).certify(torch.rand(5, 7), **QUICK)
