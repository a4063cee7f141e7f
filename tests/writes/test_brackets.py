"""Bracketed drains: several coordinators share one store under its lock."""

import asyncio

import pytest

from strandline.testing import FakeClock
from strandline.values import (
    ClosedError,
    Durability,
    FailedError,
    RejectedError,
    UnavailableError,
    UnknownError,
)
from strandline.writes import FlushReason, Settings
from tests.writes.conftest import OpenStore
from tests.writes.doubles import PATIENCE_S, Call, Put, SharedRows, Store

APPLIED, WRITTEN, DURABLE = Durability


def pair(open_store: OpenStore, clock: FakeClock | None = None) -> tuple[Store, Store, SharedRows]:
    shared = SharedRows()
    return open_store(shared=shared, clock=clock), open_store(shared=shared, clock=clock), shared


def timeouts(store: Store) -> list[float]:
    assert store.bracket is not None
    return store.bracket.timeouts


def test_two_coordinators_give_every_offset_once(open_store: OpenStore) -> None:
    one, two, shared = pair(open_store)

    def produce(store: Store, name: str) -> list[int]:
        return [
            store.channel.write(Put(f"{name}{n}", n), WRITTEN, PATIENCE_S).wait() for n in range(50)
        ]

    calls = [
        Call(lambda store=store, name=name: produce(store, name))  # type: ignore[misc]
        for store, name in ((one, "a"), (one, "b"), (two, "c"), (two, "d"))
    ]
    offsets = [call.result() for call in calls]

    assert sorted(offset for given in offsets for offset in given) == list(range(200))
    assert all(given == sorted(given) for given in offsets)
    assert [row.sequence for row in shared.rows] == list(range(200))


def test_a_drain_catches_up_with_what_others_wrote(open_store: OpenStore) -> None:
    one, two, _ = pair(open_store)
    one.channel.write(Put("a", 1), WRITTEN, PATIENCE_S)
    one.channel.write(Put("b", 2), WRITTEN, PATIENCE_S)

    receipt = two.channel.write(Put("c", 3))

    assert receipt.wait(APPLIED, PATIENCE_S) == 2
    assert receipt.epoch() == 1
    assert two.bracket is not None
    assert two.bracket.caught_up == [2]


def test_applied_is_written_in_a_bracketed_store(open_store: OpenStore) -> None:
    store, _, shared = pair(open_store)
    store.steps.flush.hold()
    call = Call(lambda: store.channel.write(Put("a", 1)))
    store.steps.flush.wait_held()

    assert store.coordinator.epoch(APPLIED) == store.coordinator.epoch(WRITTEN) == 0
    assert store.coordinator.view().applied == 0

    store.steps.flush.release()
    receipt = call.result()
    assert receipt.level is WRITTEN
    assert store.coordinator.epoch(APPLIED) == store.coordinator.epoch(WRITTEN) == 1
    assert [row.key for row in shared.rows] == ["a"]
    assert store.coordinator.metrics().flushes[FlushReason.BRACKET] == 1


def test_outcomes_are_published_after_the_bracket_was_left(open_store: OpenStore) -> None:
    store, _, _ = pair(open_store)
    store.steps.leave.hold()
    receipt_call = Call(lambda: store.channel.write(Put("a", 1)))
    store.steps.leave.wait_held()

    assert not receipt_call.is_done
    assert store.steps.flush.calls == 1

    store.steps.leave.release()
    assert receipt_call.result().level is WRITTEN


def test_one_bracket_serves_everything_that_is_queued(open_store: OpenStore) -> None:
    store = open_store("one", "two", shared=SharedRows(), started=False)
    receipts = [
        store.coordinator.channel(name).try_write(Put(f"{name}{n}", n))
        for n in range(5)
        for name in ("one", "two")
    ]

    store.coordinator.start()

    assert sorted(receipt.wait(WRITTEN, PATIENCE_S) for receipt in receipts) == list(range(10))
    assert store.steps.enter.calls == store.steps.leave.calls == len(store.events) == 1


def test_a_large_delta_is_flushed_and_the_bracket_left_before_the_rest(
    open_store: OpenStore,
) -> None:
    store = open_store(settings=Settings(flush_bytes=100), shared=SharedRows(), started=False)
    receipts = [store.channel.try_write(Put(f"k{n}", n, size=60)) for n in range(4)]

    store.coordinator.start()

    assert [receipt.wait(WRITTEN, PATIENCE_S) for receipt in receipts] == [0, 1, 2, 3]
    assert [event.epochs for event in store.events] == [range(1, 3), range(3, 5)]
    assert store.steps.leave.calls == 2


def test_a_write_is_handed_back_when_the_lock_is_held_elsewhere(open_store: OpenStore) -> None:
    clock = FakeClock()
    store, _, shared = pair(open_store, clock)
    assert shared.lock(clock, 0)
    write = Put("a", 1)
    call = Call(lambda: store.channel.write(write, WRITTEN, 2.0))
    clock.wait_for_waiters(1)
    clock.advance(1.9)
    assert not call.is_done

    clock.advance(0.1)

    error = call.error()
    assert isinstance(error, UnavailableError)
    assert error.write is write
    shared.unlock()
    store.coordinator.stop()
    assert shared.rows == []


def test_a_write_without_a_deadline_waits_as_long_as_the_settings_say(
    open_store: OpenStore,
) -> None:
    clock = FakeClock()
    shared = SharedRows()
    store = open_store(shared=shared, clock=clock, settings=Settings(bracket_timeout_s=3))
    assert shared.lock(clock, 0)
    call = Call(lambda: store.channel.write(Put("a", 1)).wait())
    clock.wait_for_waiters(1)

    clock.advance(3)

    assert isinstance(call.error(), UnavailableError)
    assert timeouts(store) == [3]


def test_each_write_is_handed_back_at_its_own_deadline(open_store: OpenStore) -> None:
    clock = FakeClock()
    shared = SharedRows()
    store = open_store("main", "other", shared=shared, clock=clock)
    other = store.coordinator.channel("other")
    assert shared.lock(clock, 0)
    late = store.channel.try_write(Put("late", 1), timeout_s=3)
    clock.wait_for_waiters(1)
    early = other.try_write(Put("early", 2), timeout_s=1)
    waiting = Call(early.wait)

    clock.wait_for_waiters(2)
    clock.advance(1)
    error = waiting.error()

    assert isinstance(error, UnavailableError)
    assert error.write == Put("early", 2)
    assert not late.is_settled
    shared.unlock()
    assert Call(late.wait).result() == 0
    assert [row.key for row in shared.rows] == ["late"]


def test_a_write_that_was_taken_in_time_may_be_finished_late(open_store: OpenStore) -> None:
    """The deadline is about the lock: a wait without its own timeout continues."""
    clock = FakeClock()
    store = open_store(shared=SharedRows(), clock=clock, started=False)
    receipt = store.channel.try_write(Put("a", 1), timeout_s=1)
    store.steps.flush.hold()
    starter = Call(store.coordinator.start)
    store.steps.flush.wait_held()
    waiting = Call(receipt.wait)
    clock.wait_for_waiters(1)

    clock.advance(5)
    store.steps.flush.release()

    assert waiting.result() == 0
    starter.result()


def test_a_wait_does_not_outlast_its_own_timeout(open_store: OpenStore) -> None:
    """Not even when it is the one that is woken to lock the store for others."""
    clock = FakeClock()
    shared = SharedRows()
    store = open_store("main", "other", shared=shared, clock=clock)
    other = store.coordinator.channel("other")
    assert shared.lock(clock, 0)
    first = store.channel.try_write(Put("first", 1), timeout_s=1)
    clock.wait_for_waiters(1)
    second = other.try_write(Put("second", 2), timeout_s=9)
    waiting = Call(lambda: second.wait(timeout_s=2))
    clock.wait_for_waiters(2)

    clock.advance(1)
    assert isinstance(Call(first.wait).error(), UnavailableError)
    clock.wait_for_waiters(1)
    clock.advance(1)

    error = waiting.error()
    assert isinstance(error, UnavailableError)
    assert error.write == Put("second", 2)
    shared.unlock()


def test_waiting_writes_continue_when_the_lock_is_free(open_store: OpenStore) -> None:
    clock = FakeClock()
    store, other, shared = pair(open_store, clock)
    assert shared.lock(clock, 0)
    calls = [
        Call(lambda each=each: each.channel.write(Put("a", 1)).wait(WRITTEN))  # type: ignore[misc]
        for each in (store, other)
    ]
    clock.wait_for_waiters(2)

    shared.unlock()

    assert sorted(call.result() for call in calls) == [0, 1]


def test_a_loop_never_waits_for_a_held_lock(open_store: OpenStore) -> None:
    store, _, shared = pair(open_store)
    assert shared.lock(store.clock, 0)

    async def write() -> int:
        async with asyncio.timeout(PATIENCE_S):
            receipt = store.channel.try_write(Put("a", 1))
            other = await store.channel.write_on_loop(Put("b", 2))
            assert not receipt.is_settled
            shared.unlock()
            return await receipt + await other

    assert asyncio.run(write()) == 1
    assert timeouts(store)[0] == 0


def test_an_awaited_write_is_handed_back_when_the_lock_stays_held(open_store: OpenStore) -> None:
    store, _, shared = pair(open_store)
    assert shared.lock(store.clock, 0)

    async def write() -> None:
        async with asyncio.timeout(PATIENCE_S):
            await store.channel.try_write(Put("a", 1), timeout_s=0.01)

    with pytest.raises(UnavailableError) as caught:
        asyncio.run(write())

    assert caught.value.write == Put("a", 1)
    shared.unlock()


def test_a_refused_write_costs_no_offset_and_no_flush(open_store: OpenStore) -> None:
    store, other, shared = pair(open_store)
    refused = store.channel.write(Put("a", -1))

    with pytest.raises(RejectedError):
        refused.wait(WRITTEN, PATIENCE_S)

    assert store.events == []
    assert other.channel.write(Put("b", 1)).wait(WRITTEN, PATIENCE_S) == 0
    assert store.channel.write(Put("c", 2)).wait(DURABLE, PATIENCE_S) == 1
    assert [event.epochs for event in store.events] == [range(1, 3)]
    assert len(shared.rows) == 2


@pytest.mark.parametrize("durable", [False, True])
def test_a_flush_behind_a_write_covers_it(open_store: OpenStore, durable: bool) -> None:
    store, _, shared = pair(open_store)
    assert shared.lock(store.clock, 0)
    write = store.channel.try_write(Put("a", 1))
    flush = store.channel.flush(durable=durable)
    assert not flush.is_settled

    shared.unlock()

    flush.wait(WRITTEN, PATIENCE_S)
    assert flush.epoch() == 1
    assert flush.level in (WRITTEN, DURABLE)
    assert write.level in (WRITTEN, DURABLE)
    if durable:
        store.steps.sync.wait_calls(1)
    flush.wait(DURABLE, PATIENCE_S)
    assert store.flusher.synced == 1


def test_a_flush_with_nothing_ahead_needs_no_lock(open_store: OpenStore) -> None:
    store, _, shared = pair(open_store)
    store.channel.write(Put("a", 1), WRITTEN, PATIENCE_S)
    assert shared.lock(store.clock, 0)

    store.channel.flush(durable=True).wait(DURABLE, PATIENCE_S)

    assert store.steps.enter.calls == 1
    shared.unlock()


def test_a_failed_flush_in_a_bracket_is_unknown_to_its_writes(open_store: OpenStore) -> None:
    store, other, _ = pair(open_store)
    cause = OSError("disk full")
    store.steps.flush.fail_next(cause)
    receipt = store.channel.write(Put("a", 1))

    with pytest.raises(UnknownError) as caught:
        receipt.wait(APPLIED, PATIENCE_S)

    assert caught.value.cause is cause
    assert store.steps.leave.calls == 1
    with pytest.raises(FailedError):
        store.channel.write(Put("b", 2))
    assert other.channel.write(Put("c", 3)).wait(WRITTEN, PATIENCE_S) == 0


def test_a_failed_leave_fails_the_coordinator_and_keeps_what_is_written(
    open_store: OpenStore,
) -> None:
    store, _, _ = pair(open_store)
    cause = OSError("cannot unlock")
    store.steps.leave.fail_next(cause)

    receipt = store.channel.write(Put("a", 1))

    assert receipt.wait(WRITTEN, PATIENCE_S) == 0
    with pytest.raises(FailedError) as caught:
        store.channel.write(Put("b", 2))
    assert caught.value.cause is cause


def test_a_failed_enter_fails_the_coordinator(open_store: OpenStore) -> None:
    store, _, _ = pair(open_store)
    cause = OSError("no such store")
    store.steps.enter.fail_next(cause)

    receipt = store.channel.write(Put("a", 1))

    with pytest.raises(FailedError) as caught:
        receipt.wait(APPLIED, PATIENCE_S)
    assert caught.value.cause is cause
    assert store.steps.leave.calls == 0


def test_a_stop_drains_through_the_bracket(open_store: OpenStore) -> None:
    shared = SharedRows()
    store = open_store(shared=shared, started=False)
    receipts = [store.channel.try_write(Put(f"k{n}", n)) for n in range(3)]

    store.coordinator.stop()

    assert [receipt.level for receipt in receipts] == [DURABLE] * 3
    assert len(shared.rows) == 3


def test_a_stop_hands_back_what_could_not_be_locked_in_time(open_store: OpenStore) -> None:
    clock = FakeClock()
    shared = SharedRows()
    store = open_store(shared=shared, clock=clock, started=False)
    assert shared.lock(clock, 0)
    receipt = store.channel.try_write(Put("a", 1), timeout_s=1)
    stop = Call(store.coordinator.stop)
    clock.wait_for_waiters(1)

    clock.advance(1)

    stop.result()
    assert isinstance(receipt.error, UnavailableError)
    assert receipt.error.write == Put("a", 1)
    with pytest.raises(ClosedError):
        store.channel.try_write(Put("b", 2))
    shared.unlock()


def test_a_subscriber_of_a_bracketed_store_sees_the_shared_rows(open_store: OpenStore) -> None:
    one, two, _ = pair(open_store)
    subscriber = two.coordinator.subscribe()
    assert subscriber.initialize().snapshot == ()
    one.channel.write(Put("a", 1), WRITTEN, PATIENCE_S)

    two.channel.write(Put("b", 2), WRITTEN, PATIENCE_S)

    update = subscriber.recv(PATIENCE_S)
    assert [row.key for row in update.view.snapshot] == ["a", "b"]
    assert update.view.applied == 1
    assert update.view.current == {}
    assert update.missed == 0


def test_a_paused_channel_is_held_inside_the_bracket_too(open_store: OpenStore) -> None:
    store = open_store("main", "other", shared=SharedRows())
    other = store.coordinator.channel("other")
    other.pause()
    held = other.try_write(Put("held", 1))

    store.channel.write(Put("a", 1), WRITTEN, PATIENCE_S)

    assert not held.is_settled
    other.resume()
    assert held.wait(WRITTEN, PATIENCE_S) == 1


def test_a_write_that_arrives_during_another_is_taken_next(open_store: OpenStore) -> None:
    store, _, shared = pair(open_store)
    store.steps.flush.hold()
    first = Call(lambda: store.channel.write(Put("a", 1), WRITTEN))
    store.steps.flush.wait_held()
    behind = store.channel.write(Put("b", 2))
    waiting = Call(lambda: store.channel.write(Put("c", 3), WRITTEN))

    store.steps.flush.release()

    assert first.result().level is WRITTEN
    assert waiting.result().level is WRITTEN
    assert behind.wait(WRITTEN, PATIENCE_S) < waiting.result().wait() == 2
    assert [row.key for row in shared.rows] == ["a", "b", "c"]


def test_a_write_to_a_paused_channel_waits_for_its_turn(open_store: OpenStore) -> None:
    store, _, shared = pair(open_store)
    store.channel.pause()

    held = store.channel.write(Put("a", 1))

    assert not held.is_settled
    assert shared.rows == []
    store.channel.resume()
    assert held.wait(WRITTEN, PATIENCE_S) == 0


def test_a_write_at_a_held_lock_is_counted_once_it_is_taken(open_store: OpenStore) -> None:
    store, _, shared = pair(open_store)
    assert shared.lock(store.clock, 0)
    with pytest.raises(UnavailableError) as caught:
        store.channel.write(Put("a", 1), WRITTEN, 0)
    shared.unlock()

    store.channel.write(Put("a", -1))
    store.channel.write(Put("a", 1), WRITTEN)

    assert caught.value.write == Put("a", 1)
    metrics = store.coordinator.metrics()
    assert (metrics.applied, metrics.rejected) == (1, 1)
    assert metrics.flushes[FlushReason.BRACKET] == 1
    assert store.coordinator.epoch(WRITTEN) == 2


def test_no_waiter_that_has_left_is_woken_to_sync(open_store: OpenStore) -> None:
    clock = FakeClock()
    store = open_store(shared=SharedRows(), clock=clock, settings=Settings(bracket_timeout_s=900))
    store.steps.sync.hold()
    syncing = Call(lambda: store.channel.write(Put("a", 1), DURABLE))
    store.steps.sync.wait_held()
    store.steps.enter.hold()
    entering = Call(lambda: store.channel.write(Put("b", 2), WRITTEN))
    store.steps.enter.wait_held()
    durable_waiters = Call(lambda: store.channel.write(Put("c", 3), DURABLE))
    clock.wait_for_waiters(1)
    hasty = Call(lambda: store.channel.write(Put("d", 4), DURABLE, 60))
    clock.wait_for_waiters(2)
    store.steps.enter.release()
    entering.result()
    store.steps.leave.wait_calls(3)
    clock.wait_for_waiters(2)

    clock.advance(100)
    with pytest.raises(UnavailableError):
        hasty.result()
    store.steps.sync.release()

    assert durable_waiters.result().wait() == 2
    assert syncing.result().wait() == 0
