"""scipy.special, imported when one of its functions is first used.

Importing it takes a quarter of a second, and sampling does not need it.
"""

from typing import Any

__all__: list[str] = []


def __getattr__(name: str) -> Any:
    if name.startswith("__"):  # Python asks for some of these when it imports a module
        raise AttributeError(name)
    from scipy import special

    found = globals()[name] = getattr(special, name)
    return found
