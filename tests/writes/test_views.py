"""Views: one point in time, followed by subscribers whose progress others can wait for."""

import asyncio
from collections.abc import Callable

import pytest

from strandline.testing import FakeClock
from strandline.values import (
    ClosedError,
    Durability,
    FailedError,
    InvalidError,
    UnavailableError,
)
from strandline.writes import Monitor
from tests.writes.conftest import OpenStore
from tests.writes.doubles import PATIENCE_S, Call, KeyedSubscriber, KeyedView, Put, Row, Store

APPLIED, WRITTEN, DURABLE = Durability


def subscribed(store: Store) -> KeyedSubscriber:
    subscriber = store.coordinator.subscribe()
    subscriber.initialize()
    return subscriber


def views_of_a_flush(store: Store) -> tuple[KeyedView, KeyedView]:
    """Write a = 42 and b = 43, flush, and return the views of the freeze and of the flush."""
    subscriber = subscribed(store)
    store.steps.flush.hold()
    store.channel.write(Put("a", 42))
    store.channel.write(Put("b", 43))
    store.channel.flush()
    first = subscriber.recv(PATIENCE_S)
    store.steps.flush.release()
    second = subscriber.recv(PATIENCE_S)
    assert first.missed == second.missed == 0
    return first.view, second.view


def test_a_subscriber_receives_a_view_after_a_flush(open_store: OpenStore) -> None:
    """TD25: after write and flush a view arrives."""
    store = open_store()
    subscriber = subscribed(store)
    store.channel.write(Put("a", 1))

    store.channel.flush()

    assert subscriber.recv(PATIENCE_S).view.applied == 1


def test_the_view_after_a_flush_has_the_new_snapshot(open_store: OpenStore) -> None:
    """TD26: the second view's snapshot has the rows."""
    _, after = views_of_a_flush(open_store())

    assert after.snapshot == (Row("a", 0, 42), Row("b", 1, 43))


def test_the_view_after_a_flush_has_what_was_written(open_store: OpenStore) -> None:
    """TD27: the second view's last written delta has a = 42."""
    _, after = views_of_a_flush(open_store())

    assert after.last_written is not None
    assert after.last_written.value[0] == Row("a", 0, 42)


def test_the_view_after_a_flush_knows_its_epochs(open_store: OpenStore) -> None:
    """TD28: the range is exactly the two epochs."""
    _, after = views_of_a_flush(open_store())

    assert after.last_written is not None
    assert after.last_written.epochs == range(1, 3)


def test_a_freeze_is_broadcast(open_store: OpenStore) -> None:
    """TD29: the first view has one frozen delta, with a in it, and nothing current."""
    frozen, _ = views_of_a_flush(open_store())

    assert [stamped.value[0] for stamped in frozen.frozen] == [Row("a", 0, 42)]
    assert frozen.current == {}
    assert frozen.snapshot == ()
    assert frozen.last_written is None


def test_a_written_delta_is_no_longer_frozen(open_store: OpenStore) -> None:
    """TD30: one frozen in the first view, none in the second."""
    frozen, after = views_of_a_flush(open_store())

    assert len(frozen.frozen) == 1
    assert after.frozen == ()
    assert after.last_written is not None
    assert after.version > frozen.version


def test_a_slow_subscriber_gets_the_newest_view_and_a_count(open_store: OpenStore) -> None:
    """TD31: 20 flushes unread: one view with all 20 rows, 39 missed; and it continues."""
    store = open_store()
    subscriber = subscribed(store)
    for value in range(20):
        store.channel.write(Put(f"k{value}", value), WRITTEN, PATIENCE_S)
    store.channel.flush(durable=True).wait(DURABLE, PATIENCE_S)

    update = subscriber.recv(PATIENCE_S)

    assert len(update.view.snapshot) == 20
    assert update.missed == 39
    store.channel.write(Put("later", 1), WRITTEN, PATIENCE_S)
    later = subscriber.recv(PATIENCE_S)
    assert len(later.view.snapshot) == 21
    assert later.missed == 1


def test_an_applied_write_is_in_the_view(open_store: OpenStore) -> None:
    """TD34: after APPLIED, the current part has the value."""
    store = open_store()

    store.channel.write(Put("a", 1)).wait(APPLIED, PATIENCE_S)

    view = store.coordinator.view()
    assert view.current == {"a": 1}
    assert view.applied == 1


def test_a_view_does_not_change_afterwards(open_store: OpenStore) -> None:
    """WD11: later applies, freezes and flushes do not show in a view already taken."""
    store = open_store()
    store.channel.write(Put("a", 1))
    view = store.coordinator.view()

    store.channel.write(Put("a", 2))
    store.channel.write(Put("b", 3), WRITTEN, PATIENCE_S)

    assert view.current == {"a": 1}
    assert view.applied == 1
    assert view.snapshot == ()
    assert store.coordinator.view().applied == 3


def test_a_waiter_woken_by_written_sees_the_new_snapshot(open_store: OpenStore) -> None:
    store = open_store()
    subscriber = subscribed(store)

    for value in range(1, 6):
        store.channel.write(Put("a", value), WRITTEN, PATIENCE_S)

        assert len(store.coordinator.view().snapshot) == value
        assert len(subscriber.recv(0).view.snapshot) == value


def test_written_is_not_reported_before_the_view_is_out(open_store: OpenStore) -> None:
    store = open_store()
    subscriber = subscribed(store)
    store.steps.flush.hold()
    receipt = store.channel.write(Put("a", 1))
    store.channel.flush()
    store.steps.flush.wait_held()
    store.steps.reader.hold()
    store.steps.flush.release()
    store.steps.reader.wait_held()

    assert store.rows == [Row("a", 0, 1)]
    assert receipt.level is APPLIED

    store.steps.reader.release()
    receipt.wait(WRITTEN, PATIENCE_S)
    assert subscriber.recv(0).view.snapshot == (Row("a", 0, 1),)


def test_the_first_view_and_the_position_belong_together(open_store: OpenStore) -> None:
    """A freeze that happens while the first view is taken is in it or is news, never both."""
    store = open_store()
    store.channel.write(Put("a", 1))
    store.steps.reader.hold()
    subscribing = Call(store.coordinator.subscribe)
    store.steps.reader.wait_held()
    written = Call(lambda: store.channel.write(Put("b", 2), WRITTEN, PATIENCE_S))

    store.steps.reader.release()
    subscriber = subscribing.result()
    written.result()

    assert subscriber.initialize().current == {"a": 1}
    assert subscriber.recv(PATIENCE_S).view.snapshot == (Row("a", 0, 1), Row("b", 1, 2))


def test_what_is_in_the_first_view_is_not_news(open_store: OpenStore) -> None:
    store = open_store()
    store.channel.write(Put("a", 1), WRITTEN, PATIENCE_S)
    subscriber = store.coordinator.subscribe()

    first = subscriber.initialize()

    assert first.snapshot == (Row("a", 0, 1),)
    with pytest.raises(UnavailableError):
        subscriber.recv(0)


def test_what_comes_after_the_first_view_is_news_though_it_was_not_looked_at(
    open_store: OpenStore,
) -> None:
    store = open_store()
    subscriber = store.coordinator.subscribe()
    store.channel.write(Put("a", 1), WRITTEN, PATIENCE_S)

    assert subscriber.initialize().snapshot == ()
    assert subscriber.recv(PATIENCE_S).view.snapshot == (Row("a", 0, 1),)


def test_a_subscriber_is_initialized_exactly_once(open_store: OpenStore) -> None:
    subscriber = open_store().coordinator.subscribe()

    with pytest.raises(InvalidError, match="initialize"):
        subscriber.recv(0)
    with pytest.raises(InvalidError, match="initialize"):
        asyncio.run(subscriber.recv_on_loop(0))
    subscriber.initialize()
    with pytest.raises(InvalidError, match="once"):
        subscriber.initialize()


def close(subscriber: KeyedSubscriber, store: Store) -> None:
    subscriber.close()


def stop(subscriber: KeyedSubscriber, store: Store) -> None:
    store.coordinator.stop()


def fail(subscriber: KeyedSubscriber, store: Store) -> None:
    store.steps.sync.fail_next(OSError("lost power"))
    call = Call(lambda: store.channel.flush(durable=True).wait(DURABLE))
    assert isinstance(call.error(), FailedError)


End = Callable[[KeyedSubscriber, Store], None]


@pytest.mark.parametrize(
    ("end", "kind"), [(close, ClosedError), (stop, ClosedError), (fail, FailedError)]
)
def test_a_wait_for_a_view_ends_promptly(
    open_store: OpenStore, end: End, kind: type[Exception]
) -> None:
    """WD7: closing, stopping and failing end every wait on the subscriber and its monitor."""
    clock = FakeClock()
    store = open_store(clock=clock)
    subscriber = subscribed(store)
    monitor = subscriber.monitor
    calls: list[Call[object]] = [
        Call(subscriber.recv),
        Call(lambda: monitor.wait(WRITTEN, 1)),
    ]
    clock.wait_for_waiters(2)
    calls += [
        Call(lambda: asyncio.run(subscriber.recv_on_loop())),
        Call(lambda: asyncio.run(monitor.wait_on_loop(WRITTEN, 1))),
    ]

    end(subscriber, store)

    assert [type(call.error()) for call in calls] == [kind] * 4
    with pytest.raises(kind):
        subscriber.recv(PATIENCE_S)
    with pytest.raises(kind):
        monitor.wait(DURABLE, 1, PATIENCE_S)


def test_a_closed_subscriber_costs_nothing_more(open_store: OpenStore) -> None:
    store = open_store()
    subscriber = subscribed(store)
    subscriber.close()
    read = store.steps.reader.calls

    store.channel.write(Put("a", 1), WRITTEN, PATIENCE_S)

    assert store.steps.reader.calls == read


def test_the_last_view_is_received_before_the_end(open_store: OpenStore) -> None:
    store = open_store()
    subscriber = subscribed(store)
    store.channel.write(Put("a", 1))

    store.coordinator.stop()

    assert subscriber.recv(PATIENCE_S).view.snapshot == (Row("a", 0, 1),)
    with pytest.raises(ClosedError):
        subscriber.recv(PATIENCE_S)


def test_a_subscription_after_the_stop_has_a_first_view_and_ends(open_store: OpenStore) -> None:
    store = open_store()
    store.channel.write(Put("a", 1))
    store.coordinator.stop()

    subscriber = store.coordinator.subscribe()

    assert subscriber.initialize().snapshot == (Row("a", 0, 1),)
    assert list(subscriber) == []


def test_a_subscriber_can_be_iterated_until_the_stop(open_store: OpenStore) -> None:
    store = open_store()
    subscriber = subscribed(store)
    seen = Call(lambda: [update.view.applied for update in subscriber])
    store.channel.write(Put("a", 1), WRITTEN, PATIENCE_S)

    store.coordinator.stop()

    assert seen.result()[-1] == 1


def test_a_subscriber_can_be_iterated_on_a_loop(open_store: OpenStore) -> None:
    store = open_store()
    subscriber = subscribed(store)

    async def follow() -> list[int]:
        return [update.view.applied async for update in subscriber]

    seen = Call(lambda: asyncio.run(follow()))
    store.channel.write(Put("a", 1), WRITTEN, PATIENCE_S)
    store.coordinator.stop()

    assert seen.result()[-1] == 1


def test_a_failure_is_raised_by_the_iteration(open_store: OpenStore) -> None:
    store = open_store()
    subscriber = subscribed(store)
    fail(subscriber, store)

    with pytest.raises(FailedError):
        list(subscriber)


def test_progress_never_goes_back(open_store: OpenStore) -> None:
    """WD8: an older report says nothing new."""
    monitor = open_store().coordinator.subscribe().monitor
    monitor.report(WRITTEN, 5)

    monitor.report(WRITTEN, 3)

    assert monitor.epoch(WRITTEN) == 5
    monitor.wait(WRITTEN, 5, 0)


def test_levels_of_progress_are_independent(open_store: OpenStore) -> None:
    monitor: Monitor = open_store().coordinator.subscribe().monitor

    monitor.report(DURABLE, 7)
    monitor.report(APPLIED, 2)

    assert [monitor.epoch(level) for level in Durability] == [2, 0, 7]
    with pytest.raises(UnavailableError):
        monitor.wait(WRITTEN, 1, 0)
    with pytest.raises(UnavailableError):
        asyncio.run(monitor.wait_on_loop(APPLIED, 3, 0.001))


def test_others_wait_for_the_progress_of_a_subscriber(open_store: OpenStore) -> None:
    clock = FakeClock()
    monitor = open_store(clock=clock).coordinator.subscribe().monitor
    waiting = Call(lambda: monitor.wait(APPLIED, 3))
    looping = Call(lambda: asyncio.run(monitor.wait_on_loop(APPLIED, 2)))
    clock.wait_for_waiters(1)

    monitor.report(APPLIED, 2)
    looping.result()
    assert not waiting.is_done

    monitor.report(APPLIED, 3)
    waiting.result()


def test_a_store_without_views_is_never_read(open_store: OpenStore) -> None:
    store = open_store()

    for value in range(5):
        store.channel.write(Put("a", value), DURABLE, PATIENCE_S)
    store.channel.flush(durable=True).wait(DURABLE, PATIENCE_S)
    store.coordinator.stop()

    assert store.steps.reader.calls == 0
