"""Attacks a run: searches near each certified input for a point with another class."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from lvmrs.attacks import Search
from lvmrs.attacks import attack as attack_one
from lvmrs.errors import DataError, ModelError, RunError
from lvmrs.kernel import checks
from lvmrs.kernel.maps import Map
from lvmrs.record import Row, Run
from lvmrs.record.attacks import Attack, AttackRecord, AttackRow, AttackWriter, attack_place
from lvmrs.record.manifest import origin
from lvmrs.registry import MAPS
from lvmrs.runs.dispatch import asking
from lvmrs.runs.job import Job
from lvmrs.runs.workers.base import Workers, checked_workers


def certified_rows(run: Run, *, most: int | None = None, skip: int = 1) -> list[Row]:
    """Every ``skip``-th certified row of a run, at most ``most``, in the order of their inputs."""
    checks.instance("run", run, Run, "a lvmrs.Run")
    skip = checks.count("skip", skip, least=1)
    most = None if most is None else checks.count("max", most, least=1)
    rows = sorted((row for row in run.rows() if row.predict >= 0 and row.radius > 0), key=lambda row: row.idx)
    return rows[::skip][:most]


def attack(
    job: Job,
    run: Run,
    search: Search | None = None,
    *,
    out: str | Path | None = None,
    most: int | None = None,
    skip: int = 1,
    keep: bool = False,
    command: str = "",
    workers: Workers | None = None,
    on_begin: Callable[[int, int], None] = lambda inputs, done: None,
    on_row: Callable[[AttackRow], None] = lambda row: None,
) -> Attack:
    """Attack the certificates of a run that have not been attacked yet.

    Args:
        job: the job of the run, from ``lvmrs.runs.job_of_run``.
        run: the run.
        search: the settings; by default those of ``Search()``.
        out: the directory of the results; by default the directory of the run. An attack with the same settings that
            was begun there is completed.
        most: maximum number of certificates to attack; None for all.
        skip: attack every ``skip``-th certificate.
        keep: keep the found points of all inputs, not only those of broken certificates.
        command: the command line of the user, which the attack records.
        workers: the workers that attack; by default this process. Rows do not depend on them.
        on_begin: called once, with the number of inputs to attack and the number of inputs that are done already.
        on_row: called with each row after it is on the disk.

    Returns:
        The attack, with its rows. The docstring of ``lvmrs.runs`` has an example.
    """
    checks.instance("job", job, Job, "a Job")
    search = Search() if search is None else search
    checks.instance("search", search, Search, "a Search")
    workers = checked_workers(workers)
    rows = certified_rows(run, most=most, skip=skip)
    if not rows:
        raise RunError(f"{run.directory} has no certificates; there is nothing to attack")
    place = attack_place(run, out)
    maps: dict[int, Map | None] = dict.fromkeys(row.idx for row in rows)  # None: the certificate is of the network
    if job.method.samples:  # unknown maps are refused before anything is written
        maps = {row.idx: MAPS.find(row.map, argument="map")(row.temperature, row.mass) for row in rows}
    record = AttackRecord(
        **{name: getattr(search, name) for name in ("steps", "restarts", "samples", "n", "seed", "farthest", "clip")},
        beta=search.beta if job.method.samples else 0.0,
        origin=origin(command),
    )
    with asking(job, workers, most=len(rows)) as each:
        ((classes,),) = each([partial(_classes, rows[0].idx)])  # this process may be unable to run the model
        if strange := [row for row in rows if row.predict >= classes]:
            said = f"input {strange[0].idx} is certified as class {strange[0].predict}"
            raise RunError(f"{run.directory}: {said}, and the model has {classes} classes")
        with AttackWriter(run, place, record) as writer:
            if keep:
                _check_points_are_kept(writer.attack)
            waiting = [row for row in rows if row.idx not in writer.done]
            on_begin(len(waiting), len(rows) - len(waiting))
            for together in each([partial(_attacked, row, maps[row.idx], search) for row in waiting]):
                for made, point in together:
                    writer.append(made, point if keep or made.broken else None)
                    on_row(made)
            return writer.attack


def _check_points_are_kept(begun: Attack) -> None:
    """Raise if the points of inputs that were attacked earlier were not kept."""
    lost = [row.idx for row in begun.rows() if row.rival is not None and not begun.point(row.idx).exists()]
    if lost:
        raise RunError(
            f"{begun.directory} has no points of {len(lost)} inputs that were attacked without keeping them (the first "
            f"is {lost[0]}); choose another directory to keep all points"
        )


def _classes(index: int, job: Job) -> int:
    """Number of classes of the model, from a checked forward pass on one input."""
    return job.smoothed.prepare(job.input(index)[0]).classes


def _attacked(row: Row, map_: Map | None, search: Search, job: Job) -> tuple[AttackRow, NDArray[Any] | None]:
    """Attack one row; returns the row of the attack and the found point."""
    x, label = job.input(row.idx)
    if label != row.label:
        raise DataError(f"input {row.idx} has label {label}, and its row says {row.label}; these are other data")
    start = time.perf_counter()
    try:
        found = attack_one(job.smoothed, x, row.predict, row.radius, map_, search, index=row.idx)
    except ModelError as error:
        raise ModelError(f"input {row.idx}: {error}") from error
    seconds = time.perf_counter() - start
    point = None if found.point is None else found.point.cpu().numpy()
    return AttackRow.of(row, found.distance, found.rival, found.samples, seconds), point
