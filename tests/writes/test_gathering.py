"""Writers that continue at once share a bracket, instead of taking turns in two halves."""

import pytest

from strandline.testing import FakeClock
from strandline.values import Durability
from strandline.writes import WriteReceipt
from tests.writes.conftest import OpenStore
from tests.writes.doubles import PATIENCE_S, Call, Put, SharedRows, Store

WRITTEN = Durability.WRITTEN


def _write(store: Store, key: str) -> "Call[WriteReceipt[int]]":
    return Call(lambda: store.channel.write(Put(key, 1), WRITTEN, PATIENCE_S))


def _after_three_at_once(open_store: OpenStore, clock: FakeClock, took_s: float) -> Store:
    """Return a store whose last bracket answered three writers, and took so long."""
    store = open_store(shared=SharedRows(), clock=clock, gathers=True)
    store.steps.flush.hold()
    first = _write(store, "first")
    store.steps.flush.wait_held()
    others = [_write(store, key) for key in ("a", "b", "c")]
    clock.wait_for_waiters(3)
    store.steps.enter.hold()
    store.steps.flush.release()
    store.steps.enter.wait_held()
    clock.advance(took_s)
    store.steps.enter.release()
    for call in (first, *others):
        call.result()
    assert _sizes(store) == [1, 3]
    return store


def _sizes(store: Store) -> list[int]:
    return [len(event.rows) for event in store.events]


def test_a_bracket_has_the_next_writes_of_all_that_the_last_one_answered(
    open_store: OpenStore,
) -> None:
    clock = FakeClock()
    store = _after_three_at_once(open_store, clock, 0.004)

    calls = []
    for number, key in enumerate(("d", "e", "f"), 1):
        clock.wait_for_waiters(number - 1)
        calls.append(_write(store, key))

    assert [call.result().wait() for call in calls] == [4, 5, 6]
    assert _sizes(store) == [1, 3, 3]


@pytest.mark.parametrize(("took_s", "waits_s"), [(0.004, 0.004), (3.0, 0.005)])
def test_a_writer_that_stays_away_is_not_waited_for_long_or_again(
    open_store: OpenStore, took_s: float, waits_s: float
) -> None:
    clock = FakeClock()
    store = _after_three_at_once(open_store, clock, took_s)

    alone = _write(store, "d")
    clock.wait_for_waiters(1)
    clock.advance(waits_s - 0.001)
    assert _sizes(store) == [1, 3]
    clock.advance(0.001)
    alone.result()
    _write(store, "e").result()

    assert _sizes(store) == [1, 3, 1, 1]
    assert clock.monotonic() == pytest.approx(took_s + waits_s)


def test_a_writer_by_itself_is_never_held_up(open_store: OpenStore) -> None:
    clock = FakeClock()
    store = open_store(shared=SharedRows(), clock=clock, gathers=True)

    for number in range(5):
        assert _write(store, "a").result().wait() == number

    assert _sizes(store) == [1] * 5
