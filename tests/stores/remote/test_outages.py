"""Calls with a time limit while the server of a log is gone, or says nothing."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import pytest

import strandline as sl
from tests.logs import memory_log
from tests.stores.remote.switchboard import Switchboard
from tests.stores.wire import Wire

#: Far longer than any test waits: only the limit of a call ends its waiting.
_PATIENCE_S = 600.0
_SOON_S = 60.0


@pytest.fixture
def wire(switchboard: Switchboard) -> Iterator[tuple[Wire, str]]:
    """A wire to the server of a log with a topic of four partitions, and the log's address."""
    with memory_log() as log:
        log.create_topic("orders", partitions=4)
        address = urlsplit(switchboard.serve(log))
        assert address.port is not None
        wire = Wire(address.port)
        yield wire, f"http://127.0.0.1:{wire.port}{address.path}"
        wire.close()


@pytest.mark.slow
@pytest.mark.parametrize("stop", [Wire.cut, Wire.swallow_answers], ids=["gone", "silent"])
def test_the_next_record_is_not_awaited_much_longer_than_asked(
    wire: tuple[Wire, str], stop: Callable[[Wire], None]
) -> None:
    log = sl.open(wire[1], patience_s=_PATIENCE_S, request_timeout_s=2.0)
    subscription = log.subscribe("orders")
    assert subscription.next(timeout_s=0) is None
    stop(wire[0])

    seen: list[object] = []
    thread = threading.Thread(target=lambda: seen.append(subscription.next(timeout_s=0.1)))
    thread.start()
    thread.join(_SOON_S)
    was_soon = not thread.is_alive()
    wire[0].cut()
    wire[0].join()
    thread.join(_PATIENCE_S)

    assert was_soon
    assert seen == [None]
    log.append("orders", sl.Event("placed", 7))
    found = subscription.next(timeout_s=_SOON_S)
    assert isinstance(found, sl.Record)
    assert found.payload == 7
    log.close()


@pytest.mark.slow
def test_nor_is_it_on_an_event_loop(wire: tuple[Wire, str]) -> None:
    async def main() -> None:
        async with (
            sl.open(wire[1], patience_s=_PATIENCE_S) as log,
            log.subscribe("orders") as subscription,
        ):
            assert await subscription.next(timeout_s=0) is None
            wire[0].cut()
            try:
                limited = asyncio.wait_for(subscription.next(timeout_s=0.1), _SOON_S)
                assert await limited is None
            finally:
                wire[0].join()

    asyncio.run(main())
