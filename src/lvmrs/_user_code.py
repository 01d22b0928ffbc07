"""Objects from the user's own Python code, imported by the names that the user typed.

The imported modules are remembered, so that another process can import them before it unpickles objects of that code.
"""

import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, NamedTuple

from lvmrs.errors import LvmrsError, first_line

__all__ = ["Origin", "called", "code_hash", "import_again", "imported", "importing_from", "origin_of", "source_hash"]


class Origin(NamedTuple):
    """Where a module of the user comes from: a file by its absolute path, or a name and where it was looked for."""

    name: str
    """The name that Python knows it by, which stands in pickles of its objects."""
    module: str
    directory: str


# The modules of files, each of which runs once: two classes from one file belong to one module.
_RUN: dict[Path, Any] = {}
# Modules that were imported for the user, by the name that Python knows them by.
_IMPORTED: dict[str, Origin] = {}
# Where modules of the user are looked for first; None for the working directory.
_DIRECTORY: ContextVar[Path | None] = ContextVar("directory", default=None)


@contextmanager
def importing_from(directory: Path) -> Iterator[None]:
    """Within this block, search this directory first for modules of the user, instead of the working directory."""
    token = _DIRECTORY.set(directory)
    try:
        yield
    finally:
        _DIRECTORY.reset(token)


def imported(name: str, rest: str, *, error: type[LvmrsError]) -> Any:
    """Import an object of the user.

    Args:
        name: the whole name that the user typed, for errors.
        rest: ``MODULE:NAME``, where MODULE can be imported from here or is the path of a .py file.
        error: the class of the error that is raised.
    """
    module, _, attribute = rest.rpartition(":")
    if not module or not attribute:
        raise error(f"{name}: write python:MODULE:FUNCTION, such as python:nets:resnet or python:nets.py:resnet")
    try:
        loaded = _module(module)
    except Exception as failure:  # the user's code may raise anything
        reason = first_line(failure)
        raise error(f"{name}: {module} cannot be imported ({type(failure).__name__}: {reason})") from failure
    if not hasattr(loaded, attribute):
        raise error(f"{name}: there is no {attribute} in {module}")
    return getattr(loaded, attribute)


def _module(module: str, name: str = "") -> Any:
    """A module; if it is a file, under that name, or under one of its own."""
    if module.endswith(".py"):
        path = Path(module).expanduser().resolve()
        loaded, place = _from_file(path, name), (str(path), "")
    else:
        here = str(_DIRECTORY.get() or Path.cwd())
        loaded, place = _from_module(module, here), (module, here)
    _IMPORTED[loaded.__name__] = Origin(loaded.__name__, *place)
    return loaded


def origin_of(module: str) -> Origin | None:
    """Where a module that was imported for the user comes from; None for all others."""
    return _IMPORTED.get(module)


def import_again(modules: Iterable[Origin], *, error: type[LvmrsError]) -> None:
    """Import what another process had imported, so that objects of that code can be unpickled."""
    for name, module, directory in modules:
        try:
            with importing_from(Path(directory)):
                _module(module, name)
        except Exception as failure:  # whatever the user's code raises
            reason = first_line(failure)
            raise error(f"{module} cannot be imported here ({type(failure).__name__}: {reason})") from failure


def called(name: str, function: Callable[..., Any], *arguments: object, error: type[LvmrsError]) -> Any:
    """Call a function of the user; if it fails, raise one sentence that says how."""
    try:
        return function(*arguments)
    except LvmrsError:
        raise
    except Exception as failure:
        reason = first_line(failure)
        raise error(f"{name}: the function failed with {type(failure).__name__}: {reason}") from failure


def source_hash(rest: str) -> str | None:
    """SHA-256 of the file that holds ``MODULE:NAME``, if there is one; files that it imports are not included."""
    module = rest.rpartition(":")[0]
    found = None if module.endswith(".py") else importlib.util.find_spec(module)
    origin = module if module.endswith(".py") else found.origin if found is not None else None
    path = Path(origin).expanduser() if origin else None
    return hashlib.sha256(path.read_bytes()).hexdigest() if path is not None and path.is_file() else None


def code_hash(part: type) -> str | None:
    """SHA-256 of the file that holds a class of the user; None for a class of lvmrs, "unknown" without a file."""
    if part.__module__.partition(".")[0] == "lvmrs":
        return None
    file = getattr(sys.modules.get(part.__module__), "__file__", None)
    return hashlib.sha256(Path(file).read_bytes()).hexdigest() if file else "unknown"


def _from_module(module: str, here: str) -> Any:
    if here not in sys.path:
        sys.path.insert(0, here)
    return importlib.import_module(module)


def _from_file(path: Path, name: str) -> Any:
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
    beside = str(path.parent)  # the file may import its neighbours
    if beside not in sys.path:
        sys.path.insert(0, beside)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
