"""Options that choose the workers, and ``lvmrs launch``."""

from pathlib import Path

import pytest

from lvmrs.cli.options import with_address
from lvmrs.cli.setup import chosen_workers
from lvmrs.errors import InvalidArgumentError
from lvmrs.runs.workers import Here, Processes, Ray, Workers
from tests.cli.helpers import run
from tests.quick import without_trials
from tests.runs.named_runs import altered_manifest, make_files, named_run
from tests.workers.copies import Copies, as_if_they_had_it

CERTIFY = "certify --model ready:small_cnn --data digits --sigma 0.5"


def test_ray_may_have_an_address() -> None:
    assert with_address(["certify", "--ray", "10.0.0.1:6379", "--out", "a"])[1:3] == ["--ray", "10.0.0.1:6379"]
    assert with_address(["--ray"]) == ["--ray=auto"]
    assert with_address([]) == []
    assert with_address(["--ray=local", "x"]) == ["--ray=local", "x"]


def test_the_options_choose_the_workers() -> None:
    assert isinstance(chosen_workers(None, None), Here)
    assert isinstance(chosen_workers(None, 1, usual=4), Here)
    assert isinstance(chosen_workers(None, 3), Processes)
    assert chosen_workers(None, None, usual=4).size == 4
    found = chosen_workers("auto", 5, 2, device="cuda")
    assert isinstance(found, Ray)
    assert (found.address, found.size, found.cpus, found.gpus, found.device) == (None, 5, 2, 1.0, "cuda")
    found = chosen_workers("10.0.0.1:6379", None, gpus=0.5)
    assert isinstance(found, Ray)
    assert (found.address, found.wanted, found.gpus, found.device) == ("10.0.0.1:6379", None, 0.5, "cuda")
    for given in ({"cpus": 2}, {"gpus": 1.0}):
        with pytest.raises(InvalidArgumentError, match="has no effect without ray; leave it out"):
            chosen_workers(None, None, **given)
    for workers, cpus, gpus in ((0, 1, 1.0), (1, 0, 1.0), (1, 1, -1.0)):
        with pytest.raises(InvalidArgumentError):
            chosen_workers("auto", workers, cpus, gpus)


@pytest.mark.parametrize("gpus", [0, 1, 2, 8])
def test_a_machine_with_several_gpus_starts_a_process_on_each(gpus: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.device_count", lambda: gpus)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    found = chosen_workers(None, None, device="auto", several=True)
    if gpus < 2:
        assert isinstance(found, Here)
    else:
        assert isinstance(found, Processes)
        assert (found.size, found.device) == (gpus, "cuda")


def test_it_does_so_if_nothing_else_was_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("torch.cuda.device_count", lambda: 4)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert isinstance(chosen_workers(None, None, device="auto"), Here)
    assert isinstance(chosen_workers(None, 2, device="auto", several=True), Processes)
    assert not capsys.readouterr().err
    found = chosen_workers(None, None, device="auto", several=True)
    assert isinstance(found, Processes)
    assert found.size == 4
    assert capsys.readouterr().err == "gpus   4: a process on each; --device cuda uses a single GPU\n"


@pytest.mark.parametrize(
    ("line", "recorded", "device", "several"),
    [
        ("verify a", "cpu", "cpu", False),
        ("verify a --ray", "cuda", "cuda", True),
        ("attack a --ray", "cuda", "cuda", True),
        ("attack a --device cpu", "cuda", "cpu", False),
        (f"{CERTIFY} --out b", "", "auto", True),
        (f"{CERTIFY} --out b --device cuda", "", "cuda", False),
        (f"{CERTIFY} --out b --budget 1000", "", "auto", False),
    ],
)
def test_the_device_decides_the_workers(
    line: str,
    recorded: str,
    device: str,
    several: bool,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    asked: list[dict[str, object]] = []

    def noted(*_: object, **given: object) -> Workers:
        asked.append(given)
        raise InvalidArgumentError("that is enough")

    monkeypatch.chdir(tmp_path)
    without_trials(monkeypatch)
    if recorded:
        make_files()
        altered_manifest(named_run(), lambda manifest: manifest["model"].update(device=recorded))
    monkeypatch.setattr("lvmrs.cli.setup.chosen_workers", noted)
    code, _, err = run(line, capsys)
    assert (code, "that is enough" in err) == (2, True), err
    assert asked == [{"device": device, "several": several}]


@pytest.mark.parametrize("line", ["verify a --rows 2", "attack a --steps 1 --samples 4 --n 100"])
def test_a_machine_without_a_gpu_asks_workers_that_have_one(
    line: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    without_trials(monkeypatch)
    make_files()
    altered_manifest(named_run(), lambda manifest: manifest["model"].update(device="cuda"))
    code, _, err = run(line, capsys)
    assert (code, "cuda" in err) == (2, True), err
    monkeypatch.setattr("lvmrs.cli.setup.chosen_workers", lambda *_, **__: Copies(device="cuda"))
    as_if_they_had_it(monkeypatch)
    code, _, err = run(line, capsys)
    assert code == 0, err


def test_a_shard_of_no_array_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SLURM_ARRAY_TASK_ID", raising=False)
    code, _, err = run(f"{CERTIFY} --shard auto --out {tmp_path / 'a'}", capsys)
    assert code == 2
    assert "shard auto is for the tasks of a Slurm array, and this is none" in err


@pytest.mark.parametrize(
    ("line", "code", "sentence"),
    [
        (f"launch -- {CERTIFY} --out a", 2, "slurm must be given"),
        ("launch --slurm -- train --out a", 2, "only certify can be launched, got 'train'"),
        (f"launch --slurm -- {CERTIFY}", 2, "out must be given"),
        (f"launch --slurm -- {CERTIFY} --out a --shard 1/2", 2, "shard is set by launch"),
        (f"launch --slurm -- {CERTIFY} --out a --resume", 2, "resume is set by launch"),
        (f"launch --slurm -- {CERTIFY} --out a --ray", 2, "ray cannot be used in a task of Slurm"),
        (f"launch --slurm -- {CERTIFY} --out a --ray 10.0.0.1:6379", 2, "ray cannot be used in a task of Slurm"),
        (f"launch --slurm --sbatch array=1-3 -- {CERTIFY} --out a", 2, "sbatch 'array' cannot be given here"),
        (f"launch --slurm --sbatch time=soon -- {CERTIFY} --out a", 2, "time must be minutes"),
        (f"launch --slurm -- {CERTIFY} --out a --bogus", 2, "No such option"),
        (f"launch --slurm --sbatch gpu -- {CERTIFY} --out a", 2, "sbatch must be NAME=VALUE"),
        (f"launch --slurm --shards 1 -- {CERTIFY} --out a", 2, "shards"),
        (f"launch --slurm -- {CERTIFY} --out a", 1, "there is no sbatch here"),
    ],
)
def test_what_cannot_be_launched(
    line: str,
    code: int,
    sentence: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    found, _, err = run(line, capsys)
    assert (found, sentence in err) == (code, True), err
    assert not list(tmp_path.iterdir())
