"""Connections that fail while they are opened, or are dropped silently, are reopened."""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import pytest
from nats.aio.client import Client
from nats.errors import ConnectionClosedError

import strandline as sl
from strandline.stores.jetstream import connection
from tests.stores.jetstream.server import NatsServer
from tests.stores.wire import Wire

pytestmark = [pytest.mark.slow, pytest.mark.heavy]


def event(number: int) -> sl.Event:
    return sl.Event("order", {"n": number})


@pytest.fixture
def wire(server: NatsServer) -> Iterator[Wire]:
    yield server.wire
    server.wire.join()


@pytest.fixture
def wired_url(server: NatsServer, wire: Wire, new_url: Callable[[], str]) -> str:
    """The URL of a log on the server, by way of the wire."""
    return new_url().replace(f":{server.port}", f":{wire.port}")


def test_a_connection_that_breaks_while_it_is_made_is_made_again(
    wire: Wire, wired_url: str
) -> None:
    subscribe = Client.subscribe
    broken: list[Client] = []

    async def break_once(client: Client, *args: Any, **options: Any) -> Any:
        if not broken:
            broken.append(client)
            await client.close()
            raise ConnectionClosedError
        return await subscribe(client, *args, **options)

    async def end_once(client: Client, *args: Any, **options: Any) -> Any:
        found = await subscribe(client, *args, **options)
        if len(broken) == 1:
            broken.append(client)
            await client.close()
        return found

    with sl.open(wired_url) as log:
        log.create_topic("t")
        for spoiled in (break_once, end_once):
            with mock.patch.object(Client, "subscribe", spoiled):
                wire.cut()
                wire.join()
                log.append("t", event(0))

    assert len(broken) == 2


def test_a_connection_whose_end_the_client_does_not_report_is_made_again(
    wire: Wire, wired_url: str
) -> None:
    connect = Client.connect

    async def connect_silently(client: Client, *args: Any, **options: Any) -> None:
        del options["closed_cb"]
        await connect(client, *args, **options)

    with mock.patch.object(Client, "connect", connect_silently), sl.open(wired_url) as log:
        log.create_topic("t")
        for number in range(3):
            wire.cut()
            wire.join()
            log.append("t", event(number))

        assert [record.payload["n"] for record in log.read("t", 0, 0)] == [0, 1, 2]


def test_a_log_can_be_closed_whose_server_is_stopped(mortal: NatsServer) -> None:
    with (
        # Pings would end the connection, some time later.
        mock.patch.multiple(connection, _PING_S=1000, _REQUEST_S=0.1, _END_S=0.1),
        contextlib.closing(sl.open(mortal.url("stopped"), patience_s=0.1)) as log,
    ):
        numbers = range(12)
        log.create_topic("t", value_kind="bytes", partitions=len(numbers))
        for partition in numbers:
            log.append("t", b"x", partition=partition)
        mortal.signal(signal.SIGSTOP)
        try:
            for partition in numbers:
                # More than the system takes for a connection.
                with pytest.raises((sl.UnavailableError, sl.UnknownError)):
                    log.append("t", b"x" * (1 << 20), partition=partition)
            closing = threading.Thread(target=log.close, daemon=True)
            closing.start()
            closing.join(60)
            assert not closing.is_alive()
        finally:
            mortal.signal(signal.SIGCONT)
