"""How good the confidence bounds are: Φ⁻¹ of the lower bound, averaged over draws. Larger is better.

Prints the tables of docs/bounds.md, and ends with exit code 1 if betting misses one of its three promises:
no worse than empirical Bernstein in any row; within 1 % of Clopper–Pearson on 0/1 data and within 1 % of the normal
limit, for n ≥ 10 000.

    python benchmarks/bounds.py [--write docs/bounds.md]
"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special, stats

from lvmrs.kernel.bounds import bernstein, betting, clopper_pearson

Floats = NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], Floats]

# The rows of the first table, and how many draws they are averaged over.
PUBLISHED = [
    (10_000, "all 1"),
    (10_000, "Bernoulli(.99)"),
    (10_000, "Bernoulli(.6)"),
    (10_000, "Beta(60,2)"),
    (10_000, "1−Beta(.02,2)"),
    (100_000, "Beta(60,2)"),
    (100_000, "1−Beta(.02,2)"),
]
DRAWS = {1_000: 100, 10_000: 40, 100_000: 20}


def bernoulli(p: float) -> Draw:
    return lambda random, n: (random.random(n) < p).astype(float)


DISTRIBUTIONS: dict[str, Draw] = {
    "all 1": lambda random, n: np.ones(n),
    "Bernoulli(.999)": bernoulli(0.999),
    "Bernoulli(.99)": bernoulli(0.99),
    "Bernoulli(.9)": bernoulli(0.9),
    "Bernoulli(.6)": bernoulli(0.6),
    "Beta(60,2)": lambda random, n: random.beta(60, 2, n),
    "1−Beta(.02,2)": lambda random, n: 1 - random.beta(0.02, 2, n),
    "Beta(2,1)": lambda random, n: random.beta(2, 1, n),
    "Beta(600,400)": lambda random, n: random.beta(600, 400, n),
    "two points near 1": lambda random, n: np.where(random.random(n) < 0.3, 0.97, 0.999),
    "rarely far below 1": lambda random, n: np.where(random.random(n) < 0.004, 0.2, 0.999),
    "Beta(2,6)": lambda random, n: random.beta(2, 6, n),
}


def one_stake(samples: Floats, risk: float) -> float:
    """Betting with λ = √(2 ln(1/risk)/(n V)) for every m, V known beforehand: wealth falls in m, so bisection holds."""
    stake = np.sqrt(2 * np.log(1 / risk) / (len(samples) * max(samples.var(), 1e-12)))

    def excess(m: float) -> float:
        return float(np.log1p(min(stake, 0.999 / m) * (samples - m)).sum() - np.log(1 / risk))

    return float(optimize.brentq(excess, 1e-9, 1 - 1e-12)) if excess(1e-9) > 0 else 0.0


class StarWealth(betting.WealthProcess):
    """The wealth process with the stakes of STaR-Bets (arXiv 2505.22422): the aim recalculated, without the hedge."""

    def _stakes(self, left: int, log_price: Floats, *, about: Floats, most: Floats | float) -> Floats:
        _, sums, squares, _ = self.power_sums
        spread = np.maximum(squares - 2 * about * sums + self.seen * about**2, 0.0)
        variance = np.minimum((0.25 + spread) / (1 + self.seen), most) + 1e-300
        stakes: Floats = np.sqrt(-2 * log_price / (left * variance))
        return stakes


def star(samples: Floats, risk: float) -> float:
    process = StarWealth(len(samples), np.array([risk]))
    process.add(samples[None])
    return float(process.bound()[0])


def row(n: int, draw: Draw, risk: float) -> dict[str, float]:
    """Φ⁻¹ of every bound, averaged."""
    random = np.random.default_rng([n, 0])
    samples = np.stack([draw(random, n) for _ in range(DRAWS[n])])
    mean, variance = samples.mean(axis=-1), samples.var(axis=-1, ddof=1)
    bounds = {
        "Bernstein": bernstein.lower(mean, variance, n, risk),
        "one stake": np.array([one_stake(row, risk) for row in samples]),
        "aim recalculated": np.array([star(row, risk) for row in samples]),
        "betting": betting.lower(samples, risk),
    }
    if ((samples == 0) | (samples == 1)).all():
        bounds["Clopper–Pearson"] = clopper_pearson.lower(samples.sum(axis=-1), n, risk)
    # The limit is out of reach, and not a bound, where few samples carry the variance (Berry and Esseen's condition).
    if variance.min() > 0 and abs(stats.skew(samples.ravel())) / np.sqrt(n) < 0.1:
        bounds["normal limit"] = mean + special.ndtri(risk) * np.sqrt(variance / n)
    return {name: float(special.ndtri(np.clip(values, 1e-12, 1 - 1e-12)).mean()) for name, values in bounds.items()}


COLUMNS = ["Bernstein", "Clopper–Pearson", "one stake", "aim recalculated", "betting", "normal limit"]


def table(rows: list[tuple[int, str]], risk: float) -> tuple[list[str], list[str]]:
    """Markdown lines, and a sentence for each promise that is not kept."""
    lines = ["| n | Z | " + " | ".join(COLUMNS) + " |", "|---|---|" + "---|" * len(COLUMNS)]
    broken = []
    for n, name in rows:
        values = row(n, DISTRIBUTIONS[name], risk)
        cells = [f"{values[column]:.4f}" if column in values else "–" for column in COLUMNS]
        lines.append(f"| {n} | {name} | " + " | ".join(cells) + " |")
        ours = values["betting"]
        if ours < values["Bernstein"]:
            broken.append(f"{name}, n = {n}, risk {risk}: betting {ours:.4f} below Bernstein {values['Bernstein']:.4f}")
        for reference in ("Clopper–Pearson", "normal limit"):
            if n >= 10_000 and reference in values and ours < values[reference] - 0.01 * abs(values[reference]):
                broken.append(f"{name}, n = {n}, risk {risk}: betting {ours:.4f}, {reference} {values[reference]:.4f}")
    return lines, broken


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path, help="put the tables into this file, after its line 'Made by'")
    path = parser.parse_args().write
    wide = [(n, name) for n in DRAWS for name in DISTRIBUTIONS]
    published, broken = table(PUBLISHED, 0.001)
    text = ["", "Risk 0.001:", "", *published]
    for risk in (0.001, 0.05):
        lines, more = table(wide, risk)
        broken += more
        text += ["", f"A wider table, risk {risk}:", "", *lines]
    draws = ", ".join(f"{count} at n = {n}" for n, count in DRAWS.items())
    text = [f"Made by `make bounds`: averages over {draws}, seeds fixed.", *text, ""]
    if path:
        head = path.read_text(encoding="utf-8").split("Made by `make bounds`")[0]
        path.write_text(head + "\n".join(text), encoding="utf-8")
    else:
        print("\n".join(text))
    for sentence in broken:
        print("promise not kept:", sentence, file=sys.stderr)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
