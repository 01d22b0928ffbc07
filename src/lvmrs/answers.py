"""How an abstention is written, and what counts as a correct answer. Needs no torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, overload

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["ABSTAIN", "is_correct"]

ABSTAIN: Final = -1
"""What stands in the place of a class where nothing is certified."""


@overload
def is_correct(answer: int, label: int) -> bool: ...
@overload
def is_correct(answer: NDArray[np.int64], label: NDArray[np.int64]) -> NDArray[np.bool_]: ...
def is_correct(answer: int | NDArray[np.int64], label: int | NDArray[np.int64]) -> bool | NDArray[np.bool_]:
    """Whether an answer is the label, or each of several answers is its label; an abstention is never correct.

    >>> is_correct(3, 3), is_correct(ABSTAIN, 3), is_correct(ABSTAIN, ABSTAIN)
    (True, False, False)
    """
    return (answer == label) & (answer != ABSTAIN)
