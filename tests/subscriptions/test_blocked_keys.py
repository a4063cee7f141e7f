"""on_dead_letter="block-key": later records of a key wait behind its dead letter."""

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from queue import SimpleQueue
from typing import Any

import pytest

import strandline as sl
from strandline.subscriptions import Delivery
from strandline.subscriptions.blocked_keys import BlockedKeys
from strandline.subscriptions.key_order import KeyOrder
from strandline.testing import FakeClock
from strandline.triggers import dead_letters, discard, redrive

PATIENCE_S = 20


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def log(clock: FakeClock) -> Iterator[sl.Log]:
    with sl.open("memory:", clock=clock, retention=False) as opened:
        opened.create_topic("jobs")
        yield opened


@pytest.fixture(params=[False, True], ids=["group", "queue"])
def is_shared(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def put(log: sl.Log, *keys: str | None) -> None:
    for key in keys:
        number = log.marks("jobs", 0).high
        log.append("jobs", sl.Event("job", {"n": number}, key=key))


def joined(log: sl.Log, clock: FakeClock, *, shared: bool, **options: Any) -> Any:
    options = {"on_dead_letter": "block-key", "clock": clock, "deliveries_max": 2, **options}
    if shared:
        return log.consumer("jobs", "workers", shared=True, **options)
    return log.consumer("jobs", "workers", **options)


def took(reader: Any) -> list[Delivery]:
    found: list[Delivery] = []
    while (delivery := reader.next(0.0)) is not None:
        found.append(delivery)
    return found


def numbers(found: list[Delivery]) -> list[int]:
    return [each.record.payload["n"] for each in found]


def handled(reader: Any, clock: FakeClock, seconds: int = 5) -> list[int]:
    """Ack what comes within so many seconds, and return it."""
    done: list[int] = []
    for _ in range(seconds):
        while (delivery := reader.next(0.0)) is not None:
            done += numbers([delivery])
            reader.ack(delivery)
        clock.advance(1)
    return done


def fail(reader: Any, number: int) -> None:
    """Have the one that comes next dead-lettered."""
    delivery = reader.next(0.0)
    assert delivery is not None
    assert numbers([delivery]) == [number]
    reader.dead_letter(delivery, reason="broken")


def test_the_records_of_a_key_come_one_after_the_other(
    log: sl.Log, clock: FakeClock, is_shared: bool
) -> None:
    put(log, "a", "a", "b", None, "a")
    reader = joined(log, clock, shared=is_shared)

    first = took(reader)
    reader.ack(first[0])
    second = took(reader)
    reader.ack(second[0])

    assert [numbers(each) for each in (first, second, took(reader))] == [[0, 2, 3], [1], [4]]


def test_a_nacked_record_holds_up_its_key_alone(
    log: sl.Log, clock: FakeClock, is_shared: bool
) -> None:
    put(log, "a", "a", "b")
    reader = joined(log, clock, shared=is_shared)
    failed, other = took(reader)
    reader.nack(failed, delay_s=10)
    reader.ack(other)

    early = took(reader)
    clock.advance(10)
    late = took(reader)
    reader.ack(late[0])

    assert [numbers(each) for each in (early, late, took(reader))] == [[], [0], [1]]


def test_later_records_of_the_key_wait_until_the_letter_was_redriven_and_acked(
    log: sl.Log, clock: FakeClock, is_shared: bool
) -> None:
    put(log, "a", "b", "a", "a", "b")
    reader = joined(log, clock, shared=is_shared)
    fail(reader, 0)

    before = handled(reader, clock)
    redrive(log, "jobs", consumer="workers")
    clock.advance(2)
    (again,) = took(reader)
    while_in_hand = took(reader)
    reader.ack(again)
    after = handled(reader, clock)

    assert (before, numbers([again]), while_in_hand, after) == ([1, 4], [0], [], [2, 3])
    assert log.cursor("jobs", "workers", 0) == 5
    assert len(list(dead_letters(log, "jobs"))) == 1


def test_a_redriven_record_that_fails_again_continues_blocking(
    log: sl.Log, clock: FakeClock, is_shared: bool
) -> None:
    put(log, "a", "a")
    reader = joined(log, clock, shared=is_shared)
    fail(reader, 0)
    redrive(log, "jobs", consumer="workers")
    clock.advance(2)
    fail(reader, 0)

    blocked = handled(reader, clock)
    redrive(log, "jobs", consumer="workers")

    assert (blocked, handled(reader, clock)) == ([], [0, 1])


def test_what_is_discarded_blocks_no_more(log: sl.Log, clock: FakeClock, is_shared: bool) -> None:
    put(log, "a", "a")
    reader = joined(log, clock, shared=is_shared)
    fail(reader, 0)

    would = discard(log, "jobs", dry_run=True)
    blocked = handled(reader, clock)
    done = discard(log, "jobs", consumer="workers")

    assert (len(would), blocked, [each.record_offset for each in done]) == (1, [], [0])
    assert discard(log, "jobs") == redrive(log, "jobs") == []
    assert handled(reader, clock) == [1]
    assert [each.is_redriven for each in dead_letters(log, "jobs")] == [True]


def test_the_next_process_waits_as_well_and_repeats_nothing(
    log: sl.Log, clock: FakeClock, is_shared: bool
) -> None:
    put(log, "a", "b", "a", "b")
    with joined(log, clock, shared=is_shared) as first:
        fail(first, 0)
        assert handled(first, clock) == [1, 3]

    second = joined(log, clock, shared=is_shared)
    blocked = handled(second, clock)
    discard(log, "jobs")

    assert (blocked, handled(second, clock)) == ([], [2])
    assert log.cursor("jobs", "workers", 0) == 4


def test_another_consumer_and_another_mode_are_not_held_up(
    log: sl.Log, clock: FakeClock, is_shared: bool
) -> None:
    put(log, "a", "a")
    with joined(log, clock, shared=is_shared) as reader:
        fail(reader, 0)

    other = log.consumer("jobs", "others", clock=clock, on_dead_letter="block-key")
    plain = joined(log, clock, shared=is_shared, on_dead_letter="continue")

    assert handled(other, clock) == [0, 1]
    assert handled(plain, clock) == [1]


@pytest.mark.parametrize("wrong", ["block", None, True, 3])
def test_another_choice_is_refused(
    log: sl.Log, clock: FakeClock, is_shared: bool, wrong: Any
) -> None:
    with pytest.raises(sl.InvalidError, match="on_dead_letter"):
        joined(log, clock, shared=is_shared, on_dead_letter=wrong)


def test_fetch_gives_them_singly(log: sl.Log, clock: FakeClock) -> None:
    put(log, "a", "a", "b")
    reader = joined(log, clock, shared=False)

    assert [numbers(reader.fetch(timeout_s=0)) for _ in range(3)] == [[0], [2], []]


def read_by_a_thread(reader: Any, count: int) -> tuple[SimpleQueue[Delivery], threading.Thread]:
    found: SimpleQueue[Delivery] = SimpleQueue()

    def read() -> None:
        for _ in range(count):
            found.put(reader.next())

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    return found, thread


def test_a_reader_that_waits_gets_the_next_of_a_key_at_once_when_another_thread_acks(
    log: sl.Log, clock: FakeClock
) -> None:
    put(log, "a", "a", "a")
    reader = joined(log, clock, shared=False)
    found, thread = read_by_a_thread(reader, 4)

    for offset in range(3):
        delivery = found.get(timeout=PATIENCE_S)
        assert delivery.record.offset == offset
        clock.wait_for_waiters(1)
        # No time passes.
        reader.ack(delivery)
    clock.wait_for_waiters(1)
    put(log, "b")

    assert found.get(timeout=PATIENCE_S).record.offset == 3
    thread.join(PATIENCE_S)


def test_a_reader_that_waits_gets_a_record_at_once_that_another_thread_nacks(
    log: sl.Log, clock: FakeClock
) -> None:
    put(log, "a")
    reader = joined(log, clock, shared=False)
    found, thread = read_by_a_thread(reader, 2)
    first = found.get(timeout=PATIENCE_S)
    clock.wait_for_waiters(1)

    reader.nack(first)

    assert found.get(timeout=PATIENCE_S).count == 2
    thread.join(PATIENCE_S)


def test_an_order_of_keys_names_the_next() -> None:
    order = KeyOrder()
    assert [order.enter(0, "a", 5), order.enter(0, "a", 3), order.enter(1, "a", 9)] == [1, 1, 1]
    assert not order.enter(0, "a", 5)

    assert (order.leave(0, 5), order.leave(0, 7), order.leave(0, 3)) == (None, None, None)
    order.enter(1, "a", 10)
    assert order.leave(1, 9) == 10
    order.drop(1)
    assert order.enter(1, "a", 11)


BUGS: dict[str, tuple[Any, str, Any, Any]] = {
    "letters are not looked at": (
        *(BlockedKeys, "first_of", lambda *_: {}),
        test_later_records_of_the_key_wait_until_the_letter_was_redriven_and_acked,
    ),
    "letters stay open": (
        *(BlockedKeys, "_close", lambda *_: None),
        test_later_records_of_the_key_wait_until_the_letter_was_redriven_and_acked,
    ),
    "keys are not kept in order": (
        *(KeyOrder, "enter", lambda *_: True),
        test_the_records_of_a_key_come_one_after_the_other,
    ),
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_found(
    log: sl.Log, clock: FakeClock, monkeypatch: pytest.MonkeyPatch, bug: str
) -> None:
    owner, name, planted, scenario = BUGS[bug]
    monkeypatch.setattr(owner, name, planted)

    with pytest.raises((AssertionError, IndexError)):
        scenario(log, clock, False)


def test_a_record_whose_time_was_past_comes_first_of_its_key_after_a_restart(
    log: sl.Log, clock: FakeClock, is_shared: bool
) -> None:
    past = datetime.fromtimestamp(clock.now_us() / 1e6, UTC) - timedelta(seconds=5)
    log.append("jobs", sl.Event("job", {"n": 0}, key="a"), deliver_at=past)
    put(log, "a", None)
    with joined(log, clock, shared=is_shared) as before:
        first, other = took(before)
        assert numbers([first, other]) == [0, 2]
        before.ack(other)

    with joined(log, clock, shared=is_shared) as after:
        assert handled(after, clock) == [0, 1]
