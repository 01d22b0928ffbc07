"""Loads models from files of torch.export, after a check that they contain only a graph of tensor operations.

Torch unpickles parts of such a file without restriction, looks up the functions of the graph by name in all of its
modules, evaluates expressions of sizes, and loads native libraries. So a file could run arbitrary code. This module
accepts only the parts of plain programs, and writes them to a new archive for torch.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from lvmrs._util.facts import ModelFacts
from lvmrs.errors import ModelError, guarded
from lvmrs.kernel.checks import memory
from lvmrs.models.fixed_batch import InParts
from lvmrs.models.weights import check_no_torchscript, read_torch


def exported(name: str, rest: str) -> tuple[nn.Module, ModelFacts]:
    """Load a program of torch.export.save. Raises ModelError if it contains more than tensor operations."""
    path = Path(rest)
    with guarded(f"{name}: it is not a program saved by torch.export.save", error=ModelError):
        program = torch.export.load(_checked_program(name, path))
        taken = program.graph_signature.user_inputs
        if len(taken) != 1:
            raise ModelError(f"{name}: it takes {len(taken)} inputs; expected one batch of images")
        (batch,) = (node.meta["val"].shape[0] for node in program.graph.nodes if node.name == taken[0])
        model: nn.Module = program.module()
    if isinstance(batch, int):
        return InParts(model, batch), ModelFacts(file_batch=batch)
    return model, ModelFacts()


# Patterns of the parts of a plain program.
_PLAIN = r"archive_format|archive_version|byteorder|\.data/[\w-]+|data/weights/weight_\d+|data/constants/tensor_\d+"
_PAYLOADS = r"data/(weights|constants)/model_(weights|constants)_config\.json"
_PICKLES = r"data/(weights|constants|sample_inputs)/model\.pt"
_GRAPH = r"models/model\.json"

_OPERATION = re.compile(
    r"torch\.ops\.aten\.(?!(from_file|save)\b)(?!__)\w+(\.(?!__)\w+)?|torch\.ops\.higher_order\.wrap_with_\w+|math\.\w+"
    r"|torch\.sym_\w+|_operator\.(add|sub|mul|truediv|floordiv|mod|pow|neg|getitem|eq|ne|lt|le|gt|ge|and_|or_|not_)"
)
# String arguments of operations, such as the rounding mode of a division. File names are not among them.
_WORD = re.compile(
    "|none|mean|sum|tanh|floor|trunc|same|valid|zeros|constant|reflect|replicate|circular|nearest|bilinear|bicubic|ij|xy"
)
_EINSUM = re.compile(r"[A-Za-z,.\s]*(->[A-Za-z,.\s]*)?")
_NAME = re.compile(r"[\w.:+-]*")
_SYMBOL = r"Symbol\('[a-z]+\d+'(, \w+=(True|False))*\)|[su]\d+"
_SIZE = re.compile(
    rf"({_SYMBOL}|Add|Mul|Max|Min|Mod|PythonMod|FloorDiv|CleanDiv|Integer|Rational|True|False|(?<!\d)\d{{1,12}}(?!\d)|[\s(),+*/=<>-])*"
)
_GUARD = re.compile(r"(L(\['\w+'\]|\[\d+\])+(\.size\(\)\[\d+\])?|(?<!\d)\d{1,12}(?!\d)|and|or|not|[\s()+*/%=<>!-])*")
_CONTAINERS = ("builtins.tuple", "builtins.list", "builtins.dict", None)


def _checked_program(name: str, path: Path) -> io.BytesIO:
    """Copy a file for ``torch.export.load``. Raises ModelError if it contains more than a graph and its tensors."""

    def refuse(what: str) -> ModelError:
        return ModelError(f"{name}: it is refused, since it could run code: {what}; export a plain network")

    written = io.BytesIO()
    with zipfile.ZipFile(path) as archive, zipfile.ZipFile(written, "w") as again:
        check_no_torchscript(f"{name}: it", archive)
        if not any(entry.endswith("archive_format") for entry in archive.namelist()):  # torch would log a traceback
            raise ModelError(f"{name}: it is not a program saved by torch.export.save")
        if len(set(archive.namelist())) < len(archive.namelist()):
            raise refuse("two of its parts have the same name")
        sizes = {info.filename: info.file_size for info in archive.infolist()}
        if sum(sizes.values()) > memory():
            raise ModelError(f"{name}: it would take more than the memory of this machine")
        for info in archive.infolist():
            part, content = info.filename.partition("/")[2], archive.read(info)
            if re.fullmatch(_GRAPH, part):
                content = json.dumps(_checked_graph(json.loads(content), refuse)).encode()
            elif re.fullmatch(_PAYLOADS, part):
                folder = info.filename.rpartition("/")[0]
                empty = {held.removeprefix(f"{folder}/") for held, size in sizes.items() if not size}
                _check_payloads(json.loads(content), empty, refuse)
            elif re.fullmatch(_PICKLES, part):
                read_torch(io.BytesIO(content))
            elif not re.fullmatch(_PLAIN, part):
                raise refuse(f"it holds {part!r:.60}")
            again.writestr(info.filename, content)
    written.seek(0)
    return written


def _check_payloads(stored: Any, empty: set[str], refuse: Callable[[str], ModelError]) -> None:
    """Raise for tensors that are pickled, or that have no values: torch would fill those with zeros."""
    for key, payload in stored["config"].items():
        if payload["use_pickle"] or not re.fullmatch(r"(weight|tensor)_\d+", payload["path_name"]):
            raise refuse(f"{key!r:.60} is not a plain tensor")
        if payload["path_name"] in empty and all(size.get("as_int") != 0 for size in payload["tensor_meta"]["sizes"]):
            raise ValueError(f"{key!r:.60} has no values")


def _checked_graph(stored: Any, refuse: Callable[[str], ModelError]) -> Any:
    """The graph without the metadata of its nodes, which does not affect the function."""
    if stored["graph_module"].get("treespec_namedtuple_fields"):
        raise refuse("it takes or returns named tuples")
    _check_part(stored, refuse)
    return stored


def _check_part(stored: Any, refuse: Callable[[str], ModelError], key: str = "", target: str = "") -> None:
    """Check all operations and strings of a part of a graph, including the keys, and remove the metadata of nodes.

    ``key`` is the key of the part, and ``target`` the operation that takes it.
    """
    if isinstance(stored, str):
        if not _harmless(key, stored, target):
            raise refuse(f"it has {key} {stored!r:.60}")
    elif isinstance(stored, list):
        for part in stored:
            _check_part(part, refuse, key, target)
    elif isinstance(stored, dict):
        if "target" in stored:
            target, stored["metadata"] = stored["target"], {}
            if not _OPERATION.fullmatch(target):
                raise refuse(f"it calls {target!r:.60}")
        for inner, part in stored.items():
            _check_part(inner, refuse, "key", target)
            _check_part(part, refuse, inner, target)


def _harmless(key: str, text: str, target: str) -> bool:
    if key in ("in_spec", "out_spec"):
        return not text or _is_container(json.loads(text)[1])
    if key in ("as_string", "as_strings"):
        return (_EINSUM if target.startswith("torch.ops.aten.einsum") else _WORD).fullmatch(text) is not None
    if key in ("expr_str", "guards_code"):
        return (_SIZE if key == "expr_str" else _GUARD).fullmatch(text) is not None
    return _NAME.fullmatch(text) is not None and not any(part.startswith("__") for part in text.split("."))


def _is_container(spec: dict[str, Any]) -> bool:
    """Whether inputs or outputs are plain tuples, lists and dicts."""
    names = json.loads(spec["context"]) if isinstance(spec["context"], str) else spec["context"]
    plain = names is None or (isinstance(names, list) and all(isinstance(name, str | int) for name in names))
    return spec["type"] in _CONTAINERS and plain and all(map(_is_container, spec["children_spec"]))
