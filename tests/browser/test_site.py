"""The documentation site in a real browser, if it was built: ``make docs``."""

from pathlib import Path

import pytest

from tests.browser.chromium import FITS, Browser, kept

SITE = Path(__file__).parents[2] / "build" / "site"

pytestmark = [
    pytest.mark.programs,
    pytest.mark.skipif(not (SITE / "index.html").exists(), reason="make docs builds the site"),
]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1300, 400])
@pytest.mark.parametrize("page", ["index", "tutorials/own_model", "results", "howto"])
def test_pages_of_the_site_fit_wide_and_narrow_windows(browser: Browser, page: str, width: int, scheme: str) -> None:
    browser.open(SITE / f"{page}.html", scheme)
    browser.resize(width)
    pixels = browser.screenshot(kept(f"site-{page.replace('/', '-')}-{width}-{scheme}.png"))
    assert browser.run(FITS) is True
    assert browser.run("document.querySelectorAll('h1').length") == 1
    assert browser.clipped() == []
    assert (pixels[-5, 5].mean() > 200) == (scheme == "light")
