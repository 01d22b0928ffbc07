"""The world of the hostile tests, made once per process."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from lvmrs.registry import PARTS
from tests.hostile.world import build, state


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all tests of this folder; ``make test-hostile`` runs them."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker("hostile")


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """What the cases name as ``{world}``; no case may change it."""
    place = tmp_path_factory.mktemp("world")
    build(place)
    before = state(place)
    yield place
    assert state(place) == before, "a case changed the files that all cases share"


@pytest.fixture(autouse=True)
def registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts that a case adds to the registry do not stay there."""
    for names in PARTS:
        monkeypatch.setattr(names, "_added", dict(names._added))


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory."""
    place = tmp_path / "here"
    place.mkdir()
    monkeypatch.chdir(place)
    return place
