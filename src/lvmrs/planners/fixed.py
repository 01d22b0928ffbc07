"""One map and temperature for all inputs, so that the certificates speak of one smoothed classifier.

With a map chosen per input, a certificate is about the classifier smoothed with the map chosen at x; whoever runs the
whole procedure at x' may choose another. Here the classifier is fixed beforehand, on inputs that are held out, and only
how to prove its answer (class, bound, form) is left to the selection sample.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from torch import Tensor

from lvmrs import _checks
from lvmrs._checks import Floats
from lvmrs.errors import InvalidArgumentError
from lvmrs.plan import Choice, Scope, Terms
from lvmrs.planners.base import Planner, check_search
from lvmrs.planners.forecast import best, forecasts, forms_for
from lvmrs.planners.survey import TEMPERATURES, Survey
from lvmrs.registry import FORMS

__all__ = ["Fixed", "calibrated"]


@dataclass(frozen=True)
class Fixed(Planner):
    """The given map, temperature and mass for every input.

    ``form`` is the form of the radius by name; without it, the better of R2 and, with a Lipschitz constant, the ramp
    radius. Votes are bounded by Clopper–Pearson, which is exact, whatever the ``bounds``.
    """

    map: str
    temperature: float = 1.0
    mass: float = 1.0
    form: str | None = None
    bounds: tuple[str, ...] = ("betting",)

    scope: ClassVar[Scope] = "all inputs"

    def __post_init__(self) -> None:
        check_search((self.map,), (self.temperature,), self.mass, self.bounds)
        if self.form is not None:
            FORMS.find(self.form, argument="form")

    @property
    def needs_constant(self) -> bool:
        """Whether the chosen form of the radius needs a Lipschitz constant."""
        return self.form is not None and bool(FORMS.find(self.form).needs_constant)

    def choose(self, logits: Iterable[Tensor], terms: Terms) -> Choice:
        """The class with the largest mean score, proved in the way with the largest forecast."""
        survey = Survey.of(logits, maps=(self.map,), temperatures=(self.temperature,), mass=self.mass)
        forms = forms_for(terms) if self.form is None else (FORMS.find(self.form)(),)
        row, forecast = best(forecasts(survey, terms, bounds=self.bounds, forms=forms))
        return forecast.choice(survey, row, terms)


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
    """The map, temperature and form of the radius that are best on average over held-out inputs.

    ``samples`` has the logits of noisy copies of each, in batches. The objective is the expected certified radius, or
    the share of inputs certified beyond ``epsilon``; with ``labels``, a wrong class counts as nothing certified.
    """
    _checks.one_of("objective", objective, ("average radius", "accuracy"))
    _checks.single("epsilon", _checks.real("epsilon", epsilon))
    check_search(maps, temperatures, mass, ("betting",))
    total: dict[str, Floats] = {}
    count = 0
    for count, scores in enumerate(samples, start=1):
        survey = Survey.of(scores, maps=maps, temperatures=temperatures, mass=mass)
        right = survey.mean.argmax(axis=1) == labels[count - 1] if labels is not None else True
        for forecast in forecasts(survey, terms, bounds=("betting",), forms=forms_for(terms)):
            expected = forecast.expected
            value = np.maximum(expected, 0.0) if objective == "average radius" else (expected > epsilon) * 1.0
            name = forecast.form.name
            total[name] = total.get(name, np.zeros(len(value))) + value * right
    if not count:
        raise InvalidArgumentError("no calibration inputs were given; give at least one")
    form = max(total, key=lambda name: float(total[name].max()))
    row = int(total[form].argmax())
    return Fixed(survey.maps[row].name, survey.maps[row].temperature, mass, form=form)
