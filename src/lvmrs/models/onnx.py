"""Loads models from ONNX files, and runs them with onnxruntime.

Weights may be in other files of the same folder, as torch writes them. ``outside_files`` finds the names of these
files, without the package onnx.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from lvmrs._util.facts import ModelFacts
from lvmrs._util.files import is_file, no_file
from lvmrs._util.text import optional
from lvmrs.errors import ModelError, guarded
from lvmrs.models.fixed_batch import InParts

_KINDS = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(float16)": np.float16}


class _Session(nn.Module):
    """Runs an ONNX session on tensors."""

    def __init__(self, session: Any, source: str, target: str, kind: Any) -> None:
        super().__init__()
        self.session, self.source, self.target, self.kind = session, source, target, kind

    def forward(self, x: Tensor) -> Tensor:
        """The output for a batch, on the device of the batch."""
        rows = x.detach().cpu().numpy().astype(self.kind, copy=False)
        (answer,) = self.session.run([self.target], {self.source: np.ascontiguousarray(rows)})
        return torch.from_numpy(np.asarray(answer)).to(x.device)


def onnx(name: str, rest: str) -> tuple[nn.Module, ModelFacts]:
    """Load an ONNX file for the first available provider of onnxruntime. The first output is the logits."""
    runtime = optional("onnxruntime", extra="onnx", error=ModelError)
    options = runtime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    with guarded(f"{name}: onnxruntime cannot run it", error=ModelError):
        content = Path(rest).read_bytes()
        weights = {path.name: path.read_bytes() for path in _files_beside(name, Path(rest), content)}
        if weights:  # onnxruntime opens no file itself
            add = getattr(options, "add_external_initializers_from_files_in_memory", None)
            if add is None:
                raise ModelError(f"{name}: it keeps weights in other files; {_ONE_FILE}, or update onnxruntime")
            add(list(weights), list(weights.values()), list(map(len, weights.values())))
        session = runtime.InferenceSession(content, options, providers=runtime.get_available_providers())
    inputs, outputs = session.get_inputs(), session.get_outputs()
    if len(inputs) != 1 or not outputs:
        held = ", ".join(value.name for value in inputs)
        raise ModelError(f"{name}: it takes {len(inputs)} inputs ({held}); expected one batch of images")
    given = inputs[0]
    if given.type not in _KINDS:
        raise ModelError(f"{name}: its input is {given.type}; expected floating-point images")
    model: nn.Module = _Session(session, given.name, outputs[0].name, _KINDS[given.type])
    batch = given.shape[0] if given.shape and isinstance(given.shape[0], int) else None
    if batch is not None and batch < 1:
        raise ModelError(f"{name}: it takes batches of {batch} inputs; export it again")
    return model if batch is None else InParts(model, batch), ModelFacts(output=outputs[0].name, file_batch=batch)


_ONE_FILE = "write it as one file: onnx.save(onnx.load(FILE), ONE_FILE)"


def files_of(path: Path) -> list[Path]:
    """An ONNX file, and the files that contain its weights."""
    with guarded(f"{path}: its weights cannot be found", error=ModelError):
        return [path, *_files_beside(str(path), path, path.read_bytes())]


def _files_beside(name: str, path: Path, content: bytes) -> list[Path]:
    """The other files of a model, sorted. Raises ModelError for a file that is not in the folder of ``path``."""
    folder, found = path.parent, []
    for other in outside_files(content):
        file = folder / other
        if other in ("", ".", "..") or set(other) & set("/\\\0") or file.resolve().parent != folder.resolve():
            raise ModelError(
                f"{name}: it keeps weights in other files ({other!r:.60}) that are not in its folder; {_ONE_FILE}"
            )
        if not is_file(file):
            raise ModelError(f"{name}: it keeps weights in {file}, which {no_file(file)}; copy it there")
        found.append(file)
    return found


# Protocol buffers without a schema: all fields of a message that has none are unknown fields.
_PROTOBUF = ("empty_pb2", "unknown_fields")
# The fields of each message type that contain tensors, or messages with tensors (onnx.proto).
_FIELDS: dict[str, dict[int, str]] = {
    "model": {7: "graph", 25: "function", 20: "training"},
    "training": {1: "graph", 2: "graph"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "function": {7: "node", 11: "attribute"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 10: "tensor", 6: "graph", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
    "tensor": {13: "entry"},
}


def outside_files(content: bytes) -> list[str]:
    """The names of the files in which tensors of a model are stored, sorted."""
    entries = [dict(_parts(entry)) for entry in _entries(content, "model")]  # StringStringEntryProto: key, value
    return sorted({entry.get(2, b"").decode(errors="replace") for entry in entries if entry.get(1) == b"location"})


def _entries(message: bytes, kind: str) -> Iterator[bytes]:
    for field, part in _parts(message):
        inner = _FIELDS[kind].get(field)
        if inner == "entry":
            yield part
        elif inner is not None:
            yield from _entries(part, inner)


def _parts(message: bytes) -> Iterator[tuple[int, bytes]]:
    """The fields of a message that are messages, strings or bytes, each with its field number."""
    empty, unknown = (optional(f"google.protobuf.{name}", extra="onnx", error=ModelError) for name in _PROTOBUF)
    for field in unknown.UnknownFieldSet(empty.Empty.FromString(message)):
        if isinstance(field.data, bytes):
            yield field.field_number, field.data
