"""Malicious requests."""

import contextlib
import gzip
import io
import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pyarrow as pa
import pytest

import strandline as sl
from strandline.log import Log
from strandline.server.protocol import HEAD_BYTES_MAX
from strandline.server.settings import ServerSettings
from strandline.values import Event
from tests.logs import memory_log
from tests.server.served import Served

_FILL = b"y" * HEAD_BYTES_MAX
_ARROW = {"content-type": "application/vnd.apache.arrow.stream"}


@pytest.fixture(scope="module")
def log() -> Iterator[Log]:
    log = memory_log()
    log.create_topic("orders")
    log.create_topic("batches", value_kind="batch")
    yield log
    log.close()


@pytest.fixture(scope="module")
def impatient(log: Log) -> Iterator[Served]:
    """A server with small limits."""
    served = Served(
        log, ServerSettings(body_bytes_max=100_000, body_timeout_s=0.3, header_timeout_s=0.3)
    )
    yield served
    served.stop()


def exchange(served: Served, sent: bytes, *, then: bytes = b"") -> bytes:
    """Send bytes as they are, and return everything until the server closes the connection."""
    host, port = served.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        connection.sendall(sent)
        if then:
            connection.sendall(then)
        answer = b""
        # What arrives after the server has closed resets the connection, at times with its answer.
        with contextlib.suppress(ConnectionResetError):
            while piece := connection.recv(65536):
                answer += piece
        return answer


def head(path: str = "/v1/topics/orders/records", method: str = "POST", *lines: str) -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", "host: localhost", *lines, "", ""]).encode()


def test_a_body_that_is_too_large_is_refused_before_it_is_read(impatient: Served) -> None:
    by_length = exchange(
        impatient, head("/v1/topics/orders/records", "POST", "content-length: 99999999999")
    )
    chunks = b"%x\r\n%b\r\n" % (60_000, b"x" * 60_000)
    chunked = exchange(
        impatient,
        head("/v1/topics/orders/records", "POST", "transfer-encoding: chunked"),
        then=chunks * 2,
    )

    assert by_length.startswith(b"HTTP/1.1 413 ")
    assert chunked.startswith(b"HTTP/1.1 413 ")


def test_slow_heads_and_bodies_are_cut_off(impatient: Served) -> None:
    slow_body = exchange(
        impatient, head("/v1/topics/orders/records", "POST", "content-length: 10"), then=b"{"
    )
    slow_head = exchange(impatient, b"POST /v1/topics HTTP/1.1\r\nhost: loc")
    silent = exchange(impatient, b"\r\n")

    assert slow_body.startswith(b"HTTP/1.1 408 ")
    for answer in (slow_head, silent):
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert problem_in(answer)["title"] == "RequestTimeout"


def problem_in(answer: bytes) -> dict[str, Any]:
    start, _, body = answer.partition(b"\r\n\r\n")
    assert b"content-type: application/problem+json" in start
    found: dict[str, Any] = json.loads(body)
    assert start.startswith(b"HTTP/1.1 %d " % found["status"])
    return found


@pytest.mark.parametrize(
    ("sent", "title"),
    [
        # Not more than that: what a closed connection has not read would end it for the client.
        ((b"GET /livez HTTP/1.1\r\nx: " + _FILL)[: HEAD_BYTES_MAX + 1], "HeadTooLarge"),
        (b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * (HEAD_BYTES_MAX // 6 + 1), "HeadTooLarge"),
        ((b"GET /" + _FILL)[: HEAD_BYTES_MAX + 1], "UriTooLong"),
        (b"GET /" + _FILL + b" HTTP/1.1\r\n\r\n", "UriTooLong"),
        (b"\x16\x03\x01\x00\x00garbage\r\n\r\n", "BadRequest"),
    ],
    ids=["an unfinished header", "many headers", "an unfinished URL", "a long URL", "no HTTP"],
)
def test_a_head_that_is_too_large_is_refused(impatient: Served, sent: bytes, title: str) -> None:
    assert problem_in(exchange(impatient, sent))["title"] == title


def test_a_log_that_is_only_read_forbids_appends(
    tmp_path: Path, serve: Callable[..., Served]
) -> None:
    url = f"file:{tmp_path / 'events'}"
    with sl.open(url) as log:
        log.create_topic("orders")
    with sl.open(url, mode="read") as log:
        served = serve(log)
        with served.client() as http:
            answers = [
                http.post("/v1/topics/orders/records", json={"kind": "a"}),
                http.put("/v1/topics/more", json={}),
            ]
        served.stop()

    for answer in answers:
        assert answer.status_code == 403
        assert answer.json()["detail"].endswith("open it with mode='write': mode='read'")


def test_requests_that_could_be_read_in_two_ways_are_refused(impatient: Served, log: Log) -> None:
    """Request smuggling: what one server takes for a body, another takes for a request."""
    before = log.describe_topic("orders").records
    smuggled = head("/v1/topics/smuggled", "PUT", "content-length: 2") + b"{}"
    two_ways = [
        ["content-length: 4", "transfer-encoding: chunked"],
        ["content-length: 4", "content-length: 400"],
        ["transfer-encoding: chunked", "transfer-encoding: identity"],
        ["transfer-encoding: xchunked"],
        ["content-length: +4"],
        ["content-length: 0x4"],
    ]

    for lines in two_ways:
        answer = exchange(
            impatient,
            head("/v1/topics/orders/records", "POST", *lines),
            then=b"0\r\n\r\n" + smuggled,
        )
        assert not answer or b" 400 " in answer.split(b"\r\n")[0], lines
        assert b" 201 " not in answer, lines
    assert "smuggled" not in [each.name for each in log.topics()]
    assert log.describe_topic("orders").records == before


def test_what_is_compressed_is_not_expanded(impatient: Served, log: Log) -> None:
    bomb = gzip.compress(b"0" * 50_000_000)
    zeros = pa.record_batch({"n": pa.nulls(2_000_000, pa.int64()).fill_null(0)})
    sink = io.BytesIO()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(sink, zeros.schema, options=options) as stream:
        stream.write_batch(zeros)
    assert len(sink.getvalue()) < 50_000

    with impatient.client() as http:
        packed = http.post(
            "/v1/topics/orders/records", content=bomb[:90_000], headers={"content-encoding": "gzip"}
        )
        arrow = http.post("/v1/topics/batches/records", content=sink.getvalue(), headers=_ARROW)

    assert packed.status_code == 415
    assert (arrow.status_code, arrow.json()["title"]) == (413, "InvalidError")
    assert log.describe_topic("batches").records == 0


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example"}, 421),
        ({"host": "localhost.evil.example"}, 421),
        ({"host": "127.0.0.1.evil.example:80"}, 421),
        ({"host": "[bad"}, 421),
        ({"host": ""}, 421),
        ({"origin": "http://evil.example"}, 421),
        ({"origin": "null"}, 421),
        ({"sec-fetch-site": "cross-site"}, 421),
        ({"sec-fetch-site": "same-site"}, 421),
        ({"x-forwarded-for": "203.0.113.9"}, 401),
        ({"forwarded": "for=203.0.113.9"}, 401),
        ({"Via": "1.1 proxy.example"}, 401),
        ({"X-Forwarded-Proto": "https"}, 401),
        ({"X-Forwarded-Server": "proxy.example"}, 401),
        ({"X-Original-Forwarded-For": "203.0.113.9"}, 401),
        ({"CF-Connecting-IP": "203.0.113.9"}, 401),
        ({"True-Client-IP": "203.0.113.9"}, 401),
        ({"X-Client-IP": "203.0.113.9"}, 401),
        ({"X-Real-IP": "203.0.113.9"}, 401),
        ({"Host": "127.0.0.1"}, 421),
        ({"Host": "evil.example"}, 421),
        ({"origin": "http://localhost"}, 200),
        ({"host": "localhost:8080"}, 200),
        ({"host": "[::1]:8080"}, 200),
    ],
)
def test_without_a_token_only_this_machine_itself_is_admitted(
    impatient: Served, headers: dict[str, str], status: int
) -> None:
    """A name made to resolve to loopback, a page in a browser, a proxy that asks for no token."""
    lines = {"host": "localhost", **headers, "connection": "close"}
    sent = "GET /v1/log HTTP/1.1\r\n" + "".join(f"{n}: {v}\r\n" for n, v in lines.items()) + "\r\n"

    answer = exchange(impatient, sent.encode())

    assert answer.startswith(b"HTTP/1.1 %d " % status), answer[:200]


@pytest.mark.parametrize(
    ("target", "status"),
    [
        ("http://evil.example/v1/log", 421),
        ("HTTP://evil.example:80/v1/log", 421),
        ("http://localhost@evil.example/v1/log", 421),
        ("http://localhost/v1/log", 200),
        ("http://[::1]:7007/v1/log", 200),
    ],
)
def test_without_a_token_a_whole_url_names_this_machine(
    impatient: Served, target: str, status: int
) -> None:
    answer = exchange(impatient, head(target, "GET", "connection: close"))

    assert answer.startswith(b"HTTP/1.1 %d " % status), answer[:200]


@pytest.mark.parametrize("path", ["/v1/log/", "/v1/topics/", "/livez/", "/console"])
def test_no_answer_redirects_to_the_host_that_a_request_names(impatient: Served, path: str) -> None:
    lines = "host: evil.example\r\nconnection: close\r\n\r\n"

    answer = exchange(impatient, f"GET {path} HTTP/1.1\r\n{lines}".encode())

    assert b"evil.example" not in answer
    if path.endswith("/"):
        assert answer.startswith(b"HTTP/1.1 404 "), answer[:200]
        assert b"application/problem+json" in answer


@pytest.mark.parametrize(
    "path",
    [
        "/v1/topics/..%2f..%2fetc",
        "/v1/topics/%00",
        "/v1/topics/%ff",
        "/v1/topics/" + "x" * 5000,
        "/v1/topics/a%0d%0aset-cookie:%20x",
        "/v1//topics",
        "/v1/topics/../log/../topics/%2e%2e",
        "/v1/topics/orders/partitions/-1",
        "/v1/topics/orders/partitions/1e9",
        "/v1/topics/orders/partitions/%D9%A0",
        "/v1/topics/orders/consumers/%20x",
        "/v1/topics/orders/consumers/a%2Fb",
        "/v1/topics/orders/consumers/a%0Ab",
        "/errors/..%2fapp.py",
        "/errors/__init__",
        "/errors/open",
    ],
)
def test_strange_paths_find_nothing(impatient: Served, path: str) -> None:
    answer = exchange(impatient, head(path, "GET", "connection: close"))

    first, _, rest = answer.partition(b"\r\n")
    assert first.split()[1] in (b"400", b"404"), first
    assert b"set-cookie" not in rest.partition(b"\r\n\r\n")[0].lower()


def test_no_answer_shows_a_traceback_or_a_path(log: Log, serve: Callable[..., Served]) -> None:
    served = serve(log)
    served.server.app.log.describe_topic = None  # type: ignore[assignment,method-assign,misc]

    with served.client() as http:
        answer = http.get("/v1/topics/orders")

    assert answer.status_code == 500
    assert answer.json()["title"] == "InternalError"
    assert "Traceback" not in answer.text
    assert ".py" not in answer.text


def test_a_name_with_a_slash_is_one_name(impatient: Served, log: Log) -> None:
    log.append("orders", Event("a"))
    with impatient.client() as http:
        url = "/v1/topics/orders/consumers/a%2Fb"
        made = http.post(f"{url}/ack", json={"ends": {"0": 0}})
        found = http.get(url)
        removed = http.delete(url)

    assert made.status_code == 200
    assert [each["consumer"] for each in found.json()["consumers"]] == ["a/b"]
    assert removed.status_code == 204


def test_methods_that_no_path_has_are_refused(impatient: Served) -> None:
    with impatient.client() as http:
        for method in ("OPTIONS", "TRACE", "PROPFIND"):
            answer: httpx2.Response = http.request(method, "/v1/log")
            assert answer.status_code == 405
            assert "access-control-allow-origin" not in answer.headers
