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


def test_all_recipes_followed(tmp_path: Path) -> None:
    """In a copy: the tests of the recipes, and those that keep names and docs true after ``make docs``."""
    for name in ("src", "docs", "tests"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    added = []
    for recipe in RECIPES:
        for file, table, code in blocks(recipe):
            apply(tmp_path, file, table, code)
            added += [file] if file.startswith("tests/") else []
    docs = ["tests/test_names_page.py", "tests/test_trusted_base.py"]
    tables = "tests/test_own_parts.py::test_tables_say_what_the_parts_are"
    for tests, write in ((docs, True), ([*added, *docs, tables], False)):
        environment = {**os.environ, "PYTHONPATH": f"{tmp_path / 'src'}{os.pathsep}{tmp_path}"}
        if write:
            environment["LVMRS_GOLDEN"] = "write"
        done = subprocess.run(  # noqa: S603
            [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider", *tests],
            cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert "| `softened` |" in (tmp_path / "docs" / "names.md").read_text(encoding="utf-8")
    assert "| `noise/laplace.py` |" in (tmp_path / "docs" / "design.md").read_text(encoding="utf-8")
