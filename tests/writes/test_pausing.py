"""Pausing: a paused channel holds its writes, and no others."""

import pytest

from strandline.testing import FakeClock
from strandline.values import Durability, UnavailableError
from strandline.writes import Settings
from tests.writes.conftest import OpenStore
from tests.writes.doubles import PATIENCE_S, Call, Put, Row

APPLIED, WRITTEN, DURABLE = Durability


def test_a_paused_channel_waits_while_the_other_continues(open_store: OpenStore) -> None:
    """TD42: a is paused with one write queued, b writes 1,000; a's key comes after resume."""
    store = open_store("a", "b", started=False)
    a, b = store.coordinator.channel("a"), store.coordinator.channel("b")
    a.pause()
    held = a.try_write(Put("held", 1))
    store.coordinator.start()
    for value in range(1_000):
        b.write(Put(f"k{value}", value))

    b.flush().wait(WRITTEN, PATIENCE_S)
    assert len(store.rows) == 1_000
    assert held.level is None

    a.resume()
    assert held.epoch(PATIENCE_S) == 1_001
    a.flush().wait(WRITTEN, PATIENCE_S)
    assert store.rows[-1] == Row("held", 1_000, 1)


def test_pausing_lets_nothing_through(open_store: OpenStore) -> None:
    """WD10: not the first write after the pause, and not one that waits for a level."""
    clock = FakeClock()
    store = open_store(clock=clock)
    store.channel.write(Put("a", 1))
    store.channel.pause()

    held = [store.channel.write(Put("b", 2)), store.channel.try_write(Put("b", 3))]
    waiting = Call(lambda: store.channel.write(Put("b", 4), WRITTEN))
    clock.wait_for_waiters(1)

    assert store.steps.apply.calls == 1
    assert store.channel.depth == 3
    store.channel.resume()
    assert [receipt.epoch(PATIENCE_S) for receipt in held] == [2, 3]
    assert waiting.result().epoch() == 4


def test_pausing_during_a_drain_holds_the_next_write(open_store: OpenStore) -> None:
    """WD10: a drain that is under way does not deliver one more."""
    store = open_store(started=False)
    receipts = [store.channel.try_write(Put("a", value)) for value in (1, 2, 3)]
    store.steps.apply.hold()
    starter = Call(store.coordinator.start)
    store.steps.apply.wait_held()

    store.channel.pause()
    store.steps.apply.release()
    starter.result()

    assert [receipt.level for receipt in receipts] == [APPLIED, None, None]
    store.channel.resume()
    assert [receipt.epoch(PATIENCE_S) for receipt in receipts] == [1, 2, 3]


def test_a_paused_channel_still_flushes_what_it_has_delivered(open_store: OpenStore) -> None:
    """WD10: a flush with no held write ahead of it passes the pause."""
    store = open_store()
    store.channel.write(Put("a", 1))
    store.channel.pause()

    store.channel.flush(durable=True).wait(DURABLE, PATIENCE_S)

    assert store.rows == [Row("a", 0, 1)]


def test_a_flush_behind_a_held_write_waits_for_it(open_store: OpenStore) -> None:
    """WD10: a flush never claims a write that it did not flush."""
    store = open_store()
    store.channel.pause()
    store.channel.try_write(Put("a", 1))

    flush = store.channel.flush()

    with pytest.raises(UnavailableError):
        flush.wait(WRITTEN, 0.001)
    store.channel.resume()
    flush.wait(WRITTEN, PATIENCE_S)
    assert flush.epoch() == 1
    assert store.rows == [Row("a", 0, 1)]


def test_a_paused_channel_accepts_up_to_its_bound(open_store: OpenStore) -> None:
    store = open_store(settings=Settings(queue_capacity=2))
    store.channel.pause()
    for value in (1, 2):
        store.channel.write(Put("a", value))

    with pytest.raises(UnavailableError):
        store.channel.write(Put("a", 3), timeout_s=0.001)

    store.channel.resume()
    assert store.channel.write(Put("a", 3)).epoch(PATIENCE_S) == 3


def test_writes_keep_their_order_across_a_pause(open_store: OpenStore) -> None:
    store = open_store()
    receipts = [store.channel.write(Put("a", 1))]
    store.channel.pause()
    receipts += [store.channel.write(Put("a", value)) for value in (2, 3)]
    store.channel.resume()
    receipts.append(store.channel.write(Put("a", 4)))

    assert [receipt.epoch(PATIENCE_S) for receipt in receipts] == [1, 2, 3, 4]
