"""How an answer that is no class is written: in certificates, in rows and in tables. Needs no torch."""

from typing import Final

__all__ = ["ABSTAIN"]

ABSTAIN: Final = -1
"""What stands in the place of a class where nothing is certified."""
