"""A real browser: Debian's chromium, driven by playwright."""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from typing import Any

import pytest

CHROMIUM = "/usr/bin/chromium"
_OPTIONS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    # Nothing but addresses of this machine is looked up: a request elsewhere fails at once.
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
)
WAIT_MS = 120_000
"""How long a page may take until it shows what is expected, on a busy machine."""


@contextlib.contextmanager
def open_browser() -> Iterator[Any]:
    """Start a browser with an empty profile; skip where there is none."""
    if not os.path.exists(CHROMIUM):
        pytest.skip(f"there is no {CHROMIUM}: apt-get install chromium")
    playwright = pytest.importorskip("playwright.sync_api")
    with (
        playwright.sync_playwright() as driver,
        tempfile.TemporaryDirectory(prefix="strandline-browser-") as profile,
    ):
        try:
            browser = driver.chromium.launch_persistent_context(
                profile,
                executable_path=CHROMIUM,
                args=list(_OPTIONS),
                viewport={"width": 1280, "height": 800},
                timezone_id="Europe/Berlin",
                locale="en-GB",
            )
        except playwright.Error as error:
            pytest.skip(f"{CHROMIUM} does not start on this machine: {error}")
        browser.set_default_timeout(WAIT_MS)
        yield browser
        browser.close()


class Tab:
    """A page, what it has asked for, and what went wrong in it."""

    def __init__(self, browser: Any) -> None:
        self.page = browser.new_page()
        self.requested: list[str] = []
        self.errors: list[str] = []
        self.page.on("request", lambda request: self.requested.append(request.url))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", self._note)

    def _note(self, message: Any) -> None:
        # A server that is away, and an answer that is an error, are no errors of the page.
        if message.type == "error" and "Failed to load resource" not in message.text:
            self.errors.append(message.text)

    def open(self, url: str, screen: str = "") -> Any:
        """Go to a screen, and return the page."""
        self.page.goto(f"{url}/console/#/{screen}")
        return self.page

    def close(self, url: str) -> None:
        """Close it; nothing may have gone wrong, and no request to another host."""
        self.page.close()
        assert self.errors == []
        strange = [each for each in self.requested if not each.startswith(f"{url}/")]
        assert strange == []


def shown(page: Any, text: str, exact: bool = False) -> Any:
    """Wait until a text is to be seen."""
    found = page.get_by_text(text, exact=exact).first
    found.wait_for()
    return found
