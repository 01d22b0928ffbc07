"""The generator Philox4x64-10 (Salmon et al. 2011) in torch's integer operations, so that every device draws the same.

NumPy's ``Philox`` encrypts a counter of four 64-bit words with a key of two words in ten rounds, which gives a group of
four words. It increments the counter before each encryption, so group k has the counter k + 1. Here many counters are
encrypted at once, without waiting for the device. Signed addition, multiplication and exclusive or give the same bits
as unsigned ones; only right shifts and the upper half of a product differ, and are written out.
"""

from __future__ import annotations

import torch
from torch import Tensor

_MULTIPLIERS = (0xD2E7470EE14C6C93, 0xCA5A826395121157)
_STEPS = (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)
_ROUNDS = 10
_LOW = 0xFFFFFFFF


def words(seed: int, index: int, stage: int, blocks: Tensor, numbers: Tensor) -> Tensor:
    """The words that ``numpy.random.Philox(key=[seed, index], counter=[0, 0, block, stage])`` gives.

    Args:
        seed: first word of the key.
        index: second word of the key.
        stage: last word of the counter.
        blocks: third word of the counter, int64.
        numbers: indices of the groups, from 0, int64; broadcasts with ``blocks``.

    Returns:
        The words of these groups as int64, with the bits of unsigned integers; a last dimension of 4.

    >>> words(1, 2, 3, torch.tensor(4), torch.tensor(0))
    tensor([-6538167895110866620,  2564810913301908829,  8379019428831260092,
            -1571801408872538196])
    """
    zero = torch.zeros_like(numbers + blocks)
    counter = [zero + numbers + 1, zero, zero + blocks, zero + stage]
    key = [seed, index]
    for _ in range(_ROUNDS):
        first, second = (_product(counter[place], by) for place, by in ((0, _MULTIPLIERS[0]), (2, _MULTIPLIERS[1])))
        counter = [
            second[0] ^ counter[1] ^ signed(key[0]),
            second[1],
            first[0] ^ counter[3] ^ signed(key[1]),
            first[1],
        ]
        key = [(word + step) % (1 << 64) for word, step in zip(key, _STEPS, strict=True)]
    return torch.stack(counter, dim=-1)


def signed(word: int) -> int:
    """The signed 64-bit integer with the bits of an unsigned one."""
    return word - (1 << 64) if word >= 1 << 63 else word


def shifted(words: Tensor, bits: int) -> Tensor:
    """Unsigned 64-bit integers shifted to the right, filled with zeros; for ``bits`` from 1."""
    return (words >> bits) & ((1 << (64 - bits)) - 1)


def _product(words: Tensor, by: int) -> tuple[Tensor, Tensor]:
    """The upper and lower 64 bits of the products of unsigned integers, from products of 32-bit halves."""
    low, high = words & _LOW, shifted(words, 32)
    by_low, by_high = by & _LOW, by >> 32
    both_low, one, other = low * by_low, low * by_high, high * by_low
    carried = shifted(both_low, 32) + (one & _LOW) + (other & _LOW)
    return high * by_high + shifted(one, 32) + shifted(other, 32) + shifted(carried, 32), words * signed(by)
