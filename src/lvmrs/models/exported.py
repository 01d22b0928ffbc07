"""Loads models from files of torch.export."""

from __future__ import annotations

import zipfile
from pathlib import Path

import torch
from torch import nn

from lvmrs._util.facts import ModelFacts
from lvmrs.errors import ModelError, guarded
from lvmrs.models.export_check import checked_program
from lvmrs.models.fixed_batch import InParts

__all__ = ["exported"]


def _is_archive(path: Path) -> bool:
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        return any(entry.endswith("archive_format") for entry in archive.namelist())


def exported(name: str, rest: str) -> tuple[nn.Module, ModelFacts]:
    """Load a program of torch.export.save. Raises ModelError if it contains more than tensor operations."""
    path = Path(rest)
    with guarded(f"{name}: it is not a program saved by torch.export.save", error=ModelError):
        if not _is_archive(path):  # torch would log a traceback
            raise ModelError(f"{name}: it is not a program saved by torch.export.save")
        program = torch.export.load(checked_program(name, path))
        taken = program.graph_signature.user_inputs
        if len(taken) != 1:
            raise ModelError(f"{name}: it takes {len(taken)} inputs; expected one batch of images")
        (batch,) = (node.meta["val"].shape[0] for node in program.graph.nodes if node.name == taken[0])
        model: nn.Module = program.module()
    if isinstance(batch, int):
        return InParts(model, batch), ModelFacts(file_batch=batch)
    return model, ModelFacts()
