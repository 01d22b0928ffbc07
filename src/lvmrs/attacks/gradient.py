"""The gradient for the search: that of the averaged softmax, as in SmoothAdv (Salman et al. 2019).

Let p_k be the mean over noisy copies of the softmax score of class k. The search increases log p_k − log p_A for a
rival k of the certified class A. This is the cross-entropy of the averaged scores with label A, minus that with label
k; the mean is inside the logarithm. For duels the softmax is over the two classes k and A only. The search uses the
softmax also for hardmax and hard duels, because these have no useful gradient.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

from lvmrs.errors import ModelError
from lvmrs.kernel.sampler import Sampler, check_logits

__all__ = ["lead_gradient", "leads"]


def leads(logits: Tensor, top: int, temperature: float, *, paired: bool) -> Tensor:
    """The lead log p_k − log p_A of every class k; −∞ for A itself.

    Args:
        logits: logits of noisy copies, of shape (copies, classes).
        top: the class A.
        temperature: divides the logits.
        paired: True for a softmax over each rival and A; False for a softmax over all classes.

    Returns:
        A tensor of shape (classes,).

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
    """The gradient of a rival's lead with respect to the input of the noisy copies.

    Args:
        sampler: runs the model.
        copies: noisy copies of the input, of shape (copies, …).
        top: the certified class.
        rival: the rival whose lead should increase; None: the rival with the largest lead on these copies.
        temperature: as in ``leads``.
        paired: as in ``leads``.

    Returns:
        A tensor of the shape of one input: the sum of the gradients of all copies.
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
