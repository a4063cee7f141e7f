"""Following Durable Streams over HTTP: long polls, events, and pages of what there is."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx2
import pytest

from strandline.log import Log
from strandline.server.settings import ServerSettings
from tests.server.served import Served
from tests.server.waiting import wait_until

pytestmark = pytest.mark.slow

TEXT = {"content-type": "text/plain"}
CLOSED = {"stream-closed": "true"}


@pytest.fixture(scope="module")
def served(shared_log: Log) -> Iterator[Served]:
    """A server of all tests of the module, whose long polls wait for what the tests do."""
    served = Served(shared_log, ServerSettings(long_poll_s=120.0))
    yield served
    served.stop()


@pytest.fixture
def path(topic: str) -> str:
    """The path of a stream that no other test has."""
    return f"/v1/stream/{topic}"


def test_events_bring_what_comes_line_by_line_until_the_end(
    http: httpx2.Client, served: Served, path: str
) -> None:
    http.put(path, headers=TEXT, content=b"a")
    live = {"offset": "now", "live": "sse"}
    with served.client() as reader, reader.stream("GET", path, params=live) as events:
        lines = events.iter_lines()
        assert next(lines) == "event: control"
        http.post(path, headers=TEXT, content=b"b\r\n c")
        assert _until(lines, "event: data") == ["data:b", "data: c", ""]
        http.post(path, headers=CLOSED)
        assert '"streamClosed":true' in "".join(lines)


def test_bytes_are_sent_as_base64_in_events(http: httpx2.Client, path: str) -> None:
    http.put(path, headers=CLOSED, content=b"\x00\xff")

    answer = http.get(path, params={"offset": "-1", "live": "sse"})

    assert answer.headers["stream-sse-data-encoding"] == "base64"
    assert answer.text.startswith("event: data\ndata:AP8=\n\nevent: control\n")


@pytest.mark.parametrize("closes", [False, True])
def test_a_long_poll_returns_with_what_comes_or_the_end(
    http: httpx2.Client, served: Served, path: str, closes: bool
) -> None:
    http.put(path, headers=TEXT, content=b"a")
    with served.client() as reader, ThreadPoolExecutor(1) as pool:
        live = {"offset": "now", "live": "long-poll"}
        waiting = pool.submit(reader.get, path, params=live)
        wait_until(lambda: served.server.app.streams.count)
        http.post(path, headers={**TEXT, **(CLOSED if closes else {})}, content=b"b")
        found = waiting.result(60)

    assert (found.status_code, found.text) == (200, "b")
    assert ("stream-closed" in found.headers) == closes


def test_a_long_poll_at_the_end_of_a_closed_stream_does_not_wait(
    http: httpx2.Client, path: str
) -> None:
    http.put(path, headers={**TEXT, **CLOSED}, content=b"a")

    ended = http.get(path, params={"offset": "now", "live": "long-poll"})

    assert (ended.status_code, ended.headers["stream-closed"]) == (204, "true")


def test_a_stream_that_is_deleted_under_a_long_poll_is_gone(
    http: httpx2.Client, served: Served, path: str
) -> None:
    http.put(path, headers=TEXT)
    with served.client() as reader, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(reader.get, path, params={"offset": "-1", "live": "long-poll"})
        wait_until(lambda: served.server.app.streams.count)
        http.delete(path)

        assert waiting.result(60).status_code == 404


def _until(lines: Iterator[str], line: str) -> list[str]:
    while next(lines) != line:
        pass
    return [next(lines) for _ in range(3)]


def test_a_long_poll_of_an_open_stream_ends_in_time(
    log: Log, serve: Callable[..., Served], topic: str
) -> None:
    with serve(log, ServerSettings(long_poll_s=0.01)).client() as http:
        http.put(f"/v1/stream/{topic}", headers=TEXT, content=b"a")
        params = {"offset": "now", "live": "long-poll"}
        first = http.get(f"/v1/stream/{topic}", params=params)
        params["cursor"] = first.headers["stream-cursor"]
        second = http.get(f"/v1/stream/{topic}", params=params)

    assert (first.status_code, second.status_code) == (204, 204)
    assert int(first.headers["stream-cursor"]) < int(second.headers["stream-cursor"])


def test_a_page_is_as_large_as_the_server_allows(
    log: Log, serve: Callable[..., Served], topic: str
) -> None:
    path = f"/v1/stream/{topic}"
    with serve(log, ServerSettings(page_bytes_max=4)).client() as http:
        http.put(path, headers=TEXT, content=b"ab")
        for piece in (b"cd", b"efghij", b"k"):
            http.post(path, headers=TEXT, content=piece)
        pages, offset = [], "-1"
        while offset:
            answer = http.get(path, params={"offset": offset})
            pages.append(answer.text)
            is_end = "stream-up-to-date" in answer.headers
            offset = "" if is_end else answer.headers["stream-next-offset"]

    assert pages == ["abcd", "efghij", "k"]


def test_a_page_that_has_not_changed_is_not_sent_again(http: httpx2.Client, path: str) -> None:
    http.put(path, headers=TEXT, content=b"a")
    tag = http.get(path).headers["etag"]

    for known in (tag, f'"x", W/{tag}', "*"):
        assert http.get(path, headers={"if-none-match": known}).status_code == 304
    http.post(path, headers=CLOSED)
    closed = http.get(path, headers={"if-none-match": tag})
    assert (closed.status_code, closed.headers["stream-closed"]) == (200, "true")
