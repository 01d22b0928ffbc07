"""Damaged files and code that fails: one sentence, an exit code, and nothing left behind."""

import warnings
from pathlib import Path

import pytest

from tests.hostile.commands import check_refused
from tests.hostile.files import file_cases

CASES = {name: (damage, words) for name, damage, words in file_cases()}


@pytest.mark.parametrize("case", CASES)
def test_a_damaged_file_is_refused(case: str, world: Path, here: Path, tmp_path: Path) -> None:
    damage, words = CASES[case]
    given = tmp_path / "given"
    given.mkdir()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what numpy says about the damage that is done to its arrays
        damage.make(world, given)
    check_refused([word.format(world=world, given=given) for word in words], here)
