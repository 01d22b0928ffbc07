"""What a model returns: a batch of logits, or something that is refused with one sentence."""

from __future__ import annotations

import torch
from torch import Tensor

from lvmrs._torch_checks import all_finite
from lvmrs.errors import ModelError

__all__ = ["LOGITS", "check_logits"]

LOGITS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
"""The types that logits may have."""


def check_logits(logits: object, count: int, classes: int, *, finite: bool = True) -> None:
    """Refuse an answer of a model that is not a batch of finite logits of at least two classes.

    Args:
        logits: what the model returned.
        count: how many inputs it was given.
        classes: how many classes it had before; 0 if this is not known.
        finite: whether NaN and infinity are refused.
    """
    if not isinstance(logits, Tensor) or logits.layout != torch.strided:
        kind = type(logits).__name__ if not isinstance(logits, Tensor) else f"a tensor of layout {logits.layout}"
        raise ModelError(f"the model returned {kind}, not a tensor of logits; wrap it so that it returns logits only")
    if logits.dim() != 2 or len(logits) != count:
        shape = tuple(logits.shape)
        raise ModelError(f"the model returned shape {shape} for {count} inputs; expected ({count}, classes)")
    if logits.shape[1] < 2:
        raise ModelError("the model returned fewer than two classes; for a single logit z, return (z, −z)")
    if classes and logits.shape[1] != classes:
        raise ModelError(f"the model returned {logits.shape[1]} classes after {classes}; it must be the same each time")
    if logits.dtype not in LOGITS or logits.is_meta:
        kind = "a tensor without values (device meta)" if logits.is_meta else str(logits.dtype)
        raise ModelError(f"the model returned {kind}; expected floating-point logits")
    if finite and not all_finite(logits):
        bad = int((~torch.isfinite(logits)).any(dim=1).sum())
        raise ModelError(
            f"the model returned NaN or infinity for {bad} of {count} noisy inputs; it cannot be certified"
        )
