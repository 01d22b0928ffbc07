"""Which code is run: what the user typed, and nothing that merely lies in the working directory."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lvmrs._util.user_code import called, imported, origin_of, reimport
from lvmrs.errors import DataError, InvalidArgumentError, LvmrsError, ModelError, guarded

TRACE = "import pathlib\npathlib.Path('code-was-run').mkdir(exist_ok=True)\n"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory whose changes to the search path are undone."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return tmp_path


def test_a_module_here_is_imported_only_if_it_is_named_as_a_file(here: Path) -> None:
    Path("nets_named.py").write_text(f"{TRACE}net = 3\n")
    Path("folder_named").mkdir()
    Path("folder_named/nets.py").write_text(f"{TRACE}net = 4\n")
    with pytest.raises(ModelError) as caught:
        imported("python:nets_named:net", "nets_named:net", error=ModelError)
    assert str(caught.value) == (
        "python:nets_named:net: no module nets_named is installed; for the file nets_named.py here, write "
        "python:nets_named.py:net"
    )
    with pytest.raises(
        ModelError, match=r"for the file folder_named/nets\.py here, write python:folder_named/nets\.py"
    ):
        imported("python:folder_named.nets:net", "folder_named.nets:net", error=ModelError)
    with pytest.raises(ModelError, match=r"nowhere_named cannot be imported \(ModuleNotFoundError"):
        imported("python:nowhere_named:net", "nowhere_named:net", error=ModelError)
    assert not Path("code-was-run").exists()
    assert imported("a", "nets_named.py:net", error=ModelError) == 3
    assert Path("code-was-run").is_dir()
    with pytest.raises(ModelError, match="no module nets_named is installed"):  # it stays a file
        imported("python:nets_named:net", "nets_named:net", error=ModelError)


def test_a_file_finds_its_neighbours_and_they_replace_no_library(here: Path) -> None:
    Path("main_file.py").write_text(
        "import neighbour_at_once\nfound = neighbour_at_once.value\n"
        "def later():\n    import neighbour_later\n    return neighbour_later.value\n"
    )
    for name in ("neighbour_at_once", "neighbour_later"):
        Path(f"{name}.py").write_text("value = 5\n")
    Path("this.py").write_text(TRACE)  # a module of Python that nobody has imported yet
    assert imported("a", "main_file.py:found", error=ModelError) == 5
    assert called("a", imported("a", "main_file.py:later", error=ModelError), error=ModelError) == 5
    Path("neighbour_unused.py").write_text(TRACE)
    with pytest.raises(ModelError, match="no module neighbour_unused is installed"):
        imported("a", "neighbour_unused:x", error=ModelError)
    sys.modules.pop("this", None)
    imported("a", "this:c", error=ModelError)  # that of Python
    assert not Path("code-was-run").exists()


def test_files_are_run_again_for_pickles(here: Path) -> None:
    Path("packed_file.py").write_text("class A: pass\n")
    made = imported("a", "packed_file.py:A", error=ModelError)
    origin = origin_of(made.__module__)
    assert origin is not None
    assert origin.file == str(here / "packed_file.py")
    assert origin_of("json") is None
    reimport([origin], error=ModelError)
    Path("exits_again.py").write_text("import sys\nsys.exit(0)\n")
    with pytest.raises(DataError, match=r"exits_again\.py cannot be imported here \(it calls sys\.exit\)"):
        reimport([origin._replace(file=str(here / "exits_again.py"))], error=DataError)


LIBRARIES = ("typer", "torch", "numpy", "lvmrs_plugin", "rich", "safetensors", "nets")


@pytest.mark.parametrize("start", [["-m", "lvmrs"], ["-P", "-m", "lvmrs"]])
def test_nothing_in_the_working_directory_is_run(here: Path, start: list[str]) -> None:
    for name in LIBRARIES:
        Path(f"{name}.py").write_text(TRACE)
    found = os.pathsep.join(os.path.abspath(part) for part in sys.path if part)  # noqa: PTH100
    for command in ("radius 0.99 0.005 --sigma 0.5", "lipschitz --model python:nets:net --shape 1,8,8"):
        done = subprocess.run(  # noqa: S603
            [sys.executable, *start, *command.split()],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": found},
            check=False,
        )
        assert "Traceback" not in done.stderr
        assert not Path("code-was-run").exists(), done.stderr
    assert "no module nets is installed; for the file nets.py here, write python:nets.py:net" in done.stderr
    assert done.returncode == 1


@pytest.mark.parametrize("rest", ["", ":", "a", "a:", ":b", "a.py", "a.py:"])
def test_names_without_a_part(rest: str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"write python:FILE\.py:NAME"):
        imported("python", rest, error=InvalidArgumentError)


def test_the_guard() -> None:
    with pytest.raises(LvmrsError, match=r"^it fails \(ValueError: a\)$"), guarded("it fails", error=LvmrsError):
        raise ValueError("a\nb")
    with pytest.raises(ModelError, match=r"^it fails \(it calls sys\.exit\)$"), guarded("it fails", error=ModelError):
        sys.exit(0)
    with pytest.raises(DataError, match=r"^ours$"), guarded("it fails", error=ModelError):
        raise DataError("ours")
    with pytest.raises(KeyboardInterrupt), guarded("it fails", error=ModelError):
        raise KeyboardInterrupt
    with pytest.raises(ModelError) as caught, guarded("it fails", error=ModelError):
        raise ValueError("long " * 1_000)
    assert len(str(caught.value)) < 600
    assert isinstance(caught.value.__cause__, ValueError)
