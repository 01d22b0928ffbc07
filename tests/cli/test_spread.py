"""Options that say who computes, and ``lvmrs launch``."""

from pathlib import Path

import pytest

from lvmrs.cli.spread import chosen_workers, with_address
from lvmrs.errors import InvalidArgumentError
from lvmrs.workers import Here, Processes, Ray
from tests.cli.helpers import run

CERTIFY = "certify --model ready:small_cnn --data digits --sigma 0.5"


def test_ray_may_have_an_address() -> None:
    assert with_address(["certify", "--ray", "10.0.0.1:6379", "--out", "a"])[1:3] == ["--ray", "10.0.0.1:6379"]
    assert with_address(["--ray"]) == ["--ray=auto"]
    assert with_address([]) == []
    assert with_address(["--ray=local", "x"]) == ["--ray=local", "x"]


def test_who_computes() -> None:
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
        (f"launch --slurm -- {CERTIFY}", 2, "Missing option '--out'"),
        (f"launch --slurm -- {CERTIFY} --out a --shard 1/2", 2, "shard is for launch to give"),
        (f"launch --slurm -- {CERTIFY} --out a --resume", 2, "resume is for launch to give"),
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
