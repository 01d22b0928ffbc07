"""Fixtures for tests that make many runs."""

import functools
from importlib.metadata import version

import pytest

from lvmrs.record import manifest as origin
from tests.quick import without_trials


@pytest.fixture
def no_measuring(monkeypatch: pytest.MonkeyPatch) -> None:
    """The speed of the model is not measured, nor versions looked up anew; that takes longer than a tiny run itself."""
    without_trials(monkeypatch)
    monkeypatch.setattr(origin, "version", functools.cache(version))
