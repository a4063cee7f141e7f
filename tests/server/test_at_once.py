"""Appends that are answered as soon as they arrive: as all others are, and no others."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from strandline.log import Log
from strandline.server import running
from strandline.server.settings import ServerSettings
from strandline.testing import FakeClock
from strandline.values import Event
from strandline.values.json_forms import moment
from tests.core.plain import needs_core
from tests.logs import file_log
from tests.server.raw_http import BODY, Connection, payloads, post, same, status
from tests.server.served import Served

pytestmark = needs_core


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def log(tmp_path: Path, clock: FakeClock) -> Iterator[Log]:
    log = file_log(str(tmp_path / "log"), clock=clock)
    log.create_topic("orders")
    # The first append looks its topic up in a thread, which may end after the answer.
    log.append("orders", Event("first"))
    yield log
    log.close()


@pytest.fixture
def served(log: Log, serve: Callable[..., Served]) -> Served:
    return serve(log)


def made(served: Served, request: bytes) -> int | None:
    """Return the status of a request that is answered at once; None if it is not."""
    answers: list[int] = []
    is_taken = served.server.app.at_once.take(request, lambda status, _: answers.append(status))
    return answers[0] if is_taken else None


def test_a_known_head_is_answered_at_once_and_as_ever(served: Served, log: Log) -> None:
    with Connection(served) as connection:
        usual = connection.send(post())
        at_once = connection.send(post(b'{"kind":"a","payload":"longer"}'))
    directly = made(served, post(b'{"kind":"a","payload":3}'))

    assert same(usual) == same(at_once)
    assert usual.startswith(b"HTTP/1.1 201 ")
    assert b"date: " in at_once
    assert directly == 201
    assert payloads(log) == [1, "longer", 3]


@pytest.mark.parametrize("count", [1, 2, 100])
def test_a_list_is_answered_at_once_and_as_ever(served: Served, log: Log, count: int) -> None:
    body = b"[" + b",".join(b'{"kind":"a","payload":%d}' % each for each in range(count)) + b"]"
    with Connection(served) as connection:
        usual = connection.send(post(body))
        at_once = connection.send(post(body))
    assert made(served, post(body)) == 201

    places = [msgspec.json.decode(each.partition(b"\r\n\r\n")[2]) for each in (usual, at_once)]
    assert same(usual) == same(at_once)
    assert [each["offset"] for each in places[1]["receipts"]] == list(
        range(1 + count, 1 + 2 * count)
    )
    stored = [each.timestamp_us for each in log.read("orders", 0, 1 + count, 1 + 2 * count)]
    assert {each["timestamp"] for each in places[1]["receipts"]} == {moment(us) for us in stored}
    assert payloads(log) == list(range(count)) * 3


def test_what_is_answered_at_once_is_counted(served: Served) -> None:
    with Connection(served) as connection:
        for _ in range(5):
            assert status(connection.send(post())) == 201
    with served.client() as http:
        text = http.get("/metrics").text

    assert 'http_requests_total{endpoint="append_records",status="201"} 5.0' in text
    assert 'http_request_seconds_count{endpoint="append_records"} 5.0' in text
    assert 'appends_total{tenant="",topic="orders"} 6.0' in text


@pytest.mark.parametrize(
    "request_",
    [
        post(length="+24"),
        post(length="024"),
        post(length="0x18"),
        post(length="23"),
        post(length="25"),
        post() + b"G",
        post() + post(),
        post()[:-1],
        post()[:40],
        b"\r\n" + post(),
        b"",
        b"\r\n\r\n" + BODY,
        post(b"[]"),
        post(b"[" + BODY + b",{}]"),
        post(b"[" + b",".join([BODY] * 300) + b"]"),
        post(b'{"kind":"a","payload":1'),
        post(b'{"kind":"a","surprise":1}'),
        post(b'{"kind":""}'),
        post(b""),
        post(BODY, "X-Forwarded-For: 10.0.0.1"),
        post(BODY, "Idempotency-Key: k"),
        post(path="/v1/topics/orders/records?durability=durable"),
        post(path="/v1/topics/other/records"),
        post(version="1.0"),
        post().replace(b"127.0.0.1", b"evil.example"),
        post().replace(b"POST", b"PUT"),
        post().replace(b"application/json", b"application/x-ndjson"),
    ],
)
def test_what_is_not_the_same_is_not_answered_at_once(
    served: Served, log: Log, request_: bytes
) -> None:
    with Connection(served) as connection:
        connection.send(post())

    assert made(served, request_) is None
    assert payloads(log) == [1]
    assert made(served, post()) == 201


@pytest.mark.parametrize(
    "lines",
    [
        ("Idempotency-Key: k",),
        ("Producer-Id: p", "Producer-Seq: 1"),
        ("Cookie: a=b",),
        ("Connection: close",),
        ("Connection: keep-alive, x",),
        ("Expect: 100-continue",),
        ("ce-specversion: 1.0", "ce-id: 1", "ce-source: s", "ce-type: t"),
        ("X-Wavelength: 24",),
    ],
)
def test_an_unusual_head_is_never_answered_at_once(
    served: Served, log: Log, lines: tuple[str, ...]
) -> None:
    with Connection(served) as connection:
        first = connection.send(post(BODY, *lines))
        assert status(connection.answer() if status(first) == 100 else first) == 201

    assert made(served, post(BODY, *lines)) is None
    assert len(payloads(log)) == 1


@pytest.mark.parametrize(
    "query", ["durability=applied", "partition=0", "expected_offset=1", "key=c-1"]
)
def test_other_terms_are_never_answered_at_once(served: Served, log: Log, query: str) -> None:
    request = post(path=f"/v1/topics/orders/records?{query}")
    with Connection(served) as connection:
        assert status(connection.send(request)) == 201

    assert made(served, request) is None
    assert payloads(log) == [1]


def test_chunks_are_never_answered_at_once(served: Served, log: Log) -> None:
    chunks = b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)
    request = post(chunks).replace(
        b"Content-Length: %d" % len(chunks), b"Transfer-Encoding: chunked"
    )
    with Connection(served) as connection:
        assert status(connection.send(request)) == 201

    assert made(served, request) is None
    assert payloads(log) == [1]


def test_a_head_that_ends_elsewhere_for_the_parser_is_never_known(served: Served, log: Log) -> None:
    body = b'{"kind":"a",\r\n\r\n"payload":1}'
    request = post(body)
    lines = request[: -len(body)].replace(b"\r\n", b"\n") + body
    with Connection(served) as connection:
        first = status(connection.send(lines))
    with Connection(served) as connection:
        # Both are one packet; the first has a head as it should be, and no end of its own.
        connection.write(post() + post())
        assert [status(connection.answer()) for _ in range(2)] == [201, 201]

    assert made(served, lines) is None
    assert made(served, post() + post()) is None
    assert (first, len(payloads(log))) == (400, 2)


def test_pieces_and_several_requests_together_are_answered_in_order(
    served: Served, log: Log
) -> None:
    requests = [post(b'{"kind":"a","payload":%d}' % number) for number in range(60)]
    with Connection(served) as connection:
        assert status(connection.send(requests[0])) == 201
        # The head of a request ends in the bytes of the one before, whose rest is sent later.
        connection.write(b"".join(requests[1:30]) + requests[30][:50])
        connection.write(requests[30][50:] + requests[31][:-3])
        connection.write(requests[31][-3:])
        answers = [connection.answer() for _ in requests[1:32]]
        answers += [connection.send(each) for each in requests[32:]]

    assert [status(each) for each in answers] == [201] * 59
    assert payloads(log) == list(range(60))
    places = [msgspec.json.decode(each.partition(b"\r\n\r\n")[2]) for each in answers]
    assert [each["receipts"][0]["offset"] for each in places] == list(range(2, 61))


def test_a_known_head_within_another_request_is_no_request(served: Served, log: Log) -> None:
    with Connection(served) as connection:
        assert status(connection.send(post())) == 201
        # A part of a head, and the rest of it looks like a request of its own.
        connection.write(
            b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\nGET /livez HTTP/1.1\r\nX: "
        )
        assert status(connection.answer()) == 200
        # Which has a body that looks like an append.
        assert b'"live"' in connection.send(post())
        assert status(connection.send(b"GET /readyz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")) == 200

    with Connection(served) as connection:
        # A body that is the same.
        inner = post()
        outer = post(b'{"kind":"a","payload":"%b"}' % (b"x" * len(inner)))
        head = outer[: outer.index(b"\r\n\r\n") + 4]
        connection.write(head)
        refused = connection.send(inner + b" " * (len(outer) - len(head) - len(inner)))
        assert status(refused) == 400
    assert payloads(log) == [1]


def test_a_token_that_was_revoked_or_has_expired_is_refused_at_once(
    served: Served, log: Log, clock: FakeClock
) -> None:
    tokens = served.server.app.tokens
    secret, token = tokens.create(["append"], topics=["ord*"])
    brief, _ = tokens.create(["append"], expires_s=60)
    request = post(BODY, f"Authorization: Bearer {secret}")
    shortly = post(BODY, f"Authorization: Bearer {brief}")
    with Connection(served) as connection:
        assert [status(connection.send(each)) for each in (request, shortly)] == [201, 201]
        assert (made(served, request), made(served, shortly)) == (201, 201)
        clock.advance(61)
        log.append("orders", Event("looked up again"))
        assert status(connection.send(shortly)) == 401
        assert status(connection.send(request)) == 201
        assert made(served, request) == 201
        tokens.revoke(token.id)
        assert made(served, request) is None
        assert status(connection.send(request)) == 401
    assert len(payloads(log)) == 7


def test_a_token_has_its_own_head(served: Served, log: Log) -> None:
    tokens = served.server.app.tokens
    secret, _ = tokens.create(["append"])
    reader, _ = tokens.create(["read"])
    other, _ = tokens.create(["append"], topics=["others"])
    with Connection(served) as connection:
        statuses = [
            status(connection.send(post(BODY, f"Authorization: Bearer {each}")))
            for each in (secret, reader, other, secret, reader, other, secret + "x")
        ]

    assert statuses == [201, 403, 404, 201, 403, 404, 401]
    assert len(payloads(log)) == 2


def test_a_topic_that_was_dropped_is_unknown_and_then_another(served: Served, log: Log) -> None:
    with Connection(served) as connection:
        assert status(connection.send(post())) == 201
        assert made(served, post()) == 201
        log.drop_topic("orders")
        assert made(served, post()) is None
        assert status(connection.send(post())) == 404
        log.create_topic("orders", value_kind="bytes")
        assert status(connection.send(post())) == 400
        assert log.describe_topic("orders").records == 0


def test_as_many_requests_under_way_as_a_token_may_have_leave_no_room(
    log: Log, serve: Callable[..., Served]
) -> None:
    served = serve(log, ServerSettings(requests_per_token_max=1))
    log.create_topic("quiet")
    with Connection(served) as connection, Connection(served) as waiting:
        assert status(connection.send(post())) == 201
        # Its answer begins once a record is there, or a minute has passed.
        path = "/v1/topics/quiet/partitions/0/records?start=0&wait=60"
        waiting.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        # Not at once, and so refused as soon as the other is under way.
        while status(connection.send(post(BODY, "Idempotency-Key: k"))) != 429:
            pass
        assert [made(served, post()) for _ in range(20)] == [None] * 20
        assert status(connection.send(post())) == 429
        log.append("quiet", Event("a"))
        assert status(waiting.answer()) == 200
        assert status(connection.send(post())) == 201


def test_a_closed_log_answers_as_ever(served: Served, log: Log) -> None:
    with Connection(served) as connection:
        assert status(connection.send(post())) == 201
        log.close()
        assert status(connection.send(post())) == 503


def test_a_connection_is_kept_while_it_is_used_and_closed_after_that(
    log: Log, serve: Callable[..., Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept_s = 0.3
    monkeypatch.setattr(running, "_KEEP_ALIVE_S", kept_s)
    served = serve(log)
    with Connection(served) as connection:
        begun = time.monotonic()
        while time.monotonic() < begun + 3 * kept_s:
            assert status(connection.send(post())) == 201
        last = time.monotonic()
        assert connection.is_closed()
    assert time.monotonic() - last > kept_s / 2


def test_a_server_that_ends_closes_connections_that_were_answered_at_once(served: Served) -> None:
    with Connection(served) as connection:
        for _ in range(3):
            assert status(connection.send(post())) == 201
        served.server.stop()
        assert connection.is_closed()
