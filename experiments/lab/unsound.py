"""The rule of the paper's published code, for comparison: it is not sound, and nothing else uses it."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict

import numpy as np
import torch
from torch import Tensor

from lab.cases import Case
from lab.methods import PUBLISHED, Certified, place_of
from lvmrs import Run
from lvmrs.kernel import radius
from lvmrs.kernel.bounds import bernstein, clopper_pearson
from lvmrs.planners.search import ScoreMoments
from lvmrs.record.scores import KeptScores

__all__ = ["best_on", "published"]

# The published code multiplies logits by 1, by 100 numbers from 0.1 to 50, and by 10⁷, which is as good as a vote.
_TEMPERATURES = tuple(sorted(1 / factor for factor in (1.0, *np.linspace(0.1, 50.0, 100).tolist(), 1e7)))


def published(case: Case, n0: int | None = None, n: int | None = None) -> Certified:
    """Certify by the rule of the paper's published code, whose certificates do not hold at risk α.

    The largest R2 of votes (Clopper–Pearson) and 204 soft maps (Bernstein), each with the risk shared by all classes,
    is taken on the certification sample itself: the sample that chose the map also bounds its scores. Where the code
    differs from the paper's formulas in other ways, the formulas are taken: variances are of all samples and not means
    over batches, and the scores of the rivals are at most what the top class leaves.
    """
    n0, n = n0 or case.size.n0, n or case.size.n
    file = place_of(case, PUBLISHED, n0, n).with_suffix(".json")
    if file.exists():
        return Certified(**json.loads(file.read_text(encoding="utf-8")))
    found = _published(case.run, n)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(asdict(found)), encoding="utf-8")
    return found


def _published(run: Run, n: int) -> Certified:
    kept, terms = KeptScores.of(run), run.manifest.terms
    rows = sorted(run.rows(), key=lambda row: row.idx)
    radii, right, lows, maps = [], [], [], Counter[str]()
    for row in rows:
        logits = torch.cat(list(kept.logits(row.idx, "certification", n)))
        top, size, low, name = best_on(logits, terms.sigma or 0.0, terms.alpha or 0.0)
        answer = top if size > 0 else -1
        radii.append(size if answer == row.label else 0.0)
        right.append(answer == row.label)
        lows.append(low)
        maps[name] += int(size > 0)
    return Certified([row.idx for row in rows], radii, right, lows, dict(maps), 0.0)


def best_on(logits: Tensor, sigma: float, alpha: float) -> tuple[int, float, float, str]:
    """Class, radius, lower bound and map of the best candidate on these samples."""
    n, classes = logits.shape
    risk = alpha / classes
    votes = ScoreMoments.of([logits], maps=("hardmax",))
    soft = ScoreMoments.of([logits], maps=("softmax", "sparsemax"), temperatures=_TEMPERATURES)
    counts = np.round(votes.mean * n)
    low = np.vstack([clopper_pearson.lower(counts, n, risk), bernstein.lower(soft.mean, soft.variance, n, risk)])
    high = np.vstack([
        1 - clopper_pearson.lower(n - counts, n, risk), 1 - bernstein.lower(1 - soft.mean, soft.variance, n, risk),
    ])  # fmt: skip
    tops = np.concatenate([votes.tops, soft.tops])
    each = np.arange(len(tops))
    p_a = np.clip(low[each, tops], 0.0, 1.0)
    high[each, tops] = 0.0
    p_b = np.minimum(np.clip(high.max(axis=1), 0.0, 1.0), 1 - p_a)
    sizes = np.where(p_a > p_b, radius.r2(np.maximum(p_a, p_b), np.minimum(p_a, p_b), sigma=sigma), 0.0)
    best = int(sizes.argmax())
    return int(tops[best]), float(sizes[best]), float(p_a[best]), (*votes.maps, *soft.maps)[best].name
