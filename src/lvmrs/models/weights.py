"""Reads weights from files without unpickling anything that could run code, and computes hashes of weights."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn

from lvmrs._util.files import is_file, no_file
from lvmrs.errors import ModelError, guarded

_COUNT = "num_batches_tracked"
# The keys of the weights in checkpoints, which also have keys such as "arch" and "epoch".
_INSIDE = ("state_dict", "model_state_dict", "model", "net")


def read_weights(path: Path) -> dict[str, Tensor]:
    """Read the tensors of a .safetensors file, or of a state dict or checkpoint that torch saved."""
    stored = read_checkpoint(path)
    for key in _INSIDE:
        if isinstance(stored, dict) and isinstance(stored.get(key), (dict, list)):
            stored = stored[key]
            break
    if isinstance(stored, list) and stored:  # the first of several snapshots
        stored = stored[0]
    if not isinstance(stored, dict) or not stored or not all(_is_weight(*pair) for pair in stored.items()):
        raise ModelError(f"weights: {path} is not a state dict (names and tensors), nor a checkpoint with one inside")
    return stored


def _is_weight(name: object, value: object) -> bool:
    plain = isinstance(value, Tensor) and value.layout == torch.strided and not value.is_complex()
    return isinstance(name, str) and plain


def read_checkpoint(path: Path) -> Any:
    """Read the whole content of a .safetensors file, or of a file that torch saved."""
    if not is_file(path):
        raise ModelError(f"weights: {path} {no_file(path)}; give a .safetensors file or a state dict")
    if path.suffix == ".safetensors":
        with guarded(f"weights: {path} cannot be read", error=ModelError):
            return safetensors.torch.load_file(path)
    refused = (
        f"weights: {path} is refused: it contains more than tensors, which could run code, or is not a checkpoint; "
        "save model.state_dict() with safetensors.torch.save_file or torch.save"
    )
    with guarded(refused, error=ModelError), path.open("rb") as opened:
        if zipfile.is_zipfile(opened):
            with zipfile.ZipFile(opened) as archive:
                check_no_torchscript(f"weights: {path}", archive)
        return read_torch(opened)


def check_no_torchscript(name: str, archive: zipfile.ZipFile) -> None:
    """Raise ModelError for a program of torch.jit; ``name`` begins the sentence."""
    if any(part.partition("/")[2].startswith("code/") for part in archive.namelist()):
        raise ModelError(
            f"{name} is a TorchScript program, which lvmrs does not read; save the network with torch.export.save for "
            "export:FILE.pt2, or to ONNX for onnx:FILE"
        )


def read_torch(stream: BinaryIO) -> Any:
    """Read an open file that torch saved, and check its checksums, which torch ignores.

    Torch does not compress files. Raises ValueError for compressed or overlapping parts, which could fill the memory.
    """
    if zipfile.is_zipfile(stream):
        with zipfile.ZipFile(stream) as archive:
            parts = archive.infolist()
            compressed = any(part.compress_type != zipfile.ZIP_STORED for part in parts)
            if compressed or sum(part.file_size for part in parts) > archive.start_dir:
                raise ValueError("its parts are larger than the file, which is not from torch")
            if (damaged := archive.testzip()) is not None:
                raise ValueError(f"its part {damaged} is damaged")
    stream.seek(0)
    return torch.load(stream, map_location="cpu", weights_only=True)


def load_weights(module: nn.Module, path: Path) -> bool:
    """Load all weights of a file into a module. Accepts the usual variants of their names.

    Returns:
        True if the names show that the network was trained with a normalisation that is not in the file.
    """
    read = read_weights(path)
    wanted = module.state_dict()
    variants = [{rename(key): value for key, value in read.items()} for rename in _VARIANTS]
    fits = [len(set(variant) & set(wanted)) for variant in variants]
    given = variants[fits.index(max(fits))]
    # Checkpoints of torch before 0.4.1 lack num_batches_tracked, which eval mode does not use.
    problems = [f"{key} is missing" for key in wanted if key not in given and not key.endswith(_COUNT)]
    problems += [f"{key} is not in the model" for key in given if key not in wanted]
    both = [(key, given[key], wanted[key].shape) for key in wanted if key in given]
    problems += [
        f"{key} is {tuple(v.shape)} and should be {tuple(shape)}" for key, v, shape in both if v.shape != shape
    ]
    problems += [
        f"{key} holds NaN" for key, v, shape in both if v.shape == shape and v.is_floating_point() and v.isnan().any()
    ]
    if problems:
        more = f", and {len(problems) - 3} more" if len(problems) > 3 else ""
        raise ModelError(f"weights: {path} does not fit the model: {'; '.join(problems[:3])}{more}")
    with guarded(f"weights: {path} cannot be put into the model", error=ModelError):
        module.load_state_dict(given, strict=False)
    return max(fits) > fits[1] and all(_plain(key).startswith("1.") for key in read)


def _plain(key: str) -> str:
    """The name without the parts of DataParallel and torch.compile."""
    return ".".join(part for part in key.split(".") if part not in ("module", "_orig_mod"))


def _behind_normalisation(key: str) -> str:
    """The name without the index in a Sequential that begins with a normalisation (Cohen et al. 2019)."""
    return _plain(key).removeprefix("1.")


def _other_names(key: str) -> str:
    """The name in lvmrs of the shortcut and the last layer, which other residual networks name differently."""
    names = {"linear": "fc", "shortcut": "downsample"}
    return ".".join(names.get(part, part) for part in _behind_normalisation(key).split("."))


# Variants of names in order of preference: ``load_weights`` takes the first that matches the most names.
_VARIANTS: tuple[Callable[[str], str], ...] = (str, _plain, _behind_normalisation, _other_names)


def digest_of_file(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def digest_of_module(module: nn.Module) -> str:
    """SHA-256 over the names, shapes, types and values of all parameters and buffers."""
    digest = hashlib.sha256()
    for name, value in sorted(module.state_dict().items()):
        plain = value.detach().cpu().contiguous()
        digest.update(f"\n{name} {tuple(plain.shape)} {plain.dtype}\n".encode())
        digest.update(plain.reshape(-1).view(torch.uint8).numpy() if plain.numel() else b"")
    return digest.hexdigest()
