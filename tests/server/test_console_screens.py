"""The console in a real browser: every screen, and what a person does there."""

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import strandline as sl
from strandline.log import Log
from strandline.triggers import dead_letters
from strandline.values import Event
from tests.logs import memory_log
from tests.server.accessibility import problems_of
from tests.server.browser import Tab, open_browser, shown
from tests.server.processes import ServerProcess
from tests.server.served import Served
from tests.server.shop import SCREENS, log_of, open_shop

pytestmark = pytest.mark.heavy

HOSTILE = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with open_browser() as found:
        yield found


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with open_shop(tmp_path_factory.mktemp("shop") / "events") as served:
        yield served


@pytest.fixture
def tab(browser: Any, shop: Served) -> Iterator[Tab]:
    """A new tab, in which nothing may go wrong."""
    tab = Tab(browser)
    yield tab
    tab.close(shop.url)


@pytest.mark.parametrize("name", SCREENS)
def test_each_screen_shows_what_there_is_and_can_be_used_by_anyone(
    name: str, tab: Tab, shop: Served
) -> None:
    screen, text = SCREENS[name]
    page = tab.open(shop.url, screen)

    page.emulate_media(color_scheme="dark")
    shown(page, text)
    assert problems_of(page) == []
    page.emulate_media(color_scheme="light")
    page.set_viewport_size({"width": 390, "height": 800})
    shown(page, text)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert problems_of(page) == []


def test_the_menu_of_a_phone_shows_which_screen_is_open(tab: Tab, shop: Served) -> None:
    page = tab.page
    page.set_viewport_size({"width": 390, "height": 800})
    tab.open(shop.url, "metrics")
    shown(page, "Records appended, by all processes")

    place = page.locator("#nav a[aria-current]").bounding_box()

    assert place["x"] >= 0
    assert place["x"] + place["width"] <= 390


def test_no_table_of_the_log_is_cut_off_at_the_width_of_a_laptop(tab: Tab, shop: Served) -> None:
    log_of(shop).append("readings", Event("read", {"celsius": 4}))
    page = tab.open(shop.url)
    shown(page, "not durable")

    cut = page.evaluate(
        "[...document.querySelectorAll('.table')].map((one) => one.scrollWidth - one.clientWidth)"
    )

    assert max(cut) <= 0


def test_a_topic_says_how_long_its_records_are_kept(tab: Tab, shop: Served) -> None:
    log = log_of(shop)
    log.create_topic("unlimited")
    log.create_topic("short", limit_bytes=100 * 2**20)

    page = tab.open(shop.url, "topic?topic=unlimited")
    shown(page, "Records are kept for ever.")
    shown(page, "strandline retention unlimited --age 7d")
    page = tab.open(shop.url, "topic?topic=short")
    shown(page, "Beyond 100 MiB the oldest records are removed, even if a consumer has not acked")
    assert page.get_by_text("for ever").count() == 0


def test_empty_screens_say_what_to_do_next(browser: Any, serve: Callable[..., Served]) -> None:
    log = memory_log()
    served = serve(log)
    tab = Tab(browser)
    expected = {
        "": "strandline append orders",
        "tail": "There is no topic to follow",
        "consumers": "A consumer shows here with its first acknowledgement",
        "dead-letters": "There are no dead letters",
        "work": "serve the log from that program",
        "spark": "Give a query the option groupId",
        "nope": "there is no screen nope",
        "topic?topic=nope": "This cannot be shown",
    }

    for screen, text in expected.items():
        page = tab.open(served.url, screen)
        shown(page, text)

    tab.close(served.url)
    served.stop()
    log.close()


def test_a_tail_without_new_records_names_the_place_of_older_ones(tab: Tab, shop: Served) -> None:
    log_of(shop).create_topic("old")
    log_of(shop).append("old", Event("a"))
    page = tab.open(shop.url, "tail?topic=old")
    shown(page, "for older ones choose the oldest record under From")

    page.get_by_label("From").select_option("earliest")
    # A function: the page's policy refuses the eval of an expression that is asked for again.
    page.wait_for_function(
        "() => document.querySelector('.tail-line').innerText.endsWith('1 record')"
    )


def test_a_tail_is_paused_and_resumed_without_loss(tab: Tab, shop: Served) -> None:
    log = log_of(shop)
    log.create_topic("paused", partitions=2)
    page = tab.open(shop.url, "tail?topic=paused&start=earliest")
    shown(page, "Caught up")

    append(log, "paused", range(5))
    shown(page, "5 records")
    page.keyboard.press("Space")
    shown(page, "Paused")
    append(log, "paused", range(5, 25))
    assert "5 records" in page.locator(".tail-line").inner_text()
    page.get_by_role("button", name="Resume").click()
    shown(page, "25 records")

    assert sorted(payloads(page, 25)) == list(range(25))


def test_a_predicate_a_time_and_saved_filters_choose_what_is_shown(tab: Tab, shop: Served) -> None:
    page = tab.open(shop.url, "tail?topic=orders&start=earliest")
    shown(page, "300 records")

    page.get_by_label("SQL predicate").fill("payload.total = 39.9")
    page.get_by_role("button", name="Save filter").click()
    page.get_by_role("button", name="Apply").click()
    count = sum(number * 7 % 400 == 399 for number in range(300))
    shown(page, f"{count} record")
    assert "where=payload.total" in page.url

    page.reload()
    shown(page, f"{count} record")
    assert page.get_by_label("SQL predicate").input_value() == "payload.total = 39.9"
    page.get_by_role("button", name="Forget the filter").click()
    assert page.locator(".chip").count() == 0

    page.get_by_label("SQL predicate").fill("payload.total = = 1")
    page.get_by_role("button", name="Apply").click()
    shown(page, "Stopped")
    page.get_by_label("SQL predicate").fill("")
    page.get_by_label("Jump to a time").fill("2020-01-01T00:00:00")
    shown(page, "300 records")
    assert "start=2019-12-31T23%3A00%3A00.000Z" in page.url


def test_a_hundred_thousand_records_are_few_elements_and_no_stall(tab: Tab, shop: Served) -> None:
    log = log_of(shop)
    log.create_topic("many")
    for start in range(0, 100_000, 10_000):
        log.append_many("many", [Event("reading", n) for n in range(start, start + 10_000)])

    page = tab.open(shop.url, "tail?topic=many&start=earliest")
    shown(page, "100,000 records")

    assert page.locator(".list-canvas .row").count() < 100
    last = page.locator(".list-canvas .row", has_text="0:99999")
    last.wait_for()
    page.locator(".list").focus()
    page.keyboard.press("Home")
    page.locator(".list-canvas .row", has_text="0:0").first.wait_for()
    page.get_by_role("button", name="To the newest").click()
    last.wait_for()


def test_records_are_walked_through_with_the_keyboard(tab: Tab, shop: Served) -> None:
    page = tab.open(shop.url, "")
    shown(page, "payments")

    page.keyboard.press("2")
    shown(page, "Choose a topic")
    page.get_by_role("link", name="payments").click()
    shown(page, "24 records")
    page.locator(".list").focus()
    page.keyboard.press("Home")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    shown(page, "Record 0:1")
    page.keyboard.press("]")
    shown(page, "Record 0:2")
    page.keyboard.press("[")
    shown(page, "Record 0:1")
    page.keyboard.press("?")
    shown(page, "Pause and resume the tail")
    page.get_by_role("button", name="Close").click()
    page.keyboard.press("3")
    shown(page, "daily-report")


def test_a_hostile_record_stays_text(tab: Tab, shop: Served) -> None:
    log = log_of(shop)
    log.create_topic("hostile")
    event = Event(HOSTILE, {"x": HOSTILE}, key=HOSTILE[:100], headers={"h": HOSTILE})
    log.append("hostile", event)
    with log.consumer("hostile", "c", deliveries_max=1) as consumer:
        delivery = consumer.next(60)
        assert delivery is not None
        consumer.nack(delivery, reason=HOSTILE)

    for screen, title in (
        ("tail?topic=hostile&start=earliest", "hostile · tail"),
        ("record?topic=hostile&partition=0&offset=0", "hostile 0:0"),
        ("dead-letters?topic=hostile", "hostile · dead letters"),
        (f"consumers?topic=hostile&consumer={HOSTILE}", HOSTILE),
        (f"topic?topic={HOSTILE}", HOSTILE),
    ):
        page = tab.open(shop.url, screen.replace("#", "%23"))
        if "consumer=" not in screen and "<" not in screen:
            shown(page, "onerror=")
        else:
            shown(page, "This cannot be shown")
        assert page.title().startswith(title[:20]) or "owned" not in page.title()
        assert page.title() != "owned"
        assert page.locator("main img, main script").count() == 0


def test_a_large_number_is_shown_as_it_was_stored(tab: Tab, shop: Served) -> None:
    log = log_of(shop)
    log.create_topic("exact")
    log.append("exact", Event("a", {"n": 12345678901234567890}))

    page = tab.open(shop.url, "record?topic=exact&partition=0&offset=0")
    shown(page, "12345678901234567890")
    page.get_by_role("button", name="Append again…").click()
    page.get_by_role("button", name="Append", exact=True).click()
    shown(page, "Appended at 0:1")

    assert log.marks("exact", 0).high == 2
    assert [each.payload["n"] for each in log.read("exact", 0, 0)] == [12345678901234567890] * 2


def test_a_seek_is_previewed_and_then_done_as_previewed(tab: Tab, shop: Served) -> None:
    log = log_of(shop)
    log.create_topic("sought")
    append(log, "sought", range(10))
    log.ack("sought", "worker", 0, 6)
    page = tab.open(shop.url, "consumers?topic=sought&consumer=worker")

    field = page.get_by_label("Next offset of partition 0")
    assert field.input_value() == "6"
    field.fill("2")
    page.get_by_role("button", name="Preview").click()
    shown(page, "4 records again")
    assert log.cursor("sought", "worker", 0) == 6
    page.get_by_role("button", name="Latest").click()
    assert page.get_by_role("button", name="Seek", exact=True).count() == 0
    page.get_by_role("button", name="Preview").click()
    shown(page, "4 records skipped")
    append(log, "sought", [10])
    page.get_by_role("button", name="Seek", exact=True).click()
    shown(page, "continues from there")

    assert log.cursor("sought", "worker", 0) == 10
    field.fill("99")
    page.get_by_role("button", name="Preview").click()
    shown(page, "beyond the end")


def test_dead_letters_are_redriven_after_a_dry_run(tab: Tab, shop: Served) -> None:
    log = log_of(shop)
    log.create_topic("parked")
    append(log, "parked", range(3))
    with log.consumer("parked", "worker", deliveries_max=1) as consumer:
        for _ in range(3):
            delivery = consumer.next(60)
            assert delivery is not None
            consumer.nack(delivery, reason=f"broken {delivery.record.payload}")
    page = tab.open(shop.url, "dead-letters?topic=parked")
    shown(page, "broken 1")

    page.get_by_role("checkbox").nth(1).check()
    page.get_by_role("button", name="Redrive chosen…").click()
    shown(page, "1 record will be delivered once more, to worker alone")
    page.get_by_role("button", name="Cancel").click()
    assert [each.is_redriven for each in dead_letters(log, "parked")] == [False] * 3
    page.get_by_role("button", name="Redrive chosen…").click()
    page.get_by_role("button", name="Redrive 1", exact=True).click()
    shown(page, "1 record redriven")
    page.get_by_role("button", name="Redrive all…").click()
    page.get_by_role("button", name="Redrive 2", exact=True).click()
    shown(page, "2 records redriven")

    assert [each.is_redriven for each in dead_letters(log, "parked")] == [True] * 3


def test_the_theme_is_kept_and_the_order_is_part_of_the_url(tab: Tab, shop: Served) -> None:
    page = tab.open(shop.url, "")
    shown(page, "payments")
    ground = "getComputedStyle(document.body).backgroundColor"
    page.emulate_media(color_scheme="light")
    light = page.evaluate(ground)

    page.keyboard.press("t")
    page.keyboard.press("t")
    assert page.evaluate(ground) != light
    page.reload()
    shown(page, "Theme: dark")
    assert page.evaluate(ground) != light
    page.get_by_role("button", name="Theme: dark").click()
    shown(page, "Theme: system")

    page.get_by_role("button", name="Records", exact=True).click()
    assert "sort=-records" in page.url
    page.reload()
    shown(page, "payments")
    assert page.get_by_role("columnheader", name="Records").get_attribute("aria-sort") == (
        "descending"
    )


def test_an_open_page_continues_after_the_server_was_killed(browser: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "log")
    with sl.open(f"file:{path}") as log:
        log.create_topic("orders")
        append(log, "orders", range(3))
    tab = Tab(browser)
    with ServerProcess(path) as server:
        page = tab.open(server.url, "tail?topic=orders&start=earliest")
        shown(page, "3 records")
        port, url = server.port, server.url
        server.kill()
        shown(page, "Server not reached, trying again")
    with sl.open(f"file:{path}") as log:
        append(log, "orders", range(3, 6))
    with ServerProcess(path, port) as server:
        shown(page, "6 records")
        with sl.open(f"file:{path}") as log:
            append(log, "orders", range(6, 8))
        shown(page, "8 records")
        shown(page, "Connected")
        assert payloads(page, 8) == list(range(8))
        tab.close(url)
        server.signal(signal.SIGTERM)
        server.wait()


def test_a_token_signs_in_and_a_link_lets_in_once(browser: Any) -> None:
    log = memory_log()
    log.create_topic("orders")
    served = Served(log, for_one=True)
    secret, _ = served.server.app.tokens.create(["read"])
    try:
        link = served.server.console_link()
        tab = Tab(browser)
        tab.page.goto(link)
        shown(tab.page, "There is no topic" if not log.topics() else "orders")
        assert "once=" not in tab.page.url
        assert tab.page.evaluate("document.cookie") == ""
        browser.clear_cookies()
        tab.page.goto(link)
        tab.page.reload()
        shown(tab.page, "This server needs a token")
        shown(tab.page, "this link was used already, start the console again")
        tab.page.get_by_label("Token").fill("slt_wrong")
        tab.page.keyboard.press("Enter")
        shown(tab.page, "unknown, revoked or expired")
        tab.page.get_by_label("Token").fill(secret)
        tab.page.keyboard.press("Enter")
        shown(tab.page, "orders")
        tab.close(served.url)
    finally:
        browser.clear_cookies()
        served.stop()
        log.close()


def test_the_check_of_accessibility_finds_what_is_wrong(tab: Tab, shop: Served) -> None:
    """A planted bug of each kind."""
    page = tab.open(shop.url, "")
    shown(page, "payments")
    assert problems_of(page) == []

    page.evaluate(
        """() => {
          const add = (tag, attributes, text) => {
            const made = document.createElement(tag);
            for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
            made.textContent = text;
            document.getElementById("main").prepend(made);
            return made;
          };
          add("button", {}, "");
          add("input", {type: "text"}, "");
          add("img", {src: "/console/favicon.svg"}, "");
          add("div", {role: "row"}, "a row of nothing");
          add("p", {}, "pale").style.color = "#eeeeee";
        }"""
    )
    found = " ".join(problems_of(page))

    for each in ("button-name", "label", "image-alt", "aria-required-parent", "color-contrast"):
        assert f"{each}: " in found, each


def append(log: Log, topic: str, numbers: Any) -> None:
    for number in numbers:
        log.append(topic, Event("a", number))


def payloads(page: Any, count: int) -> list[int]:
    """Return the payloads of so many rows, in their order, once they are drawn."""
    page.wait_for_function(
        "count => document.querySelectorAll('.list-canvas .row').length === count", arg=count
    )
    texts = page.evaluate(
        """() => [...document.querySelectorAll(".list-canvas .row")]
          .sort((a, b) => a.ariaRowIndex - b.ariaRowIndex)
          .map((row) => row.querySelector(".body").textContent)"""
    )
    return [int(each) for each in texts]
