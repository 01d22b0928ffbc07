"""Runs on a real Slurm: shards by array tasks, which are killed, stopped and requeued, and the rows of one process."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lvmrs import jobs
from lvmrs.runs import Run
from lvmrs.slurm import shard_directory
from tests.cluster.commands import CERTIFY, INPUTS, check_same, lvmrs, prepare
from tests.cluster.slurm_cluster import SlurmCluster
from tests.processes import running, until

pytestmark = pytest.mark.cluster
REST = "0.05"
SHARDS = 4


@pytest.fixture(scope="module")
def slurm() -> Iterator[SlurmCluster]:
    with SlurmCluster() as found:
        yield found


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("slurm")
    prepare(folder)
    return folder


@pytest.fixture(scope="module")
def alone(slurm: SlurmCluster, place: Path) -> Run:
    """The run of one process."""
    done = lvmrs(*CERTIFY, "--out", "alone", place=place, environment=slurm.environment)
    assert not done.returncode, done.stderr
    return Run(place / "alone")


def shards(out: Path) -> list[Path]:
    return [shard_directory(out, number, SHARDS) for number in range(1, SHARDS + 1)]


def rows(shard: Path) -> int:
    return Run(shard).count if (shard / "certificates.tsv").exists() else 0


def test_a_launched_run_is_requeued_and_merged(slurm: SlurmCluster, place: Path, alone: Run) -> None:
    words = [
        "launch",
        "--slurm",
        "--shards",
        str(SHARDS),
        "--wait",
        "--sbatch",
        "time=10",
        "--",
        *CERTIFY,
        "--out",
        "a",
    ]
    second = shards(place / "a")[1]
    with running("-m", "lvmrs", *words, cwd=place, **{**slurm.environment, "REST": REST}) as process:
        until(lambda: rows(second), process)
        slurm.run("scontrol", "requeue", "1_1")  # as preemption does it: SIGTERM, and later SIGKILL
        until(lambda: slurm.run("squeue", "-h", "-j", "1_1", "-o", "%T").strip() == "PENDING", process)
        before = rows(second)
        slurm.run("scontrol", "update", "JobId=1_1", "StartTime=now")  # Slurm itself waits for two minutes
        _, err = process.communicate(timeout=300)
    assert process.returncode == 0, (err, slurm.log())
    assert 1 <= before < INPUTS // SHARDS
    log = next((place / "a-slurm").glob("1_1_*_log.out")).read_text()
    assert log.count("Starting with JobEnvironment") == 2
    assert "--resume" in log, "it was not told how to go on"
    check_same(Run(place / "a"), alone)


def test_array_tasks_that_are_killed_go_on(slurm: SlurmCluster, place: Path, alone: Run) -> None:
    script = place / "array.sh"
    command = " ".join([sys.executable, "-m", "lvmrs", *CERTIFY, "--shard", "auto", "--resume", "--out", "b"])
    script.write_text(f"#!/bin/sh\nexec {command}\n")
    options = ["--parsable", f"--array=1-{SHARDS}", "--output", str(place / "b-%a.log"), f"--chdir={place}"]

    def submitted() -> str:
        return slurm.run("sbatch", *options, f"--export=ALL,REST={REST}", str(script)).strip()

    first, second, *_ = shards(place / "b")
    job = submitted()
    until(lambda: rows(first) and rows(second))
    slurm.run("scancel", "--batch", "--signal=KILL", f"{job}_1")
    slurm.run("scancel", "--batch", "--signal=USR1", f"{job}_2")
    until(lambda: not slurm.run("squeue", "-h").strip())
    assert [rows(shard) < INPUTS // SHARDS for shard in shards(place / "b")] == [True, True, False, False]
    told = (place / "b-2.log").read_text()
    assert "stopped after" in told, told
    assert "go on with" in told, told
    submitted()
    until(lambda: not slurm.run("squeue", "-h").strip())
    merged = jobs.merge([Run(shard) for shard in shards(place / "b")], place / "b")
    check_same(merged, alone)
