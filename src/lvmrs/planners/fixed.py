"""One map and temperature for all inputs, so that all certificates are about one smoothed classifier.

If the map is chosen for each input, a certificate is about the classifier smoothed with the map that was chosen at x;
at x' the same procedure may choose another map. Here the classifier is fixed beforehand on held-out inputs, and the
selection sample decides only how its answer is proved (class, bound, form).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from torch import Tensor

from lvmrs.errors import InvalidArgumentError
from lvmrs.kernel import checks
from lvmrs.kernel.checks import Floats
from lvmrs.kernel.method import Scope
from lvmrs.kernel.terms import Choice, Terms
from lvmrs.planners.base import Planner, check_search, keeps_constant
from lvmrs.planners.search import MANY_CLASSES, TEMPERATURES, ScoreMoments, best, forecasts, forms_for
from lvmrs.registry import FORMS


@dataclass(frozen=True)
class Fixed(Planner):
    """Uses the given map, temperature and mass for every input.

    >>> Fixed("softmax", temperature=0.5).scope
    'all inputs'
    """

    map: str
    """Name of a simplex map."""
    temperature: float = 1.0
    mass: float = 1.0
    """The sum of the scores of the map."""
    form: str | None = None
    """Name of the form of the radius; None for the better of R2 and, if a Lipschitz constant is known, ramp."""
    bounds: tuple[str, ...] = ("clopper_pearson", "betting")
    """Names of the bounds to choose from; if one is for 0/1 scores only, votes use that one."""

    scope: ClassVar[Scope] = "all inputs"
    settled: ClassVar[Mapping[str, str]] = {"width": "a width is for duels"}

    def __post_init__(self) -> None:
        check_search((self.map,), (self.temperature,), self.mass, self.bounds, usual=(1.0,))
        if self.form is not None:
            FORMS.find(self.form, argument="form")

    @property
    def needs_constant(self) -> bool:
        """Whether the chosen form of the radius needs a Lipschitz constant."""
        return self.form is not None and bool(FORMS.find(self.form).needs_constant)

    @property
    def uses_constant(self) -> bool:
        """Whether the form of the radius can use a Lipschitz constant, and the map preserves it."""
        return (self.form is None or bool(FORMS.find(self.form).uses_constant)) and keeps_constant(self.map)

    def choose(self, logits: Iterable[Tensor], terms: Terms) -> Choice:
        """Choose the class with the largest mean score, and the bound and form with the largest forecast."""
        moments = ScoreMoments.of(logits, maps=(self.map,), temperatures=(self.temperature,), mass=self.mass)
        forms = forms_for(terms) if self.form is None else (FORMS.find(self.form)(),)
        row, forecast = best(forecasts(moments, terms, bounds=self.bounds, forms=forms))
        return forecast.choice(moments, row, terms)


def calibrated(
    samples: Iterable[Iterable[Tensor]],
    terms: Terms,
    *,
    labels: Sequence[int] | None = None,
    objective: Literal["average radius", "accuracy"] = "average radius",
    epsilon: float = 0.0,
    maps: tuple[str, ...] = ("hardmax", "softmax", "sparsemax"),
    temperatures: tuple[float, ...] = TEMPERATURES,
    mass: float = 1.0,
) -> Fixed:
    """Find the map, temperature and form of the radius with the best average over held-out inputs.

    Args:
        samples: for each held-out input, the logits of noisy copies in batches (samples, classes).
        terms: the terms of the certificates to come.
        labels: the label of each input; if given, an input with a wrong answer counts as not certified.
        objective: the average certified radius, or the share of inputs with a radius larger than ``epsilon``. Both are
            forecasts for ``terms.n`` samples.
        epsilon: a radius, for the objective "accuracy".
        maps: names of the maps to try.
        temperatures: temperatures to try for soft maps.
        mass: the sum of the scores of a map.

    Returns:
        The planner with the best settings.
    """
    checks.one_of("objective", objective, ("average radius", "accuracy"))
    checks.nonnegative_number("epsilon", epsilon)
    check_search(maps, temperatures, mass, Fixed.bounds, usual=TEMPERATURES)
    total: dict[str, Floats] = {}
    count = 0
    for count, scores in enumerate(samples, start=1):
        moments = ScoreMoments.of(scores, maps=maps, temperatures=temperatures, mass=mass, most=MANY_CLASSES)
        right = moments.tops == labels[count - 1] if labels is not None else True
        for forecast in forecasts(moments, terms, bounds=Fixed.bounds, forms=forms_for(terms)):
            expected = forecast.expected
            value = np.maximum(expected, 0.0) if objective == "average radius" else (expected > epsilon) * 1.0
            name = forecast.form.name
            total[name] = total.get(name, np.zeros(len(value))) + value * right
    if not count:
        raise InvalidArgumentError("no calibration inputs were given; give at least one")
    form = max(total, key=lambda name: float(total[name].max()))
    row = int(total[form].argmax())
    return Fixed(moments.maps[row].name, moments.maps[row].temperature, mass, form=form)
