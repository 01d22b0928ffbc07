"""Certificates without noise or risk, for a classifier whose logits have a known Lipschitz constant.

The logits of two classes cannot become equal closer to the input than margin/(√2 L) (Tsuzuku et al. 2018). This needs
no samples, no plan and no proof on other samples, so it is a certifier of its own. Its certificates are about the
network itself, not about a smoothed classifier.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from lvmrs.certificate import ABSTAIN, BY_A_PROOF, Certificate
from lvmrs.errors import ProofError
from lvmrs.method import Method
from lvmrs.noise import Gaussian
from lvmrs.plan import Scope

__all__ = ["Deterministic"]


@dataclass(frozen=True)
class Deterministic(Method):
    """Certifies the radius margin/(√2 L) of the logits, without risk."""

    samples: ClassVar[bool] = False
    scope: ClassVar[Scope] = "all inputs"
    needs_constant: ClassVar[bool] = True
    settled: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("bound", "map", "temperature", "mass", "form", "width"),
        "it takes the margin of the logits as they are, without noise",
    )

    def classifier(self, noise: str) -> str:
        """The network itself, in words."""
        return "the classifier itself"

    def certify(self, logits: Tensor, lipschitz: float) -> Certificate:
        """Certify one input from its logits.

        Args:
            logits: the logits of the input without noise, one for each class.
            lipschitz: a finite Lipschitz constant of the logits, in the Euclidean norm.

        Returns:
            The certificate; its radius is 0 if the two largest logits are equal.

        >>> Deterministic().certify(torch.tensor([3.0, 1.0, 0.0]), lipschitz=1.0).guarantee.partition(". ")[0]
        "Certainly, for every x' with ‖x' − x‖₂ < 1.4142 the classifier itself answers with class 0"
        """
        if logits.dim() != 1 or len(logits) < 2 or not torch.isfinite(logits).all():
            raise ProofError(f"expected the finite logits of one input, got {logits!r:.80}")
        if not 0 < lipschitz < math.inf:
            raise ProofError(f"a deterministic certificate needs a finite Lipschitz constant, got {lipschitz}")
        values = logits.double()
        top = int(values.argmax())
        first, second = (float(value) for value in values.topk(2).values)
        radius = (first - second) / (math.sqrt(2) * lipschitz)
        return Certificate(
            prediction=top if radius > 0 else ABSTAIN,
            radius=radius,
            top=top,
            p_lower=first,
            p_upper=second,
            classes=len(values),
            sigma=0.0,
            alpha=0.0,
            noise_risk=0.0,
            n=0,
            lipschitz=lipschitz,
            noise=Gaussian(),
            plan=None,
            stream=None,
            made_by=BY_A_PROOF,
        )
