"""Examples in docstrings give what they show; public functions of the mathematics and of three rooms have one."""

import doctest
import importlib
import inspect
import pkgutil
import re
from pathlib import Path
from types import FunctionType

import pytest

import lvmrs
import lvmrs.runs

SOURCE = Path(lvmrs.__file__).parent
MATHEMATICS = ("lvmrs.kernel.bounds", "lvmrs.kernel.lipschitz", "lvmrs.kernel.maps", "lvmrs.kernel.radius")
ROOMS = ("lvmrs.analysis", "lvmrs.runs", "lvmrs.training")
EXAMPLE = re.compile(r"The\s+docstring\s+of\s+``([\w.]+)``\s+has\s+an\s+example")


def modules() -> list[str]:
    return [info.name for info in pkgutil.walk_packages(lvmrs.__path__, "lvmrs.")]


def has_example(module: str) -> bool:
    place = SOURCE.joinpath(*module.split(".")[1:])
    file = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    return ">>> " in file.read_text(encoding="utf-8")


def is_mathematics(module: str) -> bool:
    return module.startswith(MATHEMATICS)


@pytest.mark.parametrize("module", [name for name in modules() if has_example(name)])
def test_examples_give_what_they_show(module: str) -> None:
    result = doctest.testmod(importlib.import_module(module))
    assert result.attempted > 0
    assert result.failed == 0


def test_there_is_mathematics() -> None:
    assert sum(map(is_mathematics, modules())) >= 10


def functions_of(module: str) -> list[FunctionType]:
    """The public functions that are written in a module, or that a room offers."""
    found = importlib.import_module(module)
    room = hasattr(found, "__path__")
    values = [getattr(found, name) for name in (found.__all__ if room else dir(found)) if not name.startswith("_")]
    return [value for value in values if inspect.isfunction(value) and (room or value.__module__ == module)]


@pytest.mark.parametrize("module", [name for name in modules() if is_mathematics(name)])
def test_public_functions_of_the_mathematics_have_an_example(module: str) -> None:
    without = [function.__name__ for function in functions_of(module) if ">>> " not in (function.__doc__ or "")]
    assert set(without) <= {"usable"}  # a guard of the maps, without a result to show


@pytest.mark.parametrize("room", ROOMS)
def test_public_functions_of_the_rooms_have_an_example_or_say_where_one_is(room: str) -> None:
    """And they say what they take, and what they return unless it is nothing."""
    for function in functions_of(room):
        text = function.__doc__ or ""
        assert ">>> " in text or EXAMPLE.search(text), f"{function.__name__} has no example"
        assert "Args:\n" in text, f"{function.__name__} does not say what it takes"
        returns = inspect.signature(function).return_annotation
        assert returns == "None" or "Returns:\n" in text, f"{function.__name__} does not say what it returns"


@pytest.mark.parametrize("part", [lvmrs.Run, lvmrs.runs.Job])
def test_classes_that_say_where_their_example_is(part: type) -> None:
    found = EXAMPLE.search(part.__doc__ or "")
    assert found is not None
    text = importlib.import_module(found[1]).__doc__ or ""
    assert ">>> " in text
    assert f"{part.__name__}(" in text
