"""Fixtures of the tests of jobs."""

from tests.jobs.conftest import no_measuring

__all__ = ["no_measuring"]
