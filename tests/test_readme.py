"""What the README shows is what happens."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from lvmrs.cli import demo as demo
from lvmrs.registry import BOUNDS, MAPS, METHODS
from tests.cli.helpers import commands, run

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_first_screen_names_both_commands() -> None:
    first_screen = "\n".join(README.splitlines()[:45])
    assert "make demo" in first_screen
    assert "make test" in first_screen
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"`?make ([a-z-]+)", README):
        assert f"\n{target}:" in makefile
    assert "lvmrs demo\n" in makefile


def test_python_examples_print_what_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    examples = re.findall(r"```python\n(.*?)```\n+```text\n(.*?)```", README, flags=re.DOTALL)
    assert examples
    for code, shown in examples:
        exec(code, {"__name__": "__main__"})  # noqa: S102
        assert capsys.readouterr().out == shown


def masked(text: str) -> str:
    """Without the numbers that depend on how a network was trained, and the width of columns that follows them."""
    return re.sub(r" +", " ", re.sub(r"[+-]?\b\d+(\.\d+)?\b", "#", text))


def test_commands_print_what_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the order of the README, in one directory; ``make demo`` runs ``lvmrs demo``, here with fewer samples."""
    sizes = f"{demo.INPUTS} digits, σ = {demo.SIGMA}, α = {demo.ALPHA}, n0 = {demo.N0}, n = {demo.N}"
    assert f"certified accuracy in %, {sizes}\n" in README
    for name, fewer in (("INPUTS", 20), ("N0", 100), ("N", 1000)):
        monkeypatch.setattr(demo, name, fewer)
    monkeypatch.chdir(tmp_path)
    blocks = "".join(re.findall(r"```console\n(.*?)```", README, flags=re.DOTALL))
    steps = re.findall(r"\$ (.*)\n((?:[^$].*\n)*)", blocks)
    assert len(steps) >= 5
    for command, shown in steps:
        program, _, line = ("lvmrs demo" if command == "make demo" else command).partition(" ")
        assert program == "lvmrs"
        if line.startswith("radius"):  # the script that is installed; its numbers are always the same
            script = Path(sys.executable).with_name("lvmrs")
            done = subprocess.run([script, *line.split()], capture_output=True, text=True, check=True)  # noqa: S603
            assert done.stdout == shown
            continue
        code, out, err = run(line, capsys)
        assert code == 0, err
        assert masked(out) == masked(shown)


def test_every_command_and_option_is_documented() -> None:
    pages = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    guide = subprocess.run([sys.executable, "-m", "lvmrs"], capture_output=True, text=True, check=True).stdout
    assert len(commands()) >= 7
    for name, command in commands().items():
        assert f"## lvmrs {name}\n" in pages, f"docs/commands.md has no section on {name}"
        section = pages.split(f"## lvmrs {name}\n")[1].split("\n## ")[0]
        assert f"$ lvmrs {name}" in section, f"docs/commands.md has no example of {name}"
        assert f"lvmrs {name}" in command.help, f"{name} --help has no example"
        assert name in guide
    for title in ("bounds", "forms", "maps", "methods", "noises"):
        assert f"(names.md#{title})" in pages, f"docs/commands.md does not say where {title} are listed"
    listed = (ROOT / "docs" / "names.md").read_text(encoding="utf-8")
    for table, names in ((METHODS, tuple(METHODS)), (BOUNDS, tuple(BOUNDS)), (MAPS, MAPS.having("simplex"))):
        section = listed.split(f"## {table.kind.capitalize()}s\n")[1].split("\n## ")[0]
        for name in names:
            assert f"| `{name}` | {table.words(name)} |" in section, f"docs/names.md does not describe {name}"
    sections = {name: pages.split(f"## lvmrs {name}\n")[1].split("\n## ")[0] for name in commands()}
    for name, command in commands().items():
        told = sections[name]
        for other in re.findall(r"are those of\s`lvmrs (\w+)`", told):
            told += sections[other]
        for parameter in command.params:
            for option in parameter.opts:
                if option.startswith("--") and option not in ("--help", "--json"):
                    assert f"`{option}`" in told, f"docs/commands.md does not mention {option} of {name}"
    assert "`--json` prints for programs." in pages
