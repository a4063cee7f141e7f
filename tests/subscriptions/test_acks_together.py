"""Acks of several partitions: stored together, or refused together."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

import strandline as sl
from strandline.log import Log, cursor_moves, parts_of
from strandline.log.store import PartitionState
from strandline.stores.memory import MemoryStore, MemoryTopic
from strandline.testing import FakeClock
from tests.planting import Bug
from tests.subscriptions.doubles import fill

PARTITIONS = 4
EACH = 3


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(params=["memory", "file", "sqlite"])
def log(request: pytest.FixtureRequest, tmp_path: Path, clock: FakeClock) -> Iterator[Log]:
    url = "memory:" if request.param == "memory" else f"{request.param}:{tmp_path / 'events'}"
    with sl.open(url, clock=clock) as opened:
        opened.create_topic("orders", partitions=PARTITIONS)
        for partition in range(PARTITIONS):
            fill(opened, "orders", partition, EACH)
        yield opened


def fetched(consumer: sl.Consumer) -> list[sl.Delivery]:
    found: list[sl.Delivery] = []
    while more := consumer.fetch(timeout_s=0.0):
        found += more
    return found


def of(deliveries: list[sl.Delivery], *partitions: int) -> list[sl.Delivery]:
    return [each for each in deliveries if each.record.partition in partitions]


def cursors(log: Log) -> list[int | None]:
    return [log.cursor("orders", "billing", partition) for partition in range(PARTITIONS)]


def take_over(log: Log, partition: int, generation: int = 99) -> None:
    log.register("orders", "billing", {partition: 0}, generation=generation)


def test_an_ack_that_is_refused_in_one_partition_moves_no_cursor(log: Log) -> None:
    with log.consumer("orders", "billing") as billing:
        had = fetched(billing)
        take_over(log, 2)

        with pytest.raises(sl.LeaseLostError) as caught:
            billing.ack(had)

        assert caught.value.partition == 2
        assert cursors(log) == [0, 0, 0, 0]
        assert billing.ack(of(had, 0, 1, 3)) == {0: EACH, 1: EACH, 3: EACH}
        assert cursors(log) == [EACH, EACH, 0, EACH]


def test_an_ack_of_a_record_that_was_not_delivered_moves_no_cursor(log: Log) -> None:
    with log.consumer("orders", "billing") as billing:
        had = fetched(billing)
        fill(log, "orders", 3, 1)
        (new,) = log.read("orders", 3, EACH)

        with pytest.raises(sl.InvalidError):
            billing.ack([*had, new])

        assert cursors(log) == [0, 0, 0, 0]
        assert all(billing.holds(each) for each in had)


@pytest.mark.parametrize("commit_every", [None, 100])
def test_what_acks_pass_over_is_durable_in_each_partition(
    log: Log, commit_every: int | None
) -> None:
    with log.consumer("orders", "billing", commit_every=commit_every) as billing:
        had = fetched(billing)
        billing.nack(had[0], delay_s=60.0)
        for partition in range(PARTITIONS):
            fill(log, "orders", partition, 1)
        billing.ack([*had[1:], *fetched(billing)])
        billing.commit()

        marks = [log.marks("orders", partition) for partition in range(PARTITIONS)]
        assert cursors(log) == [0, *[EACH + 1] * (PARTITIONS - 1)]
        if parts_of(log).store.capabilities.durability_max is sl.Durability.DURABLE:
            assert [each.durable for each in marks] == [EACH + 1] * PARTITIONS


def test_the_check_sees_cursors_that_move_before_their_records_are_durable(
    tmp_path: Path,
) -> None:
    unsafe = Bug(
        *("nothing is made durable", cursor_moves, "ack_each", "_.starting(...)"),
        "log._access.starting(topic, consumer, tenant, dict.fromkeys(ends, 0))",
    )
    with unsafe.planted(), sl.open(f"file:{tmp_path / 'events'}") as log:
        log.create_topic("orders", partitions=PARTITIONS)
        for partition in range(PARTITIONS):
            fill(log, "orders", partition, EACH)
        with pytest.raises(AssertionError):
            test_what_acks_pass_over_is_durable_in_each_partition(log, None)


def test_what_is_acked_beyond_a_record_that_waits_does_not_come_again(
    log: Log, clock: FakeClock
) -> None:
    with log.consumer("orders", "billing", clock=clock) as billing:
        had = fetched(billing)
        waiting = [each for each in had if each.record.offset == 0]
        for each in waiting:
            billing.nack(each, delay_s=60.0)
        billing.ack([each for each in had if each not in waiting])

    clock.advance(61.0)
    with log.consumer("orders", "billing", clock=clock) as again:
        places = {(int(each.record.partition), int(each.record.offset)) for each in fetched(again)}
        assert places == {(partition, 0) for partition in range(PARTITIONS)}


def test_a_close_stores_what_it_may_where_a_partition_was_lost(log: Log) -> None:
    with log.consumer("orders", "billing", commit_every=100) as billing:
        billing.ack(fetched(billing))
        take_over(log, 1)

    assert cursors(log) == [EACH, 0, EACH, EACH]


def test_what_is_handed_over_is_stored_where_another_partition_was_lost(log: Log) -> None:
    with log.consumer("orders", "billing", commit_every=100) as billing:
        billing.assign(range(PARTITIONS))
        billing.ack(fetched(billing))
        take_over(log, 1)

        billing.assign([0])

        assert cursors(log) == [0, 0, EACH, EACH]


def test_a_commit_that_is_refused_leaves_what_it_can_store_to_the_next(
    log: Log, clock: FakeClock
) -> None:
    with log.consumer("orders", "billing", commit_every=100, clock=clock) as billing:
        billing.ack(fetched(billing))
        take_over(log, 1)

        with pytest.raises(sl.LeaseLostError):
            billing.commit()
        with contextlib.suppress(sl.LeaseLostError):
            billing.commit()

    assert cursors(log) == [EACH, 0, EACH, EACH]


class BusyStore(MemoryStore):
    """Another member stores its cursors in between, a few times."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock)
        self.races = 0
        self.looks = 0
        put, look = self.put_key, self.state

        def put_key(topic: MemoryTopic, key: str, value: bytes, expected: bytes | None) -> bool:
            if self.races and key.startswith("cursors/"):
                self.races -= 1
                return False
            return put(topic, key, value, expected)

        def state(topic: MemoryTopic, partition: int) -> PartitionState:
            self.looks += 1
            return look(topic, partition)

        vars(self).update(put_key=put_key, state=state)


def looks_of_an_ack(races: int) -> int:
    clock = FakeClock()
    store = BusyStore(clock)
    with Log(store, clock=clock) as log:
        log.create_topic("orders", partitions=PARTITIONS)
        for partition in range(PARTITIONS):
            fill(log, "orders", partition, EACH)
        with log.consumer("orders", "billing", clock=clock) as billing:
            had = fetched(billing)
            store.races, store.looks = races, 0
            billing.ack(had)
            assert cursors(log) == [EACH] * PARTITIONS
            return store.looks


def test_an_ack_that_begins_again_looks_at_no_partition_twice() -> None:
    assert looks_of_an_ack(races=5) == looks_of_an_ack(races=0)
