"""Streams of noise, which are reproducible and independent of each other.

**Noise is a pure function of (seed, index, stage, sample number)**, for a given shape of input and kind of device. It
is drawn in blocks of a fixed number of samples, and each block has its own generator. So the batch size, the order of
inputs and the number of workers do not change it. Stages are separate streams: what is chosen on the selection sample
is independent of the certification sample.

**No two blocks share noise.** The generator is Philox (Salmon et al. 2011), which encrypts a counter of 256 bits with a
key of 128 bits. The key of a block is (seed, index), and its counter begins at (0, 0, block, stage). So different
blocks of different streams encrypt different numbers, or encrypt with different keys. (On other devices than the CPU,
torch's generator has a key of 64 bits, a hash of all four: two blocks share noise with a probability of 2⁻⁶⁴.)
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from lvmrs import _checks
from lvmrs.noise.base import Noise

__all__ = ["Draws", "Stage", "Stream", "samples_per_block"]

Stage = Literal["selection", "certification", "prediction", "calibration", "attack", "confirmation"]
"""What the noise is used for."""

# Numbers in a block of noise: so many that a new generator costs little beside them, and so few that threads share the
# work evenly.
_BLOCK, _BLOCK_ELSEWHERE = 1 << 16, 1 << 22
# For fewer numbers than this, handing work to other threads costs more than it saves.
_WORTH_THREADS = 1 << 17


@dataclass(frozen=True)
class Stream:
    """The name of a stream of noise.

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
            object.__setattr__(self, name, _checks.seed(name, getattr(self, name)))
        _checks.one_of("stage", self.stage, get_args(Stage))

    def generator(self, block: int) -> np.random.Generator:
        """The generator of a block on the CPU; no two blocks of any streams share numbers."""
        stage = get_args(Stage).index(self.stage)
        return np.random.Generator(np.random.Philox(key=[self.seed, self.index], counter=[0, 0, block, stage]))

    def generators(self) -> Callable[[int], np.random.Generator]:
        """A function that gives the generator of a block, the same object each time: a new one takes ten times as long.

        It belongs to one thread.
        """
        generator = self.generator(0)
        begun: Any = generator.bit_generator.state

        def of(block: int) -> np.random.Generator:
            begun["state"]["counter"][2] = block
            generator.bit_generator.state = begun
            return generator

        return of

    def generator_on(self, device: torch.device, block: int) -> torch.Generator:
        """The generator of a block on another device."""
        name = f"{self.seed},{self.index},{self.stage},{block}"
        seed = int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little")
        return torch.Generator(device).manual_seed(seed)


class Draws:
    """Draws the noise of one stream, for inputs of one shape.

    Blocks do not depend on each other: they are drawn in place and, on the CPU, by several threads. Use it in a
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
        """Prepare to draw.

        Args:
            noise: the kind of noise.
            sigma: its scale.
            stream: the stream to draw from.
            shape: the shape of one sample.
            device: where the noise is used; it is drawn there if the noise can be.
            dtype: the precision of the inputs.
            threads: how many threads draw on the CPU.
        """
        self.noise, self.sigma, self.stream, self.shape = noise, sigma, stream, shape
        self.device = device if noise.drawn_on_device else torch.device("cpu")
        self.dtype = noise.kind(sigma, dtype)
        self.samples_per_block = samples_per_block(shape, self.device)
        self.threads = threads if self.device.type == "cpu" else 1
        self.pool = ThreadPoolExecutor(max(1, self.threads - 1))  # it starts threads when there is work for them

    def __enter__(self) -> Draws:
        """Begin a block at whose end the threads end."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the threads."""
        self.pool.shutdown()

    def of(self, first: int, count: int) -> Tensor:
        """Draw the noise of ``count`` samples from ``first`` on."""
        with torch.inference_mode(False):  # other threads write here, and inference mode is of one thread
            out = torch.empty(count, *self.shape, device=self.device, dtype=self.dtype)
        self._draw_all(list(self._parts(first, out)))
        return out

    def _parts(self, first: int, out: Tensor) -> Iterator[tuple[int, int, Tensor]]:
        """The blocks that make up ``out``: the number of each, where in the block to begin, and where to put it."""
        done = 0
        while done < len(out):
            block, within = divmod(first + done, self.samples_per_block)
            count = min(self.samples_per_block - within, len(out) - done)
            yield block, within, out[done : done + count]
            done += count

    def _draw_all(self, parts: list[tuple[int, int, Tensor]]) -> None:
        """Draw blocks; each thread takes the next one when it is free. A thread that never began is not waited for."""
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
                self._draw(block, out, generators)
            else:
                whole = torch.empty(self.samples_per_block, *self.shape, device=out.device, dtype=out.dtype)
                self._draw(block, whole, generators)
                out.copy_(whole[within : within + len(out)])

    def _draw(self, block: int, out: Tensor, generators: Callable[[int], np.random.Generator]) -> None:
        if out.device.type == "cpu":
            self.noise.fill(out.numpy(), generators(block), self.sigma)
        else:
            self.noise.fill_there(out, self.stream.generator_on(out.device, block))


def samples_per_block(shape: torch.Size, device: torch.device) -> int:
    """How many samples are drawn by one generator; a power of two."""
    room = (_BLOCK if device.type == "cpu" else _BLOCK_ELSEWHERE) // max(1, shape.numel())
    return 1 << max(0, room.bit_length() - 1)
