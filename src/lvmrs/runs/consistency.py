"""Checks without the network that each row of a run is consistent in itself, with the terms and with the data.

The radius of a row follows from its bounds, and the bound of a vote from its count. So these checks detect a radius,
class or bound that was edited, in every row, including those that are not computed again.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from lvmrs.data import Arrays, Dataset
from lvmrs.errors import LvmrsError
from lvmrs.kernel import special
from lvmrs.kernel.bounds import binomial
from lvmrs.kernel.forms import Form
from lvmrs.kernel.goals import ABSTAIN, is_correct
from lvmrs.kernel.maps import Map
from lvmrs.kernel.method import Method
from lvmrs.record import Row, Run
from lvmrs.record.manifest import TermsRecord
from lvmrs.record.result_file import UNKNOWN
from lvmrs.registry import BOUNDS, FORMS, MAPS

__all__ = ["inconsistency", "inconsistent_rows"]

# Numerical libraries of other machines compute quantiles with other last digits.
_RELATIVE, _ABSOLUTE = 1e-9, 1e-12
_DETERMINISTIC = "deterministic"
_VOTES_BOUND = "clopper_pearson"


def inconsistent_rows(run: Run, data: Dataset, method: Method) -> dict[int, str]:
    """The inconsistent rows of a run, by index, each with the reason.

    Args:
        run: the run.
        data: its data; labels are compared if they are in memory, and names of inputs if the data have them.
        method: its method. Only a method of the user may use parts that are not in the registry.
    """
    terms = run.manifest.terms
    own = not type(method).__module__.startswith("lvmrs.")
    found = {}
    for row in run.rows():
        why = inconsistency(row, terms, own_parts=own) or _otherwise_in_data(row, data)
        if why is None and row.scores != UNKNOWN and not run.manifest.keeps_scores:
            why = "it has a checksum of kept scores, and the run says that it keeps none"
        if why is not None:
            found[row.idx] = why
    return found


def inconsistency(row: Row, terms: TermsRecord, *, own_parts: bool = True) -> str | None:
    """The reason why a row contradicts the terms of its run; None if it does not.

    Args:
        row: the row.
        terms: the terms of its run.
        own_parts: whether its map, bound and form may be missing from the registry; their formulas are unknown then.
    """
    return next(_contradictions(row, terms, own_parts=own_parts), None)


def _contradictions(row: Row, terms: TermsRecord, *, own_parts: bool) -> Iterator[str]:
    if row.correct != is_correct(row.predict, row.label):
        yield f"correct is {row.correct}, with label {row.label} and class {row.predict}"
    if row.predict != (row.top if row.radius > 0 else ABSTAIN):
        yield f"its class is {row.predict}, with top class {row.top} and radius {row.radius:g}"
    if terms.samples and row.rounding is not None and row.rounding < (terms.rounding or 0.0):
        yield f"its rounding is {row.rounding:g}, and the run has {terms.rounding:g} at least"
    if row.form == _DETERMINISTIC or not terms.samples:
        yield from _contradictions_without_noise(row, terms)
        return
    for names, part in ((MAPS, row.map), (BOUNDS, row.bound), (FORMS, row.form)):
        if part == UNKNOWN or (part not in names and not own_parts):
            yield f"its {names.kind} is {part!r:.40}, which is not known"
    if row.map not in MAPS or row.form not in FORMS:
        return
    try:
        map_, form = MAPS.find(row.map)(row.temperature, row.mass), FORMS.find(row.form)()
    except LvmrsError as error:
        yield str(error)
        return
    yield from _contradictions_of_risk(row, terms, map_)
    yield from _contradictions_of_radius(row, terms, map_, form)
    yield from _contradictions_of_samples(row, terms)
    if row.bound in BOUNDS and row.bound not in {part.name for part in BOUNDS.added}:  # type: ignore[attr-defined]
        yield from _contradictions_of_bounds(row, terms, map_)


def _contradictions_of_samples(row: Row, terms: TermsRecord) -> Iterator[str]:
    """With fewer samples than n, only bounds that hold at any time are allowed."""
    if terms.goal is None:
        return
    if row.samples is None or not 0 < row.samples <= (terms.n or 0):
        yield f"it is from {row.samples} samples, and the run took from 1 to {terms.n}"
    if row.bound in BOUNDS and not BOUNDS.find(row.bound).anytime:
        yield f"its bound is {row.bound}, which does not hold where sampling stops early"


def _contradictions_without_noise(row: Row, terms: TermsRecord) -> Iterator[str]:
    if terms.samples or row.form != _DETERMINISTIC:
        yield f"its form is {row.form}, and the run took {'' if terms.samples else 'no '}samples"
        return
    most = (row.p_lower - row.p_upper) / (math.sqrt(2) * (terms.lipschitz or math.inf))
    if row.radius > most * (1 + _RELATIVE) + _ABSOLUTE:
        yield f"its radius is {row.radius!r}, and its logits give {most!r} at most"


def _contradictions_of_risk(row: Row, terms: TermsRecord, map_: Map) -> Iterator[str]:
    try:
        rival = 0.0 if row.risk_groups == UNKNOWN else float(row.risk_groups)
    except ValueError:
        yield f"the risk of its rivals is {row.risk_groups:.40}, and must be a number or {UNKNOWN}"
        return
    spent, needed = row.risk_top + rival, rival if map_.paired else row.risk_top
    if not needed > 0 or not 0 <= rival < 1:
        yield f"its bounds have the risks {row.risk_top:g} and {rival:g}, which allow no bound"
    if spent > (terms.alpha or 0.0) * (1 + _RELATIVE):
        yield f"it spends a risk of {spent:g}, and the run has {terms.alpha:g}"
    if (row.groups == UNKNOWN) != (rival == 0):
        yield f"its rivals are {row.groups:.40}, with a risk of {rival:g}"


def _contradictions_of_radius(row: Row, terms: TermsRecord, map_: Map, form: Form) -> Iterator[str]:
    p_a, p_b = row.p_lower / row.mass, row.p_upper / row.mass
    if not (0 <= p_a <= 1 and 0 <= p_b <= 1) or p_b > 1 - p_a + _ABSOLUTE:
        yield f"its bounds are {row.p_lower!r} and {row.p_upper!r}, and scores sum to {row.mass:g}"
        return
    if map_.paired and not math.isclose(p_b, 1 - p_a, rel_tol=0, abs_tol=_ABSOLUTE):
        yield f"its bounds are {row.p_lower!r} and {row.p_upper!r}, and those of duels sum to 1"
    slopes = map_.slopes(math.inf if terms.lipschitz is None else terms.lipschitz)
    try:
        radius = float(form.radius(np.asarray(p_a), np.asarray(p_b), sigma=terms.sigma or 0.0, slopes=slopes))
    except LvmrsError as error:
        yield str(error)
        return
    if not math.isclose(row.radius, radius, rel_tol=_RELATIVE, abs_tol=_ABSOLUTE):
        yield f"its radius is {row.radius!r}, and its bounds give {radius!r}"


def _contradictions_of_bounds(row: Row, terms: TermsRecord, map_: Map) -> Iterator[str]:
    """A lower bound from n samples is at most risk^(1/n), and the bound of votes belongs to a whole number of votes."""
    n = row.samples or terms.n or 1
    rival = 0.0 if row.risk_groups == UNKNOWN else float(row.risk_groups)
    risk = rival if map_.paired else row.risk_top
    p_a, p_b = row.p_lower / row.mass, row.p_upper / row.mass
    if p_a > risk ** (1 / n) + _ABSOLUTE:
        yield f"its lower bound is {row.p_lower!r}, more than {n} samples can show"
    if row.bound != _VOTES_BOUND:
        return
    if not _is_of_votes(p_a, n, risk):
        yield f"its lower bound is {row.p_lower!r}, and no number of {n} votes has that bound"
    if not map_.paired and p_b < 1 - p_a - _ABSOLUTE and not _is_of_votes(1 - p_b, n, rival):
        yield f"its upper bound is {row.p_upper!r}, and no number of {n} votes has that bound"


def _is_of_votes(bound: float, n: int, risk: float) -> bool:
    """Whether a number is the Clopper-Pearson lower bound for some count out of n."""
    low, high = 0, n  # bisection: the bound of a smaller count than ``low`` is below the given bound
    while low < high:
        middle = (low + high) // 2
        if special.betainc(middle + 0.5, n - middle + 0.5, bound) > risk:
            low = middle + 1
        else:
            high = middle
    near = np.arange(max(low - 1, 0), min(low + 1, n) + 1, dtype=float)
    bounds = binomial.lower(near, np.asarray(float(n)), np.asarray(risk))
    return bool(np.isclose(bounds, bound, rtol=_RELATIVE, atol=_ABSOLUTE).any())


def _otherwise_in_data(row: Row, data: Dataset) -> str | None:
    if isinstance(data, Arrays) and row.label != data.labels[row.idx]:
        return f"its label is {row.label}, and {data.name} has {data.labels[row.idx]}"
    if row.name != (name := data.input_name(row.idx) or None):
        return f"its name is {row.name!s:.80}, and {data.name} has {name!s:.80}"
    return None
