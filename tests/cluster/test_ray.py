"""Rows on a real Ray cluster: those of one process, whoever dies meanwhile."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from lvmrs import jobs
from lvmrs.runs import Row, Run
from lvmrs.workers import Processes, Ray
from tests.cluster.ray_cluster import RayCluster
from tests.cluster.slow_model import SlowRows
from tests.jobs.helpers import INPUTS, job_of, lines

pytestmark = pytest.mark.cluster
SCORES = ("scores-selection.npy", "scores-certification.npy")
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
    return jobs.certify(job_of(keep=True), tmp_path_factory.mktemp("alone") / "a")


def check_same(run: Run, alone: Run) -> None:
    """Every input has one row, with the bytes of the other run, and its scores have the same bytes."""
    header, *rows, end = lines(run)
    assert [header, *sorted(rows, key=lambda line: int(line.split("\t")[0])), end] == lines(alone)
    for name in SCORES:
        assert (run.directory / name).read_bytes() == (alone.directory / name).read_bytes()
    assert not Run(run.directory).manifest.difference(alone.manifest)


def test_rows_and_scores_are_those_of_one_process(cluster: RayCluster, alone: Run, tmp_path: Path) -> None:
    workers = Ray(cluster.address, workers=3)
    seen = []
    run = jobs.certify(
        job_of(keep=True, model=SlowRows(REST)),
        tmp_path / "a",
        workers=workers,
        on_row=lambda _: seen.append(workers.ready),
    )
    check_same(run, alone)
    assert max(seen) == 3
    check_same(jobs.certify(job_of(keep=True), tmp_path / "b", workers=Processes(2)), alone)


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
    check_same(jobs.certify(job, tmp_path / "a", workers=Ray(cluster.address, workers=3), on_row=on_row), alone)
    assert sorted(row.idx for row in seen) == list(range(INPUTS))
