"""Imports objects from the user's Python code by name.

A name is ``MODULE:NAME``, where MODULE is installed, or ``FILE.py:NAME``. A module in the working directory is imported
only if the name gives it as a file, so that no other file there is executed. The module keeps a list of these files:
another process must import them before it unpickles objects of their classes.
"""

import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from lvmrs._util.files import check_kind, expanded, is_file, redirected
from lvmrs.errors import LvmrsError, guarded


class Origin(NamedTuple):
    """A user's file that was imported as a module."""

    name: str
    """The name of the module in ``sys.modules`` and in pickles of its objects."""
    file: str
    """The absolute path of the file."""


_NOTHING = object()
# Imported files and their modules. Each file is executed once: two classes from one file belong to one module.
_RUN: dict[Path, Any] = {}
# The folders of these files, at the end of ``sys.path``.
_BESIDE: set[str] = set()


def imported(name: str, rest: str, *, error: type[LvmrsError]) -> Any:
    """Import the object ``rest``, which is ``MODULE:NAME`` with an installed module or the path of a .py file.

    ``name`` is what the user typed, for error messages.
    """
    module, _, attribute = rest.rpartition(":")
    if not module or not attribute:
        raise error(f"{name}: write python:FILE.py:NAME, such as python:nets.py:resnet, or python:MODULE:NAME")
    with guarded(f"{name}: {module} cannot be imported", error=error):
        loaded = _module(name, module, attribute, error)
        found = getattr(loaded, attribute, _NOTHING)  # may call __getattr__ of the module
    if found is _NOTHING:
        raise error(f"{name}: there is no {attribute} in {module}")
    return found


def _module(name: str, module: str, attribute: str, error: type[LvmrsError]) -> Any:
    if module.endswith(".py"):
        return _from_file(expanded(module).resolve())
    file = module.replace(".", "/") + ".py"
    not_installed = error(
        f"{name}: no module {module} is installed; for the file {file} here, write python:{file}:{attribute}"
    )
    if origin_of(module) is not None:
        raise not_installed
    try:
        with _installed_only():
            return importlib.import_module(module)
    except ModuleNotFoundError as missing:
        if missing.name not in (module, module.partition(".")[0]) or not is_file(file):
            raise
        raise not_installed from missing


@contextmanager
def _installed_only() -> Iterator[None]:
    """Hide the folders of imported files from imports in this block."""
    hidden = [folder for folder in sys.path if folder in _BESIDE]
    sys.path[:] = [folder for folder in sys.path if folder not in _BESIDE]
    try:
        yield
    finally:
        sys.path.extend(hidden)


def origin_of(module: str) -> Origin | None:
    """The file that was imported under this module name; None for all other modules."""
    return next((Origin(module, str(path)) for path, loaded in _RUN.items() if loaded.__name__ == module), None)


def files_run() -> list[Path]:
    """All user's files that were imported as modules."""
    return list(_RUN)


def reimport(modules: Iterable[Origin], *, error: type[LvmrsError]) -> None:
    """Import the files that another process imported, so that objects of their classes can be unpickled."""
    for name, file in modules:
        with guarded(f"{file} cannot be imported here", error=error):
            _from_file(redirected(Path(file)), name)


def called(name: str, function: Callable[..., Any], *arguments: object, error: type[LvmrsError]) -> Any:
    """Call a user's function; turns its exceptions into ``error`` with a message of one sentence."""
    with guarded(f"{name}: the function failed", error=error):
        return function(*arguments)


def source_hash(rest: str) -> str | None:
    """SHA-256 of the file that defines ``MODULE:NAME``, without the files that it imports; None if there is no file."""
    module = rest.rpartition(":")[0]
    file = module if module.endswith(".py") else _file_of(module)
    return sha256(Path(file).read_bytes()).hexdigest() if file and is_file(file) else None


def code_hash(part: type) -> str | None:
    """SHA-256 of the file that defines a user's class; None for a class of lvmrs, "unknown" without a file."""
    if part.__module__.partition(".")[0] == "lvmrs":
        return None
    file = _file_of(part.__module__)
    return sha256(Path(file).read_bytes()).hexdigest() if file else "unknown"


def _file_of(module: str) -> str | None:
    return getattr(sys.modules.get(module), "__file__", None)


def _from_file(path: Path, name: str = "") -> Any:
    """Import a file as a module of this name, or of a free name; each file is executed once.

    Files of the same name in two folders get different module names.
    """
    if path not in _RUN:
        free = path.stem if path.stem not in sys.modules else f"{path.stem}_{sha256(bytes(path)).hexdigest()[:8]}"
        _RUN[path] = _run_file(path, name or free)
    return _RUN[path]


def _run_file(path: Path, name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not a Python file")
    check_kind(path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    # During the import the folder of the file comes first in sys.path, as for a script. Afterwards it comes last: the
    # functions of the file may import its neighbours, which cannot replace installed libraries.
    beside = str(path.parent)
    sys.path.insert(0, beside)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    finally:
        with suppress(ValueError):  # the file may have changed sys.path
            sys.path.remove(beside)
    if beside not in sys.path:
        sys.path.append(beside)
        _BESIDE.add(beside)
    return module
