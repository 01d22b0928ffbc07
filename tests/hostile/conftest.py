"""The world of the hostile tests, made once per process."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hostile.world import build, state


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """What the cases name as ``{world}``; no case may change it."""
    place = tmp_path_factory.mktemp("world")
    build(place)
    before = state(place)
    yield place
    assert state(place) == before, "a case changed the files that all cases share"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory."""
    place = tmp_path / "here"
    place.mkdir()
    monkeypatch.chdir(place)
    return place
