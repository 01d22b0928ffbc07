"""When the samples show that a class does not win at a point.

A certificate is about a map (``lvmrs.kernel.maps``) and a class A. For duels, A wins if it wins more than half of its duels
with each rival; for a map to the simplex, if its mean score is the largest. So A does not win if for *some* rival k the
mean of a score in [0, 1] is above ½: the share of duels that A does not win, or (1 + h_k − h_A)/2. The rival is chosen
on other samples, and the mean is then bounded from below on fresh ones at the risk that is allowed.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from lvmrs.kernel.bounds import betting, clopper_pearson
from lvmrs.kernel.checks import Floats
from lvmrs.kernel.maps import Map

__all__ = ["rivals_of", "scores_against", "shown"]


def rivals_of(top: int, classes: int) -> list[int]:
    """All classes but this one, in order."""
    return [k for k in range(classes) if k != top]


def scores_against(map_: Map, logits: Tensor, top: int, rivals: list[int]) -> Floats:
    """For each sample and each rival, a score in [0, 1] whose mean is at most ½ if the top class wins.

    Args:
        map_: what is smoothed.
        logits: logits of noisy copies, of shape (copies, classes).
        top: the class that was certified.
        rivals: the rivals.

    Returns:
        An array of shape (copies, rivals).

    >>> from lvmrs.kernel.maps import Hardmax
    >>> from lvmrs.kernel.duels import Duel
    >>> logits = torch.tensor([[2.0, 0.0, 1.0], [0.5, 0.0, 1.0]])
    >>> scores_against(Duel(), logits, 0, [1, 2]).tolist(), scores_against(Hardmax(), logits, 0, [1, 2]).tolist()
    ([[0.0, 0.0], [0.0, 1.0]], [[0.0, 0.0], [0.5, 1.0]])
    """
    none = torch.tensor([], dtype=torch.long)
    columns = map_.columns(logits, top, torch.tensor(rivals), none).cpu().double().numpy()
    return 1 - columns if map_.paired else (1 + columns[:, 1:] - columns[:, :1]) / 2


def shown(map_: Map, scores: Floats, risk: float) -> bool:
    """Whether the scores against one rival show that the top class does not win; wrong with probability ≤ ``risk``.

    Args:
        map_: what is smoothed; 0/1 scores have exact bounds.
        scores: what ``scores_against`` gives for that rival, of fresh samples in the order in which they were drawn.
        risk: the probability with which this may be wrong.

    Votes for neither class say nothing about which of the two has more. So votes are compared by a binomial test among
    those for one of both, as Cohen et al. (2019) do for predictions.
    """
    if not map_.binary:
        return bool(betting.lower(np.clip(scores, 0.0, 1.0), risk) > 0.5)
    won, decided = int((scores == 1).sum()), int((scores != 0.5).sum())
    return decided > 0 and bool(clopper_pearson.lower(won, decided, risk) > 0.5)
