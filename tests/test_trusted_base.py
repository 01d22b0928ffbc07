"""docs/design.md lists the modules that must be right for a certificate to be right; here that list is kept true.

To write the numbers of lines anew: LVMRS_GOLDEN=write python -m pytest tests/test_trusted_base.py
"""

import ast
import os
import re
from pathlib import Path

import lvmrs
from lvmrs.registry import BOUNDS, FORMS, MAPS

SOURCE = Path(lvmrs.__file__).parent
DESIGN = Path(__file__).parent.parent / "docs" / "design.md"
ROW = re.compile(r"^\| `([\w./]+\.py)` \| (\d+) \|", flags=re.MULTILINE)


def file_of(module: str) -> Path | None:
    place = SOURCE.joinpath(*module.split(".")[1:])
    return next((path for path in (place.with_suffix(".py"), place / "__init__.py") if path.is_file()), None)


def imports(file: Path) -> set[Path]:
    """The files of this package that a file imports, at its top or inside its functions, not for types alone."""
    found: set[Path] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "lvmrs":
            for name in node.names:
                path = file_of(f"{node.module}.{name.name}") or file_of(str(node.module))
                if path is not None:
                    found.add(path)
    return found


def closure(start: list[str]) -> set[str]:
    waiting = [path for module in start if (path := file_of(module)) is not None]
    assert len(waiting) == len(start)
    seen: set[Path] = set()
    while waiting:
        file = waiting.pop()
        if file not in seen:
            seen.add(file)
            waiting += imports(file)
    return {str(path.relative_to(SOURCE)) for path in seen if path.name != "__init__.py"}


def parts() -> list[str]:
    return [table.find(name).__module__ for table in (MAPS, BOUNDS, FORMS) for name in table]


def listed() -> dict[str, int]:
    return {name: int(lines) for name, lines in ROW.findall(DESIGN.read_text(encoding="utf-8"))}


def test_every_module_that_a_certificate_relies_on_is_listed() -> None:
    together = {
        "planners/base.py",
        "smooth.py",
        "samplers.py",
        "jobs/job.py",
        "jobs/recertify.py",
        "runs/manifest.py",
    }  # they use what may be clever too
    needed = closure(
        ["lvmrs.prove", "lvmrs.sampling", "lvmrs.deterministic", "lvmrs.runs.scores", "lvmrs.models.network_lipschitz",
         "lvmrs.models.sandwich", *parts()]
    )  # fmt: skip
    assert set(listed()) == needed | together
    assert not any(name.startswith(("planners", "cli", "report")) for name in needed)


def test_lines_are_counted_and_no_module_is_long() -> None:
    counted = {name: len((SOURCE / name).read_text(encoding="utf-8").splitlines()) for name in listed()}
    if os.environ.get("LVMRS_GOLDEN") == "write":
        text = DESIGN.read_text(encoding="utf-8")
        DESIGN.write_text(ROW.sub(lambda row: f"| `{row[1]}` | {counted[row[1]]} |", text), encoding="utf-8")
    assert listed() == counted
    assert max(counted.values()) <= 300
    assert counted["prove.py"] < 333  # what it was before it became a fold
