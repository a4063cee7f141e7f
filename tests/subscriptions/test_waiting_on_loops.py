"""No call waits on a thread that runs an event loop."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

import strandline as sl
from strandline.subscriptions import subscription
from tests.subscriptions.doubles import fill


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


def test_next_is_refused_where_it_would_wait(log: sl.Log) -> None:
    streams: list[Any] = [log.subscribe("orders"), log.scope().subscribe("orders")]
    streams.append(log.consumer("orders", "worker"))
    for stream in streams:
        for timeout_s in (None, 0.01):
            with pytest.raises(sl.InvalidError, match="arrived"):
                on_loop(lambda stream=stream, timeout_s=timeout_s: stream.next(timeout_s))
        assert on_loop(lambda stream=stream: stream.next(0)) is None
        stream.close()


def test_what_is_ready_is_had_without_a_wait(log: sl.Log) -> None:
    with log.subscribe("orders") as records:
        assert records.next(0.0) is None
        fill(log, "orders", 0, 2)

        found = [on_loop(lambda timeout_s=each: records.next(timeout_s)) for each in (5.0, 0.0)]

    assert [record.offset for record in found] == [0, 1]


@pytest.mark.parametrize("log", ["file", "sqlite"], indirect=True)
def test_a_receipt_is_not_waited_for_on_a_loop(log: sl.Log) -> None:
    async def append() -> None:
        receipt = log.append("orders", sl.Event("a", 1), durability=sl.Durability.DURABLE)
        with pytest.raises(sl.InvalidError, match="await"):
            receipt.wait()
        await receipt
        assert receipt.wait(sl.Durability.DURABLE) is not None
        receipts = log.append_many(
            "orders", [sl.Event("a", 1)] * 2, durability=sl.Durability.DURABLE
        )
        with pytest.raises(sl.InvalidError, match="await"):
            receipts.wait()
        await receipts

    asyncio.run(append())


def test_a_subscription_that_knows_no_loop_is_found_out(log: sl.Log) -> None:
    with (
        mock.patch.object(subscription, "is_on_loop", return_value=False),
        pytest.raises(pytest.fail.Exception),
        log.subscribe("orders") as records,
        pytest.raises(sl.InvalidError, match="arrived"),
    ):
        on_loop(lambda: records.next(0.01))
