"""Noisy copies of an input for who asks for a few at a time."""

from __future__ import annotations

import threading
from dataclasses import replace

import torch
from torch import Tensor

from lvmrs.noise import Stream
from lvmrs.noise.stream import samples_per_block
from lvmrs.sampling import Sampler

__all__ = ["Copies"]


class Copies:
    """The noisy copies of one stream, drawn in whole blocks; what is left of a block is kept for the next call."""

    def __init__(self, sampler: Sampler, x: Tensor, stream: Stream) -> None:
        self._sampler, self._x, self._stream = sampler, x, stream
        self._block = samples_per_block(x.shape, x.device)
        self._first, self._drawn = 0, x[None][:0]
        self._lock, self._ended = threading.Lock(), False

    def of(self, first: int, count: int) -> Tensor:
        """So many copies from sample ``first`` on."""
        with self._lock:
            have = self._first + len(self._drawn)
            if not self._first <= first <= have:  # parts of a batch may be asked for out of order
                self._first, self._drawn = first - first % self._block, self._x[None][:0]
                have = self._first
            if first + count > have:
                missing = -(-(first + count - have) // self._block) * self._block
                whole = replace(self._sampler, batch=missing)  # one piece, so that no block is drawn twice
                drawn = list(whole.copies(self._x, self._stream, missing, first=have))
                self._drawn = torch.cat([self._drawn, *drawn]) if len(self._drawn) else torch.cat(drawn)
            found = self._drawn[first - self._first : first - self._first + count].clone()
            kept = (first + count) - (first + count) % self._block
            if self._ended:
                self._first, self._drawn = 0, self._x[None][:0]
            elif kept > self._first:
                self._first, self._drawn = kept, self._drawn[kept - self._first :].clone()
            return found

    def forget(self) -> None:
        """Keep nothing until the next call."""
        with self._lock:
            self._first, self._drawn = 0, self._x[None][:0]

    def end(self) -> None:
        """Keep nothing any more; what is asked for is drawn for that alone."""
        self._ended = True
        self.forget()
