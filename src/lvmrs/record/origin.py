"""When, how and with which software a run is begun."""

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
    """The origin of a run that is begun now by this command; ``more`` are other fields of it."""
    libraries = {name: version(name) for name in ("lvmrs", "numpy", "scipy", "torch")}
    return Origin(
        command=command,
        begun=time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        versions={"python": platform.python_version(), **libraries},
        threads=torch.get_num_threads(),
        **more,
    )


def written_origin(command: str) -> dict[str, Any]:
    """The same origin as a dictionary for JSON; fields that are not known are left out."""
    return {name: value for name, value in dataclasses.asdict(origin(command)).items() if value is not None}


def lvmrs_version() -> str:
    """The version of lvmrs."""
    return version("lvmrs")


def torch_version() -> str:
    """The version of torch, on which the last digits of a network may depend."""
    return version("torch")
