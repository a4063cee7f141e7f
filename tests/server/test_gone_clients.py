"""A wait ends with the connection of its client."""

import time
from collections.abc import Callable, Iterator

import httpx2
import msgspec
import pytest

from strandline.log import Log, wire
from strandline.server import ServerSettings
from strandline.values import Event
from tests.server.raw_http import Connection, post, status
from tests.server.served import Served
from tests.server.waiting import wait_until

pytestmark = pytest.mark.slow


WAIT_S = 60


@pytest.fixture(scope="module")
def served(shared_log: Log) -> Iterator[Served]:
    served = Served(shared_log, ServerSettings(long_poll_s=WAIT_S))
    yield served
    served.stop()


def get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()


def reading(log: Log, http: httpx2.Client, topic: str) -> bytes:
    log.create_topic(topic)
    return get(f"/v1/topics/{topic}/partitions/0/records?wait={WAIT_S}&start=0")


def following(log: Log, http: httpx2.Client, topic: str) -> bytes:
    http.put(f"/v1/stream/{topic}", headers={"content-type": "text/plain"})
    return get(f"/v1/stream/{topic}?offset=now&live=long-poll")


def watching(log: Log, http: httpx2.Client, topic: str) -> bytes:
    seen = (log.create_topic(topic).id, 0, 0)
    call = msgspec.msgpack.encode(wire.WatchCall([seen], durable_only=False, wait_s=WAIT_S))
    return post(call, path="/v1/store/watch").replace(b"application/json", wire.MSGPACK.encode())


@pytest.mark.parametrize("made", [reading, following, watching])
def test_a_long_poll_ends_once_its_client_has_gone(
    http: httpx2.Client,
    served: Served,
    shared_log: Log,
    topic: str,
    made: Callable[[Log, httpx2.Client, str], bytes],
) -> None:
    streams, request = served.server.app.streams, made(shared_log, http, topic)

    with Connection(served) as leaving:
        leaving.write(request)
        wait_until(lambda: streams.count == 1)

    began = time.monotonic()
    wait_until(lambda: streams.count == 0)
    assert time.monotonic() - began < WAIT_S / 2


def test_a_client_that_stays_has_its_answer_and_goes_on(
    served: Served, shared_log: Log, topic: str
) -> None:
    shared_log.create_topic(topic)
    with Connection(served) as staying:
        for number in range(3):
            path = f"/v1/topics/{topic}/partitions/0/records?wait={WAIT_S}&start={number}"
            staying.write(get(path))
            wait_until(lambda: served.server.app.streams.count == 1)
            shared_log.append(topic, Event("a", number))

            answer = staying.answer()

            assert status(answer) == 200
            assert b'"payload":%d' % number in answer
