"""The gradient for the search, and the test that a class does not win at a point.

**The gradient** is that of the averaged softmax, as in SmoothAdv (Salman et al. 2019). Let p_k be the mean over noisy
copies of the softmax score of class k. The search increases log p_k − log p_A for a rival k of the certified class A.
This is the cross-entropy of the averaged scores with label A, minus that with label k; the mean is inside the
logarithm. For duels the softmax is over the two classes k and A only. The search uses the softmax also for hardmax and
hard duels, because these have no useful gradient.

**The test.** A certificate is about a map (``lvmrs.kernel.maps``) and a class A. For duels, A wins if it wins more than
half of its duels with each rival; for a map to the simplex, A wins if its mean score is the largest. So A does not win
if for *some* rival k the mean of a score in [0, 1] is above ½: the share of duels that A does not win, or
(1 + h_k − h_A)/2. The search chooses the rival on other samples. The test then bounds the mean from below on fresh
samples, at the given risk.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from lvmrs.errors import ModelError
from lvmrs.kernel.bounds import betting, clopper_pearson
from lvmrs.kernel.checks import Floats
from lvmrs.kernel.maps import Map
from lvmrs.kernel.sampler import Sampler, check_logits


def leads(logits: Tensor, top: int, temperature: float, *, paired: bool) -> Tensor:
    """The lead log p_k − log p_A of every class k over A = ``top``, from logits (copies, classes); −∞ for A itself.

    If ``paired``, the softmax is over each rival and A, and otherwise over all classes.

    >>> leads(torch.tensor([[2.0, 0.0, 1.0]]), 0, 1.0, paired=True).tolist()
    [-inf, -2.0, -1.0]
    """
    scaled = (logits.float() if logits.dtype.itemsize < 4 else logits) / temperature
    if paired:
        margins = scaled - scaled[:, top : top + 1]
        found = _log_mean(functional.logsigmoid(margins)) - _log_mean(functional.logsigmoid(-margins))
    else:
        shares = _log_mean(functional.log_softmax(scaled, dim=1))
        found = shares - shares[top]
    return found.index_fill(0, torch.tensor([top], device=found.device), -math.inf)


def _log_mean(logarithms: Tensor) -> Tensor:
    return logarithms.logsumexp(dim=0) - math.log(len(logarithms))


def lead_gradient(
    sampler: Sampler, copies: Tensor, top: int, rival: int | None, temperature: float, *, paired: bool
) -> Tensor:
    """The gradient of a rival's lead with respect to the input of the noisy copies: the sum over all copies.

    Without a rival, the gradient is that of the rival with the largest lead on these copies.
    """
    with torch.inference_mode(False):
        inputs = copies.detach().clone().requires_grad_(True)
        logits = sampler.forward(inputs, gradients=True)
        check_logits(logits, len(inputs), 0)
        if not logits.requires_grad:
            raise ModelError("the model has no gradients, which an attack needs; give the network itself")
        with torch.enable_grad():
            found = leads(logits, top, temperature, paired=paired)
            lead = found[int(found.argmax()) if rival is None else rival]
        try:
            (gradient,) = torch.autograd.grad(lead, inputs, allow_unused=True)
        except RuntimeError as error:
            raise ModelError(f"the model has no gradients, which an attack needs ({str(error)[:200]})") from error
    if gradient is None:
        raise ModelError("the logits have no gradient with respect to the input, which an attack needs")
    whole = gradient.sum(dim=0)
    if not torch.isfinite(whole).all():
        raise ModelError("the gradients of the model are NaN or infinite, and an attack cannot use them")
    return whole


def scores_against(map_: Map, logits: Tensor, top: int, rivals: list[int]) -> Floats:
    """Scores in [0, 1] of shape (copies, rivals), whose means are at most ½ if the top class wins.

    >>> from lvmrs.kernel.maps import Hardmax
    >>> from lvmrs.kernel.maps import Duel
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
    a binomial test among the votes for either of the two, as Cohen et al. (2019) do for predictions. ``scores`` is the
    column of ``scores_against`` for the rival, from fresh samples in the order of their drawing.
    """
    if not map_.binary:
        return bool(betting.lower(np.clip(scores, 0.0, 1.0), risk) > 0.5)
    won, decided = int((scores == 1).sum()), int((scores != 0.5).sum())
    return decided > 0 and bool(clopper_pearson.lower(won, decided, risk) > 0.5)
