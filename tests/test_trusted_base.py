"""docs/design.md lists the modules that must be right for a certificate to be right; here that list is kept true.

To write it again: make docs
"""

import ast
import os
import re
from collections.abc import Iterable
from pathlib import Path

import lvmrs
from lvmrs.registry import PARTS

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
    return [table.find(name).__module__ for table in PARTS for name in table]


def listed() -> dict[str, int]:
    return {name: int(lines) for name, lines in ROW.findall(DESIGN.read_text(encoding="utf-8"))}


# They bring together what must be right and what may be clever.
TOGETHER = {
    "planners/base.py", "smoothed.py", "engine/samplers.py", "kernel/model_check.py", "jobs/job.py", "jobs/recertify.py",
    "jobs/merge.py", "jobs/keeping.py", "runs/manifest.py", "runs/records.py", "runs/selection.py",
    "planners/votes.py", "jobs/deployed.py", "runs/classifier.py",
    "jobs/recorded.py", "planners/requirements.py", "kernel/rounding.py", "models/lipschitz/stated.py", "engine/tracing.py", "engine/folding.py", "engine/execution.py",
    "jobs/selecting.py",
    "engine/pipeline.py", "engine/sources.py", "engine/batching.py", "planners/anytime.py", "jobs/samples.py",
}  # fmt: skip


def needed() -> set[str]:
    return TOGETHER | closure(
        ["lvmrs.kernel.proof", "lvmrs.kernel.anytime", "lvmrs.kernel.sampler", "lvmrs.kernel.deterministic", "lvmrs.record.scores",
         "lvmrs.models.lipschitz.bound", "lvmrs.models.sandwich", *parts()]
    )  # fmt: skip


def counted(names: Iterable[str]) -> dict[str, int]:
    return {name: len((SOURCE / name).read_text(encoding="utf-8").splitlines()) for name in names}


def written() -> str:
    """The page with today's lines. A new module comes after those of its folder, with the first line of its text."""
    text = DESIGN.read_text(encoding="utf-8")
    for name in sorted(needed() - set(listed())):
        rows = [row for row in ROW.finditer(text) if Path(row[1]).parent == Path(name).parent]
        first = (ast.get_docstring(ast.parse((SOURCE / name).read_text(encoding="utf-8"))) or "").partition("\n")[0]
        place = text.index("\n", rows[-1].start()) + 1
        text = f"{text[:place]}| `{name}` | 0 | {first.rstrip('.')} |\n{text[place:]}"
    lines = counted(row[1] for row in ROW.finditer(text))
    return ROW.sub(lambda row: f"| `{row[1]}` | {lines[row[1]]} |", text)


def test_every_module_that_a_certificate_relies_on_is_listed_with_its_lines() -> None:
    if os.environ.get("LVMRS_GOLDEN") == "write":
        DESIGN.write_text(written(), encoding="utf-8")
    assert set(listed()) == needed()
    assert not any(name.startswith(("planners", "cli", "report")) for name in needed() - TOGETHER)
    assert listed() == counted(listed())


def test_the_layout_has_every_module_and_every_room() -> None:
    layout = DESIGN.read_text(encoding="utf-8").split("## Layout\n```\n")[1].split("```")[0]
    there = [path for path in SOURCE.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()]
    names = {path.name if path.is_file() else f"{path.name}/" for path in there if not path.name.startswith("__")}
    assert sorted(name for name in names if not re.search(rf"(?<![\w/]){re.escape(name)}", layout)) == []
