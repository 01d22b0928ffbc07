"""Every example in a docstring of the package gives what it shows, and the mathematics has one for each function."""

import doctest
import importlib
import inspect
import pkgutil
from pathlib import Path

import pytest

import lvmrs

SOURCE = Path(lvmrs.__file__).parent
MATHEMATICS = ("binomial", "confidence", "gaussian_ramp", "lipschitz", "maps", "moments", "radius", "simplex")


def modules() -> list[str]:
    return [info.name for info in pkgutil.walk_packages(lvmrs.__path__, "lvmrs.")]


def has_example(module: str) -> bool:
    place = SOURCE.joinpath(*module.split(".")[1:])
    file = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    return ">>> " in file.read_text(encoding="utf-8")


def is_mathematics(module: str) -> bool:
    return module.split(".")[1] in MATHEMATICS


@pytest.mark.parametrize("module", [name for name in modules() if has_example(name)])
def test_examples_give_what_they_show(module: str) -> None:
    result = doctest.testmod(importlib.import_module(module))
    assert result.attempted > 0
    assert result.failed == 0


@pytest.mark.parametrize("module", [name for name in modules() if is_mathematics(name)])
def test_public_functions_of_the_mathematics_have_an_example(module: str) -> None:
    found = importlib.import_module(module)
    functions = [
        value
        for name in found.__all__
        if inspect.isfunction(value := getattr(found, name)) and value.__module__ == module
    ]
    without = [function.__name__ for function in functions if ">>> " not in (function.__doc__ or "")]
    assert without in ([], ["usable"])  # a guard of the maps, without a result to show
