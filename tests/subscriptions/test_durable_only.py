"""Subscriptions that deliver a record once it is durable, and sleep until then."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import strandline as sl
from strandline.log import Log, TopicName
from strandline.stores.sqlite import SqliteStore
from strandline.subscriptions import subscribe
from strandline.testing import FakeClock
from strandline.values import Marks
from tests.subscriptions.doubles import PATIENCE_S, drain, fill, places, take
from tests.threads import on_thread

DURABLE = sl.Durability.DURABLE


class CountingLog(Log):
    """Counts how often its marks are asked for."""

    looks = 0

    def marks(self, topic: TopicName, partition: int) -> Marks:
        self.looks += 1
        return super().marks(topic, partition)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:{tmp_path / 'events.db'}"


@pytest.fixture
def log(url: str) -> Iterator[sl.Log]:
    with sl.open(url) as opened:
        opened.create_topic("orders", partitions=2)
        yield opened


def test_a_record_comes_once_it_is_durable_and_none_is_skipped(log: sl.Log) -> None:
    fill(log, "orders", 0, 2)
    log.sync("orders", 0)
    fill(log, "orders", 0, 3)

    with log.subscribe("orders", durable_only=True) as orders:
        before = places(drain(orders))
        receipt = log.append("orders", sl.Event("a", 5), partition=0)
        between = drain(orders)
        receipt.wait(DURABLE)
        after = places(take(orders, 4))

    assert before == [(0, 0), (0, 1)]
    assert between == []
    assert after == [(0, n) for n in range(2, 6)]


def test_what_a_predicate_leaves_out_is_passed_over_once_it_is_durable(log: sl.Log) -> None:
    fill(log, "orders", 0, 4)
    log.sync("orders", 0)
    fill(log, "orders", 0, 3)

    with log.subscribe("orders", where="kind = 'other'", durable_only=True, read_ahead=2) as orders:
        assert orders.next(timeout_s=0) is None

        assert orders.assignment.position(0) == 4


def test_latest_is_the_durable_end_and_an_offset_beyond_it_is_waited_for(log: sl.Log) -> None:
    fill(log, "orders", 0, 1)
    log.sync("orders", 0)
    fill(log, "orders", 0, 3)

    latest = log.subscribe("orders", start=sl.LATEST, durable_only=True)
    ahead = log.subscribe("orders", start={0: 3}, durable_only=True)
    with pytest.raises(sl.InvalidError):
        log.subscribe("orders", start={0: 5}, durable_only=True)
    early = drain(latest) + drain(ahead)
    log.sync("orders", 0)

    assert early == []
    assert places(take(latest, 3)) == [(0, 1), (0, 2), (0, 3)]
    assert places(take(ahead, 1)) == [(0, 3)]


def test_a_marker_stands_at_the_durable_end(log: sl.Log) -> None:
    fill(log, "orders", 0, 1)
    log.sync("orders", 0)
    fill(log, "orders", 0, 1)

    with log.subscribe("orders", partitions=[0], markers=True, durable_only=True) as orders:
        record, marker = take(orders, 2)

    assert record.offset == 0
    assert isinstance(marker, sl.CaughtUp)
    assert marker.offset == 1


def test_a_reader_is_not_woken_by_what_is_only_written(tmp_path: Path) -> None:
    """On a stopped clock no poll is due, so every read follows a hint."""
    clock = FakeClock()
    with CountingLog(SqliteStore(str(tmp_path / "events.db"), clock=clock), clock=clock) as log:
        log.create_topic("orders")
        orders = subscribe(log, "orders", durable_only=True, clock=clock)
        assert orders.next(0.0) is None
        reading = on_thread(lambda: next(orders))
        clock.wait_for_waiters(2)  # The reader, and the thread that polls for others.
        looks = log.looks

        for number in range(50):
            log.append("orders", sl.Event("a", number))
        blocked = log.looks - looks
        log.sync("orders", 0)

        assert reading.result(PATIENCE_S).payload == 0
        assert blocked == 0
        orders.close()


def test_a_loop_is_woken_by_a_sync(log: sl.Log) -> None:
    async def follow() -> list[int]:
        async def read() -> list[int]:
            with log.subscribe("orders", durable_only=True) as orders:
                found = []
                async for record in sl.AsyncSubscription(orders):
                    found.append(int(record.payload))
                    if len(found) == 3:
                        break
                return found

        reading = asyncio.ensure_future(read())
        for number in range(3):
            receipt = sl.AsyncLog(log).append("orders", sl.Event("a", number), partition=0)
            await receipt.wait(DURABLE)
        return await asyncio.wait_for(reading, PATIENCE_S)

    assert asyncio.run(follow()) == [0, 1, 2]


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["read", "write"])
def test_another_processs_sync_wakes_the_reader(log: sl.Log, url: str, mode: Any) -> None:
    script = (
        "import sys\n"
        "import strandline as sl\n"
        "with sl.open(sys.argv[1]) as log:\n"
        "    for number in range(20):\n"
        "        receipt = log.append('orders', sl.Event('a', number), partition=0)\n"
        "        if number % 5 == 4:\n"
        "            receipt.wait(sl.Durability.DURABLE)\n"
    )
    with sl.open(url, mode=mode) as reader:
        orders = reader.subscribe("orders", durable_only=True)
        with subprocess.Popen([sys.executable, "-c", script, url]) as writer:
            found = take(orders, 20)
            durable = reader.marks("orders", 0).durable
        orders.close()

    assert writer.returncode == 0
    assert places(found) == [(0, n) for n in range(20)]
    assert durable == 20


def test_where_nothing_is_ever_durable_it_is_refused() -> None:
    with sl.open("memory:", auto_create=True) as log:
        log.append("orders", sl.Event("a", 1))

        with pytest.raises(sl.InvalidError, match="ever durable"):
            log.subscribe("orders", durable_only=True)
