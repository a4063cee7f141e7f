"""Type checkers know the exact types of both faces: mypy checks this file."""

import sqlite3
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import assert_type

import strandline as sl
from strandline.log import Hint, Receipts
from strandline.subscriptions import Marker
from strandline.typed import Delivered
from strandline.values import Marks, Offset, Partition, Topic
from strandline.views import Publication


class Count(sl.View[list[int]]):
    def initial(self, partition: int) -> list[int]:  # noqa: ARG002 - All begin alike.
        return [0]

    def apply(self, state: list[int], record: sl.Record) -> None:  # noqa: ARG002 - Counted.
        state[0] += 1


def blocking() -> None:
    with sl.open("memory:") as log:
        assert_type(log, sl.Log)
        assert_type(log.create_topic("t"), Topic)
        assert_type(log.append("t", sl.Event("a")), sl.Receipt)
        assert_type(log.append_many("t", [sl.Event("a")]), Receipts)
        assert_type(log.subscribe("t"), sl.Subscription[sl.Record])
        with log.subscribe("t", markers=True) as marked:
            assert_type(marked, sl.Subscription[sl.Record | Marker])


async def on_loop() -> None:
    async with sl.open("memory:") as log:
        assert_type(log, sl.AsyncLog)
        assert_type(await log.create_topic("t", partitions=1), Topic)
        assert_type(await log.topics(), Sequence[Topic])
        assert_type(await log.marks("t", 0), Marks)
        assert_type(await log.ack("t", "c", 0, 0), Offset)
        receipt = log.append("t", sl.Event("a"))
        assert_type(receipt, sl.AsyncReceipt)
        assert_type(await receipt, sl.AsyncReceipt)
        assert_type((await receipt.wait()).offset, Offset)
        assert_type(await log.append_many("t", [sl.Event("a")]), sl.AsyncReceipts)
        assert_type(log.read("t", 0, 0), AsyncIterator[sl.Record])
        assert_type(await log.read_batches("t", 0, 0), sl.AsyncBatches)
        async with log.watch() as watch:
            assert_type(watch, sl.AsyncWatch)
            assert_type(len(await watch.wait(0)), int)
            assert_type([hint for hint in await watch.wait(0)], list[Hint])  # noqa: C416 - Its type.


async def streams(log: sl.AsyncLog) -> None:
    assert_type(await log.subscribe("t"), sl.AsyncSubscription[sl.Record])
    async with log.subscribe("t") as records:
        assert_type(await records.next(), sl.Record | None)
        assert_type(await anext(records), sl.Record)
        assert_type(await records.assignment.position(0), Offset)
    async with log.subscribe("t", markers=True) as marked:
        assert_type(await anext(marked), sl.Record | Marker)
    async for record in log.subscribe("t"):
        assert_type(record, sl.Record)
    async with log.consumer("t", "billing") as billing:
        assert_type(billing, sl.AsyncConsumer)
        async for delivery in billing:
            assert_type(delivery, sl.Delivery)
            assert_type(await billing.ack(delivery), Offset)
            assert_type(await billing.nack(delivery, delay_s=1.0), bool)
            assert_type(await billing.lag(), Mapping[Partition, int])
    scope = log.scope("ann")
    assert_type(scope, sl.AsyncScope)
    assert_type(await scope.topics(), Sequence[sl.TopicDefinition])
    assert_type(await scope.publish("t", sl.Event("a")), sl.AsyncReceipt)
    async with scope.subscribe("t") as seen:
        assert_type(seen, sl.AsyncScopedSubscription[Delivered])
        assert_type(await anext(seen), Delivered)
    async with scope.subscribe("t", markers=True) as marked_too:
        assert_type(await anext(marked_too), Delivered | Marker)
    assert_type(scope.replay("t", 0), AsyncIterator[Delivered])


async def views(log: sl.AsyncLog) -> None:
    async with sl.LiveView(log, "t", Count()) as view:
        assert_type(view, sl.AsyncLiveView[list[int]])
        assert_type(await view.wait_ready(), None)
        assert_type(view.read(0, len), int | None)
        assert_type(view.read(0, len, default=0), int)
        assert_type(await view.publish(sl.Event("a")), Publication)
    async with sl.Triggers(log) as triggers:
        assert_type(triggers, sl.AsyncTriggers)
        assert_type(await triggers.stop(), None)


def one_of(connection: sqlite3.Connection, number: int) -> str:
    return str(connection.execute("SELECT ?", (number,)).fetchone()[0])


async def transactions(log: sl.AsyncLog) -> None:
    async with log.transaction() as connection:
        assert_type(connection, sl.AsyncConnection)
        assert_type(await connection.execute("SELECT 1"), sl.AsyncCursor)
        assert_type(await connection.run(one_of, 1), str)


async def refused(log: sl.AsyncLog) -> None:
    await log.append("t", {"a": 1})  # type: ignore[arg-type]
    await log.append("t", sl.Event("a"), partitoin=1)  # type: ignore[call-arg]
    await log.marks("t")  # type: ignore[call-arg]
    await log.create_topic("t", partitions="1")  # type: ignore[arg-type]
    log.blocking.append("t", sl.Event("a")).offset + ""  # type: ignore[operator]


def test_this_file_is_checked() -> None:
    blocking_names = {"blocking", "on_loop", "streams", "views", "transactions", "refused"}

    assert blocking_names <= globals().keys()
