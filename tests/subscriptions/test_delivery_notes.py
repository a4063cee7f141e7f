"""What a consumer notes of its deliveries: when, for which partition, and who was alone."""

from collections.abc import Iterator
from typing import Any

import pytest

from strandline.log import Log, TopicName
from strandline.stores.memory import MemoryStore
from strandline.subscriptions import OUTSTANDING_MAX
from strandline.subscriptions.delivery_counts import DeliveryCounts
from strandline.subscriptions.outstanding import Attempts
from strandline.testing import FakeClock
from strandline.values import UnavailableError
from strandline.values.internal_topics import DELIVERIES_PREFIX
from tests.logs import memory_log
from tests.subscriptions.doubles import fill
from tests.subscriptions.test_delivery_counts import billing, take


class RefusingLog(Log):
    """Refuses as many notes as a test wants."""

    refusals = 0

    def append(self, topic: TopicName, value: Any, **terms: Any) -> Any:
        if self.refusals and getattr(topic, "name", "").startswith(DELIVERIES_PREFIX):
            self.refusals -= 1
            raise UnavailableError("no notes now")
        return super().append(topic, value, **terms)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def log(clock: FakeClock) -> Iterator[Log]:
    with memory_log(clock=clock) as opened:
        opened.create_topic("orders", partitions=2)
        yield opened


def left_behind(log: Log, clock: FakeClock, count: int) -> list[Attempts]:
    """Return what the consumer's next process knows of the records it is given."""
    later = billing(log, clock)
    return [later.attempts(take(later)) for _ in range(count)]


def test_a_consumer_that_was_given_nothing_notes_nothing(log: Log, clock: FakeClock) -> None:
    with billing(log, clock) as reader:
        assert reader.next(0.0) is None

    assert log.topics(internal=True) == []


def test_the_latest_notes_are_kept(log: Log, clock: FakeClock) -> None:
    fill(log, "orders", 0, 9)
    reader = billing(log, clock)
    for _ in range(9):
        reader.ack(take(reader).record)

    (notes,) = log.topics(internal=True)

    assert (log.marks(notes, 0).low, log.marks(notes, 0).high) == (0, 9)


def test_notes_of_one_partition_are_not_repeated_for_another(log: Log, clock: FakeClock) -> None:
    fill(log, "orders", 0, 1)
    fill(log, "orders", 1, 20)
    reader = billing(log, clock)
    for _ in range(21):
        take(reader)

    (notes,) = log.topics(internal=True)

    assert log.marks(notes, 0).high <= 2
    assert log.marks(notes, 1).high <= 5


def test_a_partition_that_is_added_has_notes_of_its_own(log: Log) -> None:
    topic = log.create_topic("grows")
    counts = DeliveryCounts(log, topic, "billing", None)
    counts.store(0, 0, {0: Attempts(shared=1)})

    log.add_partitions("grows", 2)
    counts.store(1, 0, {3: Attempts(failed=2)})

    again = DeliveryCounts(log, topic, "billing", None)
    assert [again.load(each, 0, None) for each in (0, 1)] == [
        {0: Attempts(shared=1)},
        {3: Attempts(failed=2)},
    ]


def test_records_of_two_partitions_share_a_crash(log: Log, clock: FakeClock) -> None:
    fill(log, "orders", 0, 1)
    fill(log, "orders", 1, 1)
    crashed = billing(log, clock)
    take(crashed)
    take(crashed)
    del crashed

    assert left_behind(log, clock, 2) == [Attempts(shared=1)] * 2


def test_a_note_that_was_refused_is_written_with_the_next(clock: FakeClock) -> None:
    log = RefusingLog(MemoryStore(clock), clock=clock)
    log.create_topic("orders", partitions=2)
    fill(log, "orders", 0, 1)
    fill(log, "orders", 1, 1)
    crashed = billing(log, clock)
    take(crashed)
    log.refusals = 1
    with pytest.raises(UnavailableError, match="no notes now"):
        take(crashed)
    take(crashed)
    del crashed

    assert left_behind(log, clock, 2) == [Attempts(shared=1)] * 2


@pytest.mark.parametrize(("parts", "left"), [([1], {1: 1}), ([2], {}), ([1, 1], {})])
def test_what_is_fetched_is_alone_if_nothing_else_is_in_flight(
    log: Log, clock: FakeClock, parts: list[int], left: dict[int, int]
) -> None:
    fill(log, "orders", 0, 2)
    crashed = billing(log, clock)
    count = sum(len(crashed.fetch(part, timeout_s=0.0)) for part in parts)
    del crashed

    alone = [each.alone for each in left_behind(log, clock, count)]
    assert alone == [left.get(count, 0)] * count


def test_a_record_that_is_begun_alone_was_so_until_the_next_one_is(
    log: Log, clock: FakeClock
) -> None:
    fill(log, "orders", 0, 1)
    fill(log, "orders", 1, 1)
    crashed = billing(log, clock, deliveries_max=None)
    for _ in range(2):
        crashed.begin_alone(take(crashed))
    del crashed

    found = sorted((each.alone, each.shared) for each in left_behind(log, clock, 2))
    assert found == [(0, 1), (1, 0)]


def test_nothing_new_comes_beside_a_record_that_has_to_be_alone(log: Log, clock: FakeClock) -> None:
    fill(log, "orders", 0, 1)
    fill(log, "orders", 1, 1)
    crashed = billing(log, clock, deliveries_max=1)
    _, other = take(crashed), take(crashed)
    crashed.ack(other.record)
    del crashed
    fill(log, "orders", 1, 1)
    survivor = billing(log, clock, deliveries_max=1)

    suspect = take(survivor)
    with pytest.raises(UnavailableError, match="delivered alone"):
        take(survivor)
    survivor.ack(suspect.record)

    assert (suspect.record.partition, suspect.count) == (0, 2)
    assert (take(survivor).record.partition, other.record.partition) == (1, 1)


def test_a_consumer_that_is_full_reports_it_though_nothing_more_has_come(
    log: Log, clock: FakeClock
) -> None:
    fill(log, "orders", 0, OUTSTANDING_MAX)
    reader = billing(log, clock)
    assert len(reader.fetch(OUTSTANDING_MAX, timeout_s=0.0)) == OUTSTANDING_MAX

    with pytest.raises(UnavailableError, match="too many records are outstanding"):
        reader.next(0.0)
