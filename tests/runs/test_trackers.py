"""Experiment trackers: TensorBoard writes real files; W&B and MLflow are fakes here, and make the same calls."""

import sys
from collections.abc import Mapping
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from lvmrs import Duels, SmoothedClassifier, data, models, runs
from lvmrs.analysis import average_certified_radius, certified_accuracy, results_of
from lvmrs.errors import InvalidArgumentError, RunError
from lvmrs.runs.trackers import RowLog, opened
from tests.cli.helpers import run as command


class Kept:
    def __init__(self) -> None:
        self.logged: list[tuple[int, dict[str, float]]] = []

    def log(self, step: int, values: Mapping[str, float]) -> None:
        self.logged.append((step, dict(values)))


def job() -> runs.Job:
    inputs = data.Arrays("corners", "test", np.eye(4), np.array([0, 1, 2, 0]))
    model = models.Loaded.of(torch.nn.Identity(), "identity")
    smoothed = SmoothedClassifier(model.model, 0.5, batch=100)
    return runs.Job(model, inputs, smoothed, Duels(), runs.Sampling(n0=50, n=500), runs.Selection(4))


def test_measures_of_the_rows_so_far_are_logged(tmp_path: Path) -> None:
    kept = Kept()
    run = runs.certify(job(), tmp_path / "run", on_row=RowLog(kept))
    assert [step for step, _ in kept.logged] == [1, 2, 3, 4]
    results = results_of(run)
    last = kept.logged[-1][1]
    assert last["certified_accuracy"] == certified_accuracy(results, [0.0])[0] == 0.75
    assert last["average_certified_radius"] == pytest.approx(average_certified_radius(results).value)
    rows = run.rows()
    again = RowLog(kept, rows)
    again(rows[0])  # written again, and not counted twice
    assert kept.logged[-1][0] == 4
    assert kept.logged[-1][1] == pytest.approx(last)


def test_tensorboard_reads_what_certify_and_train_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    net, logs = tmp_path / "net.safetensors", tmp_path / "logs"
    trained = f"train --model ready:small_cnn --data digits --sigma 0.5 --epochs 2 --out {net}"
    code, _, err = command(f"{trained} --tracker tensorboard:{logs}/train", capsys)
    assert code == 0, err
    shown = EventAccumulator(f"{logs}/train")
    shown.Reload()
    assert [event.step for event in shown.Scalars("loss")] == [1, 2]
    assert 0 < shown.Scalars("noisy_accuracy")[0].value < 1
    certify = f"certify --model trained:{net} --data digits --sigma 0.5 --n0 50 --n 100 --out {tmp_path}/run"
    for more in (f"--skip 180 --tracker tensorboard:{logs}/a", f"--skip 180 --resume --tracker tensorboard:{logs}/b"):
        code, _, err = command(f"{certify} {more}", capsys)
        assert code == 0, err
        rows = tmp_path / "run" / "certificates.tsv"
        lines = rows.read_text().splitlines(keepends=True)
        if more.endswith("/a"):
            rows.write_text("".join(lines[:-1]))  # the second command goes on after the first row
    steps = []
    for name in ("a", "b"):
        shown = EventAccumulator(f"{logs}/{name}")
        shown.Reload()
        assert "settings/text_summary" in shown.Tags()["tensors"]
        steps.append([event.step for event in shown.Scalars("average_certified_radius")])
    assert steps == [[1, 2], [2]]


def test_calls_of_wandb_and_mlflow_on_fakes(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []

    @contextmanager
    def begin(**given: Any) -> Any:
        calls.append(given)
        yield SimpleNamespace(log=lambda values, step: calls.append((step, values)))
        calls.append("end")

    mlflow = SimpleNamespace(
        set_experiment=calls.append, start_run=begin, log_params=calls.append,
        log_metrics=lambda values, step: calls.append((step, values)),
    )  # fmt: skip
    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(init=begin))
    monkeypatch.setitem(sys.modules, "mlflow", mlflow)
    for name in ("wandb:digits", "mlflow:digits"):
        with opened(name, {"sigma": 0.5, "alpha": None}) as tracker:
            tracker.log(1, {"loss": 2.0})
    logged = [(1, {"loss": 2.0}), "end"]
    assert calls == [{"project": "digits", "config": {"sigma": 0.5}}, *logged, "digits", {}, {"sigma": 0.5}, *logged]


def test_a_tracker_that_fails_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**given: Any) -> None:
        raise OSError("no route to host")

    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(init=fail))
    with (
        pytest.raises(RunError, match=r"the tracker wandb:a fails; what was computed is safe \(.*no route to host"),
        opened("wandb:a", {}),
    ):
        pass


@pytest.mark.parametrize("spelling", ["foo:bar", "tensorboard", ""])
def test_an_unknown_tracker_is_refused(spelling: str) -> None:
    with pytest.raises(InvalidArgumentError, match="tracker must be"), opened(spelling, {}):
        pass
