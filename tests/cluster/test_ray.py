"""Rows on a real Ray cluster: those of one process, whoever dies meanwhile."""

import os
import random
import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from lvmrs import runs
from lvmrs.attacks import Search
from lvmrs.errors import RunError
from lvmrs.planners import Cohen
from lvmrs.record import Row, Run
from lvmrs.runs.workers import Processes, Ray
from tests.cluster.commands import CERTIFY, check_same, lvmrs, prepare
from tests.cluster.commands import INPUTS as FEW
from tests.cluster.ray_cluster import RayCluster
from tests.cluster.slow_model import SlowRows
from tests.processes import running, until
from tests.runs.helpers import INPUTS, job_of, lines

pytestmark = pytest.mark.cluster
REST = 0.02


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayCluster]:
    with RayCluster(nodes=3) as found, pytest.MonkeyPatch.context() as patch:
        for name, value in found.environment.items():
            patch.setenv(name, value)
        yield found


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The run of one process."""
    return runs.certify(job_of(keep=True), tmp_path_factory.mktemp("alone") / "a")


@pytest.fixture(scope="module")
def alone_by_command(cluster: RayCluster, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The run of one process, made by the command."""
    place = tmp_path_factory.mktemp("by-command")
    prepare(place)
    done = certified(place, "alone", cluster)
    assert not done.returncode, done.stderr
    return Run(place / "alone")


def in_order(run: Run) -> list[str]:
    header, *rows, end = lines(run)
    return [header, *sorted(rows, key=lambda line: int(line.split("\t")[0])), end]


def test_rows_and_scores_are_those_of_one_process(cluster: RayCluster, alone: Run, tmp_path: Path) -> None:
    workers = Ray(cluster.address, workers=3)
    seen = []
    run = runs.certify(
        job_of(keep=True, model=SlowRows(REST)),
        tmp_path / "a",
        workers=workers,
        on_row=lambda _: seen.append(workers.ready),
    )
    check_same(run, alone)
    assert max(seen) == 3
    check_same(runs.certify(job_of(keep=True), tmp_path / "b", workers=Processes(2)), alone)


def test_killed_workers_and_nodes_lose_and_double_nothing(cluster: RayCluster, alone: Run, tmp_path: Path) -> None:
    seen: list[Row] = []

    def on_row(row: Row) -> None:
        seen.append(row)
        if len(seen) == 2:
            os.kill(cluster.workers()[0], signal.SIGKILL)
        if len(seen) == 5:
            cluster.kill_node(0)
            cluster.add_node()

    job = job_of(keep=True, model=SlowRows(REST))
    check_same(runs.certify(job, tmp_path / "a", workers=Ray(cluster.address, workers=3), on_row=on_row), alone)
    assert sorted(row.idx for row in seen) == list(range(INPUTS))


def test_kept_scores_attacks_and_checks_are_spread(cluster: RayCluster, alone: Run, tmp_path: Path) -> None:
    workers = Ray(cluster.address, workers=2)
    again = runs.recertify(alone, tmp_path / "a", Cohen(), workers=workers)
    assert in_order(again) == lines(runs.recertify(alone, tmp_path / "b", Cohen()))
    found = runs.verify(alone, job_of(keep=True, batch=32), rows=4, workers=workers)
    assert (found.stands, found.computed, found.count("equal")) == (True, 4, 4)
    search = Search(steps=2, restarts=1, samples=4, n=200)
    spread = runs.attack(job_of(keep=True), alone, search, out=tmp_path / "c", most=3, workers=workers)
    local = runs.attack(job_of(keep=True), alone, search, out=tmp_path / "d", most=3)
    distances = [{row.idx: (row.distance, row.rival) for row in made.rows()} for made in (spread, local)]
    assert distances[0] == distances[1]


def rows(run: Path) -> int:
    return Run(run).count if (run / "certificates.tsv").exists() else 0


def certified(place: Path, out: str, cluster: RayCluster, *more: str) -> "subprocess.CompletedProcess[str]":
    return lvmrs(*CERTIFY, "--out", out, *more, place=place, environment=cluster.environment)


def test_a_run_whose_driver_is_killed_goes_on_elsewhere(
    cluster: RayCluster, alone_by_command: Run, tmp_path: Path
) -> None:
    """It is killed on Ray, stopped on Ray, and ended without."""
    prepare(tmp_path)
    words = ["-m", "lvmrs", *CERTIFY, "--out", "a", "--resume", "--ray", cluster.address, "--workers", "2"]
    environment = {**cluster.environment, "REST": "0.05"}
    for number, done in ((signal.SIGKILL, 1), (signal.SIGTERM, 5)):
        with running(*words, cwd=tmp_path, **environment) as process:
            until(lambda done=done: rows(tmp_path / "a") >= done, process)  # type: ignore[misc]
            process.send_signal(number)
            _, err = process.communicate(timeout=120)
        assert process.returncode == (-9 if number == signal.SIGKILL else 3), err
        assert number == signal.SIGKILL or f"of {FEW} inputs; continue with:" in err
    until(lambda: not cluster.workers(), seconds=60)
    assert rows(tmp_path / "a") < FEW
    assert certified(tmp_path, "a", cluster, "--resume").returncode == 0
    check_same(Run(tmp_path / "a"), alone_by_command)


def test_code_goes_with_the_job_and_a_folder_of_images_does_not(
    cluster: RayCluster, alone_by_command: Run, tmp_path: Path
) -> None:
    """A node that does not see the folder in which the command runs; the other nodes are too small."""
    from PIL import Image

    prepare(tmp_path)
    for label in ("0", "1"):
        (tmp_path / "images" / "test" / label).mkdir(parents=True)
        Image.new("L", (8, 8), 100 * int(label)).save(tmp_path / "images" / "test" / label / "a.png")
    (tmp_path / "temporary").mkdir()
    environment = {**cluster.environment, "TMPDIR": str(tmp_path / "temporary")}
    hide = f'mount -t tmpfs none {tmp_path} && exec "$@"'
    cluster.add_node("unshare", "--mount", "sh", "-c", hide, "sh", cpus=2)
    on_it = ["--ray", cluster.address, "--workers", "1", "--cpus-per-worker", "2"]
    done = lvmrs(*CERTIFY, "--out", "a", *on_it, place=tmp_path, environment=environment)
    assert done.returncode == 0, done.stderr
    check_same(Run(tmp_path / "a"), alone_by_command)
    assert not list((tmp_path / "temporary").glob("lvmrs-*")), "Ray has the copies that it sends"
    images = ["imagefolder:images/test" if word.startswith("npz:") else word for word in CERTIFY]
    done = lvmrs(*images, "--out", "b", *on_it, place=tmp_path, environment=cluster.environment)
    assert (done.returncode, "where all nodes see" in one_sentence(done.stderr)) == (1, True), done.stderr
    cluster.kill_node(-1)


def one_sentence(err: str) -> str:
    (sentence,) = [line for line in err.splitlines() if line.startswith("lvmrs:")]
    return sentence


def test_a_node_with_another_classifier_is_refused(cluster: RayCluster, tmp_path: Path) -> None:
    """As if its libraries computed otherwise: the command has logits that are larger by a thousandth."""
    prepare(tmp_path)
    skewed = {**cluster.environment, "TIMES": "1.001"}
    done = lvmrs(*CERTIFY, "--out", "a", "--ray", cluster.address, "--workers", "1", place=tmp_path, environment=skewed)
    assert done.returncode == 1, done.stderr
    node = re.escape(socket.gethostname())
    assert re.search(
        rf"the worker on {node} does not run the same classifier as the command on {node}: logits .* differ by [0-9]",
        one_sentence(done.stderr),
    ), done.stderr
    assert not (tmp_path / "a").exists()


def test_a_cluster_that_cannot_be_used(cluster: RayCluster, tmp_path: Path) -> None:
    with pytest.raises(
        RunError, match=r"no node of the Ray cluster has 64 CPUs for a worker \(they have .*ask for less"
    ):
        runs.certify(job_of(), tmp_path / "a", workers=Ray(cluster.address, cpus=64))
    assert not (tmp_path / "a").exists()


@pytest.mark.slow
def test_twenty_kills_at_random_moments(cluster: RayCluster, alone_by_command: Run, tmp_path: Path) -> None:
    """Workers, whole nodes and drivers are killed with SIGKILL; the run is resumed until it is complete."""
    prepare(tmp_path)
    chance = random.Random(0)  # noqa: S311
    words = ["-m", "lvmrs", *CERTIFY, "--out", "a", "--resume", "--ray", cluster.address, "--workers", "3"]
    kills = {"worker": 0, "node": 0, "driver": 0}
    run = 0
    while sum(kills.values()) < 20:
        with running(*words, cwd=tmp_path, **{**cluster.environment, "REST": "0.2"}) as process:
            before = rows(tmp_path / "a")
            while process.poll() is None and sum(kills.values()) < 20:
                until(lambda: rows(tmp_path / "a") > before or process.poll() is not None)  # noqa: B023
                before = rows(tmp_path / "a")
                what = chance.choice(["worker", "worker", "node", "driver"])
                workers = cluster.workers()
                if process.poll() is not None or (what == "worker" and not workers):
                    continue
                kills[what] += 1
                if what == "driver":
                    process.kill()
                    break
                if what == "worker":
                    os.kill(chance.choice(workers), signal.SIGKILL)
                else:
                    cluster.kill_node(chance.randrange(3))
                    cluster.add_node()
            process.communicate()
        if rows(tmp_path / "a") == FEW:
            check_same(Run(tmp_path / "a"), alone_by_command)
            (tmp_path / "a").rename(tmp_path / f"done-{run}")
            run += 1
    assert certified(tmp_path, "a", cluster, "--resume").returncode == 0
    check_same(Run(tmp_path / "a"), alone_by_command)
    assert min(kills.values()) >= 1, kills
    print(f"{kills}, {run} runs were complete before")
