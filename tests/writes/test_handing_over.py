"""Handing over: a thread that leaves a piece of work wakes another to continue with it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from strandline.testing import FakeClock
from strandline.values import Durability, UnavailableError
from strandline.writes import standby
from tests.writes.conftest import OpenStore
from tests.writes.doubles import PATIENCE_S, Call, Put, Step, Store

APPLIED, WRITTEN, DURABLE = Durability


def test_sixteen_producers_share_their_syncs(open_store: OpenStore) -> None:
    store = open_store()
    store.steps.sync.hold()
    first = Call(lambda: store.channel.write(Put("k", 0), DURABLE, PATIENCE_S))
    store.steps.sync.wait_held()

    others = [
        Call(lambda n=n: store.channel.write(Put("k", n), DURABLE, PATIENCE_S))  # type: ignore[misc]
        for n in range(1, 16)
    ]
    wait_until_written(store, 16)
    store.steps.sync.release()

    assert sorted(call.result().epoch() for call in (first, *others)) == list(range(1, 17))
    assert store.steps.sync.calls == 2
    assert store.coordinator.metrics().syncs == 2


def test_producers_share_their_flushes(open_store: OpenStore) -> None:
    store = open_store()
    store.steps.flush.hold()
    calls = [Call(lambda: store.channel.write(Put("k", 1), WRITTEN, PATIENCE_S))]
    store.steps.flush.wait_held()
    calls += [Call(lambda: store.channel.write(Put("k", 2), WRITTEN)) for _ in range(8)]
    store.steps.apply.wait_calls(9)

    store.steps.flush.release()

    assert sorted(call.result().epoch() for call in calls) == list(range(1, 10))
    assert len(store.events) <= 3


def test_a_write_that_met_a_busy_drain_is_taken_by_its_waiter(open_store: OpenStore) -> None:
    store = open_store()
    store.steps.apply.hold()
    first = Call(lambda: store.channel.write(Put("a", 1)))
    store.steps.apply.wait_held()
    second = store.channel.write(Put("a", 2))
    waiting = Call(lambda: second.epoch(PATIENCE_S))

    store.steps.apply.release()

    assert first.result().epoch() == 1
    assert waiting.result() == 2


def test_a_write_that_met_a_busy_drain_is_taken_though_no_caller_waits(
    open_store: OpenStore,
) -> None:
    store = open_store()
    store.steps.apply.hold()
    first = Call(lambda: store.channel.write(Put("a", 1)))
    store.steps.apply.wait_held()

    store.channel.try_write(Put("a", 2))
    store.steps.apply.release()

    first.result()
    store.steps.apply.wait_calls(2)


def waiting_for_written(store: Store) -> Callable[[], object]:
    receipt = store.channel.write(Put("a", 1))
    return lambda: receipt.wait(WRITTEN, PATIENCE_S)


def taking_a_view(store: Store) -> Callable[[], object]:
    return store.coordinator.view


def subscribing(store: Store) -> Callable[[], object]:
    return store.coordinator.subscribe


@pytest.mark.parametrize("work", [waiting_for_written, taking_a_view, subscribing])
def test_a_write_that_met_any_holder_of_the_delta_is_taken_afterwards(
    open_store: OpenStore, work: Callable[[Store], Callable[[], object]]
) -> None:
    store = open_store()
    action = work(store)
    step = store.steps.freeze if work is waiting_for_written else store.steps.reader
    applied = store.steps.apply.calls
    step.hold()
    holder = Call(action)
    step.wait_held()

    store.channel.try_write(Put("b", 2))
    step.release()

    holder.result()
    store.steps.apply.wait_calls(applied + 1)


def test_a_write_that_met_the_interval_is_taken_afterwards(open_store: OpenStore) -> None:
    clock = FakeClock()
    store = open_store(clock=clock)
    store.channel.write(Put("a", 1))
    store.steps.freeze.hold()
    interval = Call(lambda: clock.advance(10))
    store.steps.freeze.wait_held()

    store.channel.try_write(Put("b", 2))
    store.steps.freeze.release()

    interval.result()
    store.steps.apply.wait_calls(2)


def test_a_flusher_that_releases_leadership_wakes_the_next(open_store: OpenStore) -> None:
    clock = FakeClock()
    store = open_store(clock=clock)
    store.steps.flush.hold()
    first = Call(lambda: store.channel.write(Put("a", 1), WRITTEN))
    store.steps.flush.wait_held()
    others = [Call(lambda: store.channel.write(Put("b", 2), WRITTEN)) for _ in range(3)]
    clock.wait_for_waiters(3)

    store.steps.flush.release()

    assert [call.result().level for call in (first, *others)] == [WRITTEN] * 4


def test_a_waiter_that_gives_up_leaves_the_work_to_another(open_store: OpenStore) -> None:
    clock = FakeClock()
    store = open_store(clock=clock)
    store.steps.flush.hold()
    first = Call(lambda: store.channel.write(Put("a", 1), WRITTEN))
    store.steps.flush.wait_held()
    hasty = Call(lambda: store.channel.write(Put("b", 2)).wait(WRITTEN, 1.0))
    clock.wait_for_waiters(1)
    durable_waiters = Call(lambda: store.channel.write(Put("c", 3), WRITTEN))
    clock.wait_for_waiters(2)

    clock.advance(1.0)
    error = hasty.error()
    store.steps.flush.release()

    assert isinstance(error, UnavailableError)
    assert error.write is None
    first.result()
    assert durable_waiters.result().level is WRITTEN


class WatchedClock(FakeClock):
    """A fake clock that can hold one thread when it reads the time."""

    def __init__(self) -> None:
        super().__init__()
        self.asks = Step()
        self.watched: threading.Thread | None = None
        self.asks_free = 0

    def monotonic(self) -> float:
        if threading.current_thread() is self.watched:
            self.asks_free -= 1
            if self.asks_free < 0:
                self.asks.take()
        return super().monotonic()


def test_a_waiter_that_is_woken_to_work_and_is_late_wakes_another(open_store: OpenStore) -> None:
    clock = WatchedClock()
    store = open_store(clock=clock)
    store.steps.flush.hold()
    first = Call(lambda: store.channel.write(Put("a", 1), WRITTEN))
    store.steps.flush.wait_held()
    receipts = [store.channel.write(Put(key, 2)) for key in "bc"]

    def wait_hastily() -> None:
        # The first look sets the deadline, the second comes before it blocks.
        clock.watched, clock.asks_free = threading.current_thread(), 1
        receipts[0].wait(WRITTEN, 1.0)

    clock.asks.hold()
    hasty = Call(wait_hastily)
    clock.asks.wait_held()
    durable_waiters = Call(lambda: receipts[1].wait(WRITTEN))
    clock.wait_for_waiters(1)

    store.steps.flush.release()
    first.result()
    clock.advance(1.0)
    clock.asks.release()

    assert isinstance(hasty.error(), UnavailableError)
    assert durable_waiters.result() == 2


def test_a_write_does_not_overtake_one_that_was_not_taken_yet(open_store: OpenStore) -> None:
    clock = WatchedClock()
    store = open_store(clock=clock)
    store.steps.apply.hold()
    first = Call(lambda: store.channel.write(Put("a", 1)))
    store.steps.apply.wait_held()
    queued = store.channel.try_write(Put("a", 2))

    def wait_slowly() -> None:
        clock.watched, clock.asks_free = threading.current_thread(), 1
        queued.wait(timeout_s=1.0)

    clock.asks.hold()
    woken = Call(wait_slowly)
    clock.asks.wait_held()
    store.steps.apply.release()
    first.result()

    third = Call(lambda: store.channel.write(Put("a", 3))).result()

    assert third.epoch() == 3
    assert queued.epoch() == 2
    clock.asks.release()
    woken.result()


class HeldLoop(asyncio.SelectorEventLoop):
    """An event loop that other threads can be made to wait for while they wake it."""

    def __init__(self) -> None:
        super().__init__()
        self.wakes = Step()

    def call_soon_threadsafe(self, *args: Any, **kwargs: Any) -> asyncio.Handle:  # type: ignore[override]
        self.wakes.take()
        return super().call_soon_threadsafe(*args, **kwargs)


def test_a_durable_flush_behind_a_running_sync_is_not_lost(open_store: OpenStore) -> None:
    """The sync that ends wakes those who need another one, also after it has let go."""
    clock = FakeClock()
    store = open_store(clock=clock)
    loop = HeldLoop()
    receipt = store.channel.write(Put("a", 1), WRITTEN)
    store.steps.sync.hold()
    syncing = Call(lambda: receipt.wait(DURABLE))
    store.steps.sync.wait_held()
    flush = store.channel.flush(durable=True)
    clock.wait_for_waiters(1)
    waiting = Call(lambda: flush.wait(DURABLE))
    clock.wait_for_waiters(2)
    looping = Call(lambda: loop.run_until_complete(receipt.wait_on_loop(DURABLE)))
    wait_for_sleeping_loop(loop)

    # The sync ends, and stands still between waking the others and letting go.
    loop.wakes.hold()
    store.steps.sync.release()
    loop.wakes.wait_held()
    clock.wait_for_waiters(2)
    loop.wakes.release()

    syncing.result()
    waiting.result()
    looping.result()
    loop.close()
    assert store.steps.sync.calls == 2


def test_the_background_thread_ends_when_there_is_no_work(
    open_store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standby, "LINGER_S", 0.0)
    store = open_store(clock=FakeClock())
    before = set(threading.enumerate())
    store.channel.write(Put("a", 1))
    store.channel.flush().wait(WRITTEN, PATIENCE_S)

    for thread in set(threading.enumerate()) - before:
        thread.join(PATIENCE_S)

    assert set(threading.enumerate()) <= before
    store.channel.write(Put("a", 2))
    store.channel.flush(durable=True).wait(DURABLE, PATIENCE_S)
    assert len(store.events) == 2


def test_a_background_flush_does_not_wait_behind_a_slow_sync(open_store: OpenStore) -> None:
    store = open_store()
    store.steps.sync.hold()
    store.channel.write(Put("a", 1))
    store.channel.flush(durable=True)
    store.steps.sync.wait_held()

    store.channel.write(Put("a", 2))
    store.channel.flush()
    store.steps.flush.wait_calls(2)

    assert threading.current_thread() not in store.steps.flush.threads
    assert store.coordinator.epoch(DURABLE) == 0
    store.steps.sync.release()


def wait_until_written(store: Store, epoch: int) -> None:
    for number in range(1, epoch + 1):
        store.steps.apply.wait_calls(number)
    store.coordinator.channel("main").flush().wait(WRITTEN, PATIENCE_S)


def wait_for_sleeping_loop(loop: HeldLoop) -> None:
    """Return once everything that the loop had to do is done."""
    idle = threading.Event()
    asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop).result(PATIENCE_S)
    loop.call_soon_threadsafe(idle.set)
    assert idle.wait(PATIENCE_S)
