"""Fixtures for tests that make many runs."""

import functools
from importlib.metadata import version

import pytest

from lvmrs import origin, samplers


@pytest.fixture
def no_measuring(monkeypatch: pytest.MonkeyPatch) -> None:
    """The speed of the model is not measured, nor versions looked up anew; that takes longer than a tiny run itself."""
    monkeypatch.setattr(samplers, "_rate", lambda *given: 1_000.0)
    monkeypatch.setattr(origin, "version", functools.cache(version))
