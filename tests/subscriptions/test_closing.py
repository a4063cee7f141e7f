"""Nothing is delivered after a close, whatever was read ahead."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import strandline as sl
from strandline.log.local_watch import LocalWatch
from tests.planting import Bug
from tests.subscriptions.doubles import fill


@pytest.fixture(params=["memory", "file", "sqlite"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[sl.Log]:
    url = "memory:" if request.param == "memory" else f"{request.param}:{tmp_path / 'events'}"
    with sl.open(url) as opened:
        opened.create_topic("orders")
        fill(opened, "orders", 0, 10)
        yield opened


def streams(log: sl.Log) -> list[Any]:
    """Return one of each kind, with a delivered record and others read ahead."""
    consumer = log.consumer("orders", "worker")
    subscription = log.subscribe("orders")
    scoped = log.scope().subscribe("orders", start=sl.EARLIEST)
    found: list[Any] = [subscription, consumer, scoped]
    for stream in found:
        assert stream.next(0.0) is not None
    return found


@pytest.mark.parametrize("closed", ["the stream", "the log"])
def test_a_closed_stream_delivers_nothing_more(log: sl.Log, closed: str) -> None:
    for stream in streams(log):
        stream.close() if closed == "the stream" else log.close()

        with pytest.raises(sl.ClosedError):
            stream.next(0.0)
        assert list(stream) == []
        with pytest.raises(sl.ClosedError):
            asyncio.run(on_loop(stream).next(0.0))
        assert asyncio.run(every(on_loop(stream))) == []


def test_a_delivery_on_its_way_does_not_come_after_a_close(log: sl.Log) -> None:
    worker = log.consumer("orders", "worker")

    async def cancel() -> None:
        step = asyncio.ensure_future(sl.AsyncConsumer(worker).next())
        for _ in range(20):
            await asyncio.sleep(0)
        step.cancel()
        await asyncio.wait([step])

    asyncio.run(cancel())
    worker.close()

    with pytest.raises(sl.ClosedError):
        worker.next(0.0)


def on_loop(stream: Any) -> Any:
    """Return the async face of a stream."""
    faces = (sl.AsyncSubscription, sl.AsyncConsumer, sl.AsyncScopedSubscription)
    (face,) = (each for each in faces if each.__name__ == f"Async{type(stream).__name__}")
    return face(stream)


async def every(stream: Any) -> list[Any]:
    """Return what an `async for` gives."""
    return [item async for item in stream]


@pytest.mark.parametrize("partitions", [None, [0]], ids=["a group", "by hand"])
def test_a_closed_consumer_moves_no_cursor_and_takes_no_partition(
    log: sl.Log, partitions: list[int] | None
) -> None:
    closed = log.consumer("orders", "worker", partitions=partitions)
    closed.close()

    with pytest.raises(sl.ClosedError):
        closed.seek(0, 4)
    with pytest.raises(sl.ClosedError):
        closed.assign([0])

    assert log.cursor("orders", "worker", 0) == 0
    with log.consumer("orders", "worker", partitions=[0]) as next_one:
        assert [each.record.offset for each in next_one.fetch(10)] == list(range(10))


def test_a_watch_that_hides_its_end_is_found_out(log: sl.Log) -> None:
    with (
        Bug(
            "a watch hides its end", LocalWatch, "close", "self.is_closed = True", "pass"
        ).planted(),
        pytest.raises(pytest.fail.Exception),
    ):
        test_a_closed_stream_delivers_nothing_more(log, "the log")
