"""A statistical check for authors of planners, like scikit-learn's ``check_estimator`` for estimators.

``check_planner`` counts false certificates on families of logits whose smoothed scores are known exactly, and tests the
count against alpha. A planner cannot make false certificates, since the proof uses other samples. The check finds plans
that the proof rejects, hidden state, dependence on batches, and mistakes in user-defined maps and bounds.

>>> from lvmrs import Duels
>>> from lvmrs.testing import check_planner
>>> check_planner(Duels(), repeats=20, families=["close pair", "ties in the logits"])
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy import stats
from torch import Tensor

from lvmrs.errors import InvalidArgumentError, ProofError, shown
from lvmrs.kernel import checks
from lvmrs.kernel.certificate import Certificate
from lvmrs.kernel.checks import Floats
from lvmrs.kernel.method import ABSTAIN
from lvmrs.kernel.noise import Gaussian, Stream
from lvmrs.kernel.proof import prove
from lvmrs.kernel.scores import Scores, scores_of
from lvmrs.kernel.terms import Plan, Terms
from lvmrs.planners.base import Planner

SELECTION, CERTIFICATION = Stream(0, 0, "selection"), Stream(0, 0, "certification")
SIGMA = 0.5
"""The σ of the scores in all simulations."""
Certify = Callable[[Planner, Terms, Tensor, Tensor], Certificate]


def made_up_scores(
    logits: Tensor | Iterable[Tensor], stream: Stream = CERTIFICATION, *, sigma: float = SIGMA
) -> Scores:
    """Make Scores of simulated logits (samples, classes), or batches of them. They certify no classifier.

    >>> made_up_scores(torch.zeros(5, 3)).count
    5
    """
    given = [logits] if isinstance(logits, Tensor) else checks.iterable("logits", logits, "tensors")
    batches = list(given)
    for batch in batches:
        checks.instance("logits", batch, Tensor, "tensors (samples, classes)")
    checks.instance("stream", stream, Stream, "a Stream such as lvmrs.testing.CERTIFICATION")
    scale, count = checks.positive_number("sigma", sigma), sum(map(len, batches))
    return scores_of(stream, Gaussian(), scale, 1, count, batches)


@dataclass(frozen=True)
class Family:
    """A distribution over finitely many logit vectors, so that every mean score is a finite sum."""

    atoms: Tensor
    """The logit vectors (atoms, classes)."""
    weights: Floats
    """The probability of each."""

    def draw(self, random: np.random.Generator, n: int) -> Tensor:
        """Draw the logits of n samples (n, classes)."""
        return self.atoms[random.choice(len(self.weights), n, p=self.weights)]

    def truth(self, plan: Plan) -> tuple[Floats, Floats]:
        """The exact mean scores of the plan's top class and of its strongest rival, as shares of the mass."""
        rivals = torch.tensor([k for k in range(plan.classes) if k != plan.top])
        columns = plan.map.columns(self.atoms.double(), plan.top, rivals, torch.tensor([], dtype=torch.long))
        means = np.clip(self.weights @ columns.double().numpy(), 0.0, 1.0)
        return (means.min(), 1 - means.min()) if plan.map.paired else (means[0], means[1:].max())


def family(rows: Sequence[tuple[float, Sequence[float]]]) -> Family:
    """Make a family from pairs of a weight and logits; the weights are scaled to sum to 1.

    >>> family([(1.0, [2.0, 0.0]), (3.0, [0.0, 2.0])]).weights.tolist()
    [0.25, 0.75]
    """
    try:
        weights, atoms = zip(*rows, strict=True)
    except (TypeError, ValueError):
        raise InvalidArgumentError(f"rows must be pairs of a weight and logits, got {shown(rows)}") from None
    shares, logits = checks.positive("weights", weights), torch.from_numpy(checks.real("logits", atoms)).float()
    return Family(checks.finite_tensor("logits", logits, dims=2), shares / shares.sum())


def one_hot(winner: int, classes: int, size: float) -> list[float]:
    """Logits that are 0, except for ``size`` at the winner."""
    return [size if k == winner else 0.0 for k in range(classes)]


def _random_family(classes: int, atoms: int, seed: int) -> Family:
    random = np.random.default_rng(seed)
    logits = torch.from_numpy(random.standard_normal((atoms, classes)) * random.uniform(0.2, 3, (atoms, 1))).float()
    logits[:, 0] += 1.0
    return Family(logits, random.dirichlet(np.ones(atoms)))


def _tie_that_turns_with_temperature() -> Family:
    """Class 0 wins more often and class 1 wins by more, so that the top class depends on the temperature."""
    rows = [(0.54 / 20, [0.4 + 0.02 * i, 0.0, -0.3]) for i in range(20)]
    return family(rows + [(0.46 / 20, [0.0, 0.5 + 0.03 * i, -0.3]) for i in range(20)])


def _equal_rivals(classes: int, bases: int, lead: float) -> Family:
    """Random logits with the rivals in each of their cyclic orders, so that all rivals are equally strong."""
    random = np.random.default_rng(classes)
    rows = []
    for _ in range(bases):
        top, *rivals = random.standard_normal(classes) + np.array([lead] + [0.0] * (classes - 1))
        rows += [(1.0, [top, *np.roll(rivals, turn).tolist()]) for turn in range(classes - 1)]
    return family(rows)


FAMILIES: dict[str, Family] = {
    "tied pair, c = 2": family([(0.5, [1.0, 0.0]), (0.5, [0.0, 1.0])]),
    "close pair": family([(0.53, one_hot(0, 10, 2.0)), (0.47, one_hot(1, 10, 2.0))]),
    "ten equal classes": family([(0.1, one_hot(k, 10, size)) for k in range(10) for size in (0.5, 3.0)]),
    "many equal rivals": family([(0.2, one_hot(0, 10, 1.0))] + [(0.8 / 9, one_hot(k, 10, 1.0)) for k in range(1, 10)]),
    "heavy tails": family(
        [(0.6, [0.3, 0.0, 0.0]), (0.3, [0.0, 0.2, 0.1]), (0.09, [-40.0, 30.0, 0.0]), (0.01, [90.0, -9.0, 0.0])]
    ),
    "tiny variance": family([(0.5, [0.501, 0.5, 0.0]), (0.5, [0.5, 0.5005, 0.0])]),
    "correlated classes": family(
        [(0.3, [2.0, 1.9, -3.0]), (0.25, [1.8, 2.0, -3.0]), (0.25, [-1.0, -1.1, 0.0]), (0.2, [-1.2, -1.0, 0.1])]
    ),
    "rare catastrophe": family([(0.985, [3.0, 0.0, 0.0, 0.0]), (0.015, [0.0, 6.0, 0.0, 0.0])]),
    "tie that turns with temperature": _tie_that_turns_with_temperature(),
    "c = 10, random": _random_family(10, 30, 1),
    "c = 1000": _random_family(1000, 12, 2),
    "nine runners-up": _equal_rivals(10, 12, lead=1.5),
    "99 runners-up": _equal_rivals(100, 4, lead=2.5),
    "999 runners-up": _equal_rivals(1000, 1, lead=3.5),
    "two tied runners-up": family(
        [(0.5, [2.0, 1.0, 0.0]), (0.1, [1.0, 2.0, 0.0]), (0.1, [1.0, 0.0, 2.0]), (0.3, [2.0, 0.0, 1.0])]
    ),
    "top class tied": family(
        [(0.25, [2.0, 1.0, 0.0]), (0.25, [2.0, 0.0, 1.0]), (0.25, [1.0, 2.0, 0.0]), (0.25, [0.5, 2.0, 1.0])]
    ),
    "rivals anti-correlated": family([(0.27, [1.0, 2.0, -2.0]), (0.27, [1.0, -2.0, 2.0]), (0.46, [1.0, 0.0, 0.0])]),
    "no Condorcet winner": family([(1.0, [2.0, 1.0, 0.0]), (1.0, [0.0, 2.0, 1.0]), (1.0, [1.0, 0.0, 2.0])]),
    "ties in the logits": family([(0.45, [1.0, 0.0, -1.0]), (0.45, [0.0, 1.0, -1.0]), (0.1, [1.0, 1.0, -1.0])]),
}  # fmt: skip
"""Difficult families: ties, equal rivals, rare events, heavy tails, many classes."""


def is_false(certificate: Certificate, known: Family, plan: Plan | None = None) -> bool:
    """Whether a certificate is false: its radius is larger than that of the exact means, or a bound does not hold.

    ``plan`` is the plan that should have been proved; by default that of the certificate.
    """
    plan = certificate.plan if plan is None else plan
    if plan is None:
        raise InvalidArgumentError("the certificate is deterministic, so there is nothing to simulate; take a planner")
    p_a, p_b = known.truth(plan)
    if certificate.p_lower / plan.map.mass > p_a + 1e-9 or certificate.p_upper / plan.map.mass < p_b - 1e-9:
        return True
    slopes = plan.map.slopes(certificate.lipschitz)
    true = plan.form.radius(p_a, p_b, sigma=certificate.sigma, slopes=slopes) if p_a > p_b else 0.0
    return certificate.prediction != ABSTAIN and certificate.radius > float(true) + 1e-9


def certified(planner: Planner, terms: Terms, selection: Tensor, certification: Tensor) -> Certificate:
    """Plan on the selection logits and prove on the certification logits."""
    return prove(planner.plan(made_up_scores(selection, SELECTION), terms), terms, made_up_scores(certification))


def false_certificates(
    planner: Planner,
    known: Family,
    alpha: float,
    *,
    repeats: int,
    n0: int,
    n: int,
    lipschitz: float,
    by: Certify = certified,
    plan: Callable[[Plan], Plan] = lambda plan: plan,
    seed: int = 0,
) -> int:
    """Count the false certificates among ``repeats`` certificates, each from its own samples of a family.

    ``by`` makes each certificate; ``plan`` maps the plan of a certificate to the plan that should have been proved.
    """
    n0, repeats = checks.count("n0", n0, least=1), checks.count("repeats", repeats, least=1)
    terms = Terms(SIGMA, alpha, n, lipschitz)
    random = np.random.default_rng([n0, terms.n, repeats, checks.seed("seed", seed)])
    made = (by(planner, terms, known.draw(random, n0), known.draw(random, terms.n)) for _ in range(repeats))
    return sum(is_false(each, known, None if each.plan is None else plan(each.plan)) for each in made)


def too_many(wrong: int, repeats: int, risk: float) -> bool:
    """Whether ``wrong`` or more failures would have a probability below 1/10 000 if each had the probability ``risk``.

    >>> too_many(5, 100, 0.05), too_many(20, 100, 0.05)
    (False, True)
    """
    repeats, risk = checks.count("repeats", repeats, least=1), checks.single("risk", checks.risk(risk))
    wrong = checks.count("wrong", wrong, least=0, most=repeats)
    return bool(stats.binomtest(wrong, repeats, risk, alternative="greater").pvalue < 1e-4)


def check_planner(
    planner: Planner,
    *,
    alpha: float = 0.05,
    repeats: int = 100,
    n0: int = 40,
    n: int = 150,
    lipschitz: float = 1.0,
    families: Iterable[str] = tuple(FAMILIES),
) -> None:
    """Check a planner; raise an AssertionError that describes the first fault.

    It checks that

    - plans are the same for the same scores, in any batches;
    - the map is the same for all scores if the planner's ``scope`` says so;
    - the planner can be pickled and does not change logits;
    - the proof accepts its plans for 2 to 1000 classes, and rejects them on the scores on which they were made;
    - false certificates are no more frequent than ``alpha``, by simulation on the ``families``.

    Args:
        planner: the planner to check.
        alpha: risk of each certificate.
        repeats: certificates for each family.
        n0: samples to plan on.
        n: samples to prove on.
        lipschitz: the Lipschitz constant of the terms.
        families: names from ``FAMILIES``.
    """
    name = type(planner).__name__
    _require(isinstance(planner, Planner), f"{name} is not derived from Planner")
    terms, n0 = Terms(SIGMA, alpha, n, lipschitz), checks.count("n0", n0, least=1)
    chosen = checks.instances("families", families, str, "names of families")
    for classes in (2, 3, 10, 1000):
        _check_plans(planner, name, terms, _random_family(classes, 20, classes), n0)
    for each in chosen:
        checks.one_of("families", each, FAMILIES)
        wrong = false_certificates(planner, FAMILIES[each], alpha, repeats=repeats, n0=n0, n=n, lipschitz=lipschitz)
        _require(
            not too_many(wrong, repeats, alpha),
            f"{name}: {wrong} of {repeats} certificates are false on the family {each!r}, at alpha = {alpha:g}",
        )


def _check_plans(planner: Planner, name: str, terms: Terms, known: Family, n0: int) -> None:
    random = np.random.default_rng(n0)
    logits, fresh = known.draw(random, n0), known.draw(random, terms.n)
    before = logits.clone()
    whole = planner.plan(made_up_scores(logits, SELECTION), terms)
    _require(torch.equal(logits, before), f"{name} changes the logits that it is shown")
    again = planner.plan(made_up_scores(torch.split(logits, 7), SELECTION), terms)
    _require(again == whole, f"{name} makes another plan from the same scores when asked again, in other batches")
    copy: Any = pickle.loads(pickle.dumps(planner))  # noqa: S301 (our own bytes)
    again = copy.plan(made_up_scores(logits, SELECTION), terms)
    _require(again == whole, f"{name} makes another plan after it was pickled")
    prove(whole, terms, made_up_scores(fresh))
    other = planner.plan(made_up_scores(fresh, SELECTION), terms)
    _require(
        planner.scope == "this input" or other.map == whole.map,
        f"{name} has the scope 'all inputs', but chooses another map for other scores",
    )
    with suppress(ProofError):
        prove(whole, terms, made_up_scores(fresh, SELECTION))
        _require(False, f"the proof accepts a plan of {name} on the scores that the plan was made on")


def _require(holds: bool, sentence: str) -> None:
    if not holds:
        raise AssertionError(sentence)
