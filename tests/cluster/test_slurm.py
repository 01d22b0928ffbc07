"""Runs on a real Slurm: shards by array tasks, which are killed, stopped and requeued, and the rows of one process."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from lvmrs import runs
from lvmrs.record import Run
from lvmrs.runs.workers.slurm import launch, shard_directory
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
    assert "continue with" in told, told
    submitted()
    until(lambda: not slurm.run("squeue", "-h").strip())
    merged = runs.merge([Run(shard) for shard in shards(place / "b")], place / "b")
    check_same(merged, alone)


@pytest.mark.slow
def test_tasks_that_are_preempted_go_on(slurm: SlurmCluster, place: Path, alone: Run) -> None:
    """An urgent job needs two processors; Slurm itself chooses two tasks, and requeues them."""
    urgent = place / "urgent.sh"
    urgent.write_text("#!/bin/sh\nsleep 1\n")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**slurm.environment, "REST": "0.1"}.items():
            patch.setenv(name, value)
        made = launch([*CERTIFY, "--out", "d"], "d", shards=SHARDS, settings={"time": "10"}, directory=place)
        until(lambda: all(map(rows, made.shards)))
        slurm.run("sbatch", "--partition=urgent", "--ntasks=2", "--output=/dev/null", str(urgent))
        tasks = [f"{made.array}_{number}" for number in range(SHARDS)]
        requeued: set[str] = set()

        def go_on_at_once(rows: int, inputs: int) -> None:
            requeued.update(_begun_again(slurm, tasks))

        run = made.wait(go_on_at_once, look=0.5)
    assert len(requeued) == 2, (requeued, slurm.log())
    for number, task in enumerate(tasks):
        log = next(made.logs.glob(f"{made.array}_{number}_*_log.out")).read_text()
        assert log.count("Starting with JobEnvironment") == 1 + (task in requeued), log
        assert ("DUE TO PREEMPTION" in log) == (task in requeued), log
    check_same(run, alone)


def _begun_again(slurm: SlurmCluster, tasks: Sequence[str]) -> list[str]:
    """Begin tasks that were requeued; Slurm itself would let them wait for two minutes."""
    states = {task: slurm.run("squeue", "-h", "-j", task, "-o", "%T %r").split() for task in tasks}
    waiting = [task for task, state in states.items() if state == ["PENDING", "BeginTime"]]
    for task in waiting:
        slurm.run("scontrol", "update", f"JobId={task}", "StartTime=now")
    return waiting


@pytest.mark.slow
def test_a_task_that_reaches_its_time_limit_goes_on(slurm: SlurmCluster, place: Path, alone: Run) -> None:
    """Slurm signals a task 30 to 60 seconds before its limit; it ends in order, is requeued, and goes on."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**slurm.environment, "REST": "0.6"}.items():  # about ten seconds an input
            patch.setenv(name, value)
        made = launch([*CERTIFY, "--out", "c"], "c", shards=2, settings={"time": "2"}, directory=place, signal_delay=30)
        tasks = [f"{made.array}_{number}" for number in range(2)]
        requeued = dict.fromkeys(tasks, 0)

        def go_on_at_once(rows: int, inputs: int) -> None:
            for task in _begun_again(slurm, tasks):
                requeued[task] += 1

        run = made.wait(go_on_at_once, look=1.0)
    assert min(requeued.values()) >= 1, (requeued, slurm.log())
    for number in range(2):
        log = next(made.logs.glob(f"{made.array}_{number}_*_log.out")).read_text()
        assert "Caught signal SIGUSR2" in log, log
        assert "this job is timed-out" in log, log
        assert log.count("Starting with JobEnvironment") == 1 + requeued[tasks[number]]
    check_same(run, alone)
