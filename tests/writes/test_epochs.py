"""Epochs: every write gets one, in order, and the ranges of flushes tile them."""

import pytest

from strandline.testing import FakeClock
from strandline.values import ConflictError, Durability, RejectedError
from tests.writes.conftest import OpenStore
from tests.writes.doubles import PATIENCE_S, Call, Put, Row

APPLIED, WRITTEN, DURABLE = Durability


def test_epochs_rise_from_one(open_store: OpenStore) -> None:
    """TD1: three writes get strictly rising epochs, and the first is 1."""
    store = open_store()

    receipts = [store.channel.write(Put("a", value)) for value in (1, 2, 3)]

    assert [receipt.epoch(PATIENCE_S) for receipt in receipts] == [1, 2, 3]


def test_writes_of_a_channel_are_applied_in_order(open_store: OpenStore) -> None:
    """TD2: a = 1, 2, 3 makes one flush, in which a is 3 with sequence 2."""
    store = open_store()
    for value in (1, 2, 3):
        store.channel.write(Put("a", value))

    store.channel.flush().wait(WRITTEN, PATIENCE_S)

    assert [event.rows for event in store.events] == [(Row("a", 2, 3),)]


def test_queued_writes_are_applied_in_order_too(open_store: OpenStore) -> None:
    store = open_store(started=False)
    receipts = [store.channel.try_write(Put("a", value)) for value in (1, 2, 3)]

    store.coordinator.start()

    assert [receipt.epoch(PATIENCE_S) for receipt in receipts] == [1, 2, 3]
    assert [receipt.wait() for receipt in receipts] == [0, 1, 2]


def test_a_write_reaches_applied_as_soon_as_it_is_accepted(open_store: OpenStore) -> None:
    """TD3: waiting for APPLIED succeeds after each write, and the mark follows."""
    store = open_store()

    for value in (1, 2, 3):
        receipt = store.channel.write(Put("a", value))

        assert receipt.wait(APPLIED, PATIENCE_S) == value - 1
        assert receipt.level is APPLIED
        assert store.coordinator.epoch(APPLIED) == value


def test_an_epoch_counts_as_applied_only_after_apply_has_returned(open_store: OpenStore) -> None:
    store = open_store()
    store.steps.apply.hold()
    call = Call(lambda: store.channel.write(Put("a", 1)))
    store.steps.apply.wait_held()

    assert store.coordinator.epoch(APPLIED) == 0
    assert store.coordinator.metrics().applied == 0

    store.steps.apply.release()
    assert call.result().epoch() == 1
    assert store.coordinator.epoch(APPLIED) == 1


@pytest.mark.parametrize("started", [True, False])
def test_a_refused_write_has_its_epoch_and_cause(open_store: OpenStore, started: bool) -> None:
    """TD4: epoch() of a write that apply refused raises with epoch 1 and the text."""
    store = open_store(started=started)
    receipt = store.channel.write(Put("a", -1))
    store.coordinator.start()

    with pytest.raises(RejectedError, match="apply error") as caught:
        receipt.epoch(PATIENCE_S)

    assert caught.value.epoch == 1
    assert isinstance(caught.value.__cause__, ValueError)
    assert receipt.level is None
    assert receipt.error is caught.value


def test_a_refusal_in_our_own_words_reaches_the_caller_as_it_is(open_store: OpenStore) -> None:
    store = open_store()
    refusal = ConflictError("another writer was first")
    store.steps.apply.fail_next(refusal)

    receipt = store.channel.write(Put("a", 1))

    with pytest.raises(ConflictError) as caught:
        receipt.wait(APPLIED, PATIENCE_S)
    assert caught.value is refusal


@pytest.mark.parametrize("level", list(Durability))
def test_a_refused_write_is_an_error_at_every_level(
    open_store: OpenStore, level: Durability
) -> None:
    """WD5: written, for a refused epoch, is an error and no success."""
    store = open_store()
    store.channel.write(Put("a", 1))
    refused = store.channel.write(Put("b", -1))
    store.channel.flush(durable=True).wait(DURABLE, PATIENCE_S)

    with pytest.raises(RejectedError):
        refused.wait(level, PATIENCE_S)

    with pytest.raises(RejectedError):
        store.channel.write(Put("b", -1), level, PATIENCE_S).wait(level, PATIENCE_S)


def test_a_delta_of_refused_writes_only_is_not_flushed(open_store: OpenStore) -> None:
    """WD5: nothing is frozen, flushed or broadcast for refused writes; the mark passes them."""
    store = open_store()
    subscriber = store.coordinator.subscribe()
    subscriber.initialize()
    for _ in range(3):
        store.channel.write(Put("a", -1))

    flush = store.channel.flush()
    flush.wait(WRITTEN, PATIENCE_S)

    assert flush.epoch() == 3
    assert store.coordinator.epoch(WRITTEN) == 3
    assert store.steps.freeze.calls == store.steps.flush.calls == 0
    assert store.channel.write(Put("a", 1), WRITTEN, PATIENCE_S).epoch() == 4
    assert [event.epochs for event in store.events] == [range(1, 5)]
    assert subscriber.recv(PATIENCE_S).view.version > 0


def test_refused_writes_do_not_arm_the_timer(open_store: OpenStore) -> None:
    """WD5: the interval has nothing to flush after refused writes."""
    clock = FakeClock()
    store = open_store(clock=clock)

    store.channel.write(Put("a", -1))

    assert clock.pending_timers == 0


def test_nothing_of_a_refused_write_stays_behind(open_store: OpenStore) -> None:
    """WD6: after a refused write, view and storage hold exactly the others."""
    store = open_store()
    store.channel.write(Put("a", 1))
    store.channel.write(Put("a", -5))
    store.channel.write(Put("b", 2))

    view = store.coordinator.view()
    store.channel.flush().wait(WRITTEN, PATIENCE_S)

    assert view.current == {"a": 1, "b": 2}
    assert store.rows == [Row("a", 0, 1), Row("b", 1, 2)]


def test_a_flush_knows_its_epochs(open_store: OpenStore) -> None:
    """TD21: three writes are flushed as [1, 4)."""
    store = open_store()
    for key in "abc":
        store.channel.write(Put(key, 1))

    store.channel.flush().wait(WRITTEN, PATIENCE_S)

    assert [event.epochs for event in store.events] == [range(1, 4)]


def test_the_epochs_of_flushes_are_contiguous(open_store: OpenStore) -> None:
    """TD22: two writes, then one: [1, 3) and [3, 4)."""
    store = open_store()
    store.channel.write(Put("a", 1))
    store.channel.write(Put("b", 2))
    store.channel.flush().wait(WRITTEN, PATIENCE_S)

    store.channel.write(Put("c", 3))
    store.channel.flush().wait(WRITTEN, PATIENCE_S)

    assert [event.epochs for event in store.events] == [range(1, 3), range(3, 4)]


def test_a_flush_begins_at_its_first_write_and_ends_after_its_last(open_store: OpenStore) -> None:
    """TD23: the range starts at the first epoch and ends one past the last."""
    store = open_store()
    receipts = [store.channel.write(Put(key, 1)) for key in "abcd"]
    epochs = [receipt.epoch(PATIENCE_S) for receipt in receipts]

    store.channel.flush().wait(WRITTEN, PATIENCE_S)

    assert store.events[0].epochs == range(epochs[0], epochs[-1] + 1)


def test_refused_epochs_belong_to_the_flush_around_them(open_store: OpenStore) -> None:
    """TD23: a refused epoch leaves no hole between the ranges."""
    store = open_store()
    for value in (1, -1, -1):
        store.channel.write(Put("a", value))
    store.channel.flush().wait(WRITTEN, PATIENCE_S)

    for value in (-1, 2):
        store.channel.write(Put("a", value))
    store.channel.flush().wait(WRITTEN, PATIENCE_S)

    assert [event.epochs for event in store.events] == [range(1, 4), range(4, 6)]


def test_the_context_outlives_a_flush(open_store: OpenStore) -> None:
    """TD24: one key in two batches gets sequences 0 and 1."""
    store = open_store()
    for value in (1, 2):
        store.channel.write(Put("a", value))
        store.channel.flush().wait(WRITTEN, PATIENCE_S)

    assert store.rows == [Row("a", 0, 1), Row("a", 1, 2)]


def test_channels_share_one_order_and_one_flush(open_store: OpenStore) -> None:
    """TD35: a through one channel, b through two, c through one; one flush has them all."""
    store = open_store("one", "two")
    one, two = store.coordinator.channel("one"), store.coordinator.channel("two")
    one.write(Put("a", 10))
    two.write(Put("b", 20))
    one.write(Put("c", 30))

    one.flush().wait(WRITTEN, PATIENCE_S)

    assert store.rows == [Row("a", 0, 10), Row("b", 1, 20), Row("c", 2, 30)]


def test_a_receipt_names_its_write_across_restarts(open_store: OpenStore) -> None:
    """WD12: epochs begin again at 1, but (incarnation, epoch) is never given twice."""
    first, second = open_store(), open_store()

    ids = [
        store.channel.write(Put("a", value)).id(PATIENCE_S)
        for store in (first, second)
        for value in (1, 2)
    ]

    assert [name.epoch for name in ids] == [1, 2, 1, 2]
    assert ids[0].incarnation == ids[1].incarnation == first.coordinator.incarnation
    assert len(set(ids)) == 4
    assert ids == sorted(ids)


def test_full_channels_are_served_in_turn(open_store: OpenStore) -> None:
    """WD14: a channel with many writes does not block one with few."""
    store = open_store("much", "some", "little", started=False)
    waiting = {
        name: [store.coordinator.channel(name).try_write(Put(name, n)) for n in range(count)]
        for name, count in (("much", 50), ("some", 5), ("little", 1))
    }

    store.coordinator.start()

    epochs = {name: [r.epoch(PATIENCE_S) for r in waiting[name]] for name in waiting}
    assert epochs["little"][-1] <= 3
    assert epochs["some"][-1] <= 15
    assert epochs["much"] == sorted(epochs["much"])


def test_a_producer_that_never_rests_does_not_keep_a_drain_for_ever(open_store: OpenStore) -> None:
    """WD14: one round serves what is queued when it begins, and hands on what comes later."""
    store = open_store(started=False)
    first = [store.channel.try_write(Put("a", value)) for value in range(5)]
    store.steps.apply.hold()
    starter = Call(store.coordinator.start)
    store.steps.apply.wait_held()

    later = [store.channel.try_write(Put("b", value)) for value in range(20)]
    store.steps.apply.release()

    starter.result()
    assert [receipt.epoch(PATIENCE_S) for receipt in first + later] == list(range(1, 26))
    assert store.steps.apply.threads.count(starter.thread) <= 7


def test_a_receipt_says_how_far_its_write_is(open_store: OpenStore) -> None:
    store = open_store(started=False)
    receipt = store.channel.try_write(Put("a", 1))
    refused = store.channel.try_write(Put("a", -1))
    queued = repr(receipt)

    store.coordinator.start()
    applied = repr(receipt)
    receipt.wait(WRITTEN, PATIENCE_S)

    assert [queued, applied] == ["Receipt(epoch=0, queued)", "Receipt(epoch=1, applied)"]
    assert repr(receipt) == "Receipt(epoch=1, written)"
    assert repr(refused).startswith("Receipt(epoch=2, ")
    with pytest.raises(RejectedError):
        refused.wait()
