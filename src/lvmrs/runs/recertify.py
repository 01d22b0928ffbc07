"""Certifies kept scores again, without the network: with another method, risk or number of samples."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from lvmrs._util.user_code import code_hash, files_run
from lvmrs.engine import pipeline
from lvmrs.engine.pipeline import Item, Need, Procedure
from lvmrs.engine.sources import GivenScores
from lvmrs.errors import InvalidArgumentError, RunError
from lvmrs.kernel import checks
from lvmrs.kernel.method import Goal, Method, check_goal
from lvmrs.kernel.noise import Stream
from lvmrs.kernel.scores import Scores
from lvmrs.kernel.terms import Terms
from lvmrs.planners import settings as method_settings
from lvmrs.planners.base import Planner, relies_on_constant
from lvmrs.record import Row, Run, RunWriter
from lvmrs.record.manifest import ROWS_OF, TermsRecord, origin
from lvmrs.record.scores import KeptScores, opened_scores, refusing
from lvmrs.registry import noise_named
from lvmrs.runs.certify import OnRow
from lvmrs.runs.job import method_record
from lvmrs.runs.workers.base import Workers, checked_workers


def recertify(
    source: Run,
    out: str | Path,
    planner: Method | None = None,
    *,
    alpha: float | None = None,
    n0: int | None = None,
    n: int | None = None,
    rounding: float | None = None,
    goal: Goal | None = None,
    command: str = "",
    workers: Workers | None = None,
    on_row: OnRow = lambda row: None,
) -> Run:
    """Certify the kept scores of a run into a new run.

    The certificates of each new run hold. But if you look at several runs and pick the best certificate for each input,
    the probability that a picked certificate is wrong may exceed the risk of one run.

    Args:
        source: a run that keeps its scores.
        out: the directory of the new run. If the same recertification was begun there, it is completed.
        planner: the method, which must use samples; by default that of the source, with its settings.
        alpha: the risk; by default that of the source.
        n0: number of selection samples, at most those that were kept; by default all.
        n: number of certification samples, at most those that were kept; by default all.
        rounding: an upper bound on the change of the logits by rounding, in the Euclidean norm, for methods that rely
            on the Lipschitz constant; required if rows do not record a measured one. The larger of the two counts.
        goal: stop using the scores of an input at this goal; by default the goal of the source. If sampling stopped at
            a goal, certificates are proved with bounds that hold at any time, for every method. With a budget of
            samples, this process does all the work.
        command: the command line of the user, which the run records.
        workers: the workers that compute rows; by default this process. Rows do not depend on them.
        on_row: called with each row after it is on the disk.

    Returns:
        The new run. The docstring of ``lvmrs.runs`` has an example.
    """
    checks.instance("source", source, Run, "a lvmrs.Run")
    workers = checked_workers(workers)
    old = source.manifest
    old.check_not_routed(source.directory)
    if old.keeps_scores and old.rows_of != ROWS_OF:
        raise RunError(
            f"{source.directory} has scores as version {old.rows_of!s:.40} sampled them, and this version samples as "
            f"{ROWS_OF}; certify the inputs again"
        )
    if planner is None:
        planner = method_settings.from_record(old.method.name, old.method.settings, old.method.own_code)
    if not isinstance(planner, Planner):
        kind = type(planner).__name__
        raise InvalidArgumentError(f"{kind} needs the network, not its scores under noise; take another method")
    if planner.needs_constant and old.terms.lipschitz is None:
        raise InvalidArgumentError(
            "the run was made without a Lipschitz constant, which this method needs; take another method"
        )
    kept = opened_scores(source)  # raises for a run without scores before a directory is made
    rows = source.rows()
    if not rows:
        raise RunError(f"{source.directory} has no rows yet; there is nothing to certify again")
    _check_classes(source, rows, kept.classes)
    if rounding is not None:
        rounding = checks.nonnegative_number("rounding", rounding)
    relies = relies_on_constant(planner, math.inf if old.terms.lipschitz is None else old.terms.lipschitz)
    if relies:
        _check_rounding(source, rows, planner, rounding)
    record = _fewer(old.terms, alpha, n0, n)
    if goal is not None:
        record = replace(record, goal=check_goal(goal))
        if goal.limited and old.terms.goal is not None:
            raise InvalidArgumentError(
                "sampling was stopped by a goal, so that inputs do not have all their scores; a budget needs them"
            )
    if relies and rounding is not None:
        record = replace(record, rounding=max(rounding, record.rounding or 0.0))
    terms = _terms(record if relies else replace(record, lipschitz=None))
    own = type(terms.noise)
    if code_hash(own) != old.method.own_code.get(f"{own.__module__}.{own.__qualname__}"):
        raise InvalidArgumentError(f"the noise {own.__name__} is not the code that the scores were sampled with")
    manifest = replace(
        old,
        method=method_record(planner, terms.noise, terms.sigma),
        terms=record,
        keeps_scores=False,
        origin=origin(command, scores_of=str(source.directory)),
    )
    with RunWriter(out, manifest, resume=True) as writer:  # the same scores and settings give the same rows
        if (begun := writer.run.manifest.terms.rounding) != record.rounding:
            raise RunError(
                f"{writer.run.directory} was begun with a rounding of {begun}, and cannot be resumed with "
                f"{record.rounding}; choose another directory"
            )
        waiting = [row for row in rows if row.idx not in writer.done]
        again = KeptSource(kept, planner, terms, record)
        if record.goal is not None and record.goal.limited:
            with refusing(source):  # the samples of an input depend on all inputs, including those with a row
                made = list(again.rows(rows)) if waiting else []
            writer.append(*(row for row in made if row.idx not in writer.done))
            for row in made:
                on_row(row)
            return writer.run
        with refusing(source), workers.doing(again.row, most=len(waiting), files=files_run()) as each:
            for rows in each(waiting):
                writer.append(*rows)
                for row in rows:
                    on_row(row)
        return writer.run


@dataclass(frozen=True, eq=False)
class _Kept(Item):
    """An input with kept scores."""

    row: Row
    """The row of the input in the run that kept the scores."""


@dataclass(frozen=True)
class KeptSource:
    """Certifies inputs of a run again, from their kept scores."""

    kept: KeptScores
    planner: Planner
    terms: Terms
    """The terms of all inputs; the rounding of an input is the larger of this one and the one in its row."""
    record: TermsRecord
    """The terms as the new run records them."""

    def rows(self, rows: Sequence[Row], *, labelled: bool = True) -> Iterator[Row]:
        """The new rows, in the order of the old ones. The inputs share a budget if the goal has one.

        ``labelled`` says whether labels are known, so that a budget is spent on correct predictions.
        """
        goal = self.record.goal
        terms = self.terms
        if goal is not None and goal.limited:  # one rounding for all inputs
            terms = replace(terms, rounding=max([terms.rounding, *(row.rounding or 0.0 for row in rows)]))
        items = [_Kept(row.idx, row.label if labelled else None, partial(_terms_of, terms, row), row) for row in rows]
        procedure, start = Procedure(self.planner, self.record.n0 or 0, goal), time.perf_counter()
        for item, certificate in pipeline.certify(items, GivenScores(self._scores), procedure, terms.n):
            seconds, old = time.perf_counter() - start, item.row
            samples = None if goal is None else certificate.n
            yield Row.of(old.idx, old.label, certificate, seconds, clean=old.clean, name=old.name, samples=samples)
            start = time.perf_counter()

    def row(self, old: Row) -> Row:
        """The new row of one input."""
        return next(self.rows([old]))

    def _scores(self, item: _Kept, need: Need) -> Scores:
        if need.stage == "selection":
            self.kept.check(item.row)
        stream = Stream(self.record.seed or 0, item.index, need.stage)
        return self.kept.scores(stream, self.terms, min(need.n, self.kept.count(item.row, need.stage)))


def _terms_of(terms: Terms, row: Row) -> Terms:
    return replace(terms, rounding=max(terms.rounding, row.rounding or 0.0))


def _check_classes(source: Run, rows: Sequence[Row], classes: int) -> None:
    """Raise if a label or a clean prediction is not one of the classes of the scores."""
    for row in rows:
        for column, number in (("label", row.label), ("clean", row.clean)):
            if number is not None and number >= classes:
                raise RunError(
                    f"{source.file}: {column} of input {row.idx} is {number}, but its scores are of {classes} classes; "
                    "correct the row, or certify the input again"
                )


def _check_rounding(source: Run, rows: Sequence[Row], planner: Planner, rounding: float | None) -> None:
    """Raise if a method relies on the constant and the rounding of the scores is unknown."""
    name = type(planner).__name__
    other = "or take a method that does not use the constant, such as hard duels or votes"
    if source.manifest.model.precision is not None:
        raise RunError(
            f"{source.directory} was made in {source.manifest.model.precision}, which rounds inside of the model, so "
            f"{name} cannot rely on its Lipschitz constant; certify the inputs again in float32, {other}"
        )
    unknown = [] if rounding is not None else [row.idx for row in rows if row.rounding is None]
    if unknown:
        raise RunError(
            f"{source.directory} does not say how far rounding moves the logits of {len(unknown)} inputs (the first "
            f"is {unknown[0]}), on which {name} relies; certify them again, give rounding if you know it, {other}"
        )


def _fewer(kept: TermsRecord, alpha: float | None, n0: int | None, n: int | None) -> TermsRecord:
    """The terms of the kept scores with the given changes; raises if more samples are wanted than were kept."""
    all_n0, all_n = kept.n0 or 0, kept.n or 0
    n0 = all_n0 if n0 is None else checks.count("n0", n0, least=1)
    n = all_n if n is None else checks.count("n", n, least=2)
    for name, wanted, known in (("n0", n0, all_n0), ("n", n, all_n)):
        if wanted > known:
            raise InvalidArgumentError(f"{name} = {wanted} is more than the {known} scores that were kept")
    terms = Terms(kept.sigma or 0.0, (kept.alpha or 0.0) if alpha is None else alpha, n)  # checks alpha
    return replace(kept, alpha=terms.alpha, n0=n0, n=n)


def _terms(record: TermsRecord) -> Terms:
    noise = noise_named(record.noise)
    if not record.dimensions and noise.error(record.sigma or 0.0) > 0:
        raise RunError(
            f"the run does not say how many numbers its inputs have, by which {noise.name} noise counts its risk; "
            "certify the inputs again"
        )
    constant, rounding = (math.inf, 0.0) if record.lipschitz is None else (record.lipschitz, record.rounding or 0.0)
    sizes = record.sigma or 0.0, record.alpha or 0.0, record.n or 0
    return Terms(*sizes, constant, noise, rounding, record.dimensions or 0)
