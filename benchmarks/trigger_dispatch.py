"""`trigger.dispatch.*`: how many functions that do nothing a runner calls in a second."""

import asyncio
import queue
import threading
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

import strandline as sl
from benchmarks.entry import Contender, Entry, now
from benchmarks.producing import fresh
from benchmarks.sizes import Sizes

TOPIC = "orders"
PIECE = 1_000

_PLACES = {"memory": "memory:", "file": "file:{path}"}
_CONCURRENCIES = {"one": 1, "eight": 8}


class _Way(NamedTuple):
    """A kind of functions, and the bar for calls in a second."""

    name: str
    is_async: bool
    goal: int

    @property
    def bar(self) -> str:
        return f"{self.goal:,}/s"


_WAYS = (_Way("sync", False, 20_000), _Way("async", True, 40_000))


def entries(sizes: Sizes) -> tuple[Entry, ...]:
    """Return the entries: functions that block and `async` ones, beside workers on a queue.

    A queue shows the cost of calls and hand-overs alone: it stores nothing, and has no cursor,
    order by key, retries or counts. So there is no bar for it.
    """
    return tuple(
        Entry(
            name=f"trigger.dispatch.{way.name}.{number}.{place}",
            unit="records/s",
            contenders=partial(
                _contenders, sizes.triggered, way, _CONCURRENCIES[number], _PLACES[place]
            ),
            bars={way.bar: 1.0},
        )
        for way in _WAYS
        for number in _CONCURRENCIES
        for place in _PLACES
    )


def _contenders(
    records: int, way: _Way, concurrency: int, url: str, scratch: Path
) -> Mapping[str, Contender]:
    queues = _loop_queue if way.is_async else _thread_queue
    function = _handle_async if way.is_async else _handle
    return {
        "ours": partial(_triggered, records, function, concurrency, url, scratch),
        "queue": partial(queues, records, concurrency),
        way.bar: lambda: float(way.goal),
    }


def _handle(_: sl.Record | sl.Event) -> None:
    pass


async def _handle_async(_: sl.Record | sl.Event) -> None:
    pass


def _triggered(
    records: int, function: Callable[..., object], concurrency: int, url: str, scratch: Path
) -> float:
    """Return how many records a second a new trigger handles, until each of them is acked."""
    with fresh(scratch) as path, sl.open(url.format(path=path)) as log:
        log.create_topic(TOPIC)
        for start in range(0, records, PIECE):
            numbers = range(start, min(start + PIECE, records))
            events = [sl.Event("placed", {"number": number}) for number in numbers]
            log.append_many(TOPIC, events)
        triggers = sl.Triggers(log)
        triggers.on(TOPIC, name="billing", concurrency=concurrency)(function)
        pause = threading.Event()
        started = now()
        with triggers:
            while log.cursor(TOPIC, "billing", 0) != records:
                pause.wait(0.002)
            rate = records / (now() - started)
        assert triggers.metrics()["billing"].handled == records
        return rate


def _thread_queue(records: int, concurrency: int) -> float:
    """Threads that call the function for what they get from one `queue.Queue`."""
    waiting: queue.Queue[sl.Event | None] = queue.Queue()
    event = sl.Event("placed", {"number": 0})

    def work() -> None:
        while (found := waiting.get()) is not None:
            _handle(found)

    threads = [threading.Thread(target=work) for _ in range(concurrency)]
    started = now()
    for thread in threads:
        thread.start()
    for _ in range(records):
        waiting.put(event)
    for _ in threads:
        waiting.put(None)
    for thread in threads:
        thread.join()
    return records / (now() - started)


def _loop_queue(records: int, concurrency: int) -> float:
    """Tasks of one loop that call the function for what they get from one `asyncio.Queue`.

    The queue has a bound, as one that is fed from a log would have.
    """
    event = sl.Event("placed", {"number": 0})

    async def work(waiting: asyncio.Queue[sl.Event | None]) -> None:
        while (found := await waiting.get()) is not None:
            await _handle_async(found)

    async def run() -> None:
        waiting: asyncio.Queue[sl.Event | None] = asyncio.Queue(PIECE)
        tasks = [asyncio.create_task(work(waiting)) for _ in range(concurrency)]
        for _ in range(records):
            await waiting.put(event)
        for _ in tasks:
            await waiting.put(None)
        await asyncio.gather(*tasks)

    started = now()
    asyncio.run(run())
    return records / (now() - started)
