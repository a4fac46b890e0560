"""A real browser for pages that this project makes: Debian's Chromium, without a window."""

import contextlib
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

__all__ = ["Visit", "chromium"]

_OPTIONS = (
    "--no-sandbox",  # which Chromium wants of whom runs as root, as CI does
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
)


class Visit:
    """Opens pages in one window, and notes what goes wrong in them."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.errors: list[str] = []
        page.on("console", lambda message: message.type == "error" and self.errors.append(message.text))
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("requestfailed", lambda request: self.errors.append(f"not loaded: {request.url}"))

    def open(self, address: str) -> Any:
        """Go to a page; the browser's page, once its scripts have run."""
        self.page.goto(address, wait_until="load")
        return self.page


@contextlib.contextmanager
def chromium(*, dark: bool = False, width: int = 1280, height: int = 900) -> Iterator[Visit]:
    """A browser of its own. Skips the test on machines without one."""
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright, of the extra dev")
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.skip("no Chromium: apt-get install chromium")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=list(_OPTIONS))
        try:
            page = browser.new_page(
                viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light"
            )
            yield Visit(page)
        finally:
            browser.close()
