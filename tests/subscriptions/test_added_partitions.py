"""Readers see partitions that are added while they read, whichever process adds them."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import strandline as sl
from strandline.log.topic_changes import ROUTE_DELAY_S
from strandline.subscriptions import Consumer
from strandline.subscriptions.pages import POLL_S
from strandline.testing import FakeClock
from strandline.triggers import Triggers
from strandline.values import partition_for_key
from strandline.views import LiveView, View

EVENT = sl.Event("order.placed", {"total": 1})


class CountView(View[dict[str, int]]):
    """Counts the records of a partition."""

    name = "count"
    version = 1

    def initial(self, partition: int) -> dict[str, int]:
        del partition
        return {"count": 0}

    def apply(self, state: dict[str, int], record: sl.Record) -> dict[str, int]:
        del record
        state["count"] += 1
        return state

    def encode(self, state: dict[str, int]) -> bytes:
        return str(state["count"]).encode()

    def decode(self, data: bytes) -> dict[str, int]:
        return {"count": int(data)}


@pytest.fixture(params=["file", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"{request.param}:{tmp_path / 'log'}"


@pytest.fixture
def reading(url: str) -> Iterator[sl.Log]:
    with sl.open(url) as log:
        log.create_topic("orders", partitions=2)
        yield log


@pytest.fixture
def other(url: str, reading: sl.Log) -> Iterator[sl.Log]:
    """The same log, with nothing in common in memory, as in another process."""
    del reading
    with sl.open(url) as log:
        yield log


def test_a_subscription_reads_what_another_process_adds(reading: sl.Log, other: sl.Log) -> None:
    subscription = reading.subscribe("orders", start="latest")
    chosen = reading.subscribe("orders", partitions=[0])

    other.add_partitions("orders", 4)
    other.append("orders", EVENT, partition=3)

    record = subscription.next(timeout_s=0)
    assert record is not None
    assert (record.partition, record.offset) == (3, 0)
    assert subscription.assignment.assigned() == [0, 1, 2, 3]
    assert chosen.next(timeout_s=0) is None
    assert chosen.assignment.assigned() == [0]


def test_a_subscription_on_a_loop_reads_what_is_added(reading: sl.Log, other: sl.Log) -> None:
    async def read() -> sl.Record | None:
        async with reading.subscribe("orders") as subscription:
            other.add_partitions("orders", 3)
            other.append("orders", EVENT, partition=2)
            return await subscription.next(timeout_s=0)

    record = asyncio.run(read())

    assert record is not None
    assert record.partition == 2


def test_a_subscription_with_the_name_of_a_consumer_begins_where_that_is(
    reading: sl.Log, other: sl.Log
) -> None:
    subscription = reading.subscribe("orders", consumer="billing", start="latest")
    other.add_partitions("orders", 4)
    for partition in (2, 3):
        other.append_many("orders", [EVENT] * 2, partition=partition)
    with other.consumer("orders", "billing", partitions=[3]) as consumer:
        consumer.ack(next(consumer))

    found = [subscription.next(timeout_s=0) for _ in range(4)]

    places = [(each.partition, each.offset) for each in found if each is not None]
    assert sorted(places) == [(2, 0), (2, 1), (3, 1)]


def test_a_log_describes_what_another_process_has_added(reading: sl.Log, other: sl.Log) -> None:
    assert reading.describe().partitions == 2

    other.add_partitions("orders", 4)
    other.append("orders", EVENT, partition=3)

    found = reading.describe()
    assert (found.partitions, found.records) == (4, 1)


@pytest.mark.parametrize("group", [True, False])
def test_a_consumer_reads_what_is_added_from_the_first_record(
    reading: sl.Log, other: sl.Log, group: bool
) -> None:
    clock = FakeClock()
    consumer = reading.consumer("orders", "billing", start="latest", clock=clock, group=group)
    other.add_partitions("orders", 4)
    other.append_many("orders", [EVENT] * 3, partition=3)

    clock.advance(POLL_S)
    first = consumer.next(timeout_s=0)
    assert first is not None
    assert (first.record.partition, first.record.offset) == (3, 0)
    consumer.ack(first)
    consumer.nack(consumer.next(timeout_s=0))  # type: ignore[arg-type]
    consumer.close()
    again = Consumer(other, "orders", "billing", partitions=[3])

    assert [lag.partition for lag in other.consumers("orders")] == [0, 1, 2, 3]
    delivery = again.next(timeout_s=0)
    assert delivery is not None
    assert (delivery.record.offset, delivery.count) == (1, 2)
    again.close()


def test_a_consumer_of_chosen_partitions_stays_with_them(reading: sl.Log) -> None:
    clock = FakeClock()
    consumer = reading.consumer("orders", "billing", partitions=[0, 1], clock=clock)

    reading.add_partitions("orders", 3)
    clock.advance(POLL_S)
    consumer.next(timeout_s=0)

    assert consumer.assigned() == [0, 1]
    consumer.assign([2])
    assert consumer.assigned() == [2]
    consumer.close()


def test_a_view_of_all_partitions_folds_what_is_added(
    reading: sl.Log, other: sl.Log, tmp_path: Path
) -> None:
    snapshot = tmp_path / "view"
    with LiveView(reading, "orders", CountView(), snapshot=snapshot) as view:
        view.reconcile([0, 1])
        view.wait_ready(10)
        reading.append("orders", EVENT, partition=0)
        view.wait_applied(0, 0, 10)

        other.add_partitions("orders", 3)
        other.append("orders", EVENT, partition=2)
        view.reconcile([0, 1, 2])
        view.wait_applied(2, 0, 10)

    with LiveView(other, "orders", CountView(), snapshot=snapshot) as later:
        later.reconcile(range(3))
        later.wait_ready(10)
        assert later.committed(0) == 0
        counts = [later.read(number, lambda state: state["count"]) for number in range(3)]
    assert counts == [1, 0, 1]


@pytest.mark.slow
def test_a_view_assigns_added_partitions_by_itself(reading: sl.Log, other: sl.Log) -> None:
    with LiveView(reading, "orders", CountView()) as whole:
        whole.reconcile([0, 1])
        whole.wait_ready(10)
        other.add_partitions("orders", 3)
        other.append("orders", EVENT, partition=2)
        deadline = threading.Event()
        for _ in range(200):
            if 2 in whole.assigned():
                break
            deadline.wait(0.05)
        whole.wait_applied(2, 0, 10)


def test_a_snapshot_of_before_continues_after_partitions_are_added(
    reading: sl.Log, tmp_path: Path
) -> None:
    snapshot = tmp_path / "view"
    reading.append_many("orders", [EVENT] * 4, partition=0)
    with LiveView(reading, "orders", CountView(), snapshot=snapshot) as view:
        view.reconcile([0, 1])
        view.wait_applied(0, 3, 10)
    reading.trim("orders", 0, 4)
    reading.add_partitions("orders", 5)

    with LiveView(reading, "orders", CountView(), snapshot=snapshot) as later:
        later.reconcile(range(5))
        later.wait_ready(10)
        # Folded again from the oldest record kept, the count would be 0.
        assert later.read(0, lambda state: state["count"]) == 4


@pytest.mark.slow
def test_a_trigger_handles_what_is_added(reading: sl.Log, other: sl.Log) -> None:
    seen: list[int] = []
    handled = threading.Event()
    triggers = Triggers(reading)

    @triggers.on("orders", name="count")
    def count(record: sl.Record) -> None:
        seen.append(record.partition)
        handled.set()

    with triggers:
        other.add_partitions("orders", 3)
        other.append("orders", EVENT, partition=2)
        assert handled.wait(60)
    assert seen == [2]


def test_another_process_routes_by_the_new_count(reading: sl.Log, other: sl.Log) -> None:
    key = next(key for key in map(str, range(100)) if partition_for_key(key, 5) > 1)
    reading.append("orders", EVENT, key=key)
    settings = other.add_partitions("orders", 5).settings

    (earlier,) = settings.earlier_partitions
    before, after = earlier.until_us - 1, earlier.until_us
    assert settings.routing_partitions(before) == 2
    assert settings.routing_partitions(after) == 5
    # What names a partition need not wait for that moment.
    assert reading.append("orders", EVENT, partition=4).partition == 4


def test_all_processes_change_the_route_at_one_moment(tmp_path: Path) -> None:
    clock = FakeClock()
    url = f"file:{tmp_path / 'log'}"
    key = next(key for key in map(str, range(100)) if partition_for_key(key, 5) > 1)
    old, new = partition_for_key(key, 2), partition_for_key(key, 5)
    with sl.open(url, clock=clock) as one, sl.open(url, clock=clock) as other:
        one.create_topic("orders", partitions=2)
        places = []
        for log in (one, other):
            log.append("orders", EVENT, key=key)
        other.add_partitions("orders", 5)
        for _ in range(4):
            clock.advance(ROUTE_DELAY_S * 3 / 8)
            places.append([log.append("orders", EVENT, key=key).partition for log in (one, other)])

    assert places == [[old, old], [old, old], [new, new], [new, new]]
