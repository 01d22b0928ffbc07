"""Running a model fast: a plain list of its steps, normalisation folded, threads that sample ahead, choices measured.

Nothing here changes what a model computes, except for rounding. Where that cannot be shown, the model runs as it is.
"""

from lvmrs.running.way import Way

__all__ = ["Way"]
