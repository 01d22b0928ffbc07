"""docs/cohen.md: its code runs, prints what is shown, and agrees with the library on other inputs too."""

import contextlib
import functools
import io
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from lvmrs import Cohen, SmoothedClassifier

PAGE = (Path(__file__).parent.parent / "docs" / "cohen.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```\n(?:```text\n(.*?)```)?", PAGE, flags=re.DOTALL)


@functools.cache
def executed() -> tuple[dict[str, Any], list[str]]:
    """The names that the page defines, and what each of its blocks prints."""
    names: dict[str, Any] = {}
    printed = []
    for code, _ in BLOCKS:
        with contextlib.redirect_stdout(io.StringIO()) as output:
            exec(compile(code, "docs/cohen.md", "exec"), names)  # noqa: S102
        printed.append(output.getvalue())
    return names, printed


def test_the_page_prints_what_it_shows() -> None:
    names, printed = executed()
    assert printed == [shown for _, shown in BLOCKS]
    assert names["by_hand"] == (names["at_once"].prediction, names["at_once"].radius)
    assert names["certificate"] == names["at_once"]


def test_the_first_block_has_thirty_lines() -> None:
    lines = [line for line in BLOCKS[0][0].splitlines() if line.strip()]
    assert len(lines) <= 30
    assert lines[lines.index("def certify(model, x, *, sigma, n0, n, alpha, seed=0, index=0):") + 1].startswith(
        '    """'
    )


@pytest.mark.parametrize("point", [[0.2, 0.3], [0.9, -1.0], [1.0, 0.05], [0.0, 5.0]])
@pytest.mark.parametrize("sigma", [0.25, 1.0])
def test_by_hand_and_the_library_agree_to_the_last_digit(point: list[float], sigma: float) -> None:
    names, _ = executed()
    x, settings = torch.tensor(point), {"n0": 50, "n": 1000, "alpha": 0.01, "seed": 7, "index": 3}
    certificate = SmoothedClassifier(names["nearest"], sigma, batch=64).certify(x, Cohen(), **settings)  # type: ignore[arg-type]
    assert names["certify"](names["nearest"], x, sigma=sigma, **settings) == (
        certificate.prediction,
        certificate.radius,
    )


def test_both_abstain_on_a_tie() -> None:
    names, _ = executed()
    x = torch.tensor([1.0, 0.0])
    assert names["certify"](names["nearest"], x, sigma=0.25, n0=50, n=200, alpha=0.01) == (names["ABSTAIN"], 0.0)
    assert (
        SmoothedClassifier(names["nearest"], 0.25, batch=64).certify(x, Cohen(), n0=50, n=200, alpha=0.01).prediction
        == -1
    )
