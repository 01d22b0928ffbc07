"""Verifies a run: checks all rows without the network, and computes rows again with another batch size.

The file has three parts: ``verify`` and its results; the comparison of one row with the row that is computed again,
which tells rounding of the logits from other differences; and checks of the consistency of each row in itself, with the
terms and with the data.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import secrets
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from typing import Any, Literal

import numpy as np
import scipy
import torch
from torch import Tensor, nn

from lvmrs.data.arrays import Arrays
from lvmrs.data.base import Dataset
from lvmrs.errors import InvalidArgumentError, LvmrsError, RunError
from lvmrs.kernel import checks
from lvmrs.kernel.bounds import clopper_pearson
from lvmrs.kernel.certificate import Certificate
from lvmrs.kernel.maps import Map
from lvmrs.kernel.method import ABSTAIN, Method
from lvmrs.kernel.model_check import Agreement
from lvmrs.kernel.noise import Stage
from lvmrs.kernel.radius import Form
from lvmrs.kernel.sampler import Model
from lvmrs.kernel.terms import Choice, Plan, Terms
from lvmrs.models.lipschitz.stated import known_lipschitz
from lvmrs.planners.base import Planner
from lvmrs.record import Row, Run
from lvmrs.record.manifest import ROWS_OF, TermsRecord
from lvmrs.record.result_file import UNKNOWN, correctness
from lvmrs.record.scores import DamagedScoresError, KeptScores, opened_scores
from lvmrs.registry import BOUNDS, FORMS, MAPS
from lvmrs.runs.dispatch import asking
from lvmrs.runs.job import Job
from lvmrs.runs.rebuild import ChangedError, differences
from lvmrs.runs.workers.base import Workers, checked_workers
from lvmrs.smoothed import SmoothedClassifier

Verdict = Literal["equal", "rounding", "different"]
Measured = Literal["radius", "p_lower", "p_upper", "logits"]
# Columns that are not compared: the time, the checksum of scores (the scores themselves are compared), and the measured
# rounding, which differs between machines.
_NOT_COMPARED = ("time", "scores", "rounding")
# The probability of missing forged rows that is reported if the run itself has no risk.
_RISK = 0.001
# Columns that a method chooses on the selection sample.
_CHOICES = ("top", "map", "temperature", "mass", "bound", "form", "risk_top", "groups", "risk_groups", "scope")
# Columns that rounding of the logits can change.
_ROUNDED = {"radius", "p_lower", "p_upper", "clean", "samples", "limit", *_CHOICES}


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
        The results for these rows. Raises a ``ChangedError`` if model, data, code or settings are not those of the run.
        The docstring of ``lvmrs.runs`` has an example.
    """
    check_verifiable(run)
    checks.instance("job", job, Job, "a Job")
    rows = None if rows is None else checks.count("rows", rows, least=1)
    seed = secrets.randbits(32) if seed is None else checks.seed("seed", seed)
    job = replace(job, keeps_scores=run.manifest.keeps_scores)
    if changed := differences(run, job, verifying=True):
        raise ChangedError(run, changed)
    workers = checked_workers(workers)
    notes = tuple(_notes(run, job, workers.device or job.smoothed.kind_of_device))
    kept = opened_scores(run) if run.manifest.keeps_scores else None
    wrong = inconsistent_rows(run, job.data, job.method)
    there = run.read("idx", "radius")["idx"]
    whole = rows is None or rows >= len(there)
    drawn = set((there if whole else np.random.default_rng(seed).choice(there, rows, replace=False)).tolist())
    again = run.rows(drawn)
    verdicts = {index: RowVerdict(index, "different", why) for index, why in wrong.items() if index not in drawn}
    for verdict in verdicts.values():
        on_row(verdict)
    with asking(job, workers, most=len(again)) as each:
        for together in each([partial(_verdict, run, row, kept, wrong.get(row.idx)) for row in again]):
            for verdict in together:
                verdicts[verdict.idx] = verdict
                on_row(verdict)
    return Verification(
        tuple(verdicts.values()),
        inputs=len(there),
        missing=len(run.manifest.selection.indices) - len(there),
        batch=job.smoothed.batch,
        recorded_batch=run.manifest.batch,
        notes=notes,
        seed=None if whole else seed,
        risk=run.manifest.terms.alpha or _RISK,
    )


def _notes(run: Run, job: Job, kind: str) -> Iterator[str]:
    """Remarks on a verification on this kind of device."""
    made = run.manifest
    if made.model.device not in (None, kind) and job.method.samples and not made.any_device:
        raise RunError(
            f"{run.directory} was made on {made.model.device!s:.40}, whose noise or 16-bit operations differ from "
            f"those of {kind}; verify it on such a device"
        )
    if made.model.device not in (None, kind):
        yield f"the run says that it was made on {made.model.device:.40}, and it is verified on {kind}"
    for name, then in (("torch", made.torch), ("lvmrs", made.origin.versions.get("lvmrs"))):
        if then != version(name):
            yield f"the run was made with {name} {then!s:.40}, and this is {version(name)}"
    denoisers = made.model.denoiser, job.model.facts.denoiser
    names = {  # files may be moved; their hashes are compared
        "model": (made.model.name, job.model.name),
        "denoiser": tuple(None if each is None else each.name for each in denoisers),
        "data": (made.data.name, job.data.name),
    }
    for what, (old, now) in names.items():
        if old != now:
            yield f"the run calls its {what} {old!s:.200}, and the one that is verified is called {now!s:.200}"
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


def _verdict(run: Run, row: Row, kept: KeptScores | None, wrong: str | None, job: Job) -> RowVerdict:
    comparison = None if kept is None else _KeptComparison(kept, row, job.smoothed.agreement(job.input(row.idx)[0]))
    now = job.row(row.idx, None if comparison is None else comparison.add)
    differing = [name for name in run.columns if name not in _NOT_COMPARED and getattr(now, name) != getattr(row, name)]
    claimed = [name for name in differing if name not in _ROUNDED]
    why = wrong or (_change(claimed[0], row, now) if claimed else None)
    why = why or (None if comparison is None else comparison.why_not) or _why_not_measured(row, now)
    if why is None and differing:
        why = _why_not_rounding(job, row, now, differing, run.manifest.batch)
    changes = {name: getattr(now, name) - getattr(row, name) for name in ("radius", "p_lower", "p_upper")}
    verdict: Verdict = "different" if why is not None else "rounding" if differing else "equal"
    return RowVerdict(row.idx, verdict, why, **changes, logits=None if comparison is None else comparison.largest)


def _why_not_measured(row: Row, now: Row) -> str | None:
    """Why the rounding in a row is below the one measured now, without its safety factor; None if it is not."""
    if row.rounding is None or now.rounding is None:
        same_choices = all(getattr(row, name) == getattr(now, name) for name in _CHOICES)  # other choices may use it
        differs = same_choices and row.rounding != now.rounding
    else:
        differs = row.rounding < now.rounding / 2
    old, new = ("not known" if value is None else f"{value:g}" for value in (row.rounding, now.rounding))
    return f"its rounding is {old}, and {new} is measured now" if differs else None


class _KeptComparison:
    """Compares the logits of one input, batch by batch, with the kept ones, which must match the checksum in the row.

    ``agreement`` says which differences rounding may cause.
    """

    def __init__(self, kept: KeptScores, row: Row, agreement: Agreement) -> None:
        self._kept, self._row, self._agreement = kept, row, agreement
        self._compared: dict[Stage, int] = {}
        self.largest: float | None = None
        """The largest difference so far; None if nothing was compared."""
        self.why_not: str | None = None
        """Why the kept scores are rejected; None if they are not."""
        try:
            kept.check(row)
        except DamagedScoresError as error:
            self.why_not = str(error)

    def add(self, stage: Stage, logits: Tensor) -> None:
        """Compare the next logits of a stage."""
        if self.why_not is not None:
            return
        done = self._compared.get(stage, 0)
        left = self._kept.count(self._row, stage) - done
        now = logits[:left].detach().cpu().double()  # rounding may make sampling stop later than in the run
        self._compared[stage] = done + len(now)
        if not len(now):
            return
        kept = torch.cat(list(self._kept.logits(self._row.idx, stage, len(now), start=done))).double()
        if kept.shape != now.shape:
            self.why_not = f"its kept scores have {kept.shape[1]} classes, and the model has {now.shape[1]}"
            return
        self.largest = max(self.largest or 0.0, float((now - kept).abs().max()))
        if not self._agreement.agree(now, kept):
            self.why_not = f"its kept scores are up to {self.largest:g} away from those of the model"


# Whether rounding of the logits explains a difference between two computations of a row. The same network rounds
# differently in another batch size. A row is computed twice more, with each logit moved by the largest difference that
# rounding may cause (``lvmrs.kernel.model_check``), once in favour of the top class and once against it. Scores are
# monotone in such a move, so every effect of rounding lies between the two results.


def _why_not_rounding(job: Job, row: Row, now: Row, columns: Iterable[str], batch: int | None) -> str | None:
    """Why rounding of the logits does not account for the differing columns of a row; None if it does.

    ``now`` is the row that the job computed again, and ``batch`` the batch size of the run, if it is known.
    """
    x, _ = job.input(row.idx)
    agreement, differing = job.smoothed.agreement(x), set(columns)
    settings: dict[str, Any] = vars(job.sampling) if job.method.samples else {}

    def moved(favoured: int, times: float) -> SmoothedClassifier:
        """The classifier with logits moved in favour of a class, or against it."""
        model = _MovedLogits(job.smoothed.model, agreement, favoured, times)
        return job.with_model(model, compile=False, fast=False, way=None)

    def certified(smoothed: SmoothedClassifier, method: Method = job.method) -> Certificate:
        return smoothed.certify(x, method, index=row.idx, **settings)

    def with_small_changes() -> Iterator[Certificate]:
        """Certificates without a move, with the batch size of the run, and with small moves of the logits."""
        yield certified(job.smoothed)
        if batch is not None:
            yield certified(job.with_model(job.smoothed.model, batch=batch))
        yield from (certified(moved(row.top, times)) for times in (2.0**-6, -(2.0**-6)))

    if "clean" in differing and (row.clean is None or moved(row.clean, 1.0).answer(x) != row.clean):
        return _change("clean", row, now)
    if differing == {"clean"}:
        return None
    both = [moved(row.top, sign) for sign in (1.0, -1.0)]
    found = [certified(smoothed) for smoothed in both]
    if not all(_has_choices_of(certificate, row) for certificate in found):
        # Rounding changes the choice. If it can lead to the choice of the row, bounds are compared for that choice.
        tried = itertools.chain(found, with_small_changes())
        planned = next((certificate for certificate in tried if _has_choices_of(certificate, row)), None)
        if planned is None:
            return _change(next((name for name in (*_CHOICES, "samples") if name in differing), "top"), row, now)
        method = job.method if planned.plan is None else _AsPlanned(planned.plan)
        found = [planned, *(certified(smoothed, method) for smoothed in both)]
    outside = _outside(row, found)
    if outside is not None and row.samples is not None:
        # Bounds that hold at any time may be searched for on a grid, so that a small move changes them by a step.
        found += [certificate for certificate in with_small_changes() if _has_choices_of(certificate, row)]
        outside = _outside(row, found)
    return None if outside is None else _change(outside, row, now)


def _outside(row: Row, found: list[Certificate]) -> str | None:
    """The first column of a row outside the range of the certificates; None if there is none."""
    limit = math.inf if row.limit is None else row.limit
    for name, value in (("p_lower", row.p_lower), ("p_upper", row.p_upper), ("radius", row.radius), ("limit", limit)):
        values = [getattr(certificate, name) for certificate in found]
        low, high = min(values), max(values)
        slack = high - low + 1e-9 * abs(high)  # these moves change the scores of rivals less than other moves may
        if value != low if math.isinf(low) else not low - slack <= value <= high + slack:
            return name
    return None


def _change(name: str, row: Row, now: Row) -> str:
    return f"{name}: {getattr(row, name)}, now {getattr(now, name)}"


def _has_choices_of(certificate: Certificate, row: Row) -> bool:
    """Whether a certificate has the choices of a row and stopped sampling at the same number."""
    made = {"top": certificate.top, **certificate.record()}
    return row.samples in (None, certificate.n) and all(made[name] == getattr(row, name) for name in _CHOICES)


class _MovedLogits(nn.Module):
    """A model with logits moved in favour of one class."""

    def __init__(self, model: Model, agreement: Agreement, favoured: int, times: float) -> None:
        super().__init__()
        self.inner, self.agreement, self.favoured, self.times = model, agreement, favoured, times

    def forward(self, x: Tensor) -> Tensor:
        """The logits, each moved by ``times`` the largest difference that rounding may cause."""
        logits = self.inner(x)
        wide = logits if logits.dtype == torch.float64 else logits.float()
        moves = -self.times * self.agreement.allowance(wide)[:, wide.shape[1] :]  # of margins
        if self.favoured < moves.shape[1]:  # an edited row may have any class
            moves[:, self.favoured] *= -1.0
        return (wide.double() + moves).to(wide.dtype)


@dataclass(frozen=True)
class _AsPlanned(Planner):
    """Repeats the choice of a plan."""

    planned: Plan

    def choose(self, logits: Iterable[Tensor], terms: Terms) -> Choice:
        """The choice of the plan."""
        for _ in logits:  # every planner consumes its scores
            pass
        return Choice(**{field.name: getattr(self.planned, field.name) for field in dataclasses.fields(Choice)})


# Consistency of rows, without the network. The radius of a row follows from its bounds, and the bound of a vote from
# its count, so an edited radius, class or bound is detected in every row, including those that are not computed again.

# Numerical libraries of other machines compute quantiles with other last digits.
_RELATIVE, _ABSOLUTE = 1e-9, 1e-12
_DETERMINISTIC = "deterministic"
_VOTES_BOUND = "clopper_pearson"


def inconsistent_rows(run: Run, data: Dataset, method: Method) -> dict[int, str]:
    """The rows of a run that contradict themselves, the terms, the data or the manifest, each with the reason.

    Labels are compared if the data are in memory. Only a method of the user may use parts that are not registered.
    """
    own = not type(method).__module__.startswith("lvmrs.")
    found = {}
    for row in run.rows():
        why = inconsistency(row, run.manifest.terms, own_parts=own)
        if why is None and isinstance(data, Arrays) and row.label != (label := data[row.idx][1]):
            why = f"its label is {row.label}, and {data.name} has {label}"
        if why is None and row.name != (name := data.input_name(row.idx) or None):
            why = f"its name is {row.name!s:.80}, and {data.name} has {name!s:.80}"
        if why is None and row.scores != UNKNOWN and not run.manifest.keeps_scores:
            why = "it has a checksum of kept scores, and the run says that it keeps none"
        if why is not None:
            found[row.idx] = why
    return found


def inconsistency(row: Row, terms: TermsRecord, *, own_parts: bool = True) -> str | None:
    """The reason why a row contradicts the terms of its run; None if it does not.

    With ``own_parts``, its map, bound and form may be missing from the registry; their formulas are unknown then.
    """
    if row.correct != correctness(row.predict, row.label):
        return f"correct is {row.correct}, with label {row.label} and class {row.predict}"
    if row.predict != (row.top if row.radius > 0 else ABSTAIN):
        return f"its class is {row.predict}, with top class {row.top} and radius {row.radius:g}"
    if terms.samples and row.rounding is not None and row.rounding < (terms.rounding or 0.0):
        return f"its rounding is {row.rounding:g}, and the run has {terms.rounding:g} at least"
    if (row.form == _DETERMINISTIC) == terms.samples:
        return f"its form is {row.form}, and the run took {'' if terms.samples else 'no '}samples"
    if not terms.samples:
        most = (row.p_lower - row.p_upper) / (math.sqrt(2) * (terms.lipschitz or math.inf))
        wrong = row.radius > most * (1 + _RELATIVE) + _ABSOLUTE
        return f"its radius is {row.radius!r}, and its logits give {most!r} at most" if wrong else None
    for names, part in ((MAPS, row.map), (BOUNDS, row.bound), (FORMS, row.form)):
        if part == UNKNOWN or (part not in names and not own_parts):
            return f"its {names.kind} is {part!r:.40}, which is not known"
    if row.map not in MAPS or row.form not in FORMS:
        return None
    try:
        rival = 0.0 if row.risk_groups == UNKNOWN else float(row.risk_groups)
    except ValueError:
        return f"the risk of its rivals is {row.risk_groups:.40}, and must be a number or {UNKNOWN}"
    try:
        map_, form = MAPS.find(row.map)(row.temperature, row.mass), FORMS.find(row.form)()
        return _inconsistent_risk(row, terms, map_, rival) or _inconsistent_bounds(row, terms, map_, form, rival)
    except LvmrsError as error:
        return str(error)


def _inconsistent_risk(row: Row, terms: TermsRecord, map_: Map, rival: float) -> str | None:
    """Why the risks of a row are wrong; ``rival`` is that of the bound on each rival."""
    spent, needed = row.risk_top + rival, rival if map_.paired else row.risk_top
    if not needed > 0 or not 0 <= rival < 1:
        return f"its bounds have the risks {row.risk_top:g} and {rival:g}, which allow no bound"
    if spent > (terms.alpha or 0.0) * (1 + _RELATIVE):
        return f"it spends a risk of {spent:g}, and the run has {terms.alpha:g}"
    if (row.groups == UNKNOWN) != (rival == 0):
        return f"its rivals are {row.groups:.40}, with a risk of {rival:g}"
    return None


def _inconsistent_bounds(row: Row, terms: TermsRecord, map_: Map, form: Form, rival: float) -> str | None:
    """Why bounds, radius or samples of a row are wrong.

    A lower bound from n samples is at most risk^(1/n), and the bound of votes belongs to a whole number of votes. With
    fewer samples than n, only bounds that hold at any time are allowed.
    """
    p_a, p_b = row.p_lower / row.mass, row.p_upper / row.mass
    if not (0 <= p_a <= 1 and 0 <= p_b <= 1) or p_b > 1 - p_a + _ABSOLUTE:
        return f"its bounds are {row.p_lower!r} and {row.p_upper!r}, and scores sum to {row.mass:g}"
    if map_.paired and not math.isclose(p_b, 1 - p_a, rel_tol=0, abs_tol=_ABSOLUTE):
        return f"its bounds are {row.p_lower!r} and {row.p_upper!r}, and those of duels sum to 1"
    slopes = map_.slopes(math.inf if terms.lipschitz is None else terms.lipschitz)
    radius = float(form.radius(np.asarray(p_a), np.asarray(p_b), sigma=terms.sigma or 0.0, slopes=slopes))
    if not math.isclose(row.radius, radius, rel_tol=_RELATIVE, abs_tol=_ABSOLUTE):
        return f"its radius is {row.radius!r}, and its bounds give {radius!r}"
    known = row.bound in BOUNDS
    if terms.goal is not None and (row.samples is None or not 0 < row.samples <= (terms.n or 0)):
        return f"it is from {row.samples} samples, and the run took from 1 to {terms.n}"
    if terms.goal is not None and known and not BOUNDS.find(row.bound).anytime:
        return f"its bound is {row.bound}, which does not hold where sampling stops early"
    if not known or row.bound in {part.name for part in BOUNDS.added}:  # type: ignore[attr-defined]
        return None
    n, risk = row.samples or terms.n or 1, rival if map_.paired else row.risk_top
    if p_a > risk ** (1 / n) + _ABSOLUTE:
        return f"its lower bound is {row.p_lower!r}, more than {n} samples can show"
    if row.bound == _VOTES_BOUND and not _is_of_votes(p_a, n, risk):
        return f"its lower bound is {row.p_lower!r}, and no number of {n} votes has that bound"
    above = row.bound == _VOTES_BOUND and not map_.paired and p_b < 1 - p_a - _ABSOLUTE
    if above and not _is_of_votes(1 - p_b, n, rival):
        return f"its upper bound is {row.p_upper!r}, and no number of {n} votes has that bound"
    return None


def _is_of_votes(bound: float, n: int, risk: float) -> bool:
    """Whether a number is the Clopper-Pearson lower bound for some count out of n."""
    if risk == 0:  # of a rival that has no bound
        return False
    # The bound of a smaller count than this one is below the given bound.
    count = bisect_left(range(n), True, key=lambda k: scipy.special.betainc(k + 0.5, n - k + 0.5, bound) <= risk)
    near = np.arange(max(count - 1, 0), min(count + 1, n) + 1, dtype=float)
    return bool(np.isclose(clopper_pearson.lower(near, n, risk), bound, rtol=_RELATIVE, atol=_ABSOLUTE).any())
