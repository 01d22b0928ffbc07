"""docs/names.md has the tables of all names, made from the registry.

To write it again: make docs-names
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lvmrs import registry
from lvmrs.models import ready
from lvmrs.registry import NETWORKS, Names

PAGE = Path(__file__).parent.parent / "docs" / "names.md"

HEAD = """# Names

All that can be chosen by name. This page is made from `lvmrs.registry`, as are the help texts of the command line; a
name that is not here is refused. Capital letters stand for what you write after the colon. MODULE may also be the path
of a `.py` file. An extra is installed with `pip install 'lvmrs[EXTRA]'`.
"""

ABOUT = {
    "map": "What is smoothed; `--map` takes simplex maps.",
    "bound": "How a mean is bounded: `--bound`. [bounds.md](bounds.md) compares them.",
    "form": "Which radius: a method chooses it, or `--form` with `--method fixed`. [theory.md](theory.md) has them.",
    "noise": "What is added to an input: `--noise`.",
    "objective": "What a network is trained for: `lvmrs train --objective`.",
    "method": "How to certify: `--method`. [planners.md](planners.md) compares them.",
    "model": "`--model` and `lvmrs.models.load`. Those without a normalisation of their own take `--mean`, `--std`.",
    "denoiser": "What is put before a model to take noise out: `--denoiser`. [networks.md](networks.md) says more.",
    "data set": "`--data` and `lvmrs.data.load`.",
    "tracker": "Where measures go while a run or training works: `--tracker`.",
    "network": "After `ready:`, with settings, as `ready:resnet20,classes=100`. [networks.md](networks.md) says more.",
}

COLUMNS: dict[str, Callable[[Names, str], str]] = {
    "name": lambda names, name: f"`{names.written(name)}`",
    "what it is": lambda names, name: names.words(name),
    "settings": lambda names, name: ", ".join(ready.settings_of(name)) if names is NETWORKS else "",
    "extra": lambda names, name: f"`{names.extra_of(name)}`" if names.extra_of(name) else "",
}


def table(names: Names) -> Iterator[str]:
    """A column that would be empty is left out."""
    columns = {title: cell for title, cell in COLUMNS.items() if any(cell(names, name) for name in names)}
    yield f"| {' | '.join(columns)} |"
    yield "|---" * len(columns) + "|"
    for name in names:
        yield f"| {' | '.join(cell(names, name) for cell in columns.values())} |".replace("|  |", "| |")


def tables() -> list[Names]:
    return [value for value in vars(registry).values() if isinstance(value, Names)]


def page() -> str:
    parts = [HEAD]
    for names in tables():
        title = f"{names.kind.capitalize()}s"
        parts.append("\n".join([f"## {title}", "", ABOUT[names.kind], "", *table(names), ""]))
    return "\n".join(parts)


def test_the_page_has_what_the_registry_has(monkeypatch: pytest.MonkeyPatch) -> None:
    for names in tables():
        monkeypatch.setattr(names, "_added", {})  # parts that other tests made known
    if os.environ.get("LVMRS_GOLDEN") == "write":
        PAGE.write_text(page(), encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == page()


def test_every_name_leads_to_something() -> None:
    for names in tables():
        for name in names:
            assert callable(names.find(name)), name
            assert names.words(name), name
