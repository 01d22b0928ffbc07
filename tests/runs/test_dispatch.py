"""A worker whose model gives other logits than that of the command is refused."""

import socket
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import Tensor

from lvmrs import runs
from lvmrs.attacks import Search
from lvmrs.errors import InvalidArgumentError, RunError
from lvmrs.kernel.model_check import Agreement
from lvmrs.planners import Cohen
from lvmrs.record import Run, Selection
from lvmrs.runs import Job
from lvmrs.runs.dispatch import Probe, Reply, probe, rejecting_others
from lvmrs.runs.workers import Workers
from tests.runs.helpers import INPUTS, job_of, lines
from tests.tiny_models import RowByRow
from tests.workers.copies import Copies, as_if_they_had_it

pytestmark = pytest.mark.usefixtures("no_measuring")


class Elsewhere(RowByRow):
    """Gives other logits on some machines."""

    times = 1.0
    more_classes = False
    runs_here = True

    def __call__(self, x: Tensor) -> Tensor:
        assert self.runs_here
        logits = self.times * super().__call__(x)
        return torch.cat([logits, logits[:, :1] - 1], dim=1) if self.more_classes else logits


def times(*factors: float, device: str | None = None) -> Copies:
    """Workers whose models multiply their logits."""
    return Copies(*(partial(_multiply, factor) for factor in factors), device=device)


def _multiply(factor: float, job: Job) -> None:
    job.model.model.times = factor  # type: ignore[attr-defined]


def _let_run(job: Job) -> None:
    job.model.model.runs_here = True  # type: ignore[attr-defined]


def _add_a_class(job: Job) -> None:
    job.model.model.more_classes = True  # type: ignore[attr-defined]


def certified(place: Path, workers: Workers | None = None) -> Run:
    return runs.certify(job_of(Cohen(), Selection(INPUTS, max=3), model=Elsewhere()), place, workers=workers)


def test_the_same_model_is_let_in_and_so_is_rounding(tmp_path: Path) -> None:
    alone = lines(certified(tmp_path / "alone"))
    assert lines(certified(tmp_path / "a", times(1.0, 1.0))) == alone
    certified(tmp_path / "b", times(1.0, 1.0 + 1e-6))


def test_another_model_is_refused_before_its_rows_are_written(tmp_path: Path) -> None:
    node = socket.gethostname()
    sentence = (
        rf"the worker on {node} does not run the same classifier as the command on {node}: logits of the same inputs "
        r"differ by [0-9.e-]+, and rounding explains [0-9.e-]+; its processor, libraries or files differ"
    )
    with pytest.raises(RunError, match=sentence):
        certified(tmp_path / "a", times(1.0, 1.001))
    rows = [row.idx for row in Run(tmp_path / "a").rows()]
    assert len(rows) <= 1, "only those of the first worker"
    with pytest.raises(RunError, match="does not run the same classifier"):
        certified(tmp_path / "b", times(1.001))
    assert not (tmp_path / "b").exists(), "it would have chosen how the model is run"
    with pytest.raises(RunError, match="it has 4 classes and not 3"):
        certified(tmp_path / "c", Copies(_add_a_class))


def test_workers_with_a_device_are_compared_with_each_other(tmp_path: Path) -> None:
    certified(tmp_path / "a", times(1.001, 1.001, device="cpu"))
    with pytest.raises(RunError, match=r"the worker on .* does not run the same classifier as the worker on "):
        certified(tmp_path / "b", times(1.001, 1.0, device="cpu"))


def test_attacks_and_checks_compare_too(tmp_path: Path) -> None:
    run = certified(tmp_path / "a")
    with pytest.raises(RunError, match="does not run the same classifier"):
        runs.verify(run, job_of(Cohen(), Selection(INPUTS, max=3), model=Elsewhere()), rows=2, workers=times(1.001))
    with pytest.raises(RunError, match="does not run the same classifier"):
        runs.attack(job_of(model=Elsewhere()), run, out=tmp_path / "b", most=1, workers=times(1.001))


def test_a_machine_without_the_device_runs_no_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers have GPUs; the command that asks them has none, and its model cannot run there."""
    as_if_they_had_it(monkeypatch)
    alone = lines(certified(tmp_path / "alone"))
    workers = Copies(_let_run, _let_run, device="cuda")

    def elsewhere() -> Job:
        model = Elsewhere()
        model.runs_here = False
        return job_of(Cohen(), Selection(INPUTS, max=3), model=model)

    run = runs.certify(elsewhere(), tmp_path / "a", workers=workers)
    assert lines(run) == alone
    manifest = run.directory / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"device": "cpu"', '"device": "cuda"'))
    run = Run(run.directory)
    assert run.manifest.model.device == "cuda"
    assert runs.verify(run, elsewhere(), workers=workers).count("equal") == 3
    search = Search(steps=1, restarts=1, samples=4, n=100)
    assert len(runs.attack(elsewhere(), run, search, out=tmp_path / "b", workers=workers).rows()) >= 1
    with pytest.raises(RunError, match="was made on cuda, whose noise or 16-bit operations differ from those of cpu"):
        runs.verify(run, elsewhere())


def test_a_worker_whose_torch_cannot_use_its_device(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="device 'cuda:99' cannot be used here"):
        certified(tmp_path / "a", Copies(device="cuda:99"))


def test_it_costs_three_small_batches() -> None:
    model = Elsewhere()
    job = job_of(model=model)
    again = probe(job, "the worker")
    assert model.sizes == [4, 4, 4]
    assert torch.equal(again.logits, probe(job, "the worker").logits), "it is the same each time"


def test_what_is_not_a_number_is_not_the_same() -> None:
    agreement = Agreement(2.0**-23, 0, torch.ones(6), torch.zeros(6), torch.ones(6))
    known = Probe(torch.ones(2, 3).double(), agreement, "the command on a")
    found = known._replace(logits=known.logits * torch.nan, where="the worker on b")
    with pytest.raises(RunError, match=r"the worker on b does not run .* differ by inf"):
        list(rejecting_others(lambda _: iter([[Reply(0, found)]]), known)([0]))
