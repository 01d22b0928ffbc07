"""The documentation site: links lead somewhere, on GitHub too, and the reference has every public name.

``make docs`` builds the site, executes its tutorials and fails on warnings.
"""

import importlib
import inspect
import re
from pathlib import Path
from types import ModuleType

import pytest

import lvmrs

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#{1,6} (.*)$", flags=re.MULTILINE)
DIRECTIVE = re.compile(r"^\.\. automodule:: (\S+)\n((?:   :.*\n)*)", flags=re.MULTILINE)
REFERENCE = {
    module: options
    for page in (DOCS / "reference").glob("*.md")
    for module, options in DIRECTIVE.findall(page.read_text(encoding="utf-8"))
}


def prose(page: Path) -> str:
    """A page without its blocks of code, which may contain what looks like a link or a heading."""
    return re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives to the headings of a page."""
    found: set[str] = set()
    for heading in HEADING.findall(prose(page)):
        slug = re.sub(r"[^\w\- ]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()).replace(" ", "-")
        repeated = sum(other == slug or re.fullmatch(rf"{re.escape(slug)}-\d+", other) is not None for other in found)
        found.add(f"{slug}-{repeated}" if repeated else slug)
    return found


def broken(page: Path) -> list[str]:
    """The links of a page that lead nowhere; those to other sites are not followed."""
    wrong = []
    for link in LINK.findall(prose(page)):
        path, _, anchor = link.partition("#")
        if re.match(r"[a-z]+:", link):
            continue
        there = (page.parent / path).resolve() if path else page
        if not there.exists() or (anchor and anchor not in anchors(there)):
            wrong.append(link)
    return wrong


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    assert broken(page) == []


def test_links_that_lead_nowhere_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# One `a_b` (2)\n\n[a](#one-a_b-2) [b](#two) [c](none.md) [d](https://x.org/y#z)\n")
    assert broken(page) == ["#two", "none.md"]


def public_modules() -> list[ModuleType]:
    offered = [getattr(lvmrs, name) for name in lvmrs.__all__]
    return [lvmrs, *(value for value in offered if inspect.ismodule(value))]


def offered_by(module: ModuleType) -> dict[str, object]:
    """What ``__all__`` lists, or the functions and classes that the module defines; documented with what they are."""
    values = {name: getattr(module, name) for name in getattr(module, "__all__", dir(module))}
    own: dict[str, object] = {
        name: value
        for name, value in values.items()
        if inspect.isfunction(value) or inspect.isclass(value) or inspect.ismodule(value)
    }
    if hasattr(module, "__all__"):
        return own
    return {
        name: value
        for name, value in own.items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    }


def documented(module: ModuleType) -> dict[str, object]:
    """What the reference shows of a module."""
    options = REFERENCE.get(module.__name__, "")
    if ":members:" not in options:
        return {}
    left_out = re.search(r":exclude-members: (.*)", options)
    names = set(left_out[1].split(", ")) if left_out else set()
    return {name: value for name, value in offered_by(module).items() if name not in names}


@pytest.mark.parametrize("module", public_modules(), ids=lambda module: module.__name__)
def test_every_public_name_is_in_the_reference(module: ModuleType) -> None:
    shown = [value for each in public_modules() for value in documented(each).values()]
    for name, value in offered_by(module).items():
        if inspect.ismodule(value):
            assert value.__name__ in REFERENCE, f"docs/reference has no {value.__name__}"
        else:
            assert any(value is other for other in shown), f"docs/reference has no {module.__name__}.{name}"
            assert inspect.getdoc(value), f"{module.__name__}.{name} has no docstring, so the reference leaves it out"


def test_the_reference_names_modules_that_exist() -> None:
    assert REFERENCE
    for name in REFERENCE:
        assert importlib.import_module(name).__doc__


@pytest.mark.parametrize("page", ["index.md", "start.md"])
def test_the_code_of_the_first_pages_runs(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), flags=re.DOTALL)
    exec(compile(code, page, "exec"), {})  # noqa: S102
    assert "1 − 0.001" in capsys.readouterr().out


def test_every_tutorial_is_executed_and_listed() -> None:
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    assert len(list((DOCS / "tutorials").glob("*.md"))) >= 4
    for page in (DOCS / "tutorials").glob("*.md"):
        text = page.read_text(encoding="utf-8")
        assert text.startswith("---\nfile_format: mystnb\n"), f"{page.name} is not a notebook"
        assert "```{code-cell}" in text
        assert f"\ntutorials/{page.stem}\n" in index
