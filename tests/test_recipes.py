"""CONTRIBUTING.md, followed: every recipe is applied to a copy of the project, and its tests are run there."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"```python\n# (\S+)(?: ([A-Z]+))?\n(.*?)```", flags=re.DOTALL)
_, *PARTS = re.split(r"^### (.*)$", PAGE, flags=re.MULTILINE)
RECIPES = dict(zip(PARTS[::2], PARTS[1::2], strict=True))


def blocks(recipe: str) -> list[tuple[str, str, str]]:
    """File, table of the registry or nothing, and code, of each block."""
    return BLOCK.findall(RECIPES[recipe])


def test_there_is_a_recipe_for_each_kind() -> None:
    assert list(RECIPES) == ["A map", "A bound", "A planner", "A noise", "A source of models", "A source of data"]


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_recipe_touches_two_files_and_adds_a_test(recipe: str) -> None:
    files = {file for file, _, _ in blocks(recipe)}
    tests = {file for file in files if file.startswith("tests/")}
    assert len(tests) == 1
    assert len(files - tests) == 2
    assert "src/lvmrs/registry.py" in files


def apply(project: Path, file: str, table: str, code: str) -> None:
    path = project / file
    if not table:
        assert not path.exists(), f"{file} exists already"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(code, encoding="utf-8")
        return
    text = path.read_text(encoding="utf-8")
    before, found, after = text.partition(f"\n{table} = Names(")
    assert found, f"there is no table {table}"
    entries, end, rest = after.partition("\n})\n")
    path.write_text(f"{before}{found}{entries}\n{code.rstrip()}{end}{rest}", encoding="utf-8")


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project in which all recipes are followed."""
    project = tmp_path_factory.mktemp("recipes") / "lvmrs"
    for name in ("src", "docs", "tests"):
        shutil.copytree(ROOT / name, project / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", project)
    for recipe in RECIPES:
        for file, table, code in blocks(recipe):
            apply(project, file, table, code)
    return project


TOUCHED = sorted({file for recipe in RECIPES for file, _, _ in blocks(recipe)})
DOCS = ("tests/test_names_page.py",)
# Tests of the project that know all names of a kind.
TABLES = (
    "tests/test_own_parts.py::test_tables_say_what_the_parts_are",
    "tests/test_own_sources.py::test_a_model_source",
    "tests/test_bad_input.py::test_bad_input_gets_one_clear_sentence",
    "tests/kernel/test_proof.py::test_plans_that_cannot_be_trusted_are_refused",
    "tests/planners/test_planners.py::test_bad_planners_are_refused",
)


def run(project: Path, module: str, *arguments: str, **environment: str) -> None:
    """Run a module of Python in the project; it must succeed."""
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-m", module, *arguments],
        cwd=project,
        env={**os.environ, "PYTHONPATH": f"{project / 'src'}{os.pathsep}{project}", **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]


def test_all_recipes_followed(followed: Path) -> None:
    """``make docs-names``, then the tests of the recipes and those that keep names and docs true."""
    quietly = ("-q", "-p", "no:xdist", "-p", "no:cacheprovider")
    run(followed, "pytest", *quietly, *DOCS, LVMRS_GOLDEN="write")
    added = [file for file in TOUCHED if file.startswith("tests/")]
    run(followed, "pytest", *quietly, *added, *DOCS, *TABLES, LVMRS_GOLDEN="")
    assert "| `softened` |" in (followed / "docs" / "names.md").read_text(encoding="utf-8")


def test_the_recipes_are_linted_and_formatted(followed: Path) -> None:
    run(followed, "ruff", "check", "--no-cache", *TOUCHED)
    run(followed, "ruff", "format", "--no-cache", "--check", *TOUCHED)


def test_the_recipes_are_typed(followed: Path) -> None:
    """The cache of ``make check``, if it is there, saves most of the time: torch is large."""
    cache = ROOT / ".mypy_cache"
    if cache.is_dir():
        shutil.copytree(cache, followed / cache.name)
    run(followed, "mypy", *TOUCHED)
