"""Loads models from ONNX files, and runs them with onnxruntime.

``outside_files`` finds tensors that are stored in other files, without the package onnx.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from lvmrs._util.facts import ModelFacts
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
        if outside := outside_files(content):  # the fingerprint covers one file only
            raise ModelError(
                f"{name}: it keeps weights in other files ({outside[0]!r:.60}); write it as one file: "
                "onnx.save(onnx.load(FILE), ONE_FILE)"
            )
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
    """The entries ``external_data`` of the tensors of a model: names of files, offsets and lengths."""
    return [entry.decode(errors="replace") for entry in _entries(content, "model")]


def _entries(message: bytes, kind: str) -> Iterator[bytes]:
    for field, part in _parts(message):
        inner = _FIELDS[kind].get(field)
        if inner == "entry":
            yield b" ".join(text for _, text in _parts(part))
        elif inner is not None:
            yield from _entries(part, inner)


def _parts(message: bytes) -> Iterator[tuple[int, bytes]]:
    """The fields of a message that are messages, strings or bytes, each with its field number."""
    empty, unknown = (optional(f"google.protobuf.{name}", extra="onnx", error=ModelError) for name in _PROTOBUF)
    for field in unknown.UnknownFieldSet(empty.Empty.FromString(message)):
        if isinstance(field.data, bytes):
            yield field.field_number, field.data
