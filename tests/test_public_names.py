"""What is public is listed, sorted, documented and importable without anything optional."""

import importlib
import inspect
import pkgutil
import subprocess
import sys
from types import ModuleType

import pytest

import lvmrs


def modules() -> list[ModuleType]:
    names = [info.name for info in pkgutil.walk_packages(lvmrs.__path__, "lvmrs.")]
    return [lvmrs, *(importlib.import_module(name) for name in names)]


def written_in(module: ModuleType) -> set[str]:
    """The functions and classes without an underscore that a module defines."""
    return {
        name
        for name, value in vars(module).items()
        if (inspect.isfunction(value) or inspect.isclass(value))
        and value.__module__ == module.__name__
        and not name.startswith("_")
    }


@pytest.mark.parametrize("module", modules(), ids=lambda module: module.__name__)
def test_what_is_public_is_documented(module: ModuleType) -> None:
    assert module.__doc__
    for name in written_in(module):
        assert inspect.getdoc(getattr(module, name)), f"{module.__name__}.{name} has no documentation"


@pytest.mark.parametrize(
    "module", [each for each in modules() if hasattr(each, "__path__")], ids=lambda each: each.__name__
)
def test_a_package_lists_what_it_offers(module: ModuleType) -> None:
    assert len(module.__all__) == len(set(module.__all__))  # `make check` says that they are sorted
    assert all(hasattr(module, name) for name in module.__all__)
    assert written_in(module) <= set(module.__all__)


def test_importing_loads_nothing_optional() -> None:
    """Nor scipy.stats, which is not optional, but would take a fifth of the time that a command needs to start."""
    optional = ["entmax", "hypothesis", "matplotlib", "mpmath", "pandas", "pytest", "ray", "sklearn", "transformers"]
    optional.append("scipy.stats")
    code = f"import sys, lvmrs.runs, lvmrs.cli.certify; print([name for name in {optional} if name in sys.modules])"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout  # noqa: S603
    assert loaded.strip() == "[]"
