"""What the README shows is what happens."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_first_screen_names_both_commands() -> None:
    first_screen = "\n".join(README.splitlines()[:45])
    assert "make demo" in first_screen
    assert "make test" in first_screen
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"`?make ([a-z-]+)", README):
        assert f"\n{target}:" in makefile


def test_python_examples_print_what_is_shown() -> None:
    examples = re.findall(r"```python\n(.*?)```\n+```text\n(.*?)```", README, flags=re.DOTALL)
    assert examples
    for code, shown in examples:
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603
        assert done.stdout == shown


def test_the_demo_prints_what_is_shown() -> None:
    shown = re.search(r"```console\n\$ make demo\n(.*?)```", README, flags=re.DOTALL)
    assert shown
    done = subprocess.run(  # noqa: S603
        [sys.executable, ROOT / "examples" / "one_certificate.py"], capture_output=True, text=True, check=True
    )
    assert done.stdout == shown[1]
