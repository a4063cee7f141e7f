"""Failure is fail-stop: the first failed flush or sync ends the coordinator, with its cause."""

import asyncio

import pytest

from strandline.testing import FakeClock
from strandline.values import Durability, FailedError, RejectedError, UnavailableError
from strandline.writes import Settings
from tests.writes.conftest import OpenStore
from tests.writes.doubles import PATIENCE_S, Call, Put, Store

APPLIED, WRITTEN, DURABLE = Durability


def failed(open_store: OpenStore, cause: Exception, clock: FakeClock | None = None) -> Store:
    """Open a store whose first flush has failed with `cause`."""
    store = open_store(clock=clock)
    store.steps.flush.fail_next(cause)
    with pytest.raises(FailedError):
        store.channel.write(Put("a", 1), WRITTEN, PATIENCE_S)
    return store


@pytest.mark.parametrize("step", ["freeze", "flush", "sync"])
def test_a_failure_reaches_every_present_wait(open_store: OpenStore, step: str) -> None:
    """WD1: threads and coroutines that wait when a flush or sync fails all get the cause."""
    store = open_store()
    cause = OSError("disk full")
    getattr(store.steps, step).fail_next(cause)
    store.steps.flush.hold() if step != "freeze" else store.steps.freeze.hold()
    receipt = store.channel.write(Put("a", 1))
    calls = [Call(lambda: receipt.wait(DURABLE)) for _ in range(3)]
    calls += [Call(lambda: asyncio.run(receipt.wait_on_loop(DURABLE))) for _ in range(2)]
    (store.steps.flush if step != "freeze" else store.steps.freeze).wait_held()
    flush = store.channel.flush(durable=True)

    store.steps.release()

    errors = [call.error() for call in calls]
    with pytest.raises(FailedError) as caught:
        flush.wait(DURABLE, PATIENCE_S)
    for error in (*errors, caught.value):
        assert isinstance(error, FailedError)
        assert error.cause is cause


def test_a_failure_reaches_every_later_call(open_store: OpenStore) -> None:
    """WD1: after a failed flush nothing is accepted, and every wait says why."""
    cause = OSError("disk full")
    store = failed(open_store, cause)

    async def on_loop() -> None:
        await store.channel.write_on_loop(Put("b", 1))

    for call in (
        lambda: store.channel.write(Put("b", 1)),
        lambda: store.channel.write(Put("b", 1), DURABLE, PATIENCE_S),
        lambda: store.channel.try_write(Put("b", 1)),
        store.channel.flush,
        lambda: asyncio.run(on_loop()),
        store.coordinator.start,
        store.coordinator.stop,
    ):
        with pytest.raises(FailedError) as caught:
            call()
        assert caught.value.cause is cause
    assert store.steps.apply.calls == 1


def test_a_failure_reaches_later_waits_on_old_receipts(open_store: OpenStore) -> None:
    """WD1: a receipt that had reached a level keeps it; what is out of reach raises."""
    store = open_store()
    old = store.channel.write(Put("a", 1), WRITTEN, PATIENCE_S)
    new = store.channel.write(Put("b", 2))
    cause = OSError("disk full")
    store.steps.flush.fail_next(cause)

    with pytest.raises(FailedError):
        new.wait(WRITTEN, PATIENCE_S)

    assert old.wait(WRITTEN, PATIENCE_S) == 0
    assert new.wait(APPLIED, PATIENCE_S) == 1
    for receipt in (old, new):
        with pytest.raises(FailedError):
            receipt.wait(DURABLE, PATIENCE_S)
        with pytest.raises(FailedError):
            asyncio.run(receipt.wait_on_loop(DURABLE))
    assert store.steps.sync.calls == 0


def test_a_failure_answers_what_is_queued(open_store: OpenStore) -> None:
    """WD1: a write that was accepted and never taken fails with the cause."""
    clock = FakeClock()
    store = open_store("main", "held", clock=clock)
    held = store.coordinator.channel("held")
    held.pause()
    queued = held.try_write(Put("b", 1))
    waiting = Call(lambda: queued.wait(APPLIED))
    clock.wait_for_waiters(1)
    cause = OSError("disk full")
    store.steps.flush.fail_next(cause)

    assert isinstance(Call(lambda: store.channel.write(Put("a", 1), WRITTEN)).error(), FailedError)

    error = waiting.error()
    assert isinstance(error, FailedError)
    assert error.cause is cause
    assert held.depth == 0


def test_a_failure_ends_the_wait_for_room(open_store: OpenStore) -> None:
    """WD1: so does the wait for a full queue."""
    clock = FakeClock()
    store = open_store("main", "held", clock=clock, settings=Settings(queue_capacity=1))
    held = store.coordinator.channel("held")
    held.pause()
    held.try_write(Put("b", 1))
    waiting = Call(lambda: held.write(Put("b", 2)))
    clock.wait_for_waiters(1)
    store.steps.flush.fail_next(OSError("disk full"))

    assert isinstance(Call(lambda: store.channel.write(Put("a", 1), WRITTEN)).error(), FailedError)

    assert isinstance(waiting.error(), FailedError)


def test_a_failure_of_the_interval_is_not_lost(open_store: OpenStore) -> None:
    """WD1: no caller waited for this flush, and still the next call raises."""
    clock = FakeClock()
    store = open_store(clock=clock)
    receipt = store.channel.write(Put("a", 1))
    cause = OSError("disk full")
    store.steps.flush.fail_next(cause)

    clock.advance(10)

    with pytest.raises(FailedError) as caught:
        store.channel.write(Put("b", 2))
    assert caught.value.cause is cause
    assert receipt.level is APPLIED


def test_a_failure_does_not_pile_up_frozen_deltas(open_store: OpenStore) -> None:
    """WD1: the view keeps what was applied, and nothing is added to it."""
    store = failed(open_store, OSError("disk full"))

    for _ in range(3):
        with pytest.raises(FailedError):
            store.channel.write(Put("a", 2))

    view = store.coordinator.view()
    assert [stamped.epochs for stamped in view.frozen] == [range(1, 2)]
    assert view.applied == 1


@pytest.mark.parametrize("step", ["flush", "sync"])
def test_what_failed_is_never_tried_again(open_store: OpenStore, step: str) -> None:
    """WD1: not by a later wait, a later flush, the interval or the stop."""
    clock = FakeClock()
    store = open_store(clock=clock)
    getattr(store.steps, step).fail_next(OSError("lost power"))
    receipt = store.channel.write(Put("a", 1))
    assert isinstance(Call(lambda: receipt.wait(DURABLE)).error(), FailedError)

    assert isinstance(Call(lambda: receipt.wait(DURABLE)).error(), FailedError)
    clock.advance(30)
    assert isinstance(Call(store.coordinator.stop).error(), FailedError)

    assert getattr(store.steps, step).calls == 1
    assert receipt.level is (APPLIED if step == "flush" else WRITTEN)


def test_a_failed_freeze_is_not_repeated(open_store: OpenStore) -> None:
    """WD1: nor is a freeze that failed tried on the same delta again."""
    clock = FakeClock()
    store = open_store(clock=clock)
    store.steps.freeze.fail_next(OSError("no memory"))
    receipt = store.channel.write(Put("a", 1))
    assert isinstance(Call(lambda: receipt.wait(WRITTEN)).error(), FailedError)

    clock.advance(30)
    assert isinstance(Call(store.coordinator.stop).error(), FailedError)

    assert store.steps.freeze.calls == 1


def test_a_flush_on_command_whose_freeze_fails_is_reported(open_store: OpenStore) -> None:
    store = open_store()
    store.channel.write(Put("a", 1))
    cause = OSError("no memory")
    store.steps.freeze.fail_next(cause)

    flush = store.channel.flush()

    with pytest.raises(FailedError) as caught:
        flush.wait(APPLIED, PATIENCE_S)
    assert caught.value.cause is cause


def test_a_queued_write_whose_freeze_fails_raises_the_first_cause(open_store: OpenStore) -> None:
    store = open_store(settings=Settings(flush_bytes=100), started=False)
    receipt = store.channel.try_write(Put("a", 1, size=150))
    behind = store.channel.try_write(Put("b", 2))
    cause = OSError("no memory")
    store.steps.freeze.fail_next(cause)

    store.coordinator.start()

    for each in (receipt, behind):
        with pytest.raises(FailedError) as caught:
            each.wait(APPLIED, PATIENCE_S)
        assert caught.value.cause is cause


def test_the_first_cause_stays(open_store: OpenStore) -> None:
    store = open_store()
    first, second = OSError("first"), OSError("second")
    store.channel.write(Put("a", 1), WRITTEN, PATIENCE_S)
    store.steps.sync.hold()
    syncing = Call(lambda: store.channel.write(Put("a", 2), DURABLE, PATIENCE_S))
    store.steps.sync.wait_held()
    store.steps.flush.fail_next(first)
    with pytest.raises(FailedError):
        store.channel.write(Put("a", 3), WRITTEN, PATIENCE_S)

    store.steps.sync.fail_next(second)
    store.steps.sync.release()

    syncing.error()
    with pytest.raises(FailedError) as caught:
        store.channel.write(Put("a", 4))
    assert caught.value.cause is first


def test_a_refused_write_is_no_failure(open_store: OpenStore) -> None:
    store = open_store()

    with pytest.raises(RejectedError):
        store.channel.write(Put("a", -1), DURABLE, PATIENCE_S)

    store.channel.write(Put("a", 1), DURABLE, PATIENCE_S)
    store.coordinator.stop()


def test_watermarks_do_not_move_after_a_failure(open_store: OpenStore) -> None:
    store = open_store()
    store.channel.write(Put("a", 1), DURABLE, PATIENCE_S)
    store.steps.flush.fail_next(OSError("disk full"))
    with pytest.raises(FailedError):
        store.channel.write(Put("a", 2), WRITTEN, PATIENCE_S)

    with pytest.raises((FailedError, UnavailableError)):
        store.coordinator.stop()

    assert [store.coordinator.epoch(level) for level in Durability] == [2, 1, 1]


def test_a_failed_sync_keeps_the_next_delta_from_being_written(open_store: OpenStore) -> None:
    """WD1: a flush under way ends with the delta it has, whatever failed meanwhile."""
    store = open_store()
    first = store.channel.write(Put("a", 1), WRITTEN, PATIENCE_S)
    store.steps.flush.hold()
    flushing = Call(lambda: store.channel.write(Put("b", 2), WRITTEN, PATIENCE_S))
    store.steps.flush.wait_held()
    store.channel.write(Put("c", 3))
    store.channel.flush()
    store.steps.sync.fail_next(OSError("lost power"))
    with pytest.raises(FailedError):
        first.wait(DURABLE, PATIENCE_S)

    store.steps.flush.release()

    flushing.thread.join(PATIENCE_S)
    assert [event.epochs for event in store.events] == [range(1, 2), range(2, 3)]


@pytest.mark.parametrize("step", ["flush", "sync"])
def test_a_failure_that_the_store_names_itself_ends_the_coordinator(
    open_store: OpenStore, step: str
) -> None:
    store = open_store()
    getattr(store.steps, step).fail_next(FailedError(OSError("a store below has failed")))

    with pytest.raises(FailedError):
        store.channel.write(Put("a", 1), DURABLE, PATIENCE_S)

    with pytest.raises(FailedError):
        store.channel.write(Put("b", 1))
    with pytest.raises(FailedError):
        store.coordinator.stop()
