"""The layout: what a certificate rests on, and what may not grow back."""

import ast
import re
import subprocess
import sys
import threading
from collections.abc import Iterable
from pathlib import Path
from types import FrameType

import pytest
import torch

import lvmrs

SOURCE = Path(lvmrs.__file__).parent
KERNEL = SOURCE / "kernel"
STANDARD = set(sys.stdlib_module_names)


def module_of(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path): path for path in SOURCE.rglob("*.py")}


def imported(path: Path) -> set[str]:
    """The modules that a file imports, anywhere in it."""
    found = set[str]()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            inside = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= (inside & MODULES.keys()) or {node.module}
    return found


def closure(names: Iterable[str]) -> set[str]:
    """Modules of lvmrs that these import, and so on; the modules themselves are among them."""
    seen, waiting = set[str](), list(names)
    while waiting:
        name = waiting.pop()
        if name in MODULES and name not in seen:
            seen.add(name)
            waiting += imported(MODULES[name])
    return {name for name in seen if MODULES[name].stat().st_size and MODULES[name].name != "__init__.py"}


def test_the_kernel_imports_itself_errors_and_three_libraries() -> None:
    allowed = STANDARD | {"numpy", "scipy", "torch"}
    for path in KERNEL.rglob("*.py"):
        for name in imported(path):
            ours = name.startswith("lvmrs.kernel") or name == "lvmrs.errors"
            assert ours or name.partition(".")[0] in allowed, f"{path.name} imports {name}"


def test_a_default_certificate_rests_on_few_files() -> None:
    """The files of the kernel in which code runs, from noise to the sentence of the guarantee."""
    found = set[str]()

    def note(frame: FrameType, event: str, argument: object) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(KERNEL):
            found.add(str(path.relative_to(KERNEL)))

    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))
    smoothed = lvmrs.SmoothedClassifier(network, 0.25, noise="exact:16", batch=50)
    before = threading.getprofile(), sys.getprofile()
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        certificate = smoothed.certify(torch.full((1, 8, 8), 0.5), n0=100, n=2000)
        assert "answers with class" in certificate.guarantee
    finally:
        threading.setprofile(before[0])
        sys.setprofile(before[1])
    assert {"proof.py", "maps.py", "bounds/clopper_pearson.py", "radius.py", "exact_noise.py", "sampler.py"} <= found
    assert len(found) <= 13


def test_the_import_closures_stay_small() -> None:
    assert len(closure(["lvmrs.cli.certify"])) <= 100
    assert len(closure(["lvmrs.smoothed"])) <= 45


def test_the_kernel_and_the_package_have_few_files() -> None:
    trusted = [path.read_text(encoding="utf-8") for path in KERNEL.rglob("*.py")]
    assert len(trusted) <= 27
    assert sum(text.count("\n") for text in trusted) <= 6160


def test_few_names_are_at_the_top() -> None:
    names = {path.name for path in SOURCE.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()}
    assert len({name for name in names if not name.startswith("__")}) <= 16


@pytest.mark.parametrize("what", ["lvmrs.record", "lvmrs.analysis", "lvmrs.cli"])
def test_what_only_reads_does_without_torch(what: str) -> None:
    code = f"import sys, {what}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0  # noqa: S603


def test_the_command_line_starts_without_numpy() -> None:
    code = "import sys, lvmrs.cli; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0  # noqa: S603


def test_public_names_can_be_imported() -> None:
    assert set(dir(lvmrs)) == set(lvmrs.__all__)
    for name in lvmrs.__all__:
        assert getattr(lvmrs, name) is not None
    assert callable(lvmrs.prove)


def test_the_worst_phrases_do_not_come_back() -> None:
    root = SOURCE.parents[1]
    pages = [*SOURCE.rglob("*.py"), *(root / "docs").glob("*.md"), root / "README.md", root / "CONTRIBUTING.md"]
    worst = re.compile(r"\bso many\b|\bIt in words\b|\bAs of the\b")
    found = [str(path) for path in pages if worst.search(path.read_text(encoding="utf-8"))]
    assert found == []
