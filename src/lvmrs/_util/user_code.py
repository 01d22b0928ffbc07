"""Objects from the user's own Python code, imported by the names that the user typed.

A name is ``MODULE:NAME``, where MODULE is installed, or ``FILE.py:NAME``. A module in the working directory is imported
only if it is named as a file, so that no file that merely lies there is run. The files are remembered: another process
runs them before it unpickles objects of that code.
"""

import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from lvmrs._util.files import check_kind, expanded, is_file, where
from lvmrs.errors import LvmrsError, guarded

__all__ = ["Origin", "called", "code_hash", "files_run", "import_again", "imported", "origin_of", "source_hash"]


class Origin(NamedTuple):
    """A file of the user that was run as a module."""

    name: str
    """The name that Python knows the module by, which stands in pickles of its objects."""
    file: str
    """Its absolute path."""


_NOTHING = object()
# The modules of files, each of which runs once: two classes from one file belong to one module.
_RUN: dict[Path, Any] = {}
# The folders of these files, which are searched last.
_BESIDE: set[str] = set()


def imported(name: str, rest: str, *, error: type[LvmrsError]) -> Any:
    """Import an object of the user.

    Args:
        name: the whole name that the user typed, for errors.
        rest: ``MODULE:NAME``, where MODULE is an installed module or the path of a .py file.
        error: the class of the error that is raised.
    """
    module, _, attribute = rest.rpartition(":")
    if not module or not attribute:
        raise error(f"{name}: write python:FILE.py:NAME, such as python:nets.py:resnet, or python:MODULE:NAME")
    with guarded(f"{name}: {module} cannot be imported", error=error):
        loaded = _module(name, module, attribute, error)
        found = getattr(loaded, attribute, _NOTHING)  # a module may compute its attributes
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
    """Within this block, what lies beside a file that was run is not found."""
    hidden = [folder for folder in sys.path if folder in _BESIDE]
    sys.path[:] = [folder for folder in sys.path if folder not in _BESIDE]
    try:
        yield
    finally:
        sys.path.extend(hidden)


def origin_of(module: str) -> Origin | None:
    """The file that was run as the module of that name; None for all other modules."""
    return next((Origin(module, str(path)) for path, loaded in _RUN.items() if loaded.__name__ == module), None)


def files_run() -> list[Path]:
    """All files of the user that were run as modules."""
    return list(_RUN)


def import_again(modules: Iterable[Origin], *, error: type[LvmrsError]) -> None:
    """Run the files that another process had run, so that objects of that code can be unpickled."""
    for name, file in modules:
        with guarded(f"{file} cannot be imported here", error=error):
            _from_file(where(Path(file)), name)


def called(name: str, function: Callable[..., Any], *arguments: object, error: type[LvmrsError]) -> Any:
    """Call a function of the user; if it fails, raise one sentence that says how."""
    with guarded(f"{name}: the function failed", error=error):
        return function(*arguments)


def source_hash(rest: str) -> str | None:
    """SHA-256 of the file that holds ``MODULE:NAME``, if there is one; files that it imports are not included."""
    module = rest.rpartition(":")[0]
    file = module if module.endswith(".py") else getattr(sys.modules.get(module), "__file__", None)
    return hashlib.sha256(Path(file).read_bytes()).hexdigest() if file and is_file(file) else None


def code_hash(part: type) -> str | None:
    """SHA-256 of the file that holds a class of the user; None for a class of lvmrs, "unknown" without a file."""
    if part.__module__.partition(".")[0] == "lvmrs":
        return None
    file = getattr(sys.modules.get(part.__module__), "__file__", None)
    return hashlib.sha256(Path(file).read_bytes()).hexdigest() if file else "unknown"


def _from_file(path: Path, name: str = "") -> Any:
    """The module of a file, under that name, or under one of its own."""
    if path not in _RUN:
        _RUN[path] = _run_file(path, name or _free_name(path))
    return _RUN[path]


def _free_name(path: Path) -> str:
    """Two files may have one name: each is a module of its own, so that its classes are found in it."""
    return path.stem if path.stem not in sys.modules else f"{path.stem}_{hashlib.sha256(bytes(path)).hexdigest()[:8]}"


def _run_file(path: Path, name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not a Python file")
    check_kind(path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    # The file finds its neighbours first, as a script does. Afterwards they come last: its functions may import them,
    # and none of them can take the place of an installed library.
    beside = str(path.parent)
    sys.path.insert(0, beside)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    finally:
        with suppress(ValueError):  # the file may have changed the list
            sys.path.remove(beside)
    if beside not in sys.path:
        sys.path.append(beside)
        _BESIDE.add(beside)
    return module
