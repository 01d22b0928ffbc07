"""Bad words on the command line: one sentence, an exit code, and nothing left behind."""

from functools import partial
from pathlib import Path

import pytest

from lvmrs.cli import demo as demo
from tests.hostile.commands import check_refused, ended
from tests.hostile.options import BASES, KINDS, names_of, option_cases

CASES = dict(option_cases())


@pytest.fixture(autouse=True)
def _small_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "INPUTS", 2)
    monkeypatch.setattr(demo, "N0", 20)
    monkeypatch.setattr(demo, "N", 60)
    monkeypatch.setattr(demo, "train", partial(demo.train, epochs=2))


@pytest.mark.parametrize("command", BASES)
def test_the_call_that_is_changed_is_good(command: str, world: Path, here: Path) -> None:
    code, _, err = ended([word.format(world=world) for word in BASES[command].words()])
    assert code == 0, err


@pytest.mark.parametrize("command", BASES)
def test_every_option_has_bad_values(command: str) -> None:
    assert [name for name in names_of(command) if f"{command} {name}" not in KINDS and name not in KINDS] == []


@pytest.mark.parametrize("case", CASES)
def test_a_bad_value_is_refused(case: str, world: Path, here: Path) -> None:
    check_refused([word.replace("{world}", str(world)) for word in CASES[case]], here)
