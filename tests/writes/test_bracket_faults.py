"""What a bracketed drain does when it is refused, full, interrupted or locked out."""

from collections.abc import Callable
from functools import partial

import pytest

from strandline.values import Durability, FailedError, FullError, UnavailableError, UnknownError
from strandline.writes import FlushReason
from strandline.writes.bracketed import BracketedChannel
from tests.writes.conftest import OpenStore
from tests.writes.doubles import PATIENCE_S, Context, Put, Row, SharedRows, Store

APPLIED, WRITTEN, DURABLE = Durability


def test_refused_writes_that_were_queued_are_counted(open_store: OpenStore) -> None:
    store = open_store(shared=SharedRows(), started=False)
    refused = [store.channel.try_write(Put("a", -1)) for _ in range(2)]

    store.coordinator.start()

    assert all(receipt.is_settled for receipt in refused)
    assert store.coordinator.metrics().rejected == 2


def test_a_full_disk_gives_each_queued_write_back_and_a_flush_behind_them_ends(
    open_store: OpenStore,
) -> None:
    shared = SharedRows()
    store = open_store(shared=shared, started=False)
    writes = [Put("a", 1), Put("b", 2)]
    receipts = [store.channel.try_write(write) for write in writes]
    flush = store.channel.flush()
    store.steps.flush.fail_next(FullError("rows", "no room"))

    store.coordinator.start()

    for write, receipt in zip(writes, receipts, strict=True):
        with pytest.raises(FullError) as caught:
            receipt.wait(WRITTEN, PATIENCE_S)
        assert caught.value.write is write
    flush.wait(WRITTEN, PATIENCE_S)
    assert shared.rows == []
    assert store.channel.write(Put("c", 3)).wait(WRITTEN, PATIENCE_S) == 0


def test_a_store_that_was_locked_elsewhere_for_too_long_continues_afterwards(
    open_store: OpenStore,
) -> None:
    shared = SharedRows()
    store = open_store(shared=shared)
    assert store.channel.write(Put("a", 1)).wait(WRITTEN, PATIENCE_S) == 0
    assert shared.lock(store.clock, 0)
    with pytest.raises(UnavailableError):
        store.channel.write(Put("b", 2), WRITTEN, timeout_s=0)
    shared.unlock()

    assert store.channel.write(Put("c", 3)).wait(WRITTEN, PATIENCE_S) == 1


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_interrupted_drain_of_what_is_queued_raises_the_interrupt(
    open_store: OpenStore,
) -> None:
    store = open_store(shared=SharedRows(), started=False)
    receipt = store.channel.try_write(Put("a", 1))
    store.steps.flush.fail_next(SystemExit(1))

    with pytest.raises(SystemExit):
        store.coordinator.start()

    with pytest.raises(UnknownError):
        receipt.wait(APPLIED, PATIENCE_S)


# --- writes that a function of the store takes in one call ---


def stores_in_one_call(
    open_store: OpenStore, shared: SharedRows
) -> tuple[Store, BracketedChannel[Put, int]]:
    """Return a store after its first write, which is measured and takes the usual way."""
    store = open_store(shared=shared)
    store.channel.write(Put("first", 0), WRITTEN, PATIENCE_S)
    assert isinstance(store.channel, BracketedChannel)
    return store, store.channel


def entering(store: Store) -> Callable[[], Context]:
    """Return what enters the bracket of a store without waiting."""
    assert store.bracket is not None
    return partial(store.bracket.enter, 0.0, may_wait=False)


def test_what_is_stored_in_one_call_is_written_and_counted(open_store: OpenStore) -> None:
    shared = SharedRows()
    store, channel = stores_in_one_call(open_store, shared)

    def put(write: Put, context: Context) -> int:
        shared.rows.append(Row(write.key, context.next_sequence, write.value))
        return context.next_sequence

    receipt = channel.store(Put("a", 1), entering(store), put)

    assert receipt is not None
    # Before any wait, which would bring it about.
    assert receipt.level is WRITTEN
    assert receipt.result() == 1
    assert store.coordinator.epoch(WRITTEN) == receipt.epoch() == 2
    assert store.coordinator.metrics().flushes[FlushReason.BRACKET] == 2


def test_an_interrupted_call_of_the_store_raises_the_interrupt_and_leaves_the_bracket(
    open_store: OpenStore,
) -> None:
    shared = SharedRows()
    store, channel = stores_in_one_call(open_store, shared)

    def interrupted(write: Put, context: Context) -> int:
        raise SystemExit(write, context)

    with pytest.raises(SystemExit):
        channel.store(Put("a", 1), entering(store), interrupted)

    with pytest.raises(FailedError):
        store.channel.write(Put("b", 2))
    other = open_store(shared=shared)
    assert other.channel.write(Put("c", 3)).wait(WRITTEN, PATIENCE_S) == 1
