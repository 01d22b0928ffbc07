"""Every public function with one bad argument at a time.

``PUBLIC`` has for each function a good call and what each of its arguments should be, a kind of ``bad_values``.
Arguments are made by a function of the world, so that the table costs nothing before a case runs. To add a case, add a
line to ``public_math`` or ``public_rooms``, or a value to ``bad_values``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tests.hostile.bad_values import BAD
from tests.hostile.public_call import Public
from tests.hostile.public_math import MATHEMATICS
from tests.hostile.public_rooms import ROOMS

__all__ = ["PUBLIC", "function_cases"]

PUBLIC: dict[str, Public] = {**MATHEMATICS, **ROOMS}

# The first argument of a kind is given every bad value, and each of the others one value of so many, in turn.
_PART = 4


def function_cases() -> Iterator[tuple[str, str, str, str]]:
    """The name of each case, the function, the argument and the label of its bad value."""
    used: Counter[str] = Counter()
    for name, public in PUBLIC.items():
        for argument, kind in public.kinds.items():
            turn, used[kind] = used[kind], used[kind] + 1
            for place, label in enumerate(BAD[kind]):
                if not (turn and (place + turn) % _PART) and (argument, label) not in public.good_too:
                    yield f"{name} {argument} {label}", name, argument, label
