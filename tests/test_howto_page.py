"""docs/howto.md: its commands do what is shown, or are shown and tested elsewhere."""

import re
from pathlib import Path

import pytest

from tests.cli.helpers import run
from tests.test_readme import masked

DOCS = Path(__file__).parent.parent / "docs"
PAGE = (DOCS / "howto.md").read_text(encoding="utf-8")
RUN = re.findall(r"\$ lvmrs (.*)\n((?:[^$].*\n)*)", "".join(re.findall(r"```console\n(.*?)```", PAGE, flags=re.DOTALL)))
TOLD = re.findall(r"\$ (lvmrs .*)\n", "".join(re.findall(r"```\n(.*?)```\n", PAGE, flags=re.DOTALL)))


def test_the_commands_print_what_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """But for numbers, which depend on how the networks were trained, and lists of inputs."""
    monkeypatch.chdir(tmp_path)
    assert {line.split()[0] for line, _ in RUN} >= {"train", "certify", "analyze", "compare", "plot", "safe", "predict"}
    for line, shown in RUN:
        code, out, err = run(line, capsys)
        assert code == 0, err
        if line.startswith("safe"):
            assert masked(out.partition("\n")[0]) == masked(shown.partition("\n")[0])
        else:
            assert masked(out) == masked(shown)
    assert Path("curves.pdf").exists()


@pytest.mark.parametrize("command", TOLD)
def test_other_commands_are_in_pages_that_are_tested(command: str) -> None:
    """A command of this page alone may only use options and names that a command above was run with."""
    pages = [(DOCS / name).read_text(encoding="utf-8") for name in ("commands.md", "cluster.md", "networks.md")]
    known = {word for line, _ in RUN for word in line.split() if word.startswith("--")} | {"--mean", "--std"}
    assert any(command in page for page in pages) or {word for word in command.split() if word[:2] == "--"} <= known


def test_every_section_is_listed() -> None:
    titles = re.findall(r"^## (.*)$", PAGE, flags=re.MULTILINE)
    assert re.findall(r"^- \[.*\]\(#(.*)\)$", PAGE, flags=re.MULTILINE) == [
        re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles
    ]
