"""Filling a run: by certifying a data set, from the kept scores of another run, or from its shards."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lvmrs import _checks, provenance
from lvmrs.certificate import Certificate
from lvmrs.data import Dataset, checked_input
from lvmrs.errors import DataError, InvalidArgumentError, LvmrsError, ModelError, RunError, first_line
from lvmrs.method import Method
from lvmrs.method_settings import description
from lvmrs.noise import Stage, Stream
from lvmrs.plan import Terms
from lvmrs.planners import Planner
from lvmrs.prove import prove
from lvmrs.registry import BOUNDS, FORMS, MAPS
from lvmrs.runs import Manifest, Row, Run, RunWriter
from lvmrs.runs.scores import ScoresWriter, kept_scores, read_scores
from lvmrs.smooth import SmoothedClassifier

__all__ = ["certify", "merge", "recertify", "score_statistics"]

OnRow = Callable[[Row], None]


def certify(
    writer: RunWriter, smoothed: SmoothedClassifier, data: Dataset, planner: Method, on_row: OnRow = lambda row: None
) -> None:
    """Certify every input that the run still waits for, each row on the disk before the next is begun."""
    manifest = writer.run.manifest
    smoothed.fix_batch(manifest.batch)  # the last digits of a network may depend on it
    settings = manifest.settings
    indices = manifest.selection.indices
    keeper = _keeper(writer)
    try:
        for index in writer.pending:
            x, label = checked_input(data, index)
            if keeper is not None:
                keeper.begin(indices.index(index))
            start = time.perf_counter()
            certificate = _certificate(smoothed, x, planner, index, settings, keeper)
            if keeper is not None:
                keeper.flush()
            if not 0 <= label < certificate.classes:
                raise DataError(f"input {index} has label {label}, but the model knows {certificate.classes} classes")
            row = Row.of(index, label, certificate, time.perf_counter() - start)
            writer.append(row)
            on_row(row)
    finally:
        if keeper is not None:
            keeper.close()


def _certificate(
    smoothed: SmoothedClassifier,
    x: Tensor,
    planner: Method,
    index: int,
    settings: dict[str, Any],
    keeper: ScoresWriter | None,
) -> Certificate:
    numbers = {name: settings[name] for name in ("n0", "n", "alpha", "seed")} if planner.samples else {}
    try:
        return smoothed.certify(x, planner, index=index, watch=None if keeper is None else keeper.add, **numbers)
    except ModelError as error:
        raise ModelError(f"input {index}: {error}") from error
    except LvmrsError:
        raise
    except Exception as error:
        reason = first_line(error)
        raise ModelError(f"input {index}: the model fails with {type(error).__name__}: {reason}") from error


def _keeper(writer: RunWriter) -> ScoresWriter | None:
    manifest = writer.run.manifest
    if not manifest.keeps_scores:
        return None
    samples: dict[Stage, int] = {"selection": manifest.settings["n0"], "certification": manifest.settings["n"]}
    return ScoresWriter(writer.run.directory, len(manifest.selection.indices), samples)


def recertify(
    source: Run,
    out: str | Path,
    planner: Method,
    *,
    alpha: float | None = None,
    n0: int | None = None,
    n: int | None = None,
    command: str = "",
    processes: int = 1,
    on_row: OnRow = lambda row: None,
) -> Run:
    """A new run from the kept scores of another, with no network.

    Each run that is made so holds by itself. Picking for each input the best of several, after looking, does not.
    """
    old = source.manifest
    if not isinstance(planner, Planner):
        raise InvalidArgumentError(f"{type(planner).__name__} needs the network, not its scores under noise")
    if planner.needs_constant and old.settings["lipschitz"] is None:
        raise InvalidArgumentError("the run was made without a Lipschitz constant, which this method needs")
    for stage in ("selection", "certification"):
        read_scores(source.directory, stage)  # refuses a run without them, before a directory is made
    terms, n0 = _terms(old, alpha, n0, n)
    settings = {**old.settings, "alpha": terms.alpha, "n0": n0, "n": terms.n, "method": description(planner)}
    origin = {"scores_of": str(source.directory), **_names(old), **provenance.about_method(planner, terms.sigma)}
    manifest = Manifest(settings, old.selection, old.batch, about=provenance.about(command, **origin))
    with RunWriter.begin(out, manifest, resume=True) as writer:  # made of the same scores, so what is there is right
        waiting = [row for row in source.rows() if row.idx not in writer.done]
        task = partial(_recertified, source.directory, old.selection.indices, planner, terms, n0, settings["seed"])
        with _workers(processes) as each:
            for row in each(task, waiting):
                writer.append(row)
                on_row(row)
        return writer.run


@contextmanager
def _workers(processes: int) -> Iterator[Callable[..., Iterator[Row]]]:
    """A way to do a task for each row, in order: here, or in processes of their own."""
    if processes <= 1:
        yield map
        return
    # Not forked: torch's threads do not survive that.
    with ProcessPoolExecutor(
        processes, get_context("spawn"), _begin_worker, (MAPS.added, BOUNDS.added, FORMS.added)
    ) as pool:
        yield pool.map


def _begin_worker(*own: Sequence[type]) -> None:
    torch.set_num_threads(1)
    for names, parts in zip((MAPS, BOUNDS, FORMS), own, strict=True):
        for part in parts:
            names.add(part)


def _recertified(
    directory: Path, indices: Sequence[int], planner: Planner, terms: Terms, n0: int, seed: int, old: Row
) -> Row:
    position = indices.index(old.idx)
    selection = kept_scores(directory, position, Stream(seed, old.idx, "selection"), terms.sigma, n0)
    certification = kept_scores(directory, position, Stream(seed, old.idx, "certification"), terms.sigma, terms.n)
    start = time.perf_counter()
    certificate = prove(planner.plan(selection, terms), terms, certification)
    return Row.of(old.idx, old.label, certificate, time.perf_counter() - start)


def _names(manifest: Manifest) -> dict[str, Any]:
    return {name: manifest.about.get(name) for name in ("data", "classes", "classifier")}


def _terms(old: Manifest, alpha: float | None, n0: int | None, n: int | None) -> tuple[Terms, int]:
    kept = old.settings
    for name, wanted in (("n0", n0), ("n", n)):
        if wanted is not None and wanted > kept[name]:
            raise InvalidArgumentError(f"{name} = {wanted} is more than the {kept[name]} scores that were kept")
    constant = {} if kept["lipschitz"] is None else {"lipschitz": kept["lipschitz"]}
    terms = Terms(kept["sigma"], kept["alpha"] if alpha is None else alpha, kept["n"] if n is None else n, **constant)
    n0 = kept["n0"] if n0 is None else n0
    return terms, int(_checks.single("n0", _checks.whole("n0", n0, least=1)))


def merge(shards: Sequence[Run], out: str | Path, *, command: str = "") -> Run:
    """One run from all shards of it, which must be complete and made with the same settings."""
    if not shards:
        raise RunError("no shards were given; name the run directories to merge")
    first = shards[0].manifest
    whole = dataclasses.replace(first.selection, shard=1, shards=1)
    _check_shards(shards)
    batches = sorted({run.manifest.batch for run in shards}, key=str)
    manifest = Manifest(
        first.settings,
        whole,
        batches[0] if len(batches) == 1 else None,
        first.keeps_scores,
        about=provenance.about(
            command, shards=[str(run.directory) for run in shards], batches=batches, **_names(first)
        ),
    )
    rows = sorted(((row, run) for run in shards for row in run.rows()), key=lambda pair: pair[0].idx)
    with RunWriter.begin(out, manifest, resume=True) as writer:
        if (keeper := _keeper(writer)) is not None:
            for position, (row, run) in enumerate(rows):
                keeper.begin(position)
                _copy_scores(run, row.idx, keeper)
            keeper.flush()
            keeper.close()
        for row, _ in rows:
            if row.idx not in writer.done:
                writer.append(row)
        return writer.run


def _copy_scores(run: Run, index: int, keeper: ScoresWriter) -> None:
    position, settings = run.manifest.selection.indices.index(index), run.manifest.settings
    for stage, count in keeper.samples.items():
        stream = Stream(settings["seed"], index, stage)
        for batch in kept_scores(run.directory, position, stream, settings["sigma"], count).logits():
            keeper.add(stage, batch)


def _check_shards(shards: Sequence[Run]) -> None:
    first = shards[0].manifest
    count = first.selection.shards
    for run in shards:
        same = dataclasses.replace(run.manifest.selection, shard=first.selection.shard)
        if changed := first.difference(dataclasses.replace(run.manifest, selection=same)):
            raise RunError(
                f"{run.directory} is no shard of the same run as {shards[0].directory}: {'; '.join(changed)}"
            )
        if not run.complete:
            missing = len(run.manifest.selection.indices) - len(run.rows())
            raise RunError(f"{run.directory} is not finished ({missing} inputs missing); resume it first")
    numbers = sorted(run.manifest.selection.shard for run in shards)
    if numbers != list(range(1, count + 1)):
        missing_shards = sorted(set(range(1, count + 1)) - set(numbers))
        what = f"shard {missing_shards[0]} of {count} is missing" if missing_shards else "a shard is given twice"
        raise RunError(f"{what}; give each of the {count} shards once")


def score_statistics(run: Run) -> Iterator[tuple[str, float, float]]:
    """For each row of a run with kept scores: its map, the margin of the mean scores, the variance of the top one.

    For duels these are the margin and the variance of the hardest one.
    """
    indices = run.manifest.selection.indices
    settings = run.manifest.settings
    none = torch.tensor([], dtype=torch.long)
    for row in run.rows():
        stream = Stream(settings["seed"], row.idx, "certification")
        scores = kept_scores(run.directory, indices.index(row.idx), stream, settings["sigma"], settings["n"])
        logits = torch.cat(list(scores.logits()))
        rivals = torch.tensor([k for k in range(logits.shape[1]) if k != row.top])
        smoothed = MAPS.find(row.map)(row.temperature, row.mass)
        columns = smoothed.columns(logits, row.top, rivals, none).double()
        mean, variance = columns.mean(dim=0), columns.var(dim=0)
        if smoothed.paired:
            hardest = int(mean.argmin())
            yield row.map, float(2 * mean[hardest] - 1), float(variance[hardest])
        else:
            yield row.map, float(mean[0] - mean[1:].max()), float(variance[0])
