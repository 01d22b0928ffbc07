"""Counting false certificates: families of logits whose smoothed scores are known exactly, for every map.

Each family is a handful of logit vectors with probabilities, so that the mean of any map of them is a finite sum. A
certificate counts as false if its class does not have the largest mean score, if its radius exceeds the radius that
the exact means have, or, more strictly than its words, if one of its two bounds does not hold.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from lvmrs import Plan, Planner, Terms, prove, radius, simplex
from lvmrs import lipschitz as constants
from lvmrs.prove import ABSTAIN, Certificate
from lvmrs.sampling import Stream
from tests.oracles import Floats

Prover = Callable[[Planner, Terms, Tensor, Tensor], Certificate]
SELECTION, CERTIFICATION = Stream(0, 0, "selection"), Stream(0, 0, "certification")


@dataclass(frozen=True)
class Family:
    """Logit vectors (atoms, classes) and their probabilities."""

    atoms: Tensor
    weights: Floats

    def draw(self, random: np.random.Generator, n: int) -> Tensor:
        return self.atoms[random.choice(len(self.weights), n, p=self.weights)]

    def mean(self, plan: Plan) -> Floats:
        maps = {"hardmax": simplex.hardmax, "softmax": simplex.softmax, "sparsemax": simplex.sparsemax}
        p = maps[plan.map](self.atoms.double(), temperature=plan.temperature, mass=plan.mass)
        mean: Floats = self.weights @ p.numpy()
        return mean


def family(rows: list[tuple[float, list[float]]]) -> Family:
    weights = np.array([weight for weight, _ in rows])
    return Family(torch.tensor([logits for _, logits in rows]), weights / weights.sum())


def one_hot(winner: int, classes: int, size: float) -> list[float]:
    return [size if k == winner else 0.0 for k in range(classes)]


def _random_family(classes: int, atoms: int, seed: int) -> Family:
    random = np.random.default_rng(seed)
    logits = torch.from_numpy(random.standard_normal((atoms, classes)) * random.uniform(0.2, 3, (atoms, 1))).float()
    logits[:, 0] += 1.0
    return Family(logits, random.dirichlet(np.ones(atoms)))


def _tie_that_turns_with_temperature() -> Family:
    """Class 0 wins more often, class 1 by more: hot maps favour one, cold maps the other, and some are a tie."""
    rows = [(0.54 / 20, [0.4 + 0.02 * i, 0.0, -0.3]) for i in range(20)]
    rows += [(0.46 / 20, [0.0, 0.5 + 0.03 * i, -0.3]) for i in range(20)]
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
}


def is_false(certificate: Certificate, family: Family, lipschitz: float) -> bool:
    plan = certificate.plan
    mean = np.clip(family.mean(plan), 0.0, plan.mass)
    p_a, p_b = float(mean[plan.top]), float(np.delete(mean, plan.top).max())
    if certificate.p_lower > p_a + 1e-9 or certificate.p_upper < p_b - 1e-9:
        return True
    if certificate.prediction == ABSTAIN:
        return False
    terms = {"sigma": certificate.sigma, "mass": plan.mass}
    scores = {"temperature": plan.temperature, "mass": plan.mass}
    slope = constants.of_map(plan.map, lipschitz, of="vector", **scores)
    if plan.radius == "ramp":
        one = constants.of_map(plan.map, lipschitz, of="class", **scores)
        true = radius.ramp(p_a, p_b, lipschitz=slope, class_lipschitz=one, **terms)
    elif plan.radius.startswith("r1"):
        known = slope if plan.radius == "r1" else np.inf
        true = radius.r1(p_a, p_b, lipschitz=constants.smoothed(known, of="vector", **terms), mass=plan.mass)
    else:
        true = radius.r2(p_a, p_b, **terms)
    return bool(certificate.radius > true + 1e-9)


def honest(planner: Planner, terms: Terms, selection: Tensor, certification: Tensor) -> Certificate:
    plan = planner.plan([selection], terms, SELECTION)
    return prove.prove(plan, terms, [certification], CERTIFICATION, n0=len(selection))


def false_certificates(
    planner: Planner,
    family: Family,
    alpha: float,
    *,
    repeats: int,
    n0: int,
    n: int,
    lipschitz: float,
    by: Prover = honest,
) -> int:
    """How many of ``repeats`` certificates, each from samples of its own, are false."""
    random = np.random.default_rng([n0, n, repeats])
    terms = Terms(0.5, alpha, n, lipschitz)
    certificates = (by(planner, terms, family.draw(random, n0), family.draw(random, n)) for _ in range(repeats))
    return sum(is_false(certificate, family, lipschitz) for certificate in certificates)
