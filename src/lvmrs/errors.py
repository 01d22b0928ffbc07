"""The exceptions of lvmrs: one small tree, so that ``except LvmrsError`` catches all of ours and nothing else."""

__all__ = ["DataError", "InvalidArgumentError", "LvmrsError", "ModelError", "ProofError", "RunError", "first_line"]


class LvmrsError(Exception):
    """Base of every exception that lvmrs raises on purpose."""


class InvalidArgumentError(LvmrsError, ValueError):
    """An argument cannot be used; the message names it, shows its value and says what is expected."""


class ModelError(LvmrsError):
    """A model cannot be loaded, or does something that cannot be certified; the message says what, and what to do."""


class DataError(LvmrsError):
    """A data set cannot be read, or is not images in [0, 1]; the message says what, and what to do."""


class RunError(LvmrsError):
    """A run directory is not what it should be; the message says what, and what to do."""


class ProofError(LvmrsError, ValueError):
    """The prover refuses a plan or its scores, since no certificate could be trusted; the message says why."""


def first_line(error: BaseException) -> str:
    """What an error of another library says, in one line."""
    return str(error).partition("\n")[0]
