"""An ack of several records, some of them redriven: two writes, and the state between them."""

import pytest

import strandline as sl
from strandline.log import Log
from strandline.stores.memory import MemoryStore, MemoryTopic
from strandline.testing import FakeClock
from strandline.triggers import redrive
from tests.subscriptions.doubles import fill

EACH = 3


class RefusingStore(MemoryStore):
    """Changes no value of the redrive topic while it refuses."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock)
        self.is_refusing = False
        self.writes = 0
        put = self.put_key

        def put_key(topic: MemoryTopic, key: str, value: bytes, expected: bytes | None) -> bool:
            if topic.topic.name.startswith("_"):
                self.writes += 1
                if self.is_refusing:
                    raise sl.UnavailableError("not now")
            return put(topic, key, value, expected)

        vars(self).update(put_key=put_key)


@pytest.fixture
def store() -> RefusingStore:
    return RefusingStore(FakeClock())


@pytest.fixture
def log(store: RefusingStore) -> Log:
    opened = Log(store, clock=FakeClock())
    opened.create_topic("orders", partitions=2)
    fill(opened, "orders", 0, EACH)
    return opened


def fetched(consumer: sl.Consumer | sl.SharedConsumer) -> list[sl.Delivery]:
    found: list[sl.Delivery] = []
    while more := consumer.fetch(timeout_s=0.0):
        found += more
    return found


def with_redriven(
    log: Log, consumer: sl.Consumer | sl.SharedConsumer
) -> tuple[list[sl.Delivery], list[sl.Delivery]]:
    """Return two records that were redriven, and others."""
    first = fetched(consumer)
    for each in first[:2]:
        consumer.dead_letter(each)
    consumer.ack(first[2:])
    redrive(log, "orders")
    fill(log, "orders", 1, EACH)
    found = fetched(consumer)
    redriven = [each for each in found if each.record.partition == 0]
    assert len(redriven) == 2
    return redriven, [each for each in found if each not in redriven]


def test_what_is_redriven_is_acked_after_the_others_and_an_error_says_so(
    log: Log, store: RefusingStore
) -> None:
    with log.consumer("orders", "billing") as billing:
        redriven, others = with_redriven(log, billing)
        store.is_refusing = True

        with pytest.raises(sl.UnavailableError) as caught:
            billing.ack([*redriven, *others])

        assert log.cursor("orders", "billing", 1) == EACH
        assert all(billing.holds(each) for each in redriven)
        assert any("pass the same records again" in note for note in caught.value.__notes__)

        store.is_refusing = False
        assert billing.ack([*redriven, *others]) == {0: EACH, 1: EACH}
        assert not any(billing.holds(each) for each in redriven)
    with log.consumer("orders", "billing") as billing:
        assert fetched(billing) == []


def test_an_ack_of_what_was_redriven_alone_is_refused_as_a_whole(
    log: Log, store: RefusingStore
) -> None:
    with log.consumer("orders", "billing") as billing:
        redriven, _ = with_redriven(log, billing)
        store.is_refusing = True

        with pytest.raises(sl.UnavailableError) as caught:
            billing.ack(redriven)

        assert not hasattr(caught.value, "__notes__")
        assert all(billing.holds(each) for each in redriven)


def test_several_that_were_redriven_are_acked_with_one_write(
    log: Log, store: RefusingStore
) -> None:
    with log.consumer("orders", "billing") as billing:
        redriven, _ = with_redriven(log, billing)
        store.writes = 0

        billing.ack(redriven)

        assert store.writes == 1


def test_an_ack_by_a_member_of_a_work_queue_can_be_repeated_after_an_error(
    log: Log, store: RefusingStore
) -> None:
    with log.consumer("orders", "billing", shared=True) as worker:
        redriven, others = with_redriven(log, worker)
        store.is_refusing = True

        with pytest.raises(sl.UnavailableError):
            worker.ack([*others, *redriven])
        store.is_refusing = False
        worker.ack([*others, *redriven])

    with log.consumer("orders", "billing", shared=True) as worker:
        assert fetched(worker) == []
