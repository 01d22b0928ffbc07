"""The interface of the kinds of noise."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lvmrs.errors import InvalidArgumentError, shown

__all__ = ["Noise", "check_noise"]

# The module and name of our own class of each name: a class of somebody else must have another name.
_OWNERS: dict[str, tuple[str, str]] = {}


@dataclass(frozen=True)
class Noise(ABC):
    """A distribution of noise, which is scaled by σ and added to an input.

    Authors write ``fill`` and ``words``. Certificates and runs record a noise by its ``spelling``, so the spelling must
    say everything about it. The proof refuses a plan whose form of the radius is not a theorem about the law of this
    noise (``Form.noises``).
    """

    name: ClassVar[str]
    """The name in ``lvmrs.registry.NOISES``."""
    distance: ClassVar[str]
    """The distance in which radii are measured, in words that fit after "in"."""
    length: ClassVar[str]
    """The distance between x' and x, as a formula."""
    law: ClassVar[str]
    """The name of the distribution that theorems are about; by default the name of the noise."""
    rounds: ClassVar[bool] = False
    """Whether inputs are rounded after the noise: then what is smoothed has no Lipschitz constant."""
    drawn_on_device: ClassVar[bool] = False
    """Whether ``fill_there`` can draw it on other devices than the CPU; else it is drawn on the CPU and copied."""

    def __init_subclass__(cls, **settings: Any) -> None:
        """Take the name for the law, unless the class says another."""
        super().__init_subclass__(**settings)
        if "name" in vars(cls) and "law" not in vars(cls):
            cls.law = cls.name
        if cls.__module__.startswith("lvmrs."):
            _OWNERS.setdefault(getattr(cls, "name", ""), _home(cls))

    @property
    def centre(self) -> str:
        """Which point x certificates are about, in words; nothing if it is the input as it is given."""
        return ""

    @property
    def setting(self) -> str:
        """What the spelling says after the name; nothing for a noise without settings."""
        return ""

    @classmethod
    def of(cls, setting: str) -> Noise:
        """The noise with this setting."""
        if setting:
            raise InvalidArgumentError(f"the noise {cls.name} has no settings, got {cls.name}:{setting:.20}")
        return cls()

    @property
    def spelling(self) -> str:
        """The name, and the setting if there is one, as a user writes it: ``exact:16``."""
        return f"{self.name}:{self.setting}" if self.setting else self.name

    @abstractmethod
    def words(self, sigma: float) -> str:
        """The noise at this σ, in words that fit after "smoothed with"."""

    @abstractmethod
    def fill(self, out: NDArray[Any], generator: np.random.Generator, sigma: float) -> None:
        """Overwrite ``out`` with independent draws; all randomness must come from this generator.

        Args:
            out: a contiguous array of the type that ``kind`` says.
            generator: the source of randomness.
            sigma: σ, for noise that is not drawn at σ = 1 and scaled by ``combine``.
        """

    def fill_there(self, out: Tensor, generator: torch.Generator) -> None:
        """Do the same on the device of ``out``, at σ = 1; only where ``drawn_on_device`` is true."""
        raise NotImplementedError

    def kind(self, sigma: float, dtype: torch.dtype) -> torch.dtype:
        """The type of the draws, for inputs of this type; by default the same."""
        return dtype

    def base(self, x: Tensor) -> Tensor:
        """What the noise is added to; by default the input. An input that does not suit the noise is refused."""
        return x

    def combine(self, base: Tensor, drawn: Tensor, sigma: float, out: Tensor) -> Tensor:
        """Write noisy copies of the input into ``out``: by default base + σ · drawn."""
        return torch.add(base, drawn, alpha=sigma, out=out)

    def error(self, sigma: float) -> float:
        """Bound on the total variation distance between one number as it is drawn and as the theorems mean it.

        It is counted as risk, for each number of each sample. 0 is for noise in floating point, about whose rounding
        nothing is promised.
        """
        return 0.0


def _home(kind: type) -> tuple[str, str]:
    return kind.__module__, kind.__qualname__


def check_noise(noise: object) -> None:
    """Refuse what is no noise, or what its spelling does not describe: certificates and runs record the spelling."""
    if not isinstance(noise, Noise):
        raise InvalidArgumentError(f"noise must be a Noise such as Gaussian(), got {shown(noise)}")
    kind = type(noise)
    if (owner := _OWNERS.get(noise.name, _home(kind))) != _home(kind):
        raise InvalidArgumentError(
            f"{kind.__name__} has the name {noise.name!r} of {owner[1]}; give it a name of its own"
        )
    stated = {field.name for field in dataclasses.fields(noise)}
    if set(vars(noise)) - stated or kind.of(noise.setting) != noise:
        raise InvalidArgumentError(
            f"{kind.__name__} has settings that its spelling {noise.spelling!r} does not say; write setting and of so "
            "that of(setting) is the same noise"
        )
