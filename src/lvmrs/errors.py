"""The exceptions of lvmrs: one small tree, so that ``except LvmrsError`` catches all of ours and nothing else."""

__all__ = ["InvalidArgumentError", "LvmrsError", "ModelError", "ProofError"]


class LvmrsError(Exception):
    """Base of every exception that lvmrs raises on purpose."""


class InvalidArgumentError(LvmrsError, ValueError):
    """An argument cannot be used; the message names it, shows its value and says what is expected."""


class ModelError(LvmrsError):
    """A model does something that cannot be certified; the message says what, and what to do."""


class ProofError(LvmrsError, ValueError):
    """The prover refuses a plan or its scores, since no certificate could be trusted; the message says why."""
