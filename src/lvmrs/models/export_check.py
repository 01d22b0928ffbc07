"""Checks that a file of torch.export contains only a graph of tensor operations, before torch reads the file.

Torch unpickles parts of such a file without restriction, looks up the functions of the graph by name in all of its
modules, evaluates expressions of sizes, and loads native libraries. So a file could run arbitrary code. This module
accepts only the parts of plain programs, and writes them to a new archive for torch.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from lvmrs._util.machine import memory
from lvmrs.errors import ModelError
from lvmrs.models.weights import read_torch_stream

__all__ = ["checked_program"]

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


def checked_program(name: str, path: Path) -> io.BytesIO:
    """Copy a file of torch.export. Raises ModelError if it contains more than a graph and its tensors.

    Args:
        name: the name of the model, for error messages.
        path: the file.

    Returns:
        The copy, for ``torch.export.load``.
    """

    def refuse(what: str) -> ModelError:
        return ModelError(f"{name}: it is refused, since it could run code: {what}; export a plain network")

    written = io.BytesIO()
    with zipfile.ZipFile(path) as archive, zipfile.ZipFile(written, "w") as again:
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
                read_torch_stream(io.BytesIO(content))
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
    for guard in stored.get("guards_code") or ():
        if not _GUARD.fullmatch(guard):
            raise refuse(f"it has the guard {guard!r:.60}")
    for node in _nodes(stored):
        node["metadata"] = {}
        if not _OPERATION.fullmatch(node["target"]):
            raise refuse(f"it calls {node['target']!r:.60}")
    for key, text, target in _strings(stored):
        if not _harmless(key, text, target):
            raise refuse(f"it has {key} {text!r:.60}")
    return stored


def _nodes(stored: Any) -> Iterator[dict[str, Any]]:
    """The nodes of all graphs, including nested graphs."""
    parts = stored.values() if isinstance(stored, dict) else stored if isinstance(stored, list) else ()
    for part in parts:
        yield from _nodes(part)
    if isinstance(stored, dict) and "target" in stored:
        yield stored


def _strings(stored: Any, key: str = "", target: str = "") -> Iterator[tuple[str, str, str]]:
    """All strings as (key, string, operation that takes it), including the keys themselves."""
    if isinstance(stored, str):
        yield key, stored, target
    elif isinstance(stored, list):
        for part in stored:
            yield from _strings(part, key, target)
    elif isinstance(stored, dict):
        target = str(stored.get("target", target))
        for inner, part in stored.items():
            yield "key", inner, target
            yield from _strings(part, inner, target)


def _harmless(key: str, text: str, target: str) -> bool:
    if key == "guards_code":  # _checked_graph checks guards
        return True
    if key in ("in_spec", "out_spec"):
        return not text or all(map(_is_container, _containers(json.loads(text)[1])))
    if key == "expr_str":
        return _SIZE.fullmatch(text) is not None
    if key in ("as_string", "as_strings"):
        return (_EINSUM if target.startswith("torch.ops.aten.einsum") else _WORD).fullmatch(text) is not None
    return _NAME.fullmatch(text) is not None and not any(part.startswith("__") for part in text.split("."))


def _containers(spec: Any) -> Iterator[dict[str, Any]]:
    yield spec
    for part in spec["children_spec"]:
        yield from _containers(part)


def _is_container(spec: dict[str, Any]) -> bool:
    names = json.loads(spec["context"]) if isinstance(spec["context"], str) else spec["context"]
    plain = names is None or (isinstance(names, list) and all(isinstance(name, str | int) for name in names))
    return spec["type"] in _CONTAINERS and plain
