"""``lvmrs certify --model routed:FILE``: certify a data set with a routed classifier."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from lvmrs.cli.console import command_line, show_run, stoppable
from lvmrs.cli.progress import Watcher
from lvmrs.cli.setup import Setup
from lvmrs.errors import InvalidArgumentError
from lvmrs.record import RunWriter
from lvmrs.record.routed import RoutedFile

if TYPE_CHECKING:
    from lvmrs.data.base import Dataset
    from lvmrs.models.load import Loaded
    from lvmrs.smoothed import SmoothedClassifier

# The options that a routed classifier takes.
_TAKEN = {
    *("model", "data", "split", "image_size", "class_index", "skip", "max", "noise", "seed", "alpha", "n0", "n"),
    *("device", "batch", "precision", "out", "resume", "as_json"),
}
_BATCH = 256


def certify_routed(
    setup: Setup, *, alpha: float, n0: int, n: int, out: Path | None, resume: bool, as_json: bool
) -> None:
    """Certify the inputs with the routed classifier in the file that ``--model`` names."""
    for name in sorted(setup.typed - _TAKEN):
        raise InvalidArgumentError(
            f"{name} cannot be given for a routed classifier, which is certified by duels in one process, with the "
            "networks and sigmas of its file; leave it out"
        )
    if out is None:
        raise InvalidArgumentError("out must be given: the directory of the new run")
    begun = RunWriter.begun(out, resume=resume, batch=setup.batch)
    file = RoutedFile.read(Path(setup.model.partition(":")[2]))
    # torch takes seconds to import: wrong options and files do not wait
    from lvmrs.runs.certify_routed import RoutedJob
    from lvmrs.runs.certify_routed import certify_routed as certify_job
    from lvmrs.runs.job import Sampling
    from lvmrs.runs.routed import RoutedClassifier

    batch = setup.batch or (None if begun is None else begun.batch) or _BATCH
    dataset: Dataset | None = None
    models: dict[str, Loaded] = {}
    smoothed: dict[str, SmoothedClassifier] = {}
    for name, part in file.parts.items():
        each = replace(setup, model=part.model, sigma=part.sigma, batch=batch)
        models[name], dataset, smoothed[name] = each.load(dataset=dataset)
    assert dataset is not None  # noqa: S101 (there is a router)
    router = smoothed.pop("router")
    routed = RoutedClassifier([*smoothed.values()], router, fallback=file.fallback)
    sampling, selected = Sampling(alpha, n0, n, setup.seed), setup.selection(dataset)
    job = RoutedJob(setup.model, models, routed, dataset, sampling, selected, batch)
    watcher = Watcher(len(selected.indices))
    with stoppable(lambda: watcher.how_to_continue(*(() if resume else ("--resume",)))), watcher:
        run = certify_job(
            job,
            out,
            resume=resume,
            command=command_line(),
            on_begin=lambda inputs, done: watcher.begin(inputs, 0, done=done),
            on_row=watcher.row,
        )
    show_run(run, as_json=as_json)
