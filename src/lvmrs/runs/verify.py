"""Verifies a run: checks all rows without the network, and computes rows again with another batch size."""

from __future__ import annotations

import math
import secrets
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import numpy as np

from lvmrs.errors import InvalidArgumentError, RunError
from lvmrs.kernel import checks
from lvmrs.models.lipschitz.stated import known_lipschitz
from lvmrs.record import Row, Run
from lvmrs.record.manifest import ROWS_OF, Manifest
from lvmrs.record.origin import lvmrs_version, torch_version
from lvmrs.record.scores import KeptScores
from lvmrs.runs.again import ChangedError, differences
from lvmrs.runs.beside_kept import KeptComparison
from lvmrs.runs.consistency import inconsistent_rows
from lvmrs.runs.job import Job
from lvmrs.runs.keeping import opened_scores
from lvmrs.runs.rounding import CHOICES, why_not_rounding
from lvmrs.runs.spreading import asking
from lvmrs.runs.workers import Workers, checked_workers

__all__ = [
    "Measured", "RowVerdict", "Verdict", "Verification", "check_verifiable", "forged_rows_found", "other_batch",
    "verify",
]  # fmt: skip

Verdict = Literal["equal", "rounding", "different"]
Measured = Literal["radius", "p_lower", "p_upper", "logits"]
# Columns that are not compared: the time, the checksum of scores (the scores themselves are compared), and the measured
# rounding, which differs between machines.
_NOT_COMPARED = ("time", "scores", "rounding")
# The probability of missing forged rows that is reported if the run itself has no risk.
_RISK = 0.001
# Columns that rounding of the logits can change.
_ROUNDED = {"radius", "p_lower", "p_upper", "clean", "samples", "limit", *CHOICES}


@dataclass(frozen=True)
class RowVerdict:
    """The result for one row."""

    idx: int
    """Index of the input in its data set."""
    verdict: Verdict
    """"equal" to the last bit; "rounding" if rounding of the logits explains the differences; or "different"."""
    why: str | None = None
    """Why the row is different."""
    radius: float | None = None
    """The new radius minus the recorded one; None if the row was not computed again."""
    p_lower: float | None = None
    """The same difference for the lower bound."""
    p_upper: float | None = None
    """The same difference for the upper bound."""
    logits: float | None = None
    """The largest difference between a kept and a computed logit; None if logits were not kept."""


@dataclass(frozen=True)
class Verification:
    """The results for rows that were computed again, and for inconsistent rows."""

    rows: tuple[RowVerdict, ...]
    """First the inconsistent rows that were not computed again, then the rows that were."""
    inputs: int
    """Number of rows of the run."""
    missing: int
    """Number of rows that the run still lacks."""
    batch: int | None
    """Samples in a forward pass when rows were computed again."""
    recorded_batch: int | None
    """Samples in a forward pass when the run was made, if that is known."""
    notes: tuple[str, ...]
    """Remarks for the reader, one sentence each."""
    seed: int | None
    """The seed of the draw of rows; None if all rows were computed again."""
    risk: float
    """The probability of missing ``forged_rows_found`` forged rows: alpha of the run."""

    @property
    def forged_rows_found(self) -> int:
        """The least number of forged rows that is found with probability at least 1 − ``risk``; 1 if none is missed."""
        return forged_rows_found(self.inputs, self.computed, self.risk)

    @property
    def reach(self) -> str:
        """One sentence on how many forged rows may have been missed."""
        if self.computed == self.inputs:
            return f"all {self.inputs} rows were computed again, so no forged row can have been missed"
        least = self.forged_rows_found
        return (
            f"{self.computed} of {self.inputs} rows were drawn with seed {self.seed}: a run with {least} or more "
            f"forged rows ({100 * least / self.inputs:.3g} %) would have been found with probability at least "
            f"1 − {self.risk:g}, if its author did not know the seed; fewer may have been missed"
        )

    @property
    def stands(self) -> bool:
        """Whether no row is different."""
        return not self.count("different")

    @property
    def computed(self) -> int:
        """Number of rows that were computed again."""
        return sum(row.radius is not None for row in self.rows)

    def count(self, verdict: Verdict) -> int:
        """Number of rows with this verdict."""
        return sum(row.verdict == verdict for row in self.rows)

    def largest(self, column: Measured) -> float | None:
        """The largest difference in a column among rows that are not "different"; None if there is none."""
        values = [getattr(row, column) for row in self.rows if row.verdict != "different"]
        return max((abs(value) for value in values if value is not None), default=None)


def other_batch(run: Run) -> int | None:
    """A batch size other than that of a run: half of it, or 3 if it is 1; None if it is not known."""
    checks.instance("run", run, Run, "a lvmrs.Run")
    known = run.manifest.batch
    return None if known is None else 3 if known == 1 else known // 2


def forged_rows_found(rows: int, computed: int, risk: float) -> int:
    """The smallest number of forged rows that a random draw misses with probability at most ``risk``.

    The probability that none of f forged rows is among those drawn is hypergeometric. It is compared exactly.

    Args:
        rows: number of rows of the run.
        computed: number of rows that are drawn and computed again.
        risk: the probability of drawing no forged row.

    >>> forged_rows_found(10000, 10, 0.001)
    4986
    >>> forged_rows_found(12, 1, 0.01), forged_rows_found(12, 12, 0.01)
    (12, 1)
    """
    rows = checks.count("rows", rows, least=1)
    computed = checks.count("computed", computed, least=1)
    if computed > rows:
        raise InvalidArgumentError(f"computed must be at most the number of rows, {rows}, got {computed}")
    risk = checks.single("risk", checks.fraction("risk", risk))
    part, whole = risk.as_integer_ratio()

    def missed(forged: int) -> bool:
        few, many = sorted((forged, computed))  # the probability is symmetric in the two numbers
        return math.comb(rows - many, few) * whole > math.comb(rows, few) * part

    most = rows - computed + 1  # with this many forged rows, the draw contains one
    high = 1
    while missed(high):
        high = min(2 * high, most)
    return high // 2 + 1 + bisect_left(range(high // 2 + 1, high), True, key=lambda forged: not missed(forged))


def check_verifiable(run: Run) -> None:
    """Raise if the rows of a run cannot be computed again, before a model or data are loaded."""
    checks.instance("run", run, Run, "a lvmrs.Run")
    made = run.manifest
    if made.origin.imported is not None:
        raise RunError(f"{run.directory} was imported from another project's file; there is nothing to verify it with")
    if made.terms.goal is not None and made.terms.goal.limited:
        raise RunError(f"the inputs of {run.directory} shared a budget, so that no row can be computed again alone")
    if made.rows_of != ROWS_OF:
        which = "it" if made.origin.scores_of is None else "the run that its scores are from"
        raise RunError(
            f"{run.directory} has rows as version {made.rows_of!s:.40} defines them, and this version has those of "
            f"{ROWS_OF}; rows cannot be compared: verify {which} with the version that made it"
        )
    if not run.count:
        raise RunError(f"{run.directory} has no rows yet; there is nothing to verify")


def verify(
    run: Run,
    job: Job,
    *,
    rows: int | None = 10,
    seed: int | None = None,
    workers: Workers | None = None,
    on_row: Callable[[RowVerdict], None] = lambda row: None,
) -> Verification:
    """Compute rows of a run again and compare them, and check all rows for consistency without the network.

    Args:
        run: the run.
        job: the job of the run, from ``job_of_run``, preferably with another batch size (``other_batch``).
        rows: number of rows to draw and compute again; None for all.
        seed: the seed of that draw, by default a new one, which nobody can have known; the noise has the seed of the
            run.
        workers: the workers that compute rows; by default this process.
        on_row: called with the result for each row that was computed again or is inconsistent.

    Returns:
        What came of the rows. A ``ChangedError`` says so if model, data, code or settings are not those of the run.

    >>> import tempfile
    >>> import numpy as np
    >>> from lvmrs import Duels, SmoothedClassifier, data, runs as jobs, models, runs
    >>> inputs = data.Arrays("two corners", "test", np.eye(2), np.arange(2))
    >>> model = models.Loaded.of(lambda x: x, "larger")
    >>> smoothed = SmoothedClassifier(model.model, 0.5, batch=100)
    >>> job = jobs.Job(model, inputs, smoothed, Duels(), jobs.Sampling(n=1000), runs.Selection(2))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run = jobs.certify(job, folder)
    ...     again = jobs.job_of_run(run, model=model, data=inputs, batch=other_batch(run))
    ...     [(row.idx, row.verdict) for row in verify(run, again).rows]
    [(0, 'equal'), (1, 'equal')]
    """
    check_verifiable(run)
    checks.instance("job", job, Job, "a Job")
    rows = None if rows is None else checks.count("rows", rows, least=1)
    seed = secrets.randbits(32) if seed is None else checks.seed("seed", seed)
    job = replace(job, keeps_scores=run.manifest.keeps_scores)
    if changed := differences(run, job, verifying=True):
        raise ChangedError(run, changed)
    workers = checked_workers(workers)
    notes = [*_notes(run, job, workers.device or job.smoothed.kind_of_device)]
    kept = opened_scores(run) if run.manifest.keeps_scores else None
    wrong = inconsistent_rows(run, job.data, job.method)
    there = run.read("idx", "radius")["idx"]
    whole = rows is None or rows >= len(there)
    drawn = there if whole else np.random.default_rng(seed).choice(there, rows, replace=False)
    found = []
    for verdict in _verdicts(run, job, kept, wrong, set(drawn.tolist()), workers):
        found.append(verdict)
        on_row(verdict)
    return Verification(
        tuple(found),
        inputs=len(there),
        missing=len(run.manifest.selection.indices) - len(there),
        batch=job.smoothed.batch,
        recorded_batch=run.manifest.batch,
        notes=tuple(notes),
        seed=None if whole else seed,
        risk=run.manifest.terms.alpha or _RISK,
    )


def _notes(run: Run, job: Job, kind: str) -> Iterator[str]:
    """Remarks on a verification on this kind of device."""
    made = run.manifest
    if made.model.device not in (None, kind) and job.method.samples:
        raise RunError(
            f"{run.directory} was made on {made.model.device!s:.40}, whose noise differs from that of "
            f"{kind}; verify it on such a device"
        )
    if made.model.device not in (None, kind):
        yield f"the run says that it was made on {made.model.device:.40}, and it is verified on {kind}"
    if made.torch != torch_version():
        yield f"the run was made with torch {made.torch}, and this is {torch_version()}"
    if (version := made.origin.versions.get("lvmrs")) != lvmrs_version():
        yield f"the run was made with lvmrs {version!s:.40}, and this is {lvmrs_version()}"
    yield from _other_names(made, job)
    if made.model.weights_hash is None:
        yield "the run has no hash of the weights of its model; only its rows can be compared"
    if made.model.precision is not None:
        yield f"in {made.model.precision}, rounding explains far larger differences than in float32"
    if made.selection.only is not None:
        yield "the run lists its inputs one by one, so that rows of others may have been left out"
    constant, own = made.terms.lipschitz, known_lipschitz(job.model.model)
    if constant is not None and not (own is not None and own <= constant):
        relies = "rows rely on" if job.method.uses_constant else "no row relies on"
        says = "" if own is None else f", and the model itself says {own:g}"
        yield f"{relies} the Lipschitz constant {constant:g}, which only the run states{says}"


def _other_names(made: Manifest, job: Job) -> Iterator[str]:
    """Remarks on models and data with other names: files may be moved, and their hashes are compared."""
    denoisers = made.model.denoiser, job.model.facts.denoiser
    names = {
        "model": (made.model.name, job.model.name),
        "denoiser": tuple(None if each is None else each.name for each in denoisers),
        "data": (made.data.name, job.data.name),
    }
    for what, (old, now) in names.items():
        if old != now:
            yield f"the run calls its {what} {old!s:.200}, and the one that is verified is called {now!s:.200}"


def _verdicts(
    run: Run, job: Job, kept: KeptScores | None, wrong: dict[int, str], drawn: set[int], workers: Workers
) -> Iterator[RowVerdict]:
    for index, why in wrong.items():
        if index not in drawn:
            yield RowVerdict(index, "different", why)
    questions = [partial(_verdict, run, row, kept, wrong.get(row.idx)) for row in run.rows(drawn)]
    with asking(job, workers, most=len(questions)) as each:
        for together in each(questions):
            yield from together


def _verdict(run: Run, row: Row, kept: KeptScores | None, wrong: str | None, job: Job) -> RowVerdict:
    comparison = None if kept is None else KeptComparison(kept, row, job.smoothed.agreement(job.input(row.idx)[0]))
    now = job.row(row.idx, None if comparison is None else comparison.add)
    differing = [name for name in run.columns if name not in _NOT_COMPARED and getattr(now, name) != getattr(row, name)]
    claimed = [name for name in differing if name not in _ROUNDED]
    why = wrong
    if why is None and claimed:
        why = f"{claimed[0]}: {getattr(row, claimed[0])}, now {getattr(now, claimed[0])}"
    if why is None and comparison is not None:
        why = comparison.why_not
    if why is None:
        why = _why_not_measured(row, now)
    if why is None and differing:
        why = why_not_rounding(job, row, now, differing, run.manifest.batch)
    changes = {name: getattr(now, name) - getattr(row, name) for name in ("radius", "p_lower", "p_upper")}
    verdict: Verdict = "different" if why is not None else "rounding" if differing else "equal"
    return RowVerdict(row.idx, verdict, why, **changes, logits=None if comparison is None else comparison.largest)


def _why_not_measured(row: Row, now: Row) -> str | None:
    """Why the rounding in a row is below the one measured now, without its safety factor; None if it is not."""
    if row.rounding is None or now.rounding is None:
        same_choices = all(getattr(row, name) == getattr(now, name) for name in CHOICES)  # other choices may use it
        differs = same_choices and row.rounding != now.rounding
    else:
        differs = row.rounding < now.rounding / 2
    return f"its rounding is {_number(row.rounding)}, and {_number(now.rounding)} is measured now" if differs else None


def _number(value: float | None) -> str:
    return "not known" if value is None else f"{value:g}"
