"""Headless Chromium, with what the tests ask of it."""

import io
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

__all__ = ["FITS", "Browser", "kept"]

FITS = "document.documentElement.scrollWidth === document.documentElement.clientWidth"


def kept(name: str) -> Path | None:
    """Where to keep a screenshot to look at: in the folder $LVMRS_SCREENSHOTS, if it is set."""
    folder = os.environ.get("LVMRS_SCREENSHOTS")
    return None if folder is None else Path(folder, name)


class Browser:
    """Chromium, with what a test asks of it."""

    def __init__(self) -> None:
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service

        chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
        assert chromium, "chromium is missing; on Debian: apt-get install chromium chromium-driver"
        assert driver, "chromedriver is missing; on Debian: apt-get install chromium-driver"
        options = webdriver.ChromeOptions()
        options.binary_location = chromium
        for flag in ("headless", "no-sandbox", "disable-gpu", "no-first-run", "disable-background-networking"):
            options.add_argument(f"--{flag}")
        options.add_argument("--window-size=1100,1600")
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.driver: Any = webdriver.Chrome(options=options, service=Service(driver))

    def open(self, page: Path, scheme: str = "light") -> None:
        media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
        self.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        self.driver.get(page.resolve().as_uri())
        assert self.driver.get_log("browser") == []

    def run(self, script: str) -> object:
        return self.driver.execute_script(f"return {script}")

    def texts(self, column: int) -> list[str]:
        """What a column of the inputs shows."""
        found = self.run(
            f"[...document.querySelectorAll('#inputs tbody tr')].map(r => r.children[{column}].textContent)"
        )
        assert isinstance(found, list)
        return found

    def resize(self, width: int, media: str = "screen") -> None:
        """Take the width of a window, or of a printed page; the scheme stays."""
        size = {"width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        if media != "screen":  # the colour scheme of the screen stays
            self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media})

    def screenshot(self, file: Path | None = None) -> NDArray[np.uint8]:
        data = self.driver.get_screenshot_as_png()
        if file is not None:
            file.write_bytes(data)
        return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))

    def click(self, selector: str) -> None:
        self.driver.find_element("css selector", selector).click()
        assert self.driver.get_log("browser") == []

    def clipped(self) -> list[str]:
        """The headings that are outside of the window at the side, or not visible."""
        found = self.run(
            "[...document.querySelectorAll('h1, h2')].filter(h => { const r = h.getBoundingClientRect(); return "
            "r.width < 1 || r.height < 1 || r.left < 0 || r.right > document.documentElement.clientWidth + 1; })"
            ".map(h => h.textContent)"
        )
        assert isinstance(found, list)
        return found
