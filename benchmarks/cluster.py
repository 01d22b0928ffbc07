"""What workers bring and cost: two Ray workers beside one, the overhead of Ray, and how many workers a driver feeds.

    python benchmarks/cluster.py [--write docs/cluster.md]

Scaling and overhead are measured with a small network, one thread a worker. What 64 and 1000 workers do is simulated:
the driver is the real one, with Ray, the run directory and fsync, and the workers are tasks of a few Ray actors that
rest for as long as a GPU would compute, and then answer with a row. Run it on an idle machine with two cores.
"""

import argparse
import asyncio
import re
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from lvmrs import Duels, SmoothedClassifier, data, models, runs
from lvmrs import runs as jobs
from lvmrs.runs.workers import Ray, Workers
from lvmrs.runs.workers.base import Each, Task
from lvmrs.runs.workers.ray import ActorPool, connected

PLACE = re.compile(r"<!-- benchmarks/cluster.py: begin -->\n.*?<!-- end -->", re.DOTALL)
# Actors that play the workers; each plays many of them.
ACTORS = 2
CLASSES, SAMPLES = 10, 100_000


def convolutions() -> nn.Module:
    """A small network, with the same weights each time."""
    torch.manual_seed(0)
    layers = (nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(), nn.Flatten())
    return nn.Sequential(*layers, nn.Linear(16 * 64, CLASSES))


def job(inputs: int, n: int) -> jobs.Job:
    """Digits, certified with the small network."""
    digits = data.load("digits", split="train")
    loaded = models.Loaded.of(convolutions(), "convolutions")
    smoothed = SmoothedClassifier(loaded.model, 0.5, batch=64, compile=False)
    return jobs.Job(loaded, digits, smoothed, Duels(), jobs.Sampling(n=n), runs.Selection(len(digits), max=inputs))


def arrivals(workers: Workers, inputs: int, n: int) -> tuple[list[float], list[float]]:
    """When rows came, and how long each took where it was computed."""
    came, took = [], []

    def on_row(row: runs.Row) -> None:
        came.append(time.perf_counter())
        took.append(row.time)

    with tempfile.TemporaryDirectory() as folder:
        jobs.certify(job(inputs, n), Path(folder, "a"), workers=workers, on_row=on_row)
    return came, took


def rate(workers: Workers, inputs: int, n: int) -> float:
    """Rows per second, after the first ones: workers take a while to start."""
    came, _ = arrivals(workers, inputs, n)
    first = 2 * workers.size + 2
    return (len(came) - 1 - first) / (came[-1] - came[first])


def samples_for(seconds: float) -> int:
    """How many samples of the small network take so long in one thread."""
    _, took = arrivals(Ray("local", workers=1), 6, 20_000)
    return round(20_000 * seconds / float(np.median(took[1:])))


class Simulated(Workers):
    """Workers that answer after a rest; everything else is real.

    Args:
        size: how many.
        seconds: how long each takes for a row.
        scores: whether rows come with scores to keep.
    """

    def __init__(self, size: int, seconds: float, *, scores: bool) -> None:
        self._size, self._seconds, self._scores = size, seconds, scores

    @property
    def size(self) -> int:
        """How many."""
        return self._size

    @contextmanager
    def doing(self, task: Task, *, most: int | None = None, files: Iterable[Path] = ()) -> Iterator[Each]:
        """Answer the first question, which prepares the job, and simulate the others."""
        ray: Any = import_module("ray")
        row = task(lambda job: job.row(0)).value
        kind = ray.remote(num_cpus=0, max_concurrency=2 * self._size)(_Actor)
        actors = [kind.remote(row, self._seconds, SAMPLES if self._scores else 0) for _ in range(ACTORS)]
        started = 0

        def new() -> Any:
            nonlocal started
            started += 1
            return actors[started % ACTORS]

        pool = ActorPool(ray, new)
        pool.start(self._size)
        asked = 0

        def each(items: Iterable[Any]) -> Iterator[list[Any]]:
            nonlocal asked
            asked += 1
            return iter([[task(item)] for item in items]) if asked == 1 else pool.each(items)

        yield each
        pool.end()


class _Actor:
    """Plays many workers at once."""

    def __init__(self, row: runs.Row, seconds: float, samples: int) -> None:
        self._row, self._seconds = row, seconds
        self._scores: dict[Any, Any] = {"certification": np.zeros((samples, CLASSES), np.float32)} if samples else {}

    async def load(self) -> tuple[None, None]:
        """It has nothing to load."""
        return None, None

    async def run(self, question: Any) -> tuple[Any, None]:
        """A row for the input that the question is about."""
        from dataclasses import replace

        from lvmrs.runs.dispatch import Reply, WorkerRows

        await asyncio.sleep(self._seconds)
        made = [(replace(self._row, idx=index), self._scores) for index in question.args[1]]
        return Reply(WorkerRows(made, None), None), None


def simulated(workers: int, seconds: float, inputs: int, *, scores: bool = False) -> tuple[float, float]:
    """Rows per second that a driver takes and writes, and its share of one core."""
    came: list[float] = []
    used: list[float] = []

    def on_row(_: runs.Row) -> None:
        came.append(time.perf_counter())
        used.append(time.process_time())

    corners = data.Arrays("corners", "test", np.zeros((inputs, 2)), np.zeros(inputs, int))
    loaded = models.Loaded.of(nn.Sequential(nn.Linear(2, CLASSES)), "line")
    smoothed = SmoothedClassifier(loaded.model, 0.5, batch=64, compile=False)
    sampling = jobs.Sampling(n=SAMPLES if scores else 100, n0=1)
    made = jobs.Job(loaded, corners, smoothed, Duels(), sampling, runs.Selection(inputs), keeps_scores=scores)
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        jobs.certify(made, Path(folder, "a"), workers=Simulated(workers, seconds, scores=scores), on_row=on_row)
    spent = came[-1] - came[0] + seconds  # from when the first inputs were given
    return len(came) / spent, (used[-1] - used[0]) / spent


def table(rows: list[list[str]]) -> str:
    """A table in Markdown; the first row is its head."""
    return "\n".join(f"| {' | '.join(row)} |" for row in [rows[0], ["---"] * len(rows[0]), *rows[1:]])


def scaled(quick: bool) -> str:
    """What a second worker brings, and what Ray costs."""
    n = samples_for(0.2 if quick else 1.0)
    came, took = arrivals(Ray("local", workers=1), 6 if quick else 15, n)
    apart = np.diff(came[1:])
    overhead = float(np.median(apart - np.array(took[2:])))
    each = float(np.median(took[2:]))
    one = rate(Ray("local", workers=1), 8 if quick else 16, n)
    two = rate(Ray("local", workers=2), 12 if quick else 28, n)
    return table(
        [
            ["one thread a worker, small network", "", "target"],
            ["an input takes, in the worker", f"{each:.2f} s", "about 1 s"],
            ["from one row to the next, beyond that", f"{1e3 * overhead:.1f} ms, {overhead / each:.2%}", "≤ 2 %"],
            ["two workers beside one, on two cores", f"{two / one:.2f} ×", "≥ 1.8 ×"],
        ]
    )


def driven(quick: bool) -> str:
    """What one driver does with many workers, simulated."""
    rows = [["workers", "seconds an input", "scores kept", "rows per second", "of what they can", "driver's processor"]]
    settings = [(64, 1.0, False), (1000, 1.0, False), (1000, 0.0, False), (64, 1.0, True), (64, 0.0, True)]
    with connected("local"):
        for workers, seconds, scores in settings:
            inputs = workers * (2 if quick else 5 if scores else 10)  # all workers are busy until the end
            got, used = simulated(workers, seconds, inputs, scores=scores)
            most = f"{got * seconds / workers:.0%}" if seconds else "–"
            rest = f"{seconds:g}" if seconds else "0: as fast as it goes"
            rows.append([str(workers), rest, "4 MB" if scores else "no", f"{got:,.0f}", most, f"{used:.0%}"])
            print(rows[-1], file=sys.stderr, flush=True)
    return table(rows)


def main() -> int:
    """Print the tables, or write them into a page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path, help="a page that has a place for the tables")
    parser.add_argument("--quick", action="store_true", help="few inputs, to see that it runs")
    options = parser.parse_args()
    torch.set_num_threads(1)
    tables: list[str] = []
    for part in (driven, scaled):
        tables.insert(0, part(options.quick))
        print(tables[0], flush=True)
    text = "\n\n".join(tables)
    if options.write is not None:
        page = options.write.read_text(encoding="utf-8")
        made = f"<!-- benchmarks/cluster.py: begin -->\n{text}\n<!-- end -->"
        options.write.write_text(PLACE.sub(lambda _: made, page), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
