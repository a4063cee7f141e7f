"""Takes the pictures of the docs, of the shop that the tests look at; four minutes.

python -m tests.server.pictures
"""

import tempfile
import threading
from pathlib import Path
from typing import Any

from tests.server.browser import Tab, open_browser, shown
from tests.server.served import Served
from tests.server.shop import SCREENS, keep_trading, log_of, open_shop

PICTURES = Path(__file__).parents[2] / "docs" / "images" / "console"


def take(browser: Any, shop: Served) -> None:
    """Write them all."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    ended = threading.Event()
    trade = threading.Thread(target=keep_trading, args=(log_of(shop), ended))
    trade.start()
    for name, scheme in (
        *(("tail", "dark"), ("record", "light"), ("triggers-views", "light"), ("spark", "dark")),
        *((each, "light") for each in ("topic", "consumers", "dead-letters", "seek")),
        *(("log", "light"), ("metrics", "dark")),
    ):
        tab = Tab(browser)
        screen, text = SCREENS[name]
        page = tab.open(shop.url, screen.replace("=prices", "=orders"))
        page.emulate_media(color_scheme=scheme)
        shown(page, text.replace("was int32", "Durable up to").replace("Caught up", "records"))
        if name == "seek":
            page.get_by_label("Next offset of partition 0").fill("12")
            page.get_by_role("button", name="Preview").click()
            shown(page, "again")
        # So that there is something to be seen of the last minutes.
        page.wait_for_timeout({"metrics": 150_000, "log": 30_000}.get(name, 3_000))
        page.screenshot(path=str(PICTURES / f"{name}.png"))
        tab.close(shop.url)
    ended.set()
    trade.join()


if __name__ == "__main__":
    with (
        tempfile.TemporaryDirectory() as folder,
        open_shop(Path(folder) / "events") as opened,
        open_browser() as found,
    ):
        take(found, opened)
