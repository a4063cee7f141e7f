"""Stopping: accepted writes are finished, and failures are raised."""

import contextlib

import pytest

from strandline.testing import FakeClock
from strandline.values import ClosedError, Durability, FailedError, UnavailableError, UnknownError
from strandline.writes import FlushReason, coordinator
from tests.patience import wait_collected
from tests.writes.conftest import OpenStore
from tests.writes.doubles import PATIENCE_S, Call, Put, Row

APPLIED, WRITTEN, DURABLE = Durability


def test_a_stop_ends_cleanly(open_store: OpenStore) -> None:
    """TD18: stop returns, and again when asked again."""
    store = open_store()

    store.coordinator.stop()
    store.coordinator.stop()
    store.coordinator.stop(timeout_s=PATIENCE_S)

    assert store.events == []


def test_a_coordinator_that_was_never_started_can_be_stopped(open_store: OpenStore) -> None:
    store = open_store(started=False)

    store.coordinator.stop()

    with pytest.raises(ClosedError):
        store.coordinator.start()


def test_a_stop_flushes_what_was_applied(open_store: OpenStore) -> None:
    """TD19: one applied write, stop: one flush that has its epoch."""
    store = open_store()
    epoch = store.channel.write(Put("a", 1)).epoch(PATIENCE_S)

    store.coordinator.stop()

    assert len(store.events) == 1
    assert epoch in store.events[0].epochs
    assert store.coordinator.metrics().flushes[FlushReason.STOP] == 1


def test_nothing_is_accepted_after_the_stop(open_store: OpenStore) -> None:
    """TD20: try_write gets ClosedError, as does a flush."""
    store = open_store()
    store.coordinator.stop()

    with pytest.raises(ClosedError):
        store.channel.try_write(Put("a", 1))
    with pytest.raises(ClosedError):
        store.channel.flush()
    assert store.steps.apply.calls == 0


def test_a_failure_during_the_stop_is_raised(open_store: OpenStore) -> None:
    """WD2: stop does not say that all is well when the last delta was not written."""
    store = open_store()
    receipt = store.channel.write(Put("a", 1))
    cause = OSError("disk full")
    store.steps.flush.fail_next(cause)

    for _ in range(2):
        with pytest.raises(FailedError) as caught:
            store.coordinator.stop()

        assert caught.value.cause is cause
    with pytest.raises(FailedError):
        receipt.wait(WRITTEN, PATIENCE_S)
    assert store.steps.flush.calls == 1
    assert store.steps.sync.calls == 0


def test_a_failed_sync_during_the_stop_is_raised(open_store: OpenStore) -> None:
    """WD2: nor when the last sync failed."""
    store = open_store()
    store.channel.write(Put("a", 1))
    cause = OSError("lost power")
    store.steps.sync.fail_next(cause)

    with pytest.raises(FailedError) as caught:
        store.coordinator.stop(timeout_s=PATIENCE_S)

    assert caught.value.cause is cause


def test_a_failure_before_the_stop_is_raised_by_it(open_store: OpenStore) -> None:
    """WD2: stop raises what went wrong earlier, unseen."""
    store = open_store()
    cause = OSError("disk full")
    store.steps.flush.fail_next(cause)
    receipt = store.channel.write(Put("a", 1))
    store.channel.flush()
    with pytest.raises(FailedError):
        receipt.wait(WRITTEN, PATIENCE_S)

    with pytest.raises(FailedError) as caught:
        store.coordinator.stop()

    assert caught.value.cause is cause


def test_leaving_the_block_raises_what_went_wrong(open_store: OpenStore) -> None:
    """WD2: the same holds for a coordinator used as a context manager."""
    store = open_store(started=False)
    store.steps.sync.fail_next(OSError("lost power"))

    with pytest.raises(FailedError), store.coordinator:
        store.channel.write(Put("a", 1))

    assert store.rows == [Row("a", 0, 1)]


@pytest.mark.parametrize("started", [True, False])
def test_a_stop_finishes_everything_that_was_accepted(
    open_store: OpenStore,
    started: bool,
) -> None:
    """WD3: queued, held and unstarted writes are applied, written and synced by stop."""
    store = open_store("one", "two", started=started)
    one, two = store.coordinator.channel("one"), store.coordinator.channel("two")
    one.pause()
    receipts = [channel.try_write(Put("a", value)) for value in (1, 2) for channel in (one, two)]
    flush = one.flush()

    store.coordinator.stop()

    assert sorted(receipt.epoch(PATIENCE_S) for receipt in receipts) == [1, 2, 3, 4]
    assert {receipt.level for receipt in receipts} == {DURABLE}
    flush.wait(WRITTEN, PATIENCE_S)
    assert store.coordinator.metrics().queue_depth == {"one": 0, "two": 0}


def test_a_pause_during_a_stop_holds_nothing_back(open_store: OpenStore) -> None:
    """WD3: what is accepted is written, also if its channel is paused meanwhile."""
    store = open_store()
    store.channel.pause()
    receipts = [store.channel.try_write(Put(key, 7)) for key in ("a", "b")]
    store.steps.apply.hold()

    stopping = Call(store.coordinator.stop)
    store.steps.apply.wait_held()
    store.channel.pause()
    store.steps.apply.release()
    stopping.result()

    assert store.rows == [Row("a", 0, 7), Row("b", 1, 7)]
    assert {receipt.level for receipt in receipts} == {DURABLE}


def test_a_stop_without_a_drain_answers_every_receipt(open_store: OpenStore) -> None:
    """WD3: stop(drain=False) refuses what is queued and still writes what was applied."""
    store = open_store()
    applied = store.channel.write(Put("a", 1))
    store.channel.pause()
    queued = [store.channel.try_write(Put("b", value)) for value in (1, 2)]
    flush = store.channel.flush()

    store.coordinator.stop(drain=False)

    for receipt in queued:
        with pytest.raises(ClosedError):
            receipt.wait(APPLIED, PATIENCE_S)
    with pytest.raises(ClosedError):
        flush.wait(APPLIED, PATIENCE_S)
    assert applied.level is DURABLE
    assert store.rows == [Row("a", 0, 1)]


def test_a_stop_wakes_the_waiters_for_what_it_refuses(open_store: OpenStore) -> None:
    """WD3: the answer reaches a thread that waits already."""
    clock = FakeClock()
    store = open_store(clock=clock, started=False)
    receipt = store.channel.try_write(Put("a", 1))
    waiting = Call(lambda: receipt.wait(DURABLE))
    clock.wait_for_waiters(1)

    store.coordinator.stop(drain=False)

    assert isinstance(waiting.error(), ClosedError)


def test_a_stop_syncs(open_store: OpenStore) -> None:
    """WD4: after stop everything is durable."""
    store = open_store()
    receipt = store.channel.write(Put("a", 1))

    store.coordinator.stop()

    assert receipt.level is DURABLE
    assert store.flusher.synced == 1
    assert receipt.wait(DURABLE, PATIENCE_S) == 0


def test_a_stop_syncs_what_was_written_long_ago(open_store: OpenStore) -> None:
    """WD4: also when the last delta is empty."""
    store = open_store()
    store.channel.write(Put("a", 1), WRITTEN, PATIENCE_S)

    store.coordinator.stop()

    assert store.flusher.synced == 1


def test_a_stop_can_leave_the_sync_out(open_store: OpenStore) -> None:
    store = open_store()
    receipt = store.channel.write(Put("a", 1))

    store.coordinator.stop(durable=False)

    assert receipt.level is WRITTEN
    assert store.steps.sync.calls == 0
    with pytest.raises(ClosedError):
        receipt.wait(DURABLE, PATIENCE_S)


def test_a_stop_without_a_sync_still_makes_a_durable_flush_durable(
    open_store: OpenStore,
) -> None:
    clock = FakeClock()
    store = open_store(clock=clock, started=False)
    store.channel.try_write(Put("a", 1))
    flush = store.channel.flush(durable=True)
    store.steps.sync.hold()

    stop = Call(lambda: store.coordinator.stop(durable=False))
    store.steps.sync.wait_held()
    # One of the stop and the thread that stands by syncs, and the other waits for it.
    clock.wait_for_waiters(1)
    assert not stop.is_done

    store.steps.sync.release()
    stop.result()
    assert flush.level is DURABLE


def test_two_stops_at_once_both_wait_for_the_end(open_store: OpenStore) -> None:
    clock = FakeClock()
    store = open_store(clock=clock)
    store.channel.write(Put("a", 1))
    store.steps.sync.hold()
    stops = [Call(store.coordinator.stop) for _ in range(2)]
    store.steps.sync.wait_held()
    clock.wait_for_waiters(1)
    assert not any(stop.is_done for stop in stops)

    store.steps.sync.release()

    for stop in stops:
        stop.result()
    assert store.steps.sync.calls == 1


def test_writes_are_refused_while_the_stop_continues(open_store: OpenStore) -> None:
    store = open_store()
    receipt = store.channel.write(Put("a", 1))
    store.steps.flush.hold()
    stop = Call(store.coordinator.stop)
    store.steps.flush.wait_held()

    with pytest.raises(ClosedError):
        store.channel.write(Put("b", 2))
    assert receipt.level is APPLIED

    store.steps.flush.release()
    stop.result()
    assert store.rows == [Row("a", 0, 1)]


@pytest.mark.parametrize("fails", [False, True])
def test_a_stop_leaves_no_timer(open_store: OpenStore, fails: bool) -> None:
    clock = FakeClock()
    store = open_store(clock=clock)
    store.channel.write(Put("a", 1))
    assert clock.pending_timers == 1
    if fails:
        store.steps.flush.fail_next(OSError("disk full"))
        failing = Call(lambda: store.channel.write(Put("b", 2), WRITTEN))
        assert isinstance(failing.error(), FailedError)

    Call(store.coordinator.stop).thread.join(PATIENCE_S)

    assert clock.pending_timers == 0


@pytest.mark.parametrize("step", ["apply", "flush", "sync"])
def test_a_stop_that_a_thread_holds_up_can_be_repeated(
    open_store: OpenStore, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    store = open_store()
    held = getattr(store.steps, step)
    held.hold()
    working = Call(lambda: store.channel.write(Put("a", 1), DURABLE, PATIENCE_S))
    held.wait_held()
    monkeypatch.setattr(coordinator, "STOP_TIMEOUT_S", 0.05)

    stopping = Call(store.coordinator.stop)

    assert isinstance(stopping.error(), UnavailableError)
    assert held.calls == 1
    held.release()
    with contextlib.suppress(ClosedError, UnknownError):
        working.result()
    store.coordinator.stop()
    assert held.calls == 1


def test_a_coordinator_shows_its_channels_and_that_it_stops(open_store: OpenStore) -> None:
    store = open_store("one", "two")
    before = repr(store.coordinator)

    store.coordinator.stop()

    assert "one" in before
    assert "two" in before
    assert "stopping" not in before
    assert "stopping" in repr(store.coordinator)


def test_a_queued_write_that_a_stop_refuses_is_logged_if_it_is_never_awaited(
    open_store: OpenStore, caplog: pytest.LogCaptureFixture
) -> None:
    store = open_store(started=False)
    store.channel.try_write(Put("a", 1))

    store.coordinator.stop(drain=False)

    def found() -> list[str]:
        messages = [each.getMessage() for each in caplog.records]
        return [each for each in messages if "its receipt was never awaited" in each]

    wait_collected(found)
    assert len(found()) == 1
