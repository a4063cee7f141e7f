"""What clients may make the server hold, and for how long."""

import socket
import struct
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import flight

from strandline.log import Log
from strandline.server.flight.calls import FlightCalls
from strandline.server.flight.message_bounds import ClientFrames, RefusedMessageError
from strandline.server.flight.protobuf import fields_in, message_of, varint
from strandline.server.flight.sql_messages import closed, opened
from strandline.server.settings import ServerSettings
from strandline.testing import FakeClock
from strandline.values import Event, InvalidError
from tests.logs import memory_log
from tests.server.flight.flights import (
    FlightServed,
    client_of,
    command,
    events,
    put,
    rows,
    ticket,
)
from tests.server.waiting import wait_until

pytestmark = pytest.mark.slow

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
BYTES_MAX = 10_000


def frame(kind: int, stream: int, body: bytes, flags: int = 0) -> bytes:
    head = len(body).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big")
    return head + body


def grpc(message: bytes, *, is_packed: bool = False) -> bytes:
    return struct.pack(">BI", is_packed, len(message)) + message


def fed(data: bytes, sizes: Iterator[int] | None = None) -> ClientFrames:
    frames = ClientFrames(BYTES_MAX)
    at = 0
    while at < len(data):
        size = len(data) if sizes is None else next(sizes)
        frames.feed(data[at : at + size])
        at += size
    return frames


def arrow_message(*, compression: str | None) -> bytes:
    """Return FlightData with a batch, as a client sends it."""
    batch = pa.record_batch({"a": list(range(100))})
    options = pa.ipc.IpcWriteOptions(compression=compression)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=options) as stream:
        stream.write_batch(batch)
    _, message = pa.ipc.MessageReader.open_stream(sink.getvalue())
    return message_of((2, message.metadata.to_pybytes()), (1000, message.body.to_pybytes()))


@given(st.lists(st.integers(1, 50), min_size=1, max_size=30), st.data())
def test_frames_are_followed_however_they_are_cut(lengths: list[int], data: st.DataObject) -> None:
    sent = PREFACE + frame(4, 0, b"") + frame(1, 1, b"head")
    message = b"".join(grpc(message_of((1000, b"x" * each))) for each in lengths)
    pieces = data.draw(st.lists(st.integers(1, 40), min_size=1, max_size=9))
    at = 0
    for size in (*pieces, len(message)):
        sent += frame(0, 1, message[at : at + size])
        at += size
    cuts = data.draw(st.lists(st.integers(1, 30), min_size=1, max_size=9))

    def sizes() -> Iterator[int]:
        while True:
            yield from cuts

    fed(sent, sizes())
    with pytest.raises(RefusedMessageError, match="at most"):
        fed(sent + frame(0, 1, grpc(b"")[:1] + (BYTES_MAX + 1).to_bytes(4, "big")), sizes())


def test_what_is_too_large_or_compressed_is_refused() -> None:
    large = struct.pack(">BI", 0, BYTES_MAX + 1)
    padded = bytes([3]) + large + b"\0\0\0"
    half = struct.pack(">BI", 0, BYTES_MAX - 100) + b"x"
    bad = {
        "not HTTP/2": b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "at most": PREFACE + frame(0, 1, large),
        "a message has": PREFACE + frame(0, 1, padded, flags=8),
        "together": PREFACE + frame(0, 1, half) + frame(0, 3, half),
        "messages are sent uncompressed": PREFACE + frame(0, 1, grpc(b"x", is_packed=True)),
        "batches are sent uncompressed": PREFACE
        + frame(0, 1, grpc(arrow_message(compression="zstd"))),
        "too many streams": PREFACE + b"".join(frame(0, 2 * n + 1, b"\0") for n in range(1025)),
    }
    for words, sent in bad.items():
        with pytest.raises(RefusedMessageError, match=words):
            fed(sent)
        with pytest.raises(RefusedMessageError, match=words):
            fed(sent, iter([1] * len(sent)))
    fed(PREFACE + frame(0, 1, grpc(arrow_message(compression=None))))
    fed(PREFACE + frame(0, 1, half, flags=1) + frame(0, 3, half))
    fed(PREFACE + frame(0, 1, half) + frame(3, 1, b"\0\0\0\0") + frame(0, 3, half))


def test_the_compressed_batch_is_found_behind_its_body() -> None:
    head, body = (value for _, value in fields_in(arrow_message(compression="lz4")))
    turned = message_of((1000, body), (3, b"note"), (2, head))

    with pytest.raises(RefusedMessageError, match="batches"):
        fed(PREFACE + frame(0, 1, grpc(turned)), iter([7] * len(turned) * 2))


@given(st.binary(max_size=200))
def test_messages_of_any_bytes_are_read_or_refused(packed: bytes) -> None:
    try:
        found = opened(packed)
    except InvalidError:
        return
    assert opened(closed(found.name)).name == found.name


@given(st.integers(0, 2**63 - 1), st.text(), st.binary(max_size=50))
def test_messages_come_back_as_they_were(number: int, text: str, packed: bytes) -> None:
    found = list(fields_in(message_of((1, number), (2, text), (1000, packed), (3, None))))

    assert found == [(1, number), (2, text.encode()), (1000, packed)]
    assert len(varint(number)) <= 9


SMALL_WINDOW = [("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", 65536)]
"""Options of a client that receives little ahead of what it reads."""


def refused(call: Callable[[], Any]) -> None:
    """Run what a connection is cut for."""
    with pytest.raises((flight.FlightError, pa.ArrowException, OSError)):
        call()


def test_a_message_that_is_far_too_large_cuts_its_connection_and_no_other(
    serve_flight: Callable[..., FlightServed], log: Log
) -> None:
    log.create_topic("orders")
    served = serve_flight(log, ServerSettings(body_bytes_max=64 * 1024))
    large = pa.record_batch({"kind": ["a"], "payload": [f'"{"x" * 300_000}"']})
    with client_of(served) as client, client_of(served) as other:
        assert rows(other, "orders") == []
        refused(lambda: put(client, command("orders"), large))
        refused(lambda: rows(client, "x" * 300_000))
        assert rows(other, "orders") == rows(client, "orders") == []


def test_a_put_that_is_compressed_is_cut(
    serve_flight: Callable[..., FlightServed], log: Log
) -> None:
    log.create_topic("orders")
    served = serve_flight(log)
    options = flight.FlightCallOptions(write_options=pa.ipc.IpcWriteOptions(compression="zstd"))
    with client_of(served) as client:
        sent = events("x" * 1000)
        writer, answers = client.do_put(command("orders"), sent.schema, options)

        def write() -> None:
            with writer:
                writer.write_batch(sent)
                writer.done_writing()
                if answers.read() is None:
                    raise OSError("no answer")

        refused(write)
        assert rows(client, "orders") == []


@pytest.fixture
def timed() -> Iterator[tuple[Log, FakeClock]]:
    clock = FakeClock()
    log = memory_log(clock=clock)
    yield log, clock
    log.close()


def waiting(served: FlightServed) -> FlightCalls:
    """Return the calls that are under way; it looks inside, since no call shows them."""
    flights = served.server._flight  # noqa: SLF001
    assert flights is not None
    assert flights._answers is not None  # noqa: SLF001
    return flights._answers.calls  # noqa: SLF001


def test_a_reader_that_takes_nothing_is_cut_off(
    serve_flight: Callable[..., FlightServed], timed: tuple[Log, FakeClock]
) -> None:
    log, clock = timed
    log.create_topic("orders")
    for _ in range(40):
        log.append("orders", Event("a", "x" * 1_000_000))
    served = serve_flight(log, ServerSettings(slow_reader_s=20))
    with client_of(served, generic_options=SMALL_WINDOW) as client:
        reader = client.do_get(ticket("orders"))
        reader.read_chunk()
        # What lies in the buffers of both ends is sent; then the server waits for its reader.
        wait_until(lambda: _is_stuck(served))
        _elapse(clock, served)
        refused(reader.read_all)
        assert len(rows(client, "orders", columns=["_offset"])) == 40


def _is_stuck(served: FlightServed) -> bool:
    calls = waiting(served)
    before = dict(calls._limits)  # noqa: SLF001
    if not before:
        return False
    with served.client() as http:
        http.get("/livez")
    return before.keys() == calls._limits.keys()  # noqa: SLF001


def _elapse(clock: FakeClock, served: FlightServed) -> None:
    """Let time pass until no call waits any longer."""
    calls = waiting(served)

    def passed() -> bool:
        clock.advance(5)
        return calls.count == 0

    wait_until(passed)


def test_a_put_that_sends_nothing_is_cut_off(
    serve_flight: Callable[..., FlightServed], timed: tuple[Log, FakeClock]
) -> None:
    log, clock = timed
    log.create_topic("orders")
    served = serve_flight(log)
    with client_of(served) as client:
        writer, answers = client.do_put(command("orders", receipts="batch"), events(1).schema)
        writer.write_batch(events(1))
        answers.read()
        wait_until(lambda: waiting(served).count == 1)
        _elapse(clock, served)
        refused(lambda: _finish(writer, answers))
        assert len(rows(client, "orders")) == 1


def _finish(writer: Any, answers: Any) -> None:
    try:
        writer.write_batch(events(2))
        writer.done_writing()
        if answers.read() is None:
            raise OSError("no answer")
    finally:
        writer.close()


def test_only_so_many_calls_and_connections_are_taken(
    serve_flight: Callable[..., FlightServed], log: Log
) -> None:
    log.create_topic("orders")
    served = serve_flight(
        log, ServerSettings(flight_calls_per_token_max=1, flight_connections_max=2)
    )
    with client_of(served) as client, client_of(served) as other:
        following = client.do_get(ticket("orders", follow=True))
        following.read_chunk()
        with pytest.raises(flight.FlightUnavailableError, match="too many calls"):
            rows(other, "orders")
        third = flight.FlightClient(served.flight_url)
        refused(lambda: list(third.list_flights(options=flight.FlightCallOptions(timeout=5))))
        third.close()
        following.cancel()
        wait_until(lambda: waiting(served).count == 0)
        assert rows(other, "orders") == []


def test_what_is_no_http2_is_closed(served: FlightServed) -> None:
    port = int(served.flight_url.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=60) as raw:
        raw.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" * 100)
        found = raw.recv(1000)
        while found and (more := raw.recv(1000)):
            found += more

    assert b"HTTP/1" not in found
