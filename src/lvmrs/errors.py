"""The exceptions of lvmrs: one small tree, so that ``except LvmrsError`` catches all of ours and nothing else."""

__all__ = ["InvalidArgumentError", "LvmrsError"]


class LvmrsError(Exception):
    """Base of every exception that lvmrs raises on purpose."""


class InvalidArgumentError(LvmrsError, ValueError):
    """An argument cannot be used; the message names it, shows its value and says what is expected."""
