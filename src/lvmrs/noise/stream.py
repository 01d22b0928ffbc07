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
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor

from lvmrs import _checks
from lvmrs.noise.base import Noise

__all__ = ["Draws", "Stage", "Stream"]

Stage = Literal["selection", "certification", "prediction", "calibration", "attack", "confirmation"]
"""What the noise is used for."""

# Numbers in a block of noise: so many that a new generator costs little beside them, and so few that threads share the
# work evenly.
_BLOCK, _BLOCK_ELSEWHERE = 1 << 16, 1 << 22
# Small batches are served from a store of this many numbers, which is drawn at once: then it pays to use other threads.
_STORE = 1 << 20
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

    def generator_on(self, device: torch.device, block: int) -> torch.Generator:
        """The generator of a block on another device."""
        name = f"{self.seed},{self.index},{self.stage},{block}"
        seed = int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little")
        return torch.Generator(device).manual_seed(seed)


class Draws:
    """Draws the noise of one stream, for inputs of one shape. Any samples can be drawn; in order is fastest.

    Blocks do not depend on each other: they are drawn in place and, on the CPU, by as many threads as torch uses. Use
    it in a ``with`` block, which ends the threads.
    """

    def __init__(
        self,
        noise: Noise,
        sigma: float,
        stream: Stream,
        shape: torch.Size,
        samples: int,
        *,
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        """Prepare to draw.

        Args:
            noise: the kind of noise.
            sigma: its scale.
            stream: the stream to draw from.
            shape: the shape of one sample.
            samples: about how many will be drawn; it changes the speed only, not the noise.
            device: where the noise is used; it is drawn there if the noise can be.
            dtype: the precision of the inputs.
        """
        self.noise, self.sigma, self.stream, self.shape = noise, sigma, stream, shape
        device = device if noise.drawn_on_device else torch.device("cpu")
        dtype = noise.kind(sigma, dtype)
        room = (_BLOCK if device.type == "cpu" else _BLOCK_ELSEWHERE) // max(1, shape.numel())
        self.samples_per_block = 1 << max(0, room.bit_length() - 1)
        enough = -(-samples // self.samples_per_block)
        most = _STORE // (self.samples_per_block * max(1, shape.numel()))
        self.blocks_in_store = max(1, min(enough, 1 << max(0, most.bit_length() - 1)))
        self.samples_in_store = self.samples_per_block * self.blocks_in_store
        self.store = torch.empty(self.samples_in_store, *shape, device=device, dtype=dtype)
        self.stored = -1  # number of the storeful that is in the store
        self.threads = torch.get_num_threads() if device.type == "cpu" else 1
        self.pool = ThreadPoolExecutor(max(1, self.threads - 1))  # it starts threads when there is work for them

    def __enter__(self) -> Draws:
        """Begin a block at whose end the threads end."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the threads."""
        self.pool.shutdown()

    def empty(self, samples: int) -> Tensor:
        """Memory for the noise of so many samples, to be given to ``of`` and ``fill``."""
        return torch.empty(samples, *self.shape, device=self.store.device, dtype=self.store.dtype)

    def of(self, first: int, out: Tensor) -> Tensor:
        """Give the noise of the ``len(out)`` samples from ``first`` on: in ``out``, or as a view of what is drawn."""
        storeful, within = divmod(first, self.samples_in_store)
        if within + len(out) <= self.samples_in_store:
            self._draw_all(self._storeful(storeful))
            return self.store[within : within + len(out)]
        return self.fill(out, first)

    def fill(self, out: Tensor, first: int) -> Tensor:
        """Overwrite ``out`` with the noise of the ``len(out)`` samples from ``first`` on."""
        room = self.samples_in_store
        head = min(-first % room, len(out))  # the rest of a storeful that was begun
        if head:
            self._draw_all(self._storeful(first // room))
            self._copy(self.store[first % room : first % room + head], out[:head])
        tail = (len(out) - head) % room
        body = out[head : len(out) - tail]
        self._draw_all(
            self._blocks((first + head) // self.samples_per_block, body)
            + (self._storeful((first + len(out)) // room) if tail else [])
        )
        if tail:
            self._copy(self.store[:tail], out[len(out) - tail :])
        return out

    def _copy(self, source: Tensor, out: Tensor) -> None:
        # The parts are too small for torch to use its own threads, which would keep spinning and slow down ours.
        for part, into in zip(
            torch.split(source, self.samples_per_block), torch.split(out, self.samples_per_block), strict=True
        ):
            into.copy_(part)

    def _blocks(self, first: int, out: Tensor) -> list[tuple[int, Tensor]]:
        return list(enumerate(torch.split(out, self.samples_per_block), first)) if len(out) else []

    def _storeful(self, wanted: int) -> list[tuple[int, Tensor]]:
        """The blocks that must be drawn for the store to hold the storeful of this number."""
        if self.stored == wanted:
            return []
        self.stored = wanted
        return self._blocks(wanted * self.blocks_in_store, self.store)

    def _draw_all(self, blocks: list[tuple[int, Tensor]]) -> None:
        """Draw blocks; each thread takes the next one when it is free. A thread that never began is not waited for."""
        helpers = self.threads - 1 if sum(out.numel() for _, out in blocks) >= _WORTH_THREADS else 0
        left = iter(blocks)
        others = [self.pool.submit(self._draw_from, left) for _ in range(helpers)]
        self._draw_from(left)
        for other in others:
            if not other.cancel():
                other.result()

    def _draw_from(self, blocks: Iterator[tuple[int, Tensor]]) -> None:
        for block, out in blocks:
            self._draw(block, out)

    def _draw(self, block: int, out: Tensor) -> None:
        if out.device.type == "cpu":
            self.noise.fill(out.numpy(), self.stream.generator(block), self.sigma)
        else:
            self.noise.fill_there(out, self.stream.generator_on(out.device, block))
