"""What a member of a work queue may settle, again and at once, and what it raises otherwise."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import strandline as sl
from strandline.log import parts_of
from strandline.subscriptions import Delivery, SharedConsumer
from strandline.subscriptions.held_deliveries import HeldDeliveries
from strandline.subscriptions.queue_state import QueueState
from strandline.subscriptions.queue_store import QueueStore
from strandline.testing import FakeClock
from strandline.triggers import dead_letters, redrive

WAIT_S = 60.0


@pytest.fixture
def log() -> Iterator[sl.Log]:
    with sl.open("memory:", clock=FakeClock(), retention=False) as opened:
        opened.create_topic("jobs")
        yield opened


def fill(log: sl.Log, count: int) -> None:
    log.append_many("jobs", [sl.Event("job", {"n": n}) for n in range(count)])


def join(log: sl.Log, **options: Any) -> SharedConsumer:
    clock = parts_of(log).clock
    return log.consumer("jobs", "workers", shared=True, clock=clock, **options)


class NoticedLock:
    """A lock that says when a thread has to wait for it."""

    def __init__(self, says: threading.Event) -> None:
        self._lock = threading.RLock()
        self._says = says

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            self._says.set()
            self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


Settle = Callable[[SharedConsumer, Delivery], object]

SETTLED: dict[str, Settle] = {
    "nack": SharedConsumer.nack,
    "extend": SharedConsumer.extend,
    "dead_letter": SharedConsumer.dead_letter,
}


def at_once(log: sl.Log, monkeypatch: pytest.MonkeyPatch, second: Settle) -> None:
    """Ack in a thread, and as soon as that is stored call `second` in another."""
    fill(log, 1)
    stored, second_is_on = threading.Event(), threading.Event()
    member = join(log)
    monkeypatch.setattr(member, "_turn_to_settle", NoticedLock(second_is_on), raising=False)
    (held,) = member.fetch(timeout_s=0)
    change = QueueStore.change

    def gated(store: QueueStore, *given: Any) -> Any:
        found = change(store, *given)
        if not stored.is_set():
            stored.set()
            assert second_is_on.wait(WAIT_S)
        return found

    def again() -> None:
        assert stored.wait(WAIT_S)
        try:
            second(member, held)
        finally:
            second_is_on.set()

    monkeypatch.setattr(QueueStore, "change", gated)
    with ThreadPoolExecutor(2) as threads:
        calls = [threads.submit(member.ack, held), threads.submit(again)]
        calls[0].result(WAIT_S)
        calls[1].result(WAIT_S)


def test_two_acks_of_a_delivery_at_once_are_no_error(
    log: sl.Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_once(log, monkeypatch, SharedConsumer.ack)

    assert log.cursor("jobs", "workers", 0) == 1


@pytest.mark.parametrize("call", SETTLED)
def test_what_is_acked_at_the_same_time_is_settled(
    call: str, log: sl.Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(sl.InvalidError, match="settled already"):
        at_once(log, monkeypatch, SETTLED[call])

    assert log.cursor("jobs", "workers", 0) == 1


@pytest.mark.parametrize("call", SETTLED)
def test_what_this_member_has_acked_is_settled(call: str, log: sl.Log) -> None:
    fill(log, 3)
    member = join(log)
    first, second, third = member.fetch(timeout_s=0)
    member.ack([first, third])

    for acked in (first, third):
        with pytest.raises(sl.InvalidError, match=r"settled already.*offset="):
            SETTLED[call](member, acked)

    member.ack(second)
    assert log.cursor("jobs", "workers", 0) == 3


@pytest.mark.parametrize("call", ["ack", *SETTLED])
def test_a_closed_member_settles_nothing(call: str, log: sl.Log) -> None:
    fill(log, 2)
    member = join(log)
    acked, held = member.fetch(timeout_s=0)
    member.ack(acked)
    member.close()

    for each in (acked, held):
        with pytest.raises(sl.ClosedError, match="this consumer was closed"):
            getattr(member, call)(each)
    with pytest.raises(sl.ClosedError):
        member.seek(0, 0)

    assert log.cursor("jobs", "workers", 0) == 1


def test_a_member_that_is_closed_while_it_acks_is_closed(
    log: sl.Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(log, 1)
    member = join(log)
    (held,) = member.fetch(timeout_s=0)
    settle = HeldDeliveries.settle

    def closed_before(self: HeldDeliveries, *given: Any) -> list[int]:
        member.close()
        return settle(self, *given)

    monkeypatch.setattr(HeldDeliveries, "settle", closed_before)
    with pytest.raises(sl.ClosedError):
        member.ack(held)


def test_a_redriven_record_may_be_acked_twice_and_is_no_other_topics(log: sl.Log) -> None:
    fill(log, 2)
    member = join(log, deliveries_max=1)
    first, second = member.fetch(timeout_s=0)
    member.nack(first)
    redrive(log, "jobs")
    (again,) = member.fetch(timeout_s=0)
    log.create_topic("others")
    log.append("others", sl.Event("job", {}))
    (other,) = log.read("others", 0, 0)

    with pytest.raises(sl.InvalidError, match="not held by this consumer"):
        member.ack([again, other])
    member.ack([again, second, again])
    member.ack(again)

    assert log.cursor("jobs", "workers", 0) == 2
    assert member.fetch(timeout_s=0) == []


def asked(monkeypatch: pytest.MonkeyPatch, records: int) -> tuple[int, int]:
    """Return what an ack of so many asks its store and its state, half of them acked before."""
    counts = {"gets": 0, "scans": 0}
    with sl.open("memory:", clock=FakeClock(), retention=False) as log:
        log.create_topic("jobs")
        fill(log, records)
        member = join(log)
        held = member.fetch(records, timeout_s=0)
        member.ack(held[1::2])
        store = parts_of(log).store
        get_key, lease = store.get_key, QueueState.lease

        def counted_get(*given: Any) -> Any:
            counts["gets"] += 1
            return get_key(*given)

        def counted_scan(*given: Any) -> Any:
            counts["scans"] += 1
            return lease(*given)

        with monkeypatch.context() as patched:
            patched.setattr(store, "get_key", counted_get)
            patched.setattr(QueueState, "lease", counted_scan)
            member.ack(held)
        assert log.cursor("jobs", "workers", 0) == records
    return counts["gets"], counts["scans"]


def test_an_ack_of_many_asks_no_more_than_one_of_few(monkeypatch: pytest.MonkeyPatch) -> None:
    assert asked(monkeypatch, 200) == asked(monkeypatch, 4)


@pytest.mark.parametrize("wrong", [None, 5, [None], "text", {"a": 1}])
def test_an_ack_of_something_else_says_what_to_pass(wrong: Any, log: sl.Log) -> None:
    member = join(log)
    alone = log.consumer("jobs", "alone")

    with pytest.raises(sl.InvalidError) as shared:
        member.ack(wrong)
    with pytest.raises(sl.InvalidError) as own:
        alone.ack(wrong)

    assert str(shared.value) == str(own.value).replace("records", "delivered")


@pytest.mark.parametrize("settle", ["ack", *SETTLED])
def test_a_member_that_dead_letters_its_own_last_delivery_has_lost_it(
    log: sl.Log, settle: str
) -> None:
    fill(log, 2)
    member = join(log, deliveries_max=1, visibility_s=10)
    (late,) = member.fetch(1, timeout_s=0)
    clock = parts_of(log).clock
    assert isinstance(clock, FakeClock)
    clock.advance(10)
    (other,) = member.fetch(timeout_s=0)
    assert other.record.offset == 1
    assert [each.record_offset for each in dead_letters(log, "jobs")] == [0]

    with pytest.raises(sl.ConflictError, match="another member has it, or had"):
        getattr(member, settle)(late)

    assert len([*dead_letters(log, "jobs")]) == 1
    member.ack(other)
    assert log.cursor("jobs", "workers", 0) == 2
