"""Certificates without noise or risk, for a classifier whose logits have a known Lipschitz constant.

The logits of two classes cannot become equal closer to the input than margin/(√2 L) (Tsuzuku et al. 2018). This method
needs no samples, no plan and no statistical proof. Its certificates are about the network itself, not about a smoothed
classifier: about the network in exact arithmetic, and about the network as it runs, if rounding moves each logit by no
more than an allowance (``lvmrs.kernel.rounding``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from lvmrs.errors import ProofError
from lvmrs.kernel import checks
from lvmrs.kernel.certificate import PROOF_KEY, Certificate
from lvmrs.kernel.method import ABSTAIN, Method, Scope
from lvmrs.kernel.noise import Gaussian

# Float64 rounds by less than this share of the largest logit. An error of 10⁻⁹ of the Lipschitz constant, the accuracy
# of the constants of ``lvmrs.models``, changes a margin by less than this too.
_LEAST = 2.0**-28


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
        """Describes the network itself."""
        return "the classifier itself"

    def certify(self, logits: Tensor, lipschitz: float, rounding: float = 0.0) -> Certificate:
        """Certify one input from its logits.

        Args:
            logits: the logits of the input without noise, one for each class.
            lipschitz: a finite Lipschitz constant of the logits, in the Euclidean norm.
            rounding: how far rounding moves each logit at most, at the input and within the radius. It is raised to at
                least one unit in the last place of the largest logit, and to at least 2⁻²⁸ of it.

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
        rounding = checks.nonnegative_number("rounding", rounding)
        rounding = max(rounding, max(_LEAST, torch.finfo(logits.dtype).eps) * float(values.abs().max()))
        first, second = (float(value) for value in values.topk(2).values)
        # Rounding may lower the top logit at x' by this much, and raise another logit.
        first, second = first - rounding, second + rounding
        radius = max(0.0, first - second) / (math.sqrt(2) * lipschitz)
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
            rounding=rounding,
            made_by=PROOF_KEY,
        )
