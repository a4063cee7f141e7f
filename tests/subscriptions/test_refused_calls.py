"""A call that raises has changed nothing."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

import strandline as sl
from strandline.subscriptions.outstanding import Outstanding
from tests.subscriptions.doubles import fill


@pytest.fixture(params=["file", "sqlite"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[sl.Log]:
    with sl.open(f"{request.param}:{tmp_path / 'events'}") as opened:
        opened.create_topic("orders")
        fill(opened, "orders", 0, 3)
        yield opened


@pytest.fixture
def worker(log: sl.Log) -> Iterator[sl.Consumer]:
    with log.consumer("orders", "worker", deliveries_max=1) as opened:
        yield opened


def taken(consumer: sl.Consumer, count: int) -> list[sl.Record]:
    """Return the next records."""
    found = [consumer.next(0.0) for _ in range(count)]
    return [delivery.record for delivery in found if delivery is not None]


async def refused(call: Any, *given: Any, **more: Any) -> None:
    """Make a call on an event loop that it would block."""
    with pytest.raises(sl.InvalidError, match="to_thread"):
        call(*given, **more)


def test_an_ack_that_is_refused_moves_nothing(log: sl.Log, worker: sl.Consumer) -> None:
    first, second, third = taken(worker, 3)

    asyncio.run(refused(worker.ack, first))
    worker.ack(second)

    assert log.cursor("orders", "worker", 0) == 0
    assert worker.lag() == {0: 3}
    worker.ack(first)
    assert log.cursor("orders", "worker", 0) == 2
    worker.ack(third)
    assert log.cursor("orders", "worker", 0) == 3


def test_a_nack_that_is_refused_dead_letters_nothing(log: sl.Log, worker: sl.Consumer) -> None:
    (first,) = taken(worker, 1)

    asyncio.run(refused(worker.nack, first))
    asyncio.run(refused(worker.dead_letter, first))

    assert not log.topics(internal=True) or "dead_letters" not in str(log.topics(internal=True))
    assert worker.nack(first)


def test_a_seek_that_is_refused_moves_nothing(log: sl.Log, worker: sl.Consumer) -> None:
    (first,) = taken(worker, 1)

    asyncio.run(refused(worker.seek, 0, 2))
    for partition, offset in ((0, 9), (0, -1), (7, 0)):
        with pytest.raises(sl.InvalidError):
            worker.seek(partition, offset)

    assert log.cursor("orders", "worker", 0) == 0
    worker.ack(first)
    assert [record.offset for record in taken(worker, 2)] == [1, 2]


@pytest.mark.parametrize("delay_s", [-1.0, float("nan"), float("inf")])
def test_a_nack_with_a_delay_that_is_none_changes_nothing(
    log: sl.Log, worker: sl.Consumer, delay_s: float
) -> None:
    (first,) = taken(worker, 1)

    with pytest.raises(sl.InvalidError, match="delay"):
        worker.nack(first, delay_s=delay_s)

    worker.ack(first)
    assert log.cursor("orders", "worker", 0) == 1


def test_an_ack_that_settles_before_it_stores_is_found_out(
    log: sl.Log, worker: sl.Consumer
) -> None:
    def settling(self: Outstanding, offset: int) -> int:
        self.settle(offset)
        return self.floor + 1

    with (
        mock.patch.object(Outstanding, "floor_after", settling),
        pytest.raises((AssertionError, sl.InvalidError)),
    ):
        test_an_ack_that_is_refused_moves_nothing(log, worker)
