"""Records the time, command and software versions with which a run is begun."""

from __future__ import annotations

import dataclasses
import platform
import time
from importlib.metadata import version
from typing import Any

import torch

from lvmrs.record.manifest import Origin

__all__ = ["lvmrs_version", "origin", "torch_version", "written_origin"]


def origin(command: str, **more: Any) -> Origin:
    """The origin of a run that this command begins now; ``more`` holds further fields of ``Origin``."""
    libraries = {name: version(name) for name in ("lvmrs", "numpy", "scipy", "torch")}
    return Origin(
        command=command,
        begun=time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        versions={"python": platform.python_version(), **libraries},
        threads=torch.get_num_threads(),
        **more,
    )


def written_origin(command: str) -> dict[str, Any]:
    """The origin as a dictionary for JSON, without unknown fields."""
    return {name: value for name, value in dataclasses.asdict(origin(command)).items() if value is not None}


def lvmrs_version() -> str:
    """The version of lvmrs."""
    return version("lvmrs")


def torch_version() -> str:
    """The version of torch, on which the last digits of a network may depend."""
    return version("torch")
