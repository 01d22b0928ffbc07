"""The test that a class does not win at a point.

A certificate is about a map (``lvmrs.kernel.maps``) and a class A. For duels, A wins if it wins more than half of its
duels with each rival; for a map to the simplex, A wins if its mean score is the largest. So A does not win if for
*some* rival k the mean of a score in [0, 1] is above ½: the share of duels that A does not win, or (1 + h_k − h_A)/2.
The search chooses the rival on other samples. The test then bounds the mean from below on fresh samples, at the given
risk.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from lvmrs.kernel.bounds import betting, clopper_pearson
from lvmrs.kernel.checks import Floats
from lvmrs.kernel.maps import Map

__all__ = ["rivals_of", "scores_against", "shows_defeat"]


def rivals_of(top: int, classes: int) -> list[int]:
    """All classes except ``top``, in order."""
    return [k for k in range(classes) if k != top]


def scores_against(map_: Map, logits: Tensor, top: int, rivals: list[int]) -> Floats:
    """For each sample and each rival, a score in [0, 1] whose mean is at most ½ if the top class wins.

    Args:
        map_: the map of the smoothed classifier.
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


def shows_defeat(map_: Map, scores: Floats, risk: float) -> bool:
    """Test whether one rival shows that the top class does not win; wrong with probability at most ``risk``.

    Votes for other classes carry no information about which of the two classes has more votes. So votes are compared by
    a binomial test among the votes for either of the two, as Cohen et al. (2019) do for predictions.

    Args:
        map_: the map of the smoothed classifier; 0/1 scores have exact bounds.
        scores: the column of ``scores_against`` for the rival, from fresh samples in the order of their drawing.
        risk: the probability of a wrong True.

    Returns:
        True if the test shows that the top class does not win.
    """
    if not map_.binary:
        return bool(betting.lower(np.clip(scores, 0.0, 1.0), risk) > 0.5)
    won, decided = int((scores == 1).sum()), int((scores != 0.5).sum())
    return decided > 0 and bool(clopper_pearson.lower(won, decided, risk) > 0.5)
