"""Files with random damage are refused with one sentence, or read as what stands in them."""

import re
from pathlib import Path

import pytest

from tests.hostile.fuzzing import FORMATS, tried

QUICK, ALL = 300, 10_000


def check(name: str, numbers: range, world: Path, given: Path) -> None:
    found = (tried(FORMATS[name], name, number, world, given) for number in numbers)
    faults = [fault for fault in found if fault is not None]
    assert not faults, "\n".join([f"{len(faults)} of {len(numbers)} files:", *faults[:20]])


def test_the_shares_are_a_whole() -> None:
    assert sum(format_.share for format_ in FORMATS.values()) == 100


@pytest.mark.parametrize("name", FORMATS)
def test_file_number_k_is_the_same_in_every_world(name: str, world: Path) -> None:
    whole = FORMATS[name].whole(world)
    assert str(world).encode() not in whole
    assert set(re.findall(rb'"begun\W+([\d-]+)', whole)) <= {b"2026-01-01"}
    assert set(re.findall(rb'"seconds\W+([\d.e-]+)', whole)) <= {b"0.5"}


@pytest.mark.parametrize("name", FORMATS)
def test_some_damaged_files(name: str, world: Path, tmp_path: Path) -> None:
    check(name, range(QUICK * FORMATS[name].share // 100), world, tmp_path / "given")


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMATS)
def test_ten_thousand_damaged_files(name: str, world: Path, tmp_path: Path) -> None:
    check(name, range(ALL * FORMATS[name].share // 100), world, tmp_path / "given")
