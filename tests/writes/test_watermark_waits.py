"""Waiting for an epoch without a receipt, and reading through a channel."""

import asyncio

import pytest

from strandline.testing import FakeClock
from strandline.values import Durability, InvalidError, UnavailableError
from tests.writes.conftest import OpenStore
from tests.writes.doubles import Call, Put

APPLIED, WRITTEN, DURABLE = Durability


def test_an_epoch_is_waited_for_at_each_level(open_store: OpenStore) -> None:
    """D12, D25."""
    store = open_store()
    epoch = store.channel.write(Put("a", 1)).epoch()

    store.coordinator.wait(epoch, APPLIED)
    store.coordinator.wait(epoch, WRITTEN)
    written = store.coordinator.epoch(WRITTEN), store.coordinator.epoch(DURABLE)
    store.coordinator.wait(epoch, DURABLE)

    assert written == (epoch, 0)
    assert store.coordinator.epoch(DURABLE) == epoch
    store.coordinator.wait(0, DURABLE)


def test_an_epoch_is_awaited_on_a_loop(open_store: OpenStore) -> None:
    """D12, D25."""
    store = open_store()
    epoch = store.channel.write(Put("a", 1)).epoch()

    asyncio.run(store.coordinator.wait_on_loop(epoch, DURABLE))

    assert store.coordinator.epoch(DURABLE) == epoch


@pytest.mark.parametrize("epoch", [2, -1, 1.0, True, None])
def test_an_epoch_that_no_write_has_is_refused(open_store: OpenStore, epoch: int) -> None:
    store = open_store()
    store.channel.write(Put("a", 1))

    with pytest.raises(InvalidError, match="no write has this epoch"):
        store.coordinator.wait(epoch, WRITTEN)
    with pytest.raises(InvalidError, match="no write has this epoch"):
        asyncio.run(store.coordinator.wait_on_loop(epoch, WRITTEN))


def test_waiting_for_an_epoch_ends_at_its_deadline(open_store: OpenStore) -> None:
    clock = FakeClock()
    store = open_store(clock=clock)
    store.steps.flush.hold()
    writing = Call(lambda: store.channel.write(Put("a", 1), WRITTEN))
    store.steps.flush.wait_held()

    with pytest.raises(UnavailableError, match="wait again"):
        store.coordinator.wait(1, WRITTEN, timeout_s=0)

    store.steps.flush.release()
    writing.result()
    store.coordinator.wait(1, WRITTEN, timeout_s=0)


def test_a_channel_gives_the_view_and_follows_it(open_store: OpenStore) -> None:
    """D6, D22."""
    store = open_store("one", "two")
    one, two = store.coordinator.channel("one"), store.coordinator.channel("two")
    subscriber = two.subscribe()
    subscriber.initialize()

    one.write(Put("a", 1), WRITTEN)

    assert one.view().applied == two.view().applied == store.coordinator.view().applied == 1
    assert subscriber.recv(0).view.applied == 1
