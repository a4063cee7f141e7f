"""Flushing: who asks for it, what it covers, and what continues meanwhile."""

import threading

from strandline.testing import FakeClock
from strandline.values import Durability
from strandline.writes import FlushReason, Settings
from tests.writes.conftest import OpenStore
from tests.writes.doubles import PATIENCE_S, Call, Put, Row

APPLIED, WRITTEN, DURABLE = Durability


def test_a_flush_on_command_writes_once(open_store: OpenStore) -> None:
    """TD5: write, flush, wait for WRITTEN: one flush."""
    store = open_store()
    receipt = store.channel.write(Put("a", 1))

    store.channel.flush()
    receipt.wait(WRITTEN, PATIENCE_S)

    assert len(store.events) == 1
    assert store.coordinator.metrics().flushes[FlushReason.EXPLICIT] == 1


def test_a_flush_receipt_can_be_waited_on(open_store: OpenStore) -> None:
    """TD6: waiting on the receipt of the flush suffices."""
    store = open_store()
    store.channel.write(Put("a", 1))

    store.channel.flush().wait(WRITTEN, PATIENCE_S)

    assert store.rows == [Row("a", 0, 1)]


def test_a_flush_happens_though_no_caller_waits(open_store: OpenStore) -> None:
    store = open_store()
    store.channel.write(Put("a", 1))

    store.channel.flush()

    store.steps.flush.wait_calls(1)


def test_a_flush_has_the_epoch_of_the_last_write_before_it(open_store: OpenStore) -> None:
    """TD7: the epoch of a flush is that of the last write before it."""
    store = open_store()
    store.channel.write(Put("a", 1))
    last = store.channel.write(Put("b", 2))

    flush = store.channel.flush()
    store.channel.write(Put("c", 3))

    assert flush.epoch(PATIENCE_S) == last.epoch(PATIENCE_S) == 2


def test_a_flush_includes_all_that_was_written_before(open_store: OpenStore) -> None:
    """TD8: three keys make one flush with three rows."""
    store = open_store()
    for value, key in enumerate("abc", 1):
        store.channel.write(Put(key, value))

    store.channel.flush().wait(WRITTEN, PATIENCE_S)

    assert [len(event.rows) for event in store.events] == [3]
    assert store.rows == [Row("a", 0, 1), Row("b", 1, 2), Row("c", 2, 3)]


def test_a_flush_includes_what_is_still_queued(open_store: OpenStore) -> None:
    """TD8: a flush is ordered behind the writes of its channel, applied or not."""
    store = open_store(started=False)
    for value, key in enumerate("abc", 1):
        store.channel.try_write(Put(key, value))
    flush = store.channel.flush()
    late = store.channel.try_write(Put("d", 4))

    store.coordinator.start()

    flush.wait(WRITTEN, PATIENCE_S)
    assert flush.epoch() == 3
    assert [event.epochs for event in store.events] == [range(1, 4)]
    assert late.level is APPLIED


def test_a_flush_without_new_writes_does_nothing(open_store: OpenStore) -> None:
    """TD9: a second flush adds no event."""
    store = open_store()
    store.channel.write(Put("a", 1))
    store.channel.flush().wait(WRITTEN, PATIENCE_S)

    again = store.channel.flush()
    again.wait(WRITTEN, PATIENCE_S)

    assert again.epoch() == 1
    assert len(store.events) == 1


def test_a_flush_raises_the_written_mark(open_store: OpenStore) -> None:
    """TD10: after a flush the write is WRITTEN, and not DURABLE."""
    store = open_store()
    receipt = store.channel.write(Put("a", 1))
    assert store.coordinator.epoch(WRITTEN) == 0

    store.channel.flush()

    assert receipt.wait(WRITTEN, PATIENCE_S) == 0
    assert receipt.level is WRITTEN
    assert store.coordinator.epoch(WRITTEN) == 1
    assert store.coordinator.epoch(DURABLE) == 0


def test_waiting_for_written_is_a_reason_to_flush(open_store: OpenStore) -> None:
    store = open_store()
    receipt = store.channel.write(Put("a", 1))

    receipt.wait(WRITTEN, PATIENCE_S)

    assert store.rows == [Row("a", 0, 1)]
    assert store.coordinator.metrics().flushes[FlushReason.WAIT] == 1


def test_waiting_for_durable_flushes_and_syncs(open_store: OpenStore) -> None:
    store = open_store()
    receipt = store.channel.write(Put("a", 1))

    receipt.wait(DURABLE, PATIENCE_S)

    assert receipt.level is DURABLE
    assert store.flusher.synced == 1
    assert store.coordinator.epoch(DURABLE) == 1


def test_a_wait_for_an_old_epoch_does_not_call_a_newer_write_written(
    open_store: OpenStore,
) -> None:
    """What was applied after the freeze is not written yet, and is not said to be."""
    store = open_store(settings=Settings(flush_bytes=100), started=False)
    large = store.channel.try_write(Put("a", 1, size=150))
    small = store.channel.try_write(Put("b", 2, size=1))

    store.coordinator.start()
    large.wait(WRITTEN, PATIENCE_S)

    assert [event.epochs for event in store.events] == [range(1, 2)]
    assert store.coordinator.epoch(WRITTEN) == 1
    assert small.level is APPLIED
    small.wait(WRITTEN, PATIENCE_S)
    assert store.rows == [Row("a", 0, 1), Row("b", 1, 2)]


def test_the_interval_flushes(open_store: OpenStore) -> None:
    """TD11: nothing before the interval has passed, one flush after."""
    clock = FakeClock()
    store = open_store(clock=clock, settings=Settings(flush_interval_s=0.1))
    receipt = store.channel.write(Put("a", 1))

    clock.advance(0.05)
    assert store.events == []

    clock.advance(0.1)
    assert store.rows == [Row("a", 0, 1)]
    assert receipt.level is WRITTEN
    assert store.coordinator.metrics().flushes[FlushReason.INTERVAL] == 1


def test_the_interval_begins_again_with_each_flush(open_store: OpenStore) -> None:
    clock = FakeClock()
    store = open_store(clock=clock, settings=Settings(flush_interval_s=1.0))
    store.channel.write(Put("a", 1))
    clock.advance(0.6)
    store.channel.write(Put("a", 2), WRITTEN)
    store.channel.write(Put("a", 3))

    clock.advance(0.9)
    assert [event.epochs for event in store.events] == [range(1, 3)]

    clock.advance(0.1)
    assert [event.epochs for event in store.events] == [range(1, 3), range(3, 4)]


def test_the_interval_continues_while_there_are_writes(open_store: OpenStore) -> None:
    clock = FakeClock()
    store = open_store(clock=clock, settings=Settings(flush_interval_s=1.0))

    for value in range(1, 4):
        store.channel.write(Put("a", value))
        clock.advance(1.0)

    assert [event.epochs for event in store.events] == [range(1, 2), range(2, 3), range(3, 4)]


def test_no_timer_is_left_when_there_is_nothing_to_flush(open_store: OpenStore) -> None:
    clock = FakeClock()
    store = open_store(clock=clock, settings=Settings(flush_interval_s=1.0))
    assert clock.pending_timers == 0
    store.channel.write(Put("a", 1), WRITTEN)

    clock.advance(1.0)

    assert clock.pending_timers == 0
    assert len(store.events) == 1


def test_a_large_delta_is_flushed_in_the_background(open_store: OpenStore) -> None:
    """TD12: threshold 100, a write of 150: flushed."""
    store = open_store(settings=Settings(flush_bytes=100))

    store.channel.write(Put("a", 1, size=150))

    store.steps.flush.wait_calls(1)
    assert store.coordinator.metrics().flushes[FlushReason.SIZE] == 1


def test_small_writes_add_up_to_a_flush(open_store: OpenStore) -> None:
    """TD13: five of 15 are not flushed; a further 30 makes one flush."""
    store = open_store(settings=Settings(flush_bytes=100))
    for value in range(5):
        store.channel.write(Put("a", value, size=15))
    assert store.steps.freeze.calls == 0

    last = store.channel.write(Put("b", 1, size=30))

    last.wait(WRITTEN, PATIENCE_S)
    assert [event.epochs for event in store.events] == [range(1, 7)]
    assert store.coordinator.metrics().flushes == {
        reason: int(reason is FlushReason.SIZE) for reason in FlushReason
    }


def test_a_delta_of_exactly_the_threshold_is_flushed(open_store: OpenStore) -> None:
    store = open_store(settings=Settings(flush_bytes=100))

    store.channel.write(Put("a", 1, size=100))

    store.steps.flush.wait_calls(1)


def test_writes_are_taken_while_a_flush_runs(open_store: OpenStore) -> None:
    """TD14: with a flush held half-way, another write gets a larger epoch."""
    store = open_store()
    store.steps.flush.hold()
    first = store.channel.write(Put("a", 1))
    store.channel.flush()
    store.steps.flush.wait_held()

    second = store.channel.write(Put("b", 2))

    assert second.epoch(PATIENCE_S) > first.epoch(PATIENCE_S)
    assert store.events == []


def test_epochs_rise_while_a_flush_runs(open_store: OpenStore) -> None:
    """TD15: two writes during a held flush have rising epochs, and come in the next one."""
    store = open_store()
    store.steps.flush.hold()
    store.channel.write(Put("a", 1))
    store.channel.flush()
    store.steps.flush.wait_held()

    during = [store.channel.write(Put(key, 2)) for key in "bc"]
    epochs = [receipt.epoch(PATIENCE_S) for receipt in during]
    store.steps.flush.release()
    during[-1].wait(WRITTEN, PATIENCE_S)

    assert epochs == [2, 3]
    assert [event.epochs for event in store.events] == [range(1, 2), range(2, 4)]


def test_written_is_not_reported_before_the_store_has_it(open_store: OpenStore) -> None:
    store = open_store()
    store.steps.flush.hold()
    receipt = store.channel.write(Put("a", 1))
    waiting = Call(lambda: receipt.wait(WRITTEN, PATIENCE_S))
    store.steps.flush.wait_held()

    assert receipt.level is APPLIED
    assert store.coordinator.epoch(WRITTEN) == 0
    assert not waiting.is_done

    store.steps.flush.release()
    waiting.result()
    assert receipt.level is WRITTEN


def test_durable_is_not_reported_before_the_sync_has_ended(open_store: OpenStore) -> None:
    store = open_store()
    store.steps.sync.hold()
    receipt = store.channel.write(Put("a", 1))
    waiting = Call(lambda: receipt.wait(DURABLE, PATIENCE_S))
    store.steps.sync.wait_held()

    assert receipt.level is WRITTEN
    assert store.coordinator.epoch(DURABLE) == 0

    store.steps.sync.release()
    waiting.result()
    assert receipt.level is DURABLE


def test_a_sync_covers_only_what_was_written_when_it_began(open_store: OpenStore) -> None:
    store = open_store()
    first = store.channel.write(Put("a", 1), WRITTEN, PATIENCE_S)
    store.steps.sync.hold()
    waiting = Call(lambda: first.wait(DURABLE, PATIENCE_S))
    store.steps.sync.wait_held()
    second = store.channel.write(Put("b", 2), WRITTEN, PATIENCE_S)

    store.steps.sync.release()
    waiting.result()

    assert second.level is WRITTEN
    second.wait(DURABLE, PATIENCE_S)
    assert store.steps.sync.calls == 2


def test_a_durable_flush_syncs_though_there_is_nothing_new(open_store: OpenStore) -> None:
    """TD32: flush(durable=True) without writes reaches DURABLE, with a sync and no delta."""
    store = open_store()

    store.channel.flush(durable=True).wait(DURABLE, PATIENCE_S)

    assert store.steps.sync.calls == 1
    assert store.events == []


def test_a_durable_flush_syncs_again_though_all_was_durable(open_store: OpenStore) -> None:
    """TD32: each such flush is answered by a sync that began after it."""
    store = open_store()
    store.channel.write(Put("a", 1), DURABLE, PATIENCE_S)

    flush = store.channel.flush(durable=True)
    flush.wait(DURABLE, PATIENCE_S)

    assert store.steps.sync.calls == 2
    assert flush.level is DURABLE


def test_a_durable_flush_makes_earlier_writes_durable(open_store: OpenStore) -> None:
    """TD33: both receipts reach DURABLE through one flush."""
    store = open_store()
    receipt = store.channel.write(Put("a", 1))

    flush = store.channel.flush(durable=True)

    flush.wait(DURABLE, PATIENCE_S)
    receipt.wait(DURABLE, PATIENCE_S)
    assert len(store.events) == 1
    assert store.steps.sync.calls == 1
    assert store.flusher.synced == 1


def test_a_durable_flush_syncs_though_no_caller_waits(open_store: OpenStore) -> None:
    store = open_store()
    store.channel.write(Put("a", 1))

    store.channel.flush(durable=True)

    store.steps.sync.wait_calls(1)


def test_a_flush_is_not_refused_when_the_queue_is_full(open_store: OpenStore) -> None:
    """WD15: a full queue has room for a flush, which covers exactly what was queued."""
    store = open_store(settings=Settings(queue_capacity=2), started=False)
    for value in (1, 2):
        store.channel.try_write(Put("a", value))

    flushes = [store.channel.flush(durable=durable) for durable in (False, True, False)]
    store.coordinator.start()

    for flush in flushes:
        flush.wait(DURABLE, PATIENCE_S)
        assert flush.epoch() == 2
    assert len(store.events) == 1


def test_a_durable_flush_that_joins_another_is_still_synced(open_store: OpenStore) -> None:
    """WD15: two flushes behind the same write become one, with the stronger promise."""
    store = open_store(started=False)
    store.channel.try_write(Put("a", 1))
    store.channel.flush()
    store.channel.flush(durable=True)

    store.coordinator.start()

    store.steps.sync.wait_calls(1)
    assert store.steps.flush.calls == 1


def test_a_queued_flush_takes_no_room_from_writes(open_store: OpenStore) -> None:
    """WD15: the lane of flushes is its own."""
    store = open_store(settings=Settings(queue_capacity=2), started=False)
    store.channel.flush()
    store.channel.try_write(Put("a", 1))
    store.channel.flush()

    store.channel.try_write(Put("a", 2))

    assert store.channel.depth == 2


def test_a_single_producer_flushes_and_syncs_on_its_own_thread(open_store: OpenStore) -> None:
    store = open_store(clock=FakeClock())
    before = threading.enumerate()

    for value in range(5):
        store.channel.write(Put("a", value), WRITTEN)
        store.channel.write(Put("a", value)).wait(WRITTEN)
        store.channel.write(Put("a", value), DURABLE)

    me = threading.current_thread()
    assert set(store.steps.flush.threads) == set(store.steps.sync.threads) == {me}
    assert store.steps.sync.calls == 5
    assert threading.enumerate() == before


def test_a_write_that_the_store_made_beside_is_durable_after_the_next_sync(
    open_store: OpenStore,
) -> None:
    store = open_store()
    store.channel.write(Put("a", 1), DURABLE, PATIENCE_S)

    receipt = store.coordinator.written_beside(7)

    assert receipt.level is WRITTEN
    assert receipt.wait(DURABLE, PATIENCE_S) == 7
    assert receipt.level is DURABLE
    assert store.steps.sync.calls == 2
