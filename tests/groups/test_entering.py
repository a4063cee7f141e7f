"""A partition comes and goes while its consumer reads: no record is lost or delivered twice."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import strandline as sl
from strandline.groups import Assigned, Revoked
from strandline.subscriptions.counting import Counting
from strandline.subscriptions.deliveries import Deliveries
from tests.subscriptions.doubles import fill

MOMENT_S = 0.3


@pytest.fixture
def log() -> Iterator[sl.Log]:
    with sl.open("memory:") as opened:
        opened.create_topic("orders", partitions=2)
        yield opened


@pytest.fixture
def consumer(log: sl.Log) -> Iterator[sl.Consumer]:
    with log.consumer("orders", "billing", partitions=[0]) as opened:
        yield opened


def take_one(consumer: sl.Consumer) -> list[sl.Delivery]:
    found = consumer.next(10.0)
    return [] if found is None else [found]


def take_many(consumer: sl.Consumer) -> list[sl.Delivery]:
    return consumer.fetch(10, timeout_s=10.0)


@pytest.mark.parametrize(("take", "step"), [(take_one, "prepare"), (take_many, "gather")])
def test_what_is_read_while_its_partition_is_entered_is_delivered(
    log: sl.Log,
    consumer: sl.Consumer,
    monkeypatch: pytest.MonkeyPatch,
    take: Callable[[sl.Consumer], list[sl.Delivery]],
    step: str,
) -> None:
    fill(log, "orders", 1, 1)
    has_run = threading.Event()
    run, enter = getattr(Deliveries, step), Counting.enter

    def run_and_tell(*args: Any) -> Any:
        try:
            return run(*args)
        finally:
            has_run.set()

    def enter_late(*args: Any, **kwargs: Any) -> None:
        # Long enough for who reads, if nothing keeps it.
        has_run.clear()
        has_run.wait(MOMENT_S)
        enter(*args, **kwargs)

    monkeypatch.setattr(Deliveries, step, run_and_tell)
    monkeypatch.setattr(Counting, "enter", enter_late)
    with ThreadPoolExecutor(1) as pool:
        taken = pool.submit(take, consumer)
        consumer.assign([0, 1])

        assert [(each.record.partition, each.record.offset) for each in taken.result()] == [(1, 0)]


@pytest.mark.parametrize("comes_back", [True, False])
def test_what_is_read_when_its_partition_goes_is_not_delivered_unless_it_comes_again(
    log: sl.Log, consumer: sl.Consumer, monkeypatch: pytest.MonkeyPatch, comes_back: bool
) -> None:
    fill(log, "orders", 0, 3)
    put = Deliveries.put

    def put_late(*args: Any) -> None:
        monkeypatch.setattr(Deliveries, "put", put)
        consumer.assign([])
        consumer.assign([0] if comes_back else [])
        put(*args)

    monkeypatch.setattr(Deliveries, "put", put_late)
    found = []
    while (delivery := consumer.next(0.0)) is not None:
        found.append((delivery.record.offset, delivery.count))

    assert found == ([(0, 1), (1, 1), (2, 1)] if comes_back else [])


@pytest.mark.parametrize("offset", [2, 7])
def test_a_seek_while_a_partition_is_assigned_says_where_reading_begins(
    log: sl.Log, offset: int
) -> None:
    fill(log, "orders", 0, 10)
    with log.consumer("orders", "billing") as first:
        found = first.fetch(5, timeout_s=0.0)
        first.nack(found[3], delay_s=3600.0)
        first.ack([*found[:3], found[4]])

    def seek(event: object) -> None:
        if isinstance(event, Assigned) and event.partition == 0:
            log.seek("orders", "billing", 0, offset)

    with log.consumer("orders", "billing", on_assignment=seek) as second:
        offsets = [each.record.offset for each in second.fetch(20, timeout_s=0.0)]

    assert offsets == list(range(offset, 10))


def test_a_partition_that_could_not_be_entered_is_revoked_for_the_listener(
    log: sl.Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[object] = []
    enter = Counting.enter

    def refuse(counting: Counting, partition: int, *args: Any, **kwargs: Any) -> None:
        if partition == 1:
            raise sl.UnavailableError("the store is gone")
        enter(counting, partition, *args, **kwargs)

    monkeypatch.setattr(Counting, "enter", refuse)

    with pytest.raises(sl.UnavailableError):
        log.consumer("orders", "billing", on_assignment=events.append)

    assert [(type(each), each.partition) for each in events[:3]] == [  # type: ignore[attr-defined]
        (Assigned, 0),
        (Assigned, 1),
        (Revoked, 1),
    ]
