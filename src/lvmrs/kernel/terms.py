"""The terms of a certificate, and the plan for its proof.

``Terms`` are the assumptions of a certificate. A ``Choice`` is the result of a planner, which is a heuristic; a
``Plan`` is a choice with the stream on which it was made. A plan may be useless, but a certificate proved from it holds
for every plan.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from dataclasses import dataclass
from numbers import Integral
from typing import Any, get_args

from lvmrs.errors import InvalidArgumentError, shown
from lvmrs.kernel import checks
from lvmrs.kernel.bounds.base import Bound
from lvmrs.kernel.maps import Map
from lvmrs.kernel.method import Scope
from lvmrs.kernel.noise import GAUSSIAN, Noise, Stream, check_noise
from lvmrs.kernel.radius import Form


@dataclass(frozen=True)
class Terms:
    """The terms of a certificate: noise, risk, number of samples, and a Lipschitz constant of the logits if known.

    >>> Terms(sigma=0.5, alpha=0.001, n=10_000)
    Terms(sigma=0.5, alpha=0.001, n=10000, lipschitz=inf, noise=Gaussian(), rounding=0.0, dimensions=0, precision=None)
    """

    sigma: float
    """Scale of the noise, in units of the input; for Gaussian noise the standard deviation."""
    alpha: float
    """Upper bound on the probability over the noise that the certificate is wrong; strictly between 0 and 1."""
    n: int
    """Number of samples that the proof takes; at least 2."""
    lipschitz: float = math.inf
    """A Lipschitz constant of the logits in the Euclidean norm; infinite if none is known."""
    noise: Noise = GAUSSIAN
    """The kind of noise."""
    rounding: float = 0.0
    """How far rounding may move the vector of logits, in the Euclidean norm; used only together with the constant."""
    dimensions: int = 0
    """The largest number of dimensions of an input; required if the noise takes a share of the risk."""
    precision: str | None = None
    """The precision in which the network runs, for the sentence of the guarantee; None for its own."""

    def __post_init__(self) -> None:
        check_noise(self.noise)
        plain = {
            "dimensions": checks.count("dimensions", self.dimensions, least=0),
            "sigma": checks.positive_number("sigma", self.sigma),
            "alpha": checks.alpha(self.alpha),
            "n": checks.count("n", self.n, least=2),
            "lipschitz": checks.single("lipschitz", checks.constant(self.lipschitz)),
            "rounding": checks.nonnegative_number("rounding", self.rounding),
        }
        for name, value in plain.items():  # converts NumPy numbers to Python numbers
            object.__setattr__(self, name, value)
        if self.noise.rounds and math.isfinite(self.lipschitz):
            raise InvalidArgumentError(
                f"lipschitz must be infinite with {self.noise.name} noise: inputs are rounded after it, so what is "
                "smoothed has no Lipschitz constant"
            )
        if not self.noise_risk < self.alpha:
            raise InvalidArgumentError(
                f"alpha = {self.alpha:g} is not above the risk that {self.noise.name} noise takes for n = {self.n} "
                f"samples of {self.dimensions} numbers, {self.noise_risk:.3g}; take a larger alpha or a smaller n"
            )

    @property
    def noise_risk(self) -> float:
        """The risk spent on the noise: the total variation distance of all its numbers from the exact distribution."""
        return self.noise.error(self.sigma) * self.n * self.dimensions

    @property
    def spendable(self) -> float:
        """The risk that a plan may spend."""
        return self.alpha - self.noise_risk

    @property
    def for_planning(self) -> Terms:
        """The terms for planners, whose alpha is the risk that a plan may spend."""
        return dataclasses.replace(self, alpha=self.spendable, dimensions=0)

    def relies_on_constant(self, map_: Map, form: Form) -> bool:
        """Whether a radius of this form and map relies on the Lipschitz constant of the logits."""
        return form.uses_constant and math.isfinite(map_.slopes(self.lipschitz).vector)

    def allowance(self, map_: Map, form: Form) -> float:
        """The allowance for rounding on bounds of mean scores, as a share of the mass; 0 without the constant.

        Rounding moves a score by at most ``rounding`` times the slope of its map, the constant of its scores for logits
        of constant 1. The allowance is three times this: once for the samples at x, and twice for the classifier at x'
        (see ``lvmrs.kernel.proof``).
        """
        return 3 * self.rounding * float(map_.slopes(1.0).one) if self.relies_on_constant(map_, form) else 0.0


@dataclass(frozen=True, kw_only=True)
class Choice:
    """How to certify one input: class ``top`` against each of its rivals."""

    top: int
    """The class to certify."""
    classes: int
    """Number of classes."""
    map: Map
    """The map from logits to scores."""
    bound: Bound
    """The bound on mean scores."""
    form: Form
    """The form of the radius."""
    risk_top: float
    """Risk of the bound on the top class; 0 for duels, where each bound is about the top class and a rival at once."""
    risk_rival: float = 0.0
    """Risk of the bound on each rival; 0 if rivals are not bounded individually, but by 1 − p_a."""
    alone: tuple[int, ...] | None = None
    """Rivals bounded individually; the others are pooled, to save work. None: every rival is bounded individually."""

    def __post_init__(self) -> None:
        """Convert numbers to Python numbers, and raise for values of other kinds."""
        plain: dict[str, Any] = {name: _index(name, getattr(self, name)) for name in ("top", "classes")}
        for name in ("risk_top", "risk_rival"):
            plain[name] = checks.single(name, checks.real(name, getattr(self, name)))
        if self.alone is not None:
            if isinstance(self.alone, str) or not isinstance(self.alone, Iterable):
                raise InvalidArgumentError(f"alone must be a tuple of classes or None, got {shown(self.alone)}")
            plain["alone"] = tuple(_index("alone", k) for k in self.alone)
        for name, value in plain.items():
            object.__setattr__(self, name, value)

    @property
    def risk(self) -> float:
        """The total risk: spent once for the top class and once for all rivals together."""
        return self.risk_top + self.risk_rival

    @property
    def rivals(self) -> tuple[list[int], list[int]]:
        """The rivals bounded individually, and those that are pooled."""
        if self.risk_rival == 0:
            return [], []
        others = [k for k in range(self.classes) if k != self.top]
        alone = others if self.alone is None else list(self.alone)
        return alone, sorted(set(others) - set(alone))


@dataclass(frozen=True, kw_only=True, repr=False)
class Plan(Choice):
    """A choice, with the stream on which it was made. ``Planner.plan`` makes it."""

    planner: str
    """Name of the planner's class."""
    scope: Scope
    """Whether map, temperature and mass were chosen for this input or are the same for all inputs."""
    origin: Stream
    """The stream of the selection scores; the proof rejects scores of this stream."""
    n0: int
    """Number of selection samples."""

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.one_of("scope", self.scope, get_args(Scope))

    def __repr__(self) -> str:
        """One line with the choices, without the list of rivals."""
        alone, pooled = self.rivals
        together = f" and {len(pooled)} together" if pooled else ""
        rivals = f"{len(alone)} rivals{together}" if self.risk_rival else "no bounds on rivals"
        parts = f"{self.map.name}{self.map.settings}, {self.bound.name}, {self.form.name}"
        return f"<Plan by {self.planner}: class {self.top}, {parts}, {rivals}>"


def _index(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise InvalidArgumentError(f"{name} must be a whole number, got {shown(value)}")
    return int(value)
