"""Averages several networks (Horváth et al. 2022, "Boosting Randomized Smoothing with Variance Reduced Classifiers").

The logits of networks that were trained alike vary independently under noise, so that their mean varies less, and the
mean wins more often. Certificates are about the ensemble as one classifier.

The members run one after the other in one list of steps (``lvmrs.engine.tracing``). One network whose convolutions
have a group of channels for each member takes longer on a CPU (``benchmarks/ensembles.py``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from lvmrs.errors import InvalidArgumentError, ModelError
from lvmrs.kernel import checks
from lvmrs.models.lipschitz.stated import known_lipschitz

Average = Literal["logits", "softmax"]


class Ensemble(nn.Module):
    """A classifier that averages the logits, or the softmax scores, of its members.

    Each member keeps its own normalisation (``lvmrs.models.Preprocessed``). Softmax scores are averaged, and the
    logarithm of the mean is returned: its argmax is that of the mean, its softmax is the mean, and scores close to 0 or
    1 keep their digits, so that methods treat the result as logits.

    Args:
        members: at least two torch modules, from images to logits of the same classes.
        average: what is averaged, "logits" or "softmax".

    >>> Ensemble([nn.Flatten(), nn.Sequential(nn.Flatten(), nn.ReLU())])(torch.tensor([[-2.0, 4.0]]))
    tensor([[-1.,  4.]])
    """

    def __init__(self, members: Sequence[nn.Module], average: Average = "logits") -> None:
        super().__init__()
        checks.instance("members", members, Sequence, "a list of torch modules")
        if len(members) < 2:
            raise InvalidArgumentError(f"members must be at least two torch modules, got {len(members)}")
        checks.one_of("average", average, ("logits", "softmax"))
        self.average = average
        for number, member in enumerate(members, start=1):
            checks.instance(f"member {number}", member, nn.Module, "a torch module")
            self.add_module(f"member_{number}", member)

    @property
    def members(self) -> list[nn.Module]:
        """The members, in the given order."""
        return [member for member in self._modules.values() if member is not None]

    @property
    def lipschitz(self) -> float | None:
        """The mean of the constants of the members; None if one is unknown, or if softmax scores are averaged."""
        constants = [known_lipschitz(member) for member in self.members]
        known = [constant for constant in constants if constant is not None]
        return self.mean_of(known) if self.average == "logits" and len(known) == len(constants) else None

    @staticmethod
    def mean_of(constants: Sequence[float]) -> float:
        """The constant of the mean of the logits: ‖mean of f_i(x) − f_i(y)‖ ≤ mean of L_i ‖x − y‖."""
        return math.fsum(constant / len(constants) for constant in constants)  # a sum of all could overflow

    def forward(self, x: Tensor) -> Tensor:
        """The logits for a batch of images with pixels in [0, 1]."""
        *others, last = self.members
        answers = [member(x.clone()) for member in others]  # a member may write to its inputs
        answers.append(last(x))
        first: Tensor = answers[0]
        for number, answer in enumerate(answers[1:], start=2):
            if answer.shape != first.shape:
                raise ModelError(
                    f"member {number} of the ensemble returns logits of shape {tuple(answer.shape)} for a batch and "
                    f"member 1 of shape {tuple(first.shape)}; average networks of the same classes"
                )
        if self.average != "logits":
            shares = torch.stack([answer.log_softmax(dim=1) for answer in answers])
            return shares.logsumexp(dim=0) - math.log(len(answers))
        total: Tensor = first
        for answer in answers[1:]:
            total = total + answer
        return total / len(answers)
