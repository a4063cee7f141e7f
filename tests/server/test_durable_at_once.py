"""Durable appends that are made as soon as they arrive, and answered once they are durable."""

import errno
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import msgspec
import pytest

from strandline.io import SystemIo
from strandline.log import Log
from strandline.server.settings import ServerSettings
from strandline.testing import FaultyIo
from strandline.testing.faulty_io import OperationKind
from strandline.values import Event
from tests.core.plain import needs_core
from tests.logs import file_log
from tests.server.raw_http import BODY, Connection, payloads, post, same, status
from tests.server.served import Served

pytestmark = needs_core

SYNC: Final[tuple[OperationKind]] = ("sync",)
DURABLE = "/v1/topics/orders/records?durability=durable"


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    log = file_log(str(tmp_path / "log"))
    log.create_topic("orders")
    # The first append looks its topic up in a thread, which may end after the answer.
    log.append("orders", Event("first"))
    yield log
    log.close()


@pytest.fixture
def served(log: Log, serve: Callable[..., Served]) -> Served:
    return serve(log)


@pytest.mark.parametrize("body", [BODY, b"[%b,%b]" % (BODY, BODY)])
def test_a_durable_append_is_answered_as_ever_once_it_is(
    served: Served, log: Log, body: bytes
) -> None:
    with Connection(served) as connection:
        usual = connection.send(post(body, path=DURABLE))
        at_once = [connection.send(post(body, path=DURABLE)) for _ in range(20)]

    assert {same(each) for each in at_once} == {same(usual)}
    assert b'"durability":"durable"' in usual
    marks = log.marks("orders", 0)
    assert marks.durable == marks.high == 1 + 21 * body.count(b"kind")


def test_what_is_sent_before_a_durable_answer_is_answered_after_it(
    served: Served, log: Log
) -> None:
    requests = [post(b'{"kind":"a","payload":%d}' % each, path=DURABLE) for each in range(30)]
    with Connection(served) as connection:
        assert status(connection.send(requests[0])) == 201
        for each in requests[1:]:
            connection.write(each[:70])
            connection.write(each[70:])
        answers = [connection.answer() for _ in requests[1:]]

    assert {status(each) for each in answers} == {201}
    assert payloads(log) == list(range(30))


@pytest.fixture
def io() -> FaultyIo:
    return FaultyIo(SystemIo())


def hold_syncs(io: FaultyIo) -> threading.Event:
    """Let no sync begin before the event is set."""
    gate = threading.Event()
    io.before(1, lambda _: assert_set(gate), kinds=SYNC, forever=True)
    return gate


def assert_set(gate: threading.Event) -> None:
    assert gate.wait(30)


@pytest.fixture
def steered(
    tmp_path: Path, io: FaultyIo, serve: Callable[..., Served]
) -> Iterator[tuple[Served, Log]]:
    log = file_log(str(tmp_path / "steered"), io=io)
    log.create_topic("orders")
    log.append("orders", Event("first"))
    yield serve(log), log
    log.close()


def test_a_server_that_ends_sends_durable_answers_first(
    steered: tuple[Served, Log], io: FaultyIo
) -> None:
    served, log = steered
    with Connection(served) as connection:
        assert status(connection.send(post(path=DURABLE))) == 201
        gate = hold_syncs(io)
        connection.write(post(path=DURABLE))
        while len(payloads(log)) < 2:
            time.sleep(0.001)
        served.server.stop()
        gate.set()
        assert status(connection.answer()) == 201
        assert connection.is_closed()


def test_a_durable_append_under_way_counts_as_a_request(
    tmp_path: Path, io: FaultyIo, serve: Callable[..., Served]
) -> None:
    with file_log(str(tmp_path / "steered"), io=io) as log:
        log.create_topic("orders")
        log.append("orders", Event("first"))
        served = serve(log, ServerSettings(requests_per_token_max=1))
        with Connection(served) as connection, Connection(served) as other:
            assert status(connection.send(post(path=DURABLE))) == 201
            gate = hold_syncs(io)
            connection.write(post(path=DURABLE))
            while len(payloads(log)) < 2:
                time.sleep(0.001)
            assert status(other.send(post(path=DURABLE))) == 429
            gate.set()
            assert status(connection.answer()) == 201
            assert status(other.send(post(path=DURABLE))) == 201
        served.stop()


def test_a_sync_that_fails_is_an_error_of_unknown_outcome(
    steered: tuple[Served, Log], io: FaultyIo
) -> None:
    served, _ = steered
    with Connection(served) as connection:
        assert status(connection.send(post(path=DURABLE))) == 201
        io.fail(1, errno.EIO, kinds=SYNC, forever=True)
        answer = connection.send(post(path=DURABLE))

    problem = msgspec.json.decode(answer.partition(b"\r\n\r\n")[2])
    assert (status(answer), problem["stored"]) == (500, "once-or-never")
