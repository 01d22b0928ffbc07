"""What counts as a correct answer, wherever it is asked."""

import re
from pathlib import Path

import numpy as np

import lvmrs
from lvmrs.kernel.method import ABSTAIN, is_correct


def test_an_abstention_is_never_correct() -> None:
    answers, labels = np.array([3, 3, ABSTAIN, ABSTAIN]), np.array([3, 2, 2, ABSTAIN])
    assert is_correct(answers, labels).tolist() == [True, False, False, False]
    assert [is_correct(int(a), int(b)) for a, b in zip(answers, labels, strict=True)] == [True, False, False, False]


def test_the_page_is_told_what_abstains_and_what_is_correct() -> None:
    script = (Path(lvmrs.__file__).parent / "analysis" / "report" / "page.js").read_text(encoding="utf-8")
    assert "content.abstain" in script
    assert "row.correct" in script
    assert not re.search(r"[=!]== -1\b", script)
