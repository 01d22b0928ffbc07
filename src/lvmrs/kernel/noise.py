"""Noise: the interface of its kinds, Gaussian noise, and reproducible streams."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lvmrs.errors import InvalidArgumentError, shown
from lvmrs.kernel import checks

# The module and class of each built-in noise, by name: a user's class must have another name.
_OWNERS: dict[str, tuple[str, str]] = {}


@dataclass(frozen=True)
class Noise(ABC):
    """A distribution of noise, which is scaled by σ and added to an input.

    Authors implement ``fill`` and ``words``. Certificates and runs record a noise by its ``spelling``, so it must
    describe the noise completely. The proof rejects a plan whose form of the radius is not a theorem about the law of
    this noise (``Form.noises``).
    """

    name: ClassVar[str]
    """The name in ``lvmrs.registry.NOISES``."""
    distance: ClassVar[str]
    """The distance in which radii are measured, as a phrase after "in"."""
    length: ClassVar[str]
    """The distance between x' and x, as a formula."""
    law: ClassVar[str]
    """The name of the distribution in theorems; by default the name of the noise."""
    rounds: ClassVar[bool] = False
    """Whether noisy inputs are rounded, so that the scores before smoothing have no Lipschitz constant."""
    drawn_on_device: ClassVar[bool] = False
    """Whether ``draw_on_device`` can draw on other devices; otherwise noise is drawn on the CPU and copied."""

    same_everywhere: ClassVar[bool] = False
    """Whether every kind of device draws the same numbers, so that one run may use several kinds."""

    def __init_subclass__(cls, **settings: Any) -> None:
        """Set the law to the name by default."""
        super().__init_subclass__(**settings)
        if "name" in vars(cls) and "law" not in vars(cls):
            cls.law = cls.name
        if cls.__module__.startswith("lvmrs."):
            _OWNERS.setdefault(getattr(cls, "name", ""), _home(cls))

    @property
    def centre(self) -> str:
        """Describes the point x of certificates; empty if it is the input itself."""
        return ""

    @property
    def setting(self) -> str:
        """The part of the spelling after the name; empty for a noise without settings."""
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
        """The noise at this σ, as a phrase after "smoothed with"."""

    @abstractmethod
    def fill(self, out: NDArray[Any], generator: np.random.Generator, sigma: float) -> None:
        """Overwrite ``out`` with independent draws; all randomness must come from this generator.

        Args:
            out: a contiguous array of the type that ``kind`` returns.
            generator: the source of randomness.
            sigma: σ, for noise that is not drawn at σ = 1 and scaled by ``combine``.
        """

    def draw_on_device(self, stream: Stream, samples: range, shape: torch.Size, sigma: float, like: Tensor) -> Tensor:
        """Draw the noise of some samples of a stream on another device; only if ``drawn_on_device`` is true.

        Args:
            stream: the stream.
            samples: the numbers of the samples.
            shape: the shape of one sample.
            sigma: σ, for noise that is not drawn at σ = 1.
            like: an empty tensor on the device, of the type that ``kind`` returns.
        """
        raise NotImplementedError

    def block_on_device(self, shape: torch.Size) -> int:
        """The number of samples that ``draw_on_device`` draws at a time; unused ones are wasted."""
        return samples_per_block(shape)

    def kind(self, sigma: float, dtype: torch.dtype) -> torch.dtype:
        """The type of the draws, for inputs of this type; by default the same."""
        return dtype

    def base(self, x: Tensor) -> Tensor:
        """The tensor to which noise is added; by default the input. Raises for an unsuitable input."""
        return x

    def combine(self, base: Tensor, drawn: Tensor, sigma: float, out: Tensor) -> Tensor:
        """Write noisy copies of the input into ``out``: by default base + σ · drawn."""
        return torch.add(base, drawn, alpha=sigma, out=out)

    def error(self, sigma: float) -> float:
        """Bound on the total variation distance between one drawn number and the distribution of the theorems.

        The proof reserves this much of alpha for each number of each sample. Floating-point noise returns 0: its
        rounding is not covered.
        """
        return 0.0


def _home(kind: type) -> tuple[str, str]:
    return kind.__module__, kind.__qualname__


def check_noise(noise: object) -> None:
    """Raise if an object is no noise, or its spelling is incomplete: certificates and runs record the spelling."""
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
            f"{kind.__name__} has settings that its spelling {noise.spelling!r} leaves out; write setting and of so "
            "that of(setting) is the same noise"
        )


# ---------------------------------------------------------------------------------------------------------------------
# Isotropic Gaussian noise, as in Cohen et al. (2019) and LVM-RS.


@dataclass(frozen=True)
class Gaussian(Noise):
    """Independent normal numbers of standard deviation σ, in floating point; radii are Euclidean.

    x + δ is rounded to a floating-point number, which the theorems do not cover. For inputs on a grid,
    ``ExactGaussian`` has no such rounding.

    >>> Gaussian().words(0.5)
    'Gaussian noise of σ = 0.5'
    """

    name: ClassVar[str] = "gaussian"
    distance: ClassVar[str] = "the Euclidean distance"
    length: ClassVar[str] = "‖x' − x‖₂"
    drawn_on_device: ClassVar[bool] = True

    def fill(self, out: NDArray[Any], generator: np.random.Generator, sigma: float) -> None:
        """Overwrite ``out`` with standard normal numbers, whose tails reach beyond 8σ."""
        generator.standard_normal(dtype=out.dtype, out=out)

    def draw_on_device(self, stream: Stream, samples: range, shape: torch.Size, sigma: float, like: Tensor) -> Tensor:
        """Draw standard normal numbers by torch's generator, which differ from those of the CPU.

        The seed of a block is a hash of 64 bits of stream and block: two blocks share noise with probability 2⁻⁶⁴.
        """
        size = self.block_on_device(shape)
        blocks = range(samples.start // size, (samples.stop - 1) // size + 1)
        drawn = like.new_empty(len(blocks) * size, *shape)
        for block, out in zip(blocks, torch.split(drawn, size), strict=True):
            name = f"{stream.seed},{stream.index},{stream.stage},{block}".encode()
            seed = int.from_bytes(hashlib.blake2b(name, digest_size=8).digest(), "little")
            out.normal_(generator=torch.Generator(like.device).manual_seed(seed))
        return drawn[samples.start - blocks.start * size :][: len(samples)]

    def block_on_device(self, shape: torch.Size) -> int:
        """More samples than on the CPU, since each block needs a new generator."""
        return _power_of_two_below(_BLOCK_ELSEWHERE // max(1, shape.numel()))

    def words(self, sigma: float) -> str:
        """The name and standard deviation, in words."""
        return f"Gaussian noise of σ = {sigma:g}"


GAUSSIAN = Gaussian()


# ---------------------------------------------------------------------------------------------------------------------
# Streams of noise: reproducible, and independent of each other.
#
# **Noise is a pure function of (seed, index, stage, sample number)**, for a given shape of input and kind of device. It
# is drawn in blocks of a fixed number of samples, and each block has its own generator. So the batch size, the order of
# inputs and the number of workers do not change it. Stages are separate streams: what is chosen on the selection sample
# is independent of the certification sample.
#
# **No two blocks share noise.** The generator is Philox (Salmon et al. 2011), which encrypts a counter of 256 bits with
# a key of 128 bits. The key of a block is (seed, index), and its counter begins at (0, 0, block, stage). So different
# blocks of different streams encrypt different numbers, or encrypt with different keys. Exact noise is the same on
# every device (``lvmrs.kernel.philox``); Gaussian noise in floating point is not.


Stage = Literal["selection", "certification", "prediction", "calibration", "attack", "confirmation"]
"""What the noise is used for."""

# Numbers in a block of noise: enough to amortise a new generator, and few enough for threads to share the
# work evenly.
_BLOCK, _BLOCK_ELSEWHERE = 1 << 16, 1 << 22
# Numbers that another device draws at a time: exact noise takes about 43 bytes of its memory for each.
_AT_ONCE_ELSEWHERE = 1 << 23
# The devices that draw noise themselves; for others it is drawn on the CPU and copied. "meta" has shapes only.
_DRAWING = ("cuda", "meta")
# For fewer numbers than this, handing work to other threads costs more than it saves.
_WORTH_THREADS = 1 << 17


@dataclass(frozen=True)
class Stream:
    """Identifies a stream of noise.

    >>> Stream(seed=0, index=3, stage="selection")
    Stream(seed=0, index=3, stage='selection')
    """

    seed: int
    """Seed of the run, from 0 to 2⁶³ − 1."""
    index: int
    """Index of the input in its data set, in the same range."""
    stage: Stage
    """What the noise is used for; stages have independent noise."""

    def __post_init__(self) -> None:
        for name in ("seed", "index"):
            object.__setattr__(self, name, checks.seed(name, getattr(self, name)))
        checks.one_of("stage", self.stage, get_args(Stage))

    @property
    def stage_number(self) -> int:
        """The place of the stage among all stages."""
        return get_args(Stage).index(self.stage)

    def generator(self, block: int) -> np.random.Generator:
        """The generator of a block on the CPU; no two blocks of any streams share numbers."""
        counter = [0, 0, block, self.stage_number]
        return np.random.Generator(np.random.Philox(key=[self.seed, self.index], counter=counter))

    def generators(self) -> Callable[[int], np.random.Generator]:
        """A function that returns the generator of a block.

        It sets one generator anew instead of making another, which is ten times as fast. So only one thread may use it,
        for one block at a time.
        """
        generator = self.generator(0)
        begun: Any = generator.bit_generator.state

        def of(block: int) -> np.random.Generator:
            begun["state"]["counter"][2] = block
            generator.bit_generator.state = begun
            return generator

        return of


class Draws:
    """Draws the noise of one stream, for inputs of one shape.

    Blocks are independent: they are drawn in place and, on the CPU, by several threads. Use it in a
    ``with`` block, which ends the threads. With one thread, several threads may use it at once.
    """

    def __init__(
        self,
        noise: Noise,
        sigma: float,
        stream: Stream,
        shape: torch.Size,
        *,
        device: torch.device,
        dtype: torch.dtype,
        threads: int = 1,
    ) -> None:
        """Set up the draws.

        Args:
            noise: the kind of noise.
            sigma: its scale.
            stream: the stream to draw from.
            shape: the shape of one sample.
            device: the device of the noise; it is drawn there if the kind of noise supports it.
            dtype: the precision of the inputs.
            threads: the number of threads that draw on the CPU.
        """
        self.noise, self.sigma, self.stream, self.shape = noise, sigma, stream, shape
        self.there = _drawn_on_device(noise, device)
        self.device, self.dtype = device, noise.kind(sigma, dtype)
        self.samples_per_block = block_of(noise, shape, device)
        self.threads = 1 if self.there else threads
        self.pool = ThreadPoolExecutor(max(1, self.threads - 1))  # threads start with the first work

    def __enter__(self) -> Draws:
        """Return self; the end of the block ends the threads."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the threads."""
        self.pool.shutdown()

    def of(self, first: int, count: int) -> Tensor:
        """Draw the noise of ``count`` samples from ``first`` on."""
        if self.there:
            size = max(1, _AT_ONCE_ELSEWHERE // max(1, self.shape.numel()) // self.samples_per_block)
            ends = range(first - first % self.samples_per_block, first + count, size * self.samples_per_block)[1:]
            bounds = itertools.pairwise((first, *ends, first + count))
            parts = [self._drawn_there(range(begin, end)) for begin, end in bounds]
            return parts[0] if len(parts) == 1 else torch.cat(parts)
        with torch.inference_mode(False):  # other threads write here, and inference mode applies to one thread
            out = torch.empty(count, *self.shape, dtype=self.dtype)
        self._draw_all(list(self._parts(first, out)))
        return out.to(self.device)

    def _drawn_there(self, samples: range) -> Tensor:
        like = torch.empty(0, device=self.device, dtype=self.dtype)
        return self.noise.draw_on_device(self.stream, samples, self.shape, self.sigma, like)

    def _parts(self, first: int, out: Tensor) -> Iterator[tuple[int, int, Tensor]]:
        """The blocks of ``out``: for each, its number, the offset in the block, and its part of ``out``."""
        done = 0
        while done < len(out):
            block, within = divmod(first + done, self.samples_per_block)
            count = min(self.samples_per_block - within, len(out) - done)
            yield block, within, out[done : done + count]
            done += count

    def _draw_all(self, parts: list[tuple[int, int, Tensor]]) -> None:
        """Draw blocks; each free thread takes the next block. Threads that have not started are not awaited."""
        helpers = self.threads - 1 if sum(out.numel() for *_, out in parts) >= _WORTH_THREADS else 0
        left = iter(parts)
        others = [self.pool.submit(self._draw_from, left) for _ in range(helpers)]
        self._draw_from(left)
        for other in others:
            if not other.cancel():
                other.result()

    def _draw_from(self, parts: Iterator[tuple[int, int, Tensor]]) -> None:
        generators = self.stream.generators()
        for block, within, out in parts:
            if len(out) == self.samples_per_block:
                self.noise.fill(out.numpy(), generators(block), self.sigma)
            else:
                whole = torch.empty(self.samples_per_block, *self.shape, dtype=out.dtype)
                self.noise.fill(whole.numpy(), generators(block), self.sigma)
                out.copy_(whole[within : within + len(out)])


def samples_per_block(shape: torch.Size) -> int:
    """The number of samples drawn by one generator; a power of two."""
    return _power_of_two_below(_BLOCK // max(1, shape.numel()))


def _power_of_two_below(number: int) -> int:
    return 1 << max(0, number.bit_length() - 1)


def block_of(noise: Noise, shape: torch.Size, device: torch.device) -> int:
    """The number of samples that are drawn at a time for this device."""
    return noise.block_on_device(shape) if _drawn_on_device(noise, device) else samples_per_block(shape)


def _drawn_on_device(noise: Noise, device: torch.device) -> bool:
    """Whether noise is drawn on a device by torch, and not on the CPU by NumPy, which is faster there."""
    return noise.drawn_on_device and device.type in _DRAWING
