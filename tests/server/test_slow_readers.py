"""Clients that read their responses slowly or not at all, and those that only connect."""

import contextlib
import select
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent import futures
from pathlib import Path

import msgspec
import pytest

import strandline as sl
from strandline.log import Log
from strandline.server.settings import ServerSettings
from strandline.values import Event
from tests.logs import file_log
from tests.server.raw_http import Connection, status
from tests.server.served import Served, http_client
from tests.server.waiting import wait_until

_PAGE = "/v1/topics/orders/partitions/0/records"
_TAIL = "/v1/topics/orders/tail?start=0"
_STREAM = "/v1/stream/orders?offset=-1"
_EVENTS = "/v1/stream/orders?offset=-1&live=sse"


def _asked(path: str, method: str = "GET") -> bytes:
    return f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()


def _is_cut(connection: Connection, within_s: float) -> bool:
    """Whether the server ends the connection while nothing of it is read."""
    waiting = select.poll()
    waiting.register(connection.fileno(), 0)
    return bool(waiting.poll(within_s * 1000))


@pytest.mark.slow
@pytest.mark.parametrize("path", [_PAGE, _TAIL, _STREAM, _EVENTS])
def test_a_client_that_reads_nothing_is_disconnected(
    log: Log, serve: Callable[..., Served], path: str
) -> None:
    """Else its answer would stay in the memory of the server for as long as the client likes."""
    log.create_topic("orders")
    log.append_many("orders", [Event("a", "x" * 4_000_000) for _ in range(4)])
    served = serve(log, ServerSettings(slow_reader_s=0.2))

    with Connection(served) as connection:
        connection.write(_asked(path))

        assert _is_cut(connection, within_s=20)


@pytest.mark.slow
@pytest.mark.parametrize("path", [_PAGE, _TAIL])
def test_a_client_that_reads_slowly_gets_all(
    log: Log, serve: Callable[..., Served], path: str
) -> None:
    """A record that takes longer to be sent than the limit would never arrive otherwise."""
    slow_reader_s, size = 2.0, 12_000_000
    log.create_topic("orders")
    log.append("orders", Event("a", "x" * size))
    served = serve(log, ServerSettings(slow_reader_s=slow_reader_s))

    with Connection(served) as connection:
        connection.write(_asked(path))
        end, got = time.monotonic() + 1.5 * slow_reader_s, 0
        while got < size:
            piece = connection.read(100_000)
            assert piece, f"the server has closed the connection after {got} bytes"
            got += len(piece)
            if time.monotonic() < end:
                select.select([], [], [], slow_reader_s / 20)

    assert got >= size


@pytest.mark.parametrize("path", ["/v1/topics/orders/tail", "/v1/watch?topic=orders", _EVENTS])
def test_head_of_a_stream_ends_after_its_headers(
    log: Log, serve: Callable[..., Served], path: str
) -> None:
    log.create_topic("orders")
    served = serve(log)

    with Connection(served) as connection:
        answer = connection.send(_asked(path, "HEAD"))
        after = connection.send(_asked("/livez"))

    assert (status(answer), status(after)) == (200, 200)
    wait_until(lambda: (served.server.app.streams.count, log.metrics().subscriptions) == (0, 0))


def test_a_connection_beyond_the_limit_is_closed_at_once(
    log: Log, serve: Callable[..., Served]
) -> None:
    """Also one that sends nothing: it would keep a file descriptor, of which the log needs some."""
    served = serve(log, ServerSettings(connections_max=3))

    with contextlib.ExitStack() as opened:
        kept = [opened.enter_context(Connection(served)) for _ in range(2)]
        assert [status(each.send(_asked("/livez"))) for each in kept] == [200, 200]
        third, beyond = (opened.enter_context(Connection(served)) for _ in range(2))
        refused = beyond.answer()

        assert status(refused) == 503
        assert beyond.is_closed()
        assert [status(each.send(_asked("/livez"))) for each in (*kept, third)] == [200] * 3


@pytest.mark.slow
def test_a_client_that_leaves_the_end_of_its_last_answers_is_disconnected(
    log: Log, serve: Callable[..., Served]
) -> None:
    """Else it would keep a connection for ever: what is left is too little to pause the writer."""
    last = _asked(_PAGE)[:-2] + b"Connection: close\r\n\r\n"
    log.create_topic("orders")
    log.append("orders", Event("a", "x" * 30_000))
    served = serve(log, ServerSettings(slow_reader_s=0.2, connections_max=12))
    # The kernel takes little, and the server keeps the rest of the answers.
    served.server._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)  # noqa: SLF001

    with contextlib.ExitStack() as opened:
        for answers in range(12):
            left = opened.enter_context(Connection(served))
            left.write(_asked(_PAGE) * answers + last)

        wait_until(lambda: _is_served(served))


def _is_served(served: Served) -> bool:
    with contextlib.ExitStack() as opened:
        return all(
            status(opened.enter_context(Connection(served)).send(_asked("/livez"))) == 200
            for _ in range(12)
        )


@pytest.mark.slow
def test_connections_leave_the_log_the_files_that_it_needs(tmp_path: Path) -> None:
    """A client without a token could else make every append fail, by connecting often enough."""
    with file_log(str(tmp_path / "log")) as log:
        log.create_topic("orders")
    limited = f"ulimit -n 128; exec {sys.executable} -m strandline serve --json --port 0 --url"
    server = subprocess.Popen(
        ["/bin/sh", "-c", f"{limited} file:{tmp_path / 'log'}"], stdout=subprocess.PIPE
    )
    assert server.stdout is not None
    url = msgspec.json.decode(server.stdout.readline())["url"]
    place = ("127.0.0.1", int(url.rpartition(":")[2]))

    with contextlib.ExitStack() as opened, http_client(url) as http:
        opened.callback(server.wait, 60)
        opened.callback(server.terminate)
        opened.callback(server.stdout.close)
        assert http.get("/livez").status_code == 200
        for _ in range(200):
            opened.enter_context(socket.create_connection(place, timeout=20))
        created = http.put("/v1/topics/others", json={})
        opened.pop_all().close()

    assert created.status_code == 201, created.text


@pytest.mark.slow
def test_pages_that_wait_for_slow_readers_are_bounded_in_all(
    log: Log, serve: Callable[..., Served]
) -> None:
    """Each of many slow readers could else make the server hold a page, without a limit."""
    size = 16_500_000
    log.create_topic("orders")
    log.append("orders", Event("large", "x" * size))
    log.append("orders", Event("small", "x"))
    log.append_many("orders", [Event("a", "x" * 1000)] * 1000)
    served = serve(log, ServerSettings(page_bytes_max=1024 * 1024))

    with contextlib.ExitStack() as opened, served.client() as http:
        slow = [opened.enter_context(Connection(served)) for _ in range(2)]
        for each in slow:
            each.write(_asked(_PAGE))
            assert each.read(1000)
        refused = http.get(_PAGE)
        remote = opened.enter_context(sl.open(served.url, patience_s=0.1))
        with pytest.raises(sl.UnavailableError):
            list(remote.read("orders", 0, 0))
        small = http.get(f"{_PAGE}?start=1&limit=1")
        shorter = http.get(f"{_PAGE}?start=1&limit=1000").json()
        got = 1000
        while got < size:
            got += len(slow[0].read(1024 * 1024))
        passed = http.get(_PAGE)

    assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
    assert refused.json()["retryable"]
    assert small.status_code == 200
    assert 1 < shorter["next"] < 1001, "a page of the room that is left"
    assert (passed.status_code, len(passed.content) > size) == (200, True)


@pytest.mark.slow
def test_a_page_waits_for_the_room_that_others_take(log: Log, serve: Callable[..., Served]) -> None:
    size = 16_500_000
    log.create_topic("orders")
    log.append("orders", Event("large", "x" * size))
    served = serve(log, ServerSettings(page_bytes_max=1024 * 1024))

    with served.client() as http, futures.ThreadPoolExecutor(5) as threads:
        remote = [threads.submit(_read_remotely, served.url) for _ in range(2)]
        pages = list(threads.map(lambda _: http.get(_PAGE), range(3)))

        assert [each.status_code for each in pages] == [200] * 3
        assert [each.result() for each in remote] == [size] * 2


def _read_remotely(url: str) -> int:
    with sl.open(url) as log:
        return len(next(iter(log.read("orders", 0, 0))).payload)
