"""Streams of noise.

**Noise is a pure function of (seed, index, stage, sample number)**, for a given shape of input and kind of device. It
is drawn in blocks of a fixed number of samples, each from a generator of its own, so that neither the batch size, nor
the order of inputs, nor the split over workers changes a bit of it. Stages are separate streams: what is chosen on the
selection sample is independent of the certification sample.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from numbers import Integral
from typing import Literal, get_args

import torch
from torch import Tensor

from lvmrs import _checks
from lvmrs.errors import InvalidArgumentError
from lvmrs.noise.base import Noise

__all__ = ["Draws", "Stage", "Stream"]

Stage = Literal["selection", "certification", "prediction", "calibration"]

# Numbers in a block of noise: enough to hide what a new generator costs, and few enough that threads share them evenly.
_BLOCK, _BLOCK_ELSEWHERE = 1 << 15, 1 << 22
# Numbers drawn at a time for small batches, which are then used where they lie: waking other threads pays.
_STORE = 1 << 20
# Numbers below which handing work to other threads costs more than it saves.
_WORTH_THREADS = 1 << 17
# Each stage has this many blocks of its own among the 2³² seeds that the CPU generator tells apart.
_BLOCKS_PER_STAGE = 1 << 28


@dataclass(frozen=True)
class Stream:
    """Which noise: the run's seed, the index of the input in its data set, and the stage."""

    seed: int
    index: int
    stage: Stage

    def __post_init__(self) -> None:
        for name in ("seed", "index"):
            value = getattr(self, name)
            whole = isinstance(value, Integral) and not isinstance(value, bool)
            if not whole or not 0 <= int(value) < 1 << 63:
                raise InvalidArgumentError(f"{name} must be a whole number from 0 to 2⁶³ − 1, got {value!r}")
            object.__setattr__(self, name, int(value))
        _checks.one_of("stage", self.stage, get_args(Stage))

    @property
    def first_seed(self) -> int:
        """The seed of block 0; block b has b more: each block and stage of an input has a generator of its own."""
        digest = hashlib.blake2b(f"{self.seed},{self.index}".encode(), digest_size=4).digest()
        return int.from_bytes(digest, "little") + get_args(Stage).index(self.stage) * _BLOCKS_PER_STAGE


class Draws:
    """Noise of one stream at σ = 1, for inputs of one shape: any range of samples, best asked for in order.

    Blocks are drawn in place and, on the CPU, by as many threads as torch uses: they do not depend on each other.
    """

    def __init__(
        self,
        noise: Noise,
        stream: Stream,
        shape: torch.Size,
        samples: int,
        *,
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        """Prepare for about so many samples; noise beyond them is the same, and no slower by much."""
        self.noise, self.first_seed = noise, stream.first_seed
        room = (_BLOCK if device.type == "cpu" else _BLOCK_ELSEWHERE) // max(1, shape.numel())
        self.samples_per_block = 1 << max(0, room.bit_length() - 1)
        enough = -(-samples // self.samples_per_block)
        most = _STORE // (self.samples_per_block * max(1, shape.numel()))
        self.blocks_in_store = max(1, min(enough, 1 << max(0, most.bit_length() - 1)))
        self.samples_in_store = self.samples_per_block * self.blocks_in_store
        self.store = torch.empty(self.samples_in_store, *shape, device=device, dtype=dtype)
        self.stored = -1  # which of the stream's storefuls is there
        self.threads = torch.get_num_threads() if device.type == "cpu" else 1
        self.pool = ThreadPoolExecutor(max(1, self.threads - 1))  # starts no thread before there is work for it

    def __enter__(self) -> Draws:
        """Draws that give their threads back at the end."""
        return self

    def __exit__(self, *_: object) -> None:
        """Give the threads back."""
        self.pool.shutdown()

    def of(self, first: int, out: Tensor) -> Tensor:
        """Noise of as many samples as ``out`` has room for, from ``first`` on: there, or a view where it lies ready."""
        storeful, within = divmod(first, self.samples_in_store)
        if within + len(out) <= self.samples_in_store:
            self._draw_all(self._storeful(storeful))
            return self.store[within : within + len(out)]
        return self.fill(out, first)

    def fill(self, out: Tensor, first: int) -> Tensor:
        """Overwrite ``out`` with the noise of as many samples as it has room for, from ``first`` on."""
        room = self.samples_in_store
        head = min(-first % room, len(out))  # what remains of a storeful that was begun
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
        # In parts too small for torch to wake threads of its own, which would go on spinning in the way of ours.
        for part, into in zip(
            torch.split(source, self.samples_per_block), torch.split(out, self.samples_per_block), strict=True
        ):
            into.copy_(part)

    def _blocks(self, first: int, out: Tensor) -> list[tuple[int, Tensor]]:
        return list(enumerate(torch.split(out, self.samples_per_block), first)) if len(out) else []

    def _storeful(self, wanted: int) -> list[tuple[int, Tensor]]:
        """The blocks to draw so that the store holds the one that is wanted."""
        if self.stored == wanted:
            return []
        self.stored = wanted
        return self._blocks(wanted * self.blocks_in_store, self.store)

    def _draw_all(self, blocks: list[tuple[int, Tensor]]) -> None:
        """Each thread takes the next block when it is free; one that has not woken up by the end is not waited for."""
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
        # The CPU generator looks at 32 bits of its seed.
        seed = (self.first_seed + block) % (1 << 32)
        self.noise.fill(out, torch.Generator(device=out.device).manual_seed(seed))
