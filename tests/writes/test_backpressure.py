"""Back-pressure: a full queue refuses or waits, and hands the write back."""

import pytest

from strandline.testing import FakeClock
from strandline.values import ClosedError, Durability, InvalidError, UnavailableError
from strandline.writes import Settings
from tests.writes.conftest import OpenStore
from tests.writes.doubles import PATIENCE_S, Call, Put, Store

APPLIED, WRITTEN, DURABLE = Durability
SMALL = Settings(queue_capacity=2)


def fill(store: Store) -> None:
    for value in (1, 2):
        store.channel.try_write(Put("a", value))


def test_a_full_queue_refuses_a_write(open_store: OpenStore) -> None:
    """TD16: capacity 2, not started: the third try_write is refused."""
    store = open_store(settings=SMALL, started=False)
    fill(store)

    with pytest.raises(UnavailableError, match="full"):
        store.channel.try_write(Put("b", 3))

    assert store.channel.depth == 2
    assert store.coordinator.metrics().backpressure == 1


def test_a_drained_queue_accepts_writes_again(open_store: OpenStore) -> None:
    """TD17: fill, start, wait for APPLIED: a further write is accepted."""
    store = open_store(settings=SMALL, started=False)
    receipts = [store.channel.try_write(Put("a", value)) for value in (1, 2)]

    store.coordinator.start()
    for receipt in receipts:
        receipt.wait(APPLIED, PATIENCE_S)

    assert store.channel.try_write(Put("b", 3)).epoch(PATIENCE_S) == 3


def test_a_write_with_a_timeout_is_accepted_where_there_is_room(open_store: OpenStore) -> None:
    """TD36: a timeout changes nothing when the queue has space."""
    store = open_store(settings=SMALL)

    receipt = store.channel.write(Put("a", 1), timeout_s=0.01)

    assert receipt.epoch(PATIENCE_S) == 1


def test_a_write_times_out_when_the_queue_stays_full(open_store: OpenStore) -> None:
    """TD37: capacity 2 full: unavailable after 10 ms, and not before."""
    clock = FakeClock()
    store = open_store(settings=SMALL, clock=clock, started=False)
    fill(store)
    call = Call(lambda: store.channel.write(Put("b", 3), timeout_s=0.01))
    clock.wait_for_waiters(1)
    clock.advance(0.009)
    assert not call.is_done

    clock.advance(0.001)

    assert isinstance(call.error(), UnavailableError)


def test_a_write_that_timed_out_is_handed_back(open_store: OpenStore) -> None:
    """TD38: the very write is inside the error, and is not applied later."""
    store = open_store(settings=SMALL, started=False)
    fill(store)
    write = Put("b", 3)

    with pytest.raises(UnavailableError) as caught:
        store.channel.write(write, timeout_s=0.01)

    assert caught.value.write is write
    store.coordinator.stop()
    assert {row.key for row in store.rows} == {"a"}


def test_a_refused_write_is_handed_back(open_store: OpenStore) -> None:
    """TD39: the very write is inside the error."""
    store = open_store(settings=SMALL, started=False)
    fill(store)
    write = Put("b", 3)

    with pytest.raises(UnavailableError) as caught:
        store.channel.try_write(write)

    assert caught.value.write is write


def test_a_write_waits_until_the_queue_drains(open_store: OpenStore) -> None:
    """TD40: full, then started within the timeout: accepted."""
    clock = FakeClock()
    store = open_store(settings=SMALL, clock=clock, started=False)
    fill(store)
    call = Call(lambda: store.channel.write(Put("b", 3), timeout_s=5))
    clock.wait_for_waiters(1)

    store.coordinator.start()

    assert call.result().epoch(PATIENCE_S) == 3


def test_a_write_without_a_timeout_waits_for_room(open_store: OpenStore) -> None:
    clock = FakeClock()
    store = open_store(settings=SMALL, clock=clock, started=False)
    fill(store)
    calls = [Call(lambda: store.channel.write(Put("b", 3))) for _ in range(5)]
    clock.wait_for_waiters(5)

    store.coordinator.start()

    assert sorted(call.result().epoch(PATIENCE_S) for call in calls) == [3, 4, 5, 6, 7]


@pytest.mark.parametrize("timeout_s", [None, 0.01])
def test_a_write_after_the_stop_is_refused_as_closed(
    open_store: OpenStore, timeout_s: float | None
) -> None:
    """TD41: a write with a timeout gets ClosedError after the stop."""
    store = open_store(settings=SMALL)
    store.coordinator.stop()

    with pytest.raises(ClosedError):
        store.channel.write(Put("a", 1), timeout_s=timeout_s)


def test_a_write_that_waits_for_room_raises_at_the_stop(open_store: OpenStore) -> None:
    clock = FakeClock()
    store = open_store(settings=SMALL, clock=clock, started=False)
    fill(store)
    call = Call(lambda: store.channel.write(Put("b", 3)))
    clock.wait_for_waiters(1)

    store.coordinator.stop(drain=False)

    assert isinstance(call.error(), ClosedError)


def test_a_wait_that_times_out_takes_a_queued_write_back(open_store: OpenStore) -> None:
    store = open_store(started=False)
    write = Put("a", 1)
    receipt = store.channel.try_write(write)

    with pytest.raises(UnavailableError) as caught:
        receipt.wait(APPLIED, 0.001)

    assert caught.value.write is write
    assert store.channel.depth == 0
    store.coordinator.stop()
    assert store.rows == []
    with pytest.raises(UnavailableError):
        receipt.wait(APPLIED, PATIENCE_S)


def test_a_wait_that_times_out_leaves_a_taken_write_alone(open_store: OpenStore) -> None:
    store = open_store()
    store.steps.flush.hold()
    receipt = store.channel.write(Put("a", 1))
    store.channel.flush()
    store.steps.flush.wait_held()

    with pytest.raises(UnavailableError) as caught:
        receipt.wait(WRITTEN, 0.001)

    assert caught.value.write is None
    store.steps.flush.release()
    assert receipt.wait(WRITTEN, PATIENCE_S) == 0


def test_a_wait_that_times_out_while_its_write_is_applied_does_not_hand_it_back(
    open_store: OpenStore,
) -> None:
    store = open_store(started=False)
    receipt = store.channel.try_write(Put("a", 1))
    store.steps.apply.hold()
    starter = Call(store.coordinator.start)
    store.steps.apply.wait_held()

    with pytest.raises(UnavailableError) as caught:
        receipt.wait(APPLIED, 0.001)

    assert caught.value.write is None
    store.steps.apply.release()
    starter.result()
    assert receipt.epoch(PATIENCE_S) == 1


def test_a_flush_that_one_caller_gave_up_on_still_serves_the_other(open_store: OpenStore) -> None:
    store = open_store(started=False)
    store.channel.try_write(Put("a", 1))
    hasty, durable_waiters = store.channel.flush(), store.channel.flush()

    with pytest.raises(UnavailableError):
        hasty.wait(WRITTEN, 0.001)
    store.coordinator.start()

    assert durable_waiters.epoch(PATIENCE_S) == 1
    durable_waiters.wait(WRITTEN, PATIENCE_S)
    assert len(store.events) == 1


@pytest.mark.parametrize("channels", [("a", "b", "a"), ("a", "a")])
def test_channels_of_one_name_are_refused(channels: tuple[str, ...]) -> None:
    """WD9: a name given twice is an InvalidError that names it."""
    with pytest.raises(InvalidError, match="each once"):
        Store(*channels)


@pytest.mark.parametrize(
    "name",
    ["queue_capacity", "flush_interval_s", "flush_bytes", "frozen_bytes_max", "bracket_timeout_s"],
)
@pytest.mark.parametrize("value", [0, -1, float("nan")])
def test_settings_that_cannot_work_are_refused(name: str, value: float) -> None:
    """WD9: a capacity of 0 is an InvalidError that names it."""
    with pytest.raises(InvalidError, match=name):
        Settings(**{name: value})  # type: ignore[arg-type]


def test_an_unknown_channel_is_refused_by_name(open_store: OpenStore) -> None:
    """WD9: asking for a channel that is not there names those that are."""
    store = open_store("one", "two")

    with pytest.raises(InvalidError, match=r"channel='three'.*'one', 'two'"):
        store.coordinator.channel("three")


BACKLOG = Settings(queue_capacity=2, flush_bytes=100, frozen_bytes_max=250)


def backlogged(open_store: OpenStore) -> Store:
    """Three deltas of 100 are frozen behind a flush that is held, and the queue is full."""
    store = open_store(settings=BACKLOG)
    store.steps.flush.hold()
    for value in range(3):
        store.channel.write(Put("a", value, size=100))
    store.steps.flush.wait_held()
    for value in (3, 4):
        store.channel.try_write(Put("a", value, size=100))
    return store


def test_a_slow_flusher_pushes_back_by_bytes(open_store: OpenStore) -> None:
    """WD13: with too much frozen, writes queue up and are then refused at once."""
    store = backlogged(open_store)

    with pytest.raises(UnavailableError):
        store.channel.try_write(Put("a", 5, size=100))

    assert store.steps.apply.calls == 3
    assert store.coordinator.view().applied == 3


def test_writes_continue_when_a_slow_flusher_has_caught_up(open_store: OpenStore) -> None:
    """WD13: what was held back is taken as soon as enough has been written."""
    store = backlogged(open_store)
    waiting = Call(lambda: store.channel.write(Put("a", 5), WRITTEN, PATIENCE_S))

    store.steps.flush.release()

    assert waiting.result().epoch() == 6
    assert [row.value for row in store.rows] == list(range(6))


def test_a_stop_can_time_out_behind_a_slow_flusher(open_store: OpenStore) -> None:
    """WD13: stop says that it is not finished, continues, and can be waited for again."""
    store = backlogged(open_store)

    with pytest.raises(UnavailableError, match="still stopping"):
        store.coordinator.stop(timeout_s=0.001)
    with pytest.raises(ClosedError):
        store.channel.try_write(Put("b", 1))

    store.steps.flush.release()
    store.coordinator.stop(timeout_s=PATIENCE_S)
    assert [row.value for row in store.rows] == list(range(5))
    assert store.flusher.synced == 5
