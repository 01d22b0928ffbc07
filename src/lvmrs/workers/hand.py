"""A worker on another machine: it loads a task once, and does it for one item at a time."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

from lvmrs import errors
from lvmrs.errors import LvmrsError, RunError
from lvmrs.workers.base import Task, attempted
from lvmrs.workers.copies import Copies, remove_abandoned
from lvmrs.workers.packing import Packed, unpacked
from lvmrs.workers.shipping import lacking

__all__ = ["Hand", "versions"]

_PLAIN = (errors.DataError, errors.InvalidArgumentError, errors.ModelError, errors.ProofError, errors.RunError)


def versions() -> dict[str, str]:
    """The versions that decide rows: all machines must have the same."""
    return {name: version(name) for name in ("lvmrs", "torch", "numpy")}


class Hand:
    """Does a task on another machine.

    Args:
        content: the packed task, and files that loading it needs, by their paths on the machine that sent them.
        wanted: the versions of the machine that sent them.
        threads: how many threads to use.
    """

    def __init__(self, content: tuple[Packed, Mapping[str, bytes]], wanted: dict[str, str], threads: int) -> None:
        self._content: tuple[Packed, Mapping[str, bytes]] | None = content
        self._wanted, self._threads = wanted, threads
        self._task: Task | None = None
        self._copies: Copies | None = None

    def begin(self) -> Exception | None:
        """Load the task; if that is not possible here, the error says so."""
        loaded, failure = attempted(lambda _: self._load(), None)
        self._task = loaded
        return failure

    def _load(self) -> Task:
        import torch

        if (here := versions()) != self._wanted:
            told = ", ".join(
                f"{name} {here[name]} and not {self._wanted[name]}" for name in here if here[name] != self._wanted[name]
            )
            raise RunError(f"the worker on {_node()} has {told}; rows could differ: install the same on all nodes")
        torch.set_num_threads(self._threads)
        assert self._content is not None  # noqa: S101 (it begins once)
        packed, files = self._content
        self._content = None  # the task holds what it needs of this
        remove_abandoned()
        try:
            if missing := lacking(files):
                self._copies = Copies(missing)
            return unpacked(packed)  # type: ignore[no-any-return]
        except (LvmrsError, OSError) as error:
            raise RunError(
                f"the worker on {_node()} cannot load the job: {error}; put code, weights and data where all nodes see "
                "them"
            ) from error

    def do(self, item: object) -> tuple[Any, Exception | None]:
        """The result for one item, or what went wrong."""
        return attempted(self._named, item)

    def _named(self, item: object) -> Any:
        assert self._task is not None  # noqa: S101 (items are given after it has begun)
        try:
            return self._task(item)
        except LvmrsError as error:
            if _is_missing(error):
                raise RunError(f"{error} (on {_node()}); put it where all nodes see it") from error
            if type(error) not in _PLAIN:
                raise
            raise type(error)(f"{error} (on {_node()})") from error

    def end(self) -> None:
        """Remove the copies of files, if there are any."""
        if self._copies is not None:
            self._copies.discard()


def _node() -> str:
    return socket.gethostname()


def _is_missing(error: BaseException | None) -> bool:
    """Whether an error is about a file that is not there."""
    while error is not None:
        if isinstance(error, FileNotFoundError):
            return True
        error = error.__cause__ or error.__context__
    return False
