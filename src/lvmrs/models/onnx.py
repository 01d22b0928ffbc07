"""Loads models from ONNX files, and runs them with onnxruntime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from lvmrs._util.facts import ModelFacts
from lvmrs._util.optional import optional
from lvmrs.errors import ModelError, guarded
from lvmrs.models.fixed_batch import InParts
from lvmrs.models.onnx_check import outside_files

__all__ = ["onnx"]


class _Session(nn.Module):
    """Runs an ONNX session on tensors."""

    def __init__(self, session: Any, source: str, target: str, kind: type[np.generic]) -> None:
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
    kinds: dict[str, type[np.generic]] = {
        "tensor(float)": np.float32,
        "tensor(double)": np.float64,
        "tensor(float16)": np.float16,
    }
    if inputs[0].type not in kinds:
        raise ModelError(f"{name}: its input is {inputs[0].type}; expected floating-point images")
    model: nn.Module = _Session(session, inputs[0].name, outputs[0].name, kinds[inputs[0].type])
    batch = inputs[0].shape[0] if inputs[0].shape and isinstance(inputs[0].shape[0], int) else None
    if batch is not None and batch < 1:
        raise ModelError(f"{name}: it takes batches of {batch} inputs; export it again")
    return model if batch is None else InParts(model, batch), ModelFacts(output=outputs[0].name, file_batch=batch)
