"""The blocking face blocks, also on a thread that runs an event loop, as in a notebook cell."""

import asyncio
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import strandline as sl
from tests.subscriptions.doubles import PATIENCE_S, fill
from tests.threads import on_thread


@pytest.fixture(params=["memory", "file", "sqlite"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[sl.Log]:
    url = "memory:" if request.param == "memory" else f"{request.param}:{tmp_path / 'events'}"
    with sl.open(url) as opened:
        opened.create_topic("orders")
        yield opened


def on_loop(call: Any) -> Any:
    """Make a call on a running event loop."""

    async def make() -> Any:
        return call()

    return asyncio.run(make())


def test_next_waits_for_what_another_thread_appends(log: sl.Log) -> None:
    openings: list[Any] = [
        partial(log.subscribe, "orders", start=sl.LATEST),
        partial(log.scope().subscribe, "orders", start=sl.LATEST),
        partial(log.consumer, "orders", "worker", start=sl.LATEST),
    ]
    for opening in openings:
        stream = opening()
        assert on_loop(lambda stream=stream: stream.next(0.01)) is None
        waiting = on_thread(partial(on_loop, partial(stream.next, PATIENCE_S)))
        fill(log, "orders", 0, 1)

        assert waiting.result(PATIENCE_S) is not None
        stream.close()


def test_what_is_ready_is_had_at_once(log: sl.Log) -> None:
    with log.subscribe("orders") as records:
        assert records.next(0.0) is None
        fill(log, "orders", 0, 2)

        found = [on_loop(lambda timeout_s=each: records.next(timeout_s)) for each in (5.0, 0.0)]

    assert [record.offset for record in found] == [0, 1]


def test_an_append_returns_the_same_on_a_loop_and_off_it(log: sl.Log) -> None:
    best = log.durability_max
    here = log.append("orders", sl.Event("a", 1), durability=best)
    there = on_loop(lambda: log.append("orders", sl.Event("a", 1), durability=best))
    many = on_loop(lambda: log.append_many("orders", [sl.Event("a", 1)] * 2, durability=best))

    assert type(there) is type(here)
    assert (here.level, there.level) == (best, best)
    assert (there.is_settled, there.offset) == (True, 1)
    assert [each.level for each in many] == [best, best]


def test_every_other_call_works_on_a_loop(log: sl.Log) -> None:
    def cell() -> None:
        log.create_topic("more")
        log.append("more", sl.Event("a", 1)).wait(log.durability_max)
        with log.consumer("more", "worker") as worker:
            delivery = worker.next(PATIENCE_S)
            assert delivery is not None
            assert worker.ack(delivery.record) == 1
        log.sync("more", 0)
        log.trim("more", 0, 1)
        log.flush()
        log.drop_topic("more")

    on_loop(cell)

    assert [topic.name for topic in log.topics()] == ["orders"]


def test_a_receipt_of_the_blocking_face_can_be_awaited(log: sl.Log) -> None:
    async def append() -> tuple[sl.Receipt, sl.Receipt]:
        receipt = log.append("orders", sl.Event("a", 1))
        return receipt, await receipt

    receipt, awaited = asyncio.run(append())

    assert receipt is awaited


def test_a_missing_topic_is_created_on_a_loop(tmp_path: Path) -> None:
    for url in ("memory:", f"file:{tmp_path / 'file'}", f"sqlite:{tmp_path / 'sqlite'}"):
        with sl.open(url, auto_create=True) as log:
            assert on_loop(lambda log=log: log.append("new", sl.Event("a")).offset) == 0


def test_triggers_run_beside_a_loop_that_runs_already(log: sl.Log) -> None:
    handled: list[int] = []
    triggers = sl.Triggers(log)

    @triggers.on("orders", name="count")
    def count(event: sl.Event) -> None:
        handled.append(1)
        triggers.request_stop()

    fill(log, "orders", 0, 1)
    on_loop(triggers.run)

    assert handled == [1]
    assert not triggers.is_running


def test_a_view_is_waited_for_on_a_loop(log: sl.Log) -> None:
    class Count(sl.View[list[int]]):
        def initial(self, partition: int) -> list[int]:  # noqa: ARG002 # All begin alike.
            return [0]

        def apply(self, state: list[int], record: sl.Record) -> None:  # noqa: ARG002 # Counted.
            state[0] += 1

    with sl.LiveView(log, "orders", Count()) as view:
        view.reconcile([0])
        on_loop(lambda: view.wait_ready(PATIENCE_S))
        on_loop(lambda: view.publish(sl.Event("a"), timeout_s=PATIENCE_S))
        on_loop(view.rebuild)
        on_loop(lambda: view.wait_ready(PATIENCE_S))

        assert view.read(0, lambda state: state[0]) == 1
