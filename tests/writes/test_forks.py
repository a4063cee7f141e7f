"""Forks: the store belongs to the parent, and the child gets an error."""

import asyncio
import contextlib
import os
import threading
import traceback
from collections.abc import Callable

import pytest

from strandline.values import ClosedError, Durability
from tests.writes.conftest import OpenStore
from tests.writes.doubles import PATIENCE_S, Call, Put, Row, Store

APPLIED, WRITTEN, DURABLE = Durability

# Python warns of what these tests are about.
pytestmark = pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")


def in_child(check: Callable[[], None]) -> str:
    """Fork, run `check` in the child, and return what went wrong there, or nothing."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        problem = report(check)
        os.write(writing, problem.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as pipe:
        problem = pipe.read()
    os.waitpid(child, 0)
    return problem


def report(check: Callable[[], None]) -> str:
    done: list[str] = []

    def run() -> None:
        try:
            check()
        except BaseException:  # noqa: BLE001 - The parent gets it.
            done.append(traceback.format_exc())
        else:
            done.append("")

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(PATIENCE_S)
    return done[0] if done else "the child hangs"


def refuses(call: Callable[[], object]) -> None:
    with pytest.raises(ClosedError, match="fork"):
        call()


@pytest.mark.slow
def test_every_way_in_says_that_the_store_was_forked(open_store: OpenStore) -> None:
    store = open_store()
    store.channel.write(Put("a", 1))

    def check() -> None:
        refuses(lambda: store.channel.write(Put("b", 2)))
        refuses(lambda: store.channel.write(Put("b", 2), DURABLE))
        refuses(lambda: store.channel.try_write(Put("b", 2)))
        refuses(lambda: asyncio.run(store.channel.write_on_loop(Put("b", 2))))
        refuses(store.channel.flush)
        refuses(store.coordinator.start)

    assert in_child(check) == ""
    store.coordinator.stop()
    assert store.rows == [Row("a", 0, 1)]


@pytest.mark.slow
def test_a_wait_in_the_child_says_that_the_store_was_forked(open_store: OpenStore) -> None:
    store = open_store()
    receipt = store.channel.write(Put("a", 1))
    store.channel.pause()
    queued = store.channel.try_write(Put("b", 2))
    flush = store.channel.flush()

    def check() -> None:
        for pending in (queued, flush):
            refuses(pending.wait)
            refuses(lambda pending=pending: asyncio.run(pending.wait_on_loop()))  # type: ignore[misc]
        refuses(lambda: receipt.wait(WRITTEN))
        refuses(lambda: asyncio.run(receipt.wait_on_loop(DURABLE)))

    assert in_child(check) == ""
    store.channel.resume()
    assert queued.epoch(PATIENCE_S) == 2


@pytest.mark.slow
def test_a_subscriber_in_the_child_says_that_the_store_was_forked(open_store: OpenStore) -> None:
    store = open_store()
    subscriber = store.coordinator.subscribe()
    subscriber.initialize()

    def check() -> None:
        refuses(subscriber.recv)
        refuses(lambda: subscriber.monitor.wait(APPLIED, 1))

    assert in_child(check) == ""
    store.channel.write(Put("a", 1), WRITTEN, PATIENCE_S)
    assert subscriber.recv(PATIENCE_S).view.applied == 1


@pytest.mark.slow
@pytest.mark.parametrize("step", ["apply", "flush", "sync"])
def test_a_fork_in_the_middle_of_work_leaves_the_child_no_lock(
    open_store: OpenStore, step: str
) -> None:
    store = open_store()
    held = getattr(store.steps, step)
    held.hold()
    working = Call(lambda: store.channel.write(Put("a", 1), DURABLE, PATIENCE_S))
    held.wait_held()

    def check() -> None:
        refuses(lambda: store.channel.write(Put("b", 2), DURABLE))
        refuses(lambda: store.channel.try_write(Put("b", 2)))
        refuses(store.channel.flush)
        with contextlib.suppress(ClosedError):
            store.coordinator.view()
        store.coordinator.stop()

    assert in_child(check) == ""
    held.release()
    assert working.result().level is DURABLE


@pytest.mark.slow
def test_a_write_that_was_being_applied_at_the_fork_raises_in_the_child(
    open_store: OpenStore,
) -> None:
    store = open_store(started=False)
    receipt = store.channel.try_write(Put("a", 1))
    store.steps.apply.hold()
    starter = Call(store.coordinator.start)
    store.steps.apply.wait_held()

    problem = in_child(lambda: refuses(receipt.wait))

    assert problem == ""
    store.steps.apply.release()
    starter.result()
    assert receipt.epoch(PATIENCE_S) == 1


@pytest.mark.slow
def test_a_stop_in_the_child_leaves_the_store_alone(open_store: OpenStore) -> None:
    store = open_store()
    receipt = store.channel.write(Put("a", 1))

    def check() -> None:
        store.coordinator.stop()
        store.coordinator.stop(timeout_s=1)
        assert store.steps.flush.calls == 0

    assert in_child(check) == ""
    assert receipt.wait(DURABLE, PATIENCE_S) == 0


@pytest.mark.slow
def test_the_child_can_open_a_store_of_its_own(open_store: OpenStore) -> None:
    open_store().channel.write(Put("a", 1), DURABLE, PATIENCE_S)

    def check() -> None:
        store = Store()
        store.coordinator.start()
        assert store.channel.write(Put("b", 2), DURABLE, PATIENCE_S).epoch() == 1
        store.channel.flush(durable=True).wait(DURABLE, PATIENCE_S)
        store.coordinator.stop()
        assert store.rows == [Row("b", 0, 2)]

    assert in_child(check) == ""
