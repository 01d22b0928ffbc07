"""The job of a run is made again from its manifest; what could run code must be named."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lvmrs import Deterministic, Duels, Fixed, models, registry, runs
from lvmrs.errors import InvalidArgumentError, LvmrsError, ModelError, RunError
from lvmrs.planners import LVM
from lvmrs.record import Run, Selection
from lvmrs.runs.rebuild import ChangedError, NotNamedError, differences
from tests.own_parts import LargestMean, Squares, Uniform
from tests.runs.helpers import DATA, INPUTS, fill, job_of
from tests.runs.named_runs import NETWORK, altered_manifest, make_files, named_run

pytestmark = pytest.mark.usefixtures("no_measuring")

FOUR = Selection(INPUTS, max=4)


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    make_files()


def same_rows(run: Run, job: runs.Job) -> bool:
    """Whether the job gives the rows of the run, but for their times."""
    made = [vars(job.row(row.idx)) | {"time": row.time, "scores": row.scores} for row in run.rows()]
    return made == [vars(row) for row in run.rows()]


def test_what_merely_reads_files_is_loaded_by_its_recorded_name() -> None:
    run = named_run()
    job = runs.job_of_run(run)
    assert same_rows(run, job)
    assert (job.sampling, job.method, job.selection) == (runs.Sampling(0.01, 20, 200, 3), Duels(), Selection(6, max=4))
    assert (job.smoothed.batch, runs.job_of_run(run, batch=5).smoothed.batch) == (16, 5)
    assert not differences(run, job)


def test_what_moved_is_named(tmp_path: Path) -> None:
    run = named_run()
    for name in ("net.safetensors", "data.npz"):
        Path(name).rename(tmp_path / f"moved-{name}")
    with pytest.raises(LvmrsError, match=r"npz:data\.npz: data\.npz does not exist"):
        runs.job_of_run(run)
    with pytest.raises(ModelError, match=r"net\.safetensors does not exist"):
        runs.job_of_run(run, data="npz:moved-data.npz")
    assert same_rows(run, runs.job_of_run(run, model="trained:moved-net.safetensors", data="npz:moved-data.npz"))


def test_weights_that_were_put_into_a_network_are_named_again() -> None:
    run = named_run(NETWORK, weights="net.safetensors")
    with pytest.raises(NotNamedError, match="from a file whose path it has not recorded; name that file") as caught:
        runs.job_of_run(run)
    assert (caught.value.argument, caught.value.recorded) == ("weights", None)
    assert same_rows(run, runs.job_of_run(run, weights="net.safetensors"))


def test_normalisation_and_denoiser_are_those_of_the_run() -> None:
    run = named_run(NETWORK, weights="net.safetensors", mean=[0.4], std=[0.3])
    assert same_rows(run, runs.job_of_run(run, weights="net.safetensors"))
    models.trained.save(Path("dncnn.safetensors"), models.ready.build("dncnn,width=2,depth=2,channels=1"), "ready:dncnn,width=2,depth=2,channels=1", {})  # fmt: skip  # noqa: E501
    run = named_run(denoiser="trained:dncnn.safetensors", out="b")
    assert same_rows(run, runs.job_of_run(run))
    shutil.copy("dncnn.safetensors", "moved.safetensors")
    Path("dncnn.safetensors").unlink()
    assert same_rows(run, runs.job_of_run(run, denoiser="trained:moved.safetensors"))


CODE = (
    "python:mine.py:make", "python:mine:make", "hf:mine", "timm:x", "onnx:net.onnx", "export:a.pt2", "torchvision:x",
    "nothing:x", "", ":",
)  # fmt: skip


@pytest.mark.parametrize("part", ["model", "data", "denoiser"])
def test_a_run_does_not_choose_code_to_run(part: str) -> None:
    run = named_run()
    for name in CODE:

        def change(stored: dict[str, Any], name: str = name) -> None:
            if part == "denoiser":
                stored["model"]["denoiser"] = {"name": name, "weights_hash": "0"}
            else:
                stored[part]["name"] = name

        with pytest.raises(NotNamedError) as caught:
            runs.job_of_run(altered_manifest(run, change))
        assert str(caught.value).startswith(f"{name} could run code, and a run must not choose code; if you trust it, ")
        assert (caught.value.argument, caught.value.recorded) == (part, name)
    assert not Path("code-was-run").exists()


def test_code_that_the_user_names_is_run_and_compared() -> None:
    run = named_run("python:mine.py:make", "python:mine.py:inputs")
    with pytest.raises(NotNamedError, match="could run code"):
        runs.job_of_run(run, model="python:mine.py:make")
    typed = {"model": "python:mine.py:make", "data": "python:mine.py:inputs"}
    assert same_rows(run, runs.job_of_run(run, **typed))  # type: ignore[arg-type]
    Path("mine.py").write_text(f"{Path('mine.py').read_text()}\n")
    with pytest.raises(ChangedError, match="model code hash: "):
        runs.job_of_run(run, **typed)  # type: ignore[arg-type]


def test_other_weights_data_and_settings_are_noticed() -> None:
    run = named_run()
    with pytest.raises(ChangedError, match=r'model weights hash: "[0-9a-f]{64}", now "[0-9a-f]{64}"') as caught:
        runs.job_of_run(run, model="trained:other.safetensors")
    assert len(caught.value.changed) == 1
    with pytest.raises(ChangedError, match="if its weights were from a file, name that file"):
        runs.job_of_run(run, model=NETWORK)
    x, y = (np.load("data.npz")[name] for name in ("x_test", "y_test"))
    np.savez("labels.npz", x_test=x, y_test=1 - y % 2)
    np.savez("fewer.npz", x_test=x[:5], y_test=y[:5])
    for name in ("labels", "fewer"):
        with pytest.raises(ChangedError, match=r'data hash: "[0-9a-f]+", now "[0-9a-f]+"'):
            runs.job_of_run(run, data=f"npz:{name}.npz")
    with pytest.raises(ChangedError, match='method name: "Duels", now "LVM"'):
        runs.job_of_run(run, method=LVM())


def test_parts_and_methods_of_ones_own_are_named_again(monkeypatch: pytest.MonkeyPatch) -> None:
    job = job_of()
    given = {"model": job.model, "data": DATA}
    for names in registry.PARTS:
        monkeypatch.setattr(names, "_added", {})
    registry.MAPS.add(Squares)
    run = fill(Path("map"), planner=Fixed("squares", 0.5, form="r2"), selection=FOUR)
    own = fill(Path("method"), planner=LargestMean(0.3), selection=FOUR)
    assert same_rows(run, runs.job_of_run(run, **given))  # type: ignore[arg-type]
    assert runs.job_of_run(own, method=LargestMean, **given).method == LargestMean(0.3)  # type: ignore[arg-type]
    with pytest.raises(ChangedError, match="method settings"):
        runs.job_of_run(own, method=LargestMean(0.4), **given)  # type: ignore[arg-type]
    monkeypatch.setattr(registry.MAPS, "_added", {})
    with pytest.raises(NotNamedError, match=r"the map squares \(its code is .*Squares.*\) does not come") as caught:
        runs.job_of_run(run, **given)  # type: ignore[arg-type]
    assert caught.value.argument == "map"
    with pytest.raises(NotNamedError, match=r"the method LargestMean .* does not come with lvmrs") as caught:
        runs.job_of_run(own, **given)  # type: ignore[arg-type]
    assert caught.value.argument == "method"
    noisy = altered_manifest(own, lambda stored: stored["terms"].update(noise=Uniform.name))
    with pytest.raises(NotNamedError, match=r"the noise uniform .* does not come with lvmrs"):
        runs.job_of_run(noisy, **given)  # type: ignore[arg-type]


def test_deterministic_runs_and_shards() -> None:
    job = job_of()
    run = fill(Path("certain"), planner=Deterministic(), selection=FOUR)
    assert same_rows(run, runs.job_of_run(run, model=job.model, data=DATA))
    part = fill(Path("part"), planner=Duels(), selection=Selection(INPUTS, shard=2, shards=3))
    assert runs.job_of_run(part, model=job.model, data=DATA).selection == part.manifest.selection


def test_what_has_no_job() -> None:
    job = job_of()
    run = altered_manifest(named_run(), lambda stored: stored["origin"].update(imported="other.tsv"))
    with pytest.raises(RunError, match="was imported from another project's file, and no job of lvmrs made it"):
        runs.job_of_run(run)
    unnamed = altered_manifest(named_run(out="b"), lambda stored: stored["data"].update(name=None))
    with pytest.raises(NotNamedError, match="the run does not record its data"):
        runs.job_of_run(unnamed)
    with pytest.raises(InvalidArgumentError, match="class_index goes with data"):
        runs.job_of_run(unnamed, class_index="x.json")
    with pytest.raises(InvalidArgumentError, match="model is loaded already"):
        runs.job_of_run(unnamed, model=job.model, weights="net.safetensors", data="npz:data.npz")
