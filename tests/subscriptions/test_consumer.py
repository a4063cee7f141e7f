"""Consumers: acks, redelivery, dead letters, and partitions split by hand."""

import base64
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from strandline.groups import LEASE_S_MIN
from strandline.log import Log, TopicName
from strandline.stores.memory import MemoryStore
from strandline.subscriptions import (
    DELIVERIES_MAX,
    OUTSTANDING_MAX,
    Consumer,
    Delivery,
)
from strandline.subscriptions.async_consumer import AsyncConsumer
from strandline.subscriptions.outstanding import Outstanding
from strandline.testing import FakeClock
from strandline.values import (
    LATEST,
    ClosedError,
    Event,
    InvalidError,
    Offset,
    Partition,
    TrimmedError,
    UnavailableError,
    ValueKind,
)
from tests.logs import memory_log
from tests.subscriptions.doubles import PATIENCE_S, fill
from tests.threads import on_thread


class ForgetfulLog(Log):
    """Stores no ack the first time it is asked to."""

    forgets = True

    def ack(
        self,
        topic: TopicName,
        consumer: str,
        partition: int,
        end: int,
        *,
        tenant: str | None = None,
        generation: int | None = None,
    ) -> Offset:
        if self.forgets:
            self.forgets = False
            raise UnavailableError("the cursors rest")
        return super().ack(topic, consumer, partition, end, tenant=tenant, generation=generation)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def log(clock: FakeClock) -> Iterator[Log]:
    with memory_log(clock=clock) as opened:
        opened.create_topic("orders", partitions=2)
        yield opened


def test_a_consumer_begins_where_it_ended(log: Log, clock: FakeClock) -> None:
    fill(log, "orders", 0, 5)
    with Consumer(log, "orders", "billing", clock=clock) as first:
        for delivery in deliveries(first, 3):
            first.ack(delivery.record)

    with Consumer(log, "orders", "billing", clock=clock) as second:
        assert offsets(deliveries(second, 2)) == [3, 4]
        assert log.cursor("orders", "billing", 0) == 3


def test_a_consumer_without_a_cursor_begins_at_its_start(log: Log, clock: FakeClock) -> None:
    fill(log, "orders", 0, 2)

    with Consumer(log, "orders", "all", clock=clock) as earliest:
        assert offsets(deliveries(earliest, 2)) == [0, 1]
    with Consumer(log, "orders", "new", start=LATEST, clock=clock) as latest:
        assert latest.next(0.0) is None
        fill(log, "orders", 0, 1)
        assert offsets(deliveries(latest, 1)) == [2]


def test_the_cursor_never_passes_what_is_outstanding(log: Log, clock: FakeClock) -> None:
    """S3: acks in any order; the cursor is the first record not acknowledged."""
    fill(log, "orders", 0, 4)
    reader = Consumer(log, "orders", "billing", clock=clock)
    records = [delivery.record for delivery in deliveries(reader, 4)]

    cursors = []
    for number in (2, 0, 0, 3, 1, 2):
        reader.ack(records[number])
        cursors.append(log.cursor("orders", "billing", 0))

    assert cursors == [0, 1, 1, 1, 4, 4]


def test_a_nacked_record_comes_again_after_its_delay(log: Log, clock: FakeClock) -> None:
    fill(log, "orders", 0, 3)
    reader = Consumer(log, "orders", "billing", clock=clock)
    (first,) = deliveries(reader, 1)

    assert not reader.nack(first.record, delay_s=30.0)
    assert not reader.nack(first.record, delay_s=60.0)
    others = deliveries(reader, 2)
    early = reader.next(0.0)
    clock.advance(30.0)
    again = deliveries(reader, 1)
    clock.advance(60.0)

    assert offsets(others) == [1, 2]
    assert early is None
    assert again == [Delivery(first.record, 2)]
    assert reader.next(0.0) is None


def test_a_nack_that_changed_nothing_hastens_no_later_one(log: Log, clock: FakeClock) -> None:
    fill(log, "orders", 0, 1)
    reader = Consumer(log, "orders", "billing", clock=clock)
    (first,) = deliveries(reader, 1)
    reader.nack(first.record, delay_s=10.0)
    reader.nack(first.record, delay_s=20.0)
    clock.advance(10.0)
    (second,) = deliveries(reader, 1)

    reader.nack(second.record, delay_s=100.0)
    clock.advance(20.0)
    early = reader.next(0.0)
    clock.advance(80.0)

    assert early is None
    assert deliveries(reader, 1) == [Delivery(first.record, 3)]


def test_an_ack_that_could_not_be_stored_is_stored_by_its_repeat(clock: FakeClock) -> None:
    log = ForgetfulLog(MemoryStore(clock), clock=clock)
    log.create_topic("orders")
    fill(log, "orders", 0, 1)
    reader = Consumer(log, "orders", "billing", clock=clock)
    (delivery,) = deliveries(reader, 1)

    with pytest.raises(UnavailableError):
        reader.ack(delivery.record)
    reader.ack(delivery.record)

    assert log.cursor("orders", "billing", 0) == 1


def test_a_nack_without_delay_comes_before_what_is_new(log: Log, clock: FakeClock) -> None:
    fill(log, "orders", 0, 2)
    reader = Consumer(log, "orders", "billing", clock=clock)
    (first,) = deliveries(reader, 1)

    reader.nack(first.record)

    assert deliveries(reader, 1) == [Delivery(first.record, 2)]


def test_a_wait_ends_when_a_record_is_due_again(log: Log, clock: FakeClock) -> None:
    fill(log, "orders", 0, 1)
    reader = Consumer(log, "orders", "billing", clock=clock)
    (first,) = deliveries(reader, 1)
    reader.nack(first.record, delay_s=0.5)

    waiting = on_thread(lambda: reader.next(3600.0))
    clock.wait_for_waiters(1)
    clock.advance(0.5)

    assert waiting.result(PATIENCE_S) == Delivery(first.record, 2)


def test_a_record_acked_after_its_nack_does_not_come_again(log: Log, clock: FakeClock) -> None:
    fill(log, "orders", 0, 1)
    reader = Consumer(log, "orders", "billing", clock=clock)
    (first,) = deliveries(reader, 1)

    reader.nack(first.record)
    reader.ack(first.record)

    assert reader.next(0.0) is None
    assert log.cursor("orders", "billing", 0) == 1


def test_a_record_nacked_too_often_is_dead_lettered_and_passed(log: Log, clock: FakeClock) -> None:
    event = Event("order.created", {"id": 1}, key="c-9", headers={"trace": "t1"})
    assert log.append("orders", event, partition=1).offset == 0
    fill(log, "orders", 1, 1)
    reader = Consumer(log, "orders", "billing", partitions=[1], clock=clock)

    counts, is_dead_lettered = [], False
    while not is_dead_lettered:
        (delivery,) = deliveries(reader, 1)
        counts.append(delivery.count)
        is_dead_lettered = reader.nack(delivery.record, reason="no such customer")

    (found,) = log.read("__strandline.dead_letters.orders", 0, 0)
    assert counts == list(range(1, DELIVERIES_MAX + 1))
    assert (found.kind, found.payload, found.key) == ("order.created", {"id": 1}, "c-9")
    assert dict(found.headers) == {
        "trace": "t1",
        "strandline.topic": "orders",
        "strandline.partition": "1",
        "strandline.offset": "0",
        "strandline.consumer": "billing",
        "strandline.deliveries": "5",
        "strandline.reason": "no such customer",
    }
    assert log.cursor("orders", "billing", 1) == 1
    assert offsets(deliveries(reader, 1)) == [1]


def test_a_record_can_be_dead_lettered_at_once(log: Log, clock: FakeClock) -> None:
    fill(log, "orders", 0, 2)
    reader = Consumer(log, "orders", "billing", clock=clock)
    (first,) = deliveries(reader, 1)

    reader.dead_letter(first.record, reason="no such customer")

    (found,) = log.read("__strandline.dead_letters.orders", 0, 0)
    assert found.headers["strandline.deliveries"] == "1"
    assert log.cursor("orders", "billing", 0) == 1
    with pytest.raises(InvalidError, match="not outstanding"):
        reader.dead_letter(first.record)
    assert offsets(deliveries(reader, 1)) == [1]


def test_a_record_is_dead_lettered_once_though_its_ack_was_lost(log: Log, clock: FakeClock) -> None:
    fill(log, "orders", 0, 1)
    for _ in range(2):
        reader = Consumer(log, "orders", "billing", deliveries_max=1, clock=clock)
        (delivery,) = deliveries(reader, 1)
        assert reader.nack(delivery.record)
        log.seek("orders", "billing", 0, 0)
        reader.close()

    assert log.marks("__strandline.dead_letters.orders", 0).high == 1


@pytest.mark.parametrize("kind", [ValueKind.BYTES, ValueKind.BATCH])
def test_what_is_no_event_is_dead_lettered_in_base64(
    log: Log, clock: FakeClock, kind: ValueKind
) -> None:
    batch = pa.RecordBatch.from_pydict({"id": [1, 2]})
    value = b"\x00raw" if kind is ValueKind.BYTES else batch
    log.create_topic("raw", value_kind=kind)
    assert log.append("raw", value, key="k").offset == 0
    reader = Consumer(log, "raw", "billing", deliveries_max=1, clock=clock)

    assert reader.nack(deliveries(reader, 1)[0].record)

    (found,) = log.read("__strandline.dead_letters.raw", 0, 0)
    stored = base64.b64decode(found.payload)
    back: Any = stored if kind is ValueKind.BYTES else pa.ipc.open_stream(stored).read_next_batch()
    assert back == value
    assert (found.kind, found.key) == ("dead_letter", "k")


def test_two_members_split_the_partitions_by_hand(log: Log, clock: FakeClock) -> None:
    fill(log, "orders", 0, 2)
    fill(log, "orders", 1, 4)
    one = Consumer(log, "orders", "billing", partitions=[0, 1], clock=clock)
    for delivery in deliveries(one, 4):
        if delivery.record.partition == 0 or delivery.record.offset == 0:
            one.ack(delivery.record)

    one.assign([0])
    two = Consumer(log, "orders", "billing", partitions=[1], clock=clock)

    assert (one.assigned(), two.assigned()) == ([0], [1])
    assert offsets(deliveries(two, 3)) == [1, 2, 3]
    assert one.next(0.0) is None
    fill(log, "orders", 0, 1)
    assert offsets(deliveries(one, 1)) == [2]


def test_what_is_not_outstanding_cannot_be_settled(log: Log, clock: FakeClock) -> None:
    fill(log, "orders", 0, 3)
    reader = Consumer(log, "orders", "billing", partitions=[0], clock=clock)
    (delivery,) = deliveries(reader, 1)
    *_, unseen = log.read("orders", 0, 0)

    with pytest.raises(InvalidError):
        reader.ack(unseen)
    with pytest.raises(InvalidError):
        reader.nack(unseen)
    reader.ack(delivery.record)
    with pytest.raises(InvalidError):
        reader.nack(delivery.record)
    reader.assign([1])
    with pytest.raises(InvalidError):
        reader.ack(delivery.record)


def test_seek_goes_back_and_drops_what_was_outstanding(log: Log, clock: FakeClock) -> None:
    fill(log, "orders", 0, 3)
    reader = Consumer(log, "orders", "billing", partitions=[0], clock=clock)
    for delivery in deliveries(reader, 3):
        reader.ack(delivery.record)

    reader.seek(0, 1)

    assert log.cursor("orders", "billing", 0) == 1
    assert reader.lag() == {0: 2}
    assert deliveries(reader, 2)[0].count == 1


def test_lag_counts_what_is_not_acked(log: Log, clock: FakeClock) -> None:
    fill(log, "orders", 0, 3)
    reader = Consumer(log, "orders", "billing", clock=clock)

    lags = [reader.lag()]
    for delivery in deliveries(reader, 3):
        reader.ack(delivery.record)
        lags.append(reader.lag())

    assert [lag[Partition(0)] for lag in lags] == [3, 2, 1, 0]
    assert lags[-1] == {0: 0, 1: 0}


@pytest.mark.slow
def test_the_number_of_outstanding_records_is_bounded(log: Log, clock: FakeClock) -> None:
    fill(log, "orders", 0, OUTSTANDING_MAX + 1)
    reader = Consumer(log, "orders", "billing", clock=clock)
    taken = deliveries(reader, OUTSTANDING_MAX)

    with pytest.raises(UnavailableError):
        reader.next(0.0)
    reader.ack(taken[0].record)

    assert offsets(deliveries(reader, 1)) == [OUTSTANDING_MAX]


def test_a_cursor_below_what_is_kept_is_an_error(log: Log, clock: FakeClock) -> None:
    """S4: never a silent skip."""
    fill(log, "orders", 0, 5)
    log.ack("orders", "billing", 0, 1)
    log.trim("orders", 0, 3, force=True)

    with pytest.raises(TrimmedError):
        Consumer(log, "orders", "billing", clock=clock)


def test_a_closed_consumer_ends_its_loop(log: Log, clock: FakeClock) -> None:
    fill(log, "orders", 0, 1)
    reader = Consumer(log, "orders", "billing", clock=clock)
    loop = on_thread(lambda: [delivery.record.offset for delivery in reader])
    clock.wait_for_waiters(1)

    reader.close()

    assert loop.result(PATIENCE_S) == [0]
    with pytest.raises(ClosedError):
        reader.next(0.0)


@pytest.mark.parametrize("deliveries_max", [0, -1, True, 1.5])
def test_deliveries_max_is_at_least_one(log: Log, deliveries_max: Any) -> None:
    with pytest.raises(InvalidError):
        Consumer(log, "orders", "billing", deliveries_max=deliveries_max)


def test_names_that_are_none_are_refused(log: Log) -> None:
    log.create_topic("t" * 198)

    with pytest.raises(InvalidError):
        Consumer(log, "orders", "")
    with pytest.raises(InvalidError):
        Consumer(log, "t" * 198, "billing")
    with pytest.raises(InvalidError):
        Consumer(log, "orders", "billing", partitions=[2])


def test_outstanding_follows_the_first_that_is_not_acked() -> None:
    outstanding = Outstanding(Offset(5), {})
    for offset in (5, 6, 7):
        outstanding.deliver(offset)

    outstanding.settle([6])
    before = outstanding.floor, len(outstanding)
    outstanding.settle([5])

    assert before == (5, 3)
    assert (outstanding.floor, len(outstanding)) == (7, 1)


def deliveries(reader: Consumer, count: int) -> list[Delivery]:
    found = [reader.next(0.0) for _ in range(count)]
    return [delivery for delivery in found if delivery is not None]


def offsets(found: list[Delivery]) -> list[int]:
    return [int(delivery.record.offset) for delivery in found]


class InterruptedLog(Log):
    """Lets a test act in the middle of a read, and refuses appends on request."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(MemoryStore(clock), clock=clock)
        self.in_read: list[Callable[[], object]] = []
        self.refusals = 0

    def read(self, topic: TopicName, partition: int, start: int, *given: Any, **more: Any) -> Any:
        while self.in_read:
            self.in_read.pop()()
        return super().read(topic, partition, start, *given, **more)

    def append(self, topic: TopicName, value: Any, **terms: Any) -> Any:
        if self.refusals and "dead_letters" in str(topic):
            self.refusals -= 1
            raise UnavailableError("no dead letters now")
        return super().append(topic, value, **terms)


def test_a_nack_while_another_record_is_read_again_is_not_lost(clock: FakeClock) -> None:
    log = InterruptedLog(clock)
    log.create_topic("orders")
    fill(log, "orders", 0, 2)
    reader = Consumer(log, "orders", "billing", clock=clock)
    first, second = deliveries(reader, 2)

    reader.nack(second.record)
    log.in_read.append(lambda: reader.nack(first.record))

    assert offsets(deliveries(reader, 3)) == [1, 0]


def test_a_delay_from_before_a_seek_hastens_nothing_after_it(log: Log, clock: FakeClock) -> None:
    fill(log, "orders", 0, 1)
    reader = Consumer(log, "orders", "billing", clock=clock)
    reader.nack(deliveries(reader, 1)[0].record, delay_s=10.0)

    reader.seek(0, 0)
    reader.nack(deliveries(reader, 1)[0].record, delay_s=60.0)
    clock.advance(10.0)
    early = reader.next(0.0)
    clock.advance(50.0)

    assert early is None
    assert offsets(deliveries(reader, 1)) == [0]


def test_a_dead_letter_that_fails_is_taken_up_again(clock: FakeClock) -> None:
    log = InterruptedLog(clock)
    log.create_topic("orders")
    fill(log, "orders", 0, 2)
    for _ in range(2):
        with Consumer(log, "orders", "billing", deliveries_max=2, clock=clock) as dying:
            assert offsets(deliveries(dying, 1)) == [0]

    log.refusals = 2
    reader = Consumer(log, "orders", "billing", deliveries_max=2, clock=clock)
    for _ in range(2):
        with pytest.raises(UnavailableError):
            reader.next(0.0)

    assert offsets(deliveries(reader, 2)) == [1]
    (letter,) = log.read(reader.dead_letter_topic, 0, 0)
    assert letter.value.headers["strandline.deliveries"] == "2"


def test_a_consumer_says_what_it_reads(log: Log, clock: FakeClock) -> None:
    with Consumer(log, "orders", "billing", partitions=[1, 0], clock=clock) as billing:
        assert "partitions=0, 1" in repr(billing)
        billing.assign([])
        assert "partitions=none" in repr(billing)
    assert repr(AsyncConsumer(billing)) == f"AsyncConsumer({billing!r})"


@pytest.mark.parametrize(("lease_s", "is_taken"), [(LEASE_S_MIN, True), (0.09, False)])
def test_a_lease_has_a_least_time(
    log: Log, clock: FakeClock, lease_s: float, is_taken: bool
) -> None:
    if is_taken:
        Consumer(log, "orders", "billing", lease_s=lease_s, clock=clock).close()
        return
    with pytest.raises(InvalidError, match="longer lease_s"):
        Consumer(log, "orders", "billing", lease_s=lease_s, clock=clock)


def test_partitions_that_a_member_gets_are_counted(log: Log, clock: FakeClock) -> None:
    with Consumer(log, "orders", "billing", clock=clock):
        assert log.metrics().partitions_assigned == 2
