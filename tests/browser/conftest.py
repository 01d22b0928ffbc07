"""A browser for the tests of this folder."""

from collections.abc import Iterator

import pytest

from tests.browser.chromium import Browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    made = Browser()
    yield made
    made.driver.quit()
