"""`tail.inside.*`: from a publisher to subscribers of the same process."""

import asyncio
import queue
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from statistics import median

import strandline as sl
from benchmarks.entry import Contender, Entry, now
from benchmarks.events import Sample, samples
from benchmarks.latency import latencies_us, publish
from benchmarks.producing import fresh
from benchmarks.sizes import Sizes
from benchmarks.stores import ours
from strandline.log import Log
from strandline.values import Durability

Ready = Callable[[], object]


def entries(sizes: Sizes) -> tuple[Entry, ...]:
    """Return the entries of `tail.inside.`: the median latency of a subscriber."""
    return tuple(
        Entry(
            name=f"tail.inside.{way}.{number}",
            unit="µs",
            contenders=partial(_contenders, receiving, queues, subscribers, sizes.tail_events),
            bars={"queue": 0.5},
        )
        for way, receiving, queues in (
            ("for", _in_threads, _queues),
            ("async", _on_loop, _loop_queues),
        )
        for number, subscribers in (("one", 1), ("eight", sizes.eight))
    )


Receiving = Callable[[Log, int, int, Ready], list[list[float]]]
"""Receives with so many subscribers so many events; returns when each of them came."""


def _contenders(
    receiving: Receiving,
    queues: Callable[[int, int], float],
    subscribers: int,
    events: int,
    scratch: Path,
) -> Mapping[str, Contender]:
    return {
        "ours": partial(_ours, receiving, subscribers, events, scratch),
        "queue": partial(queues, subscribers, events),
    }


def _ours(receiving: Receiving, subscribers: int, events: int, scratch: Path) -> float:
    with fresh(scratch) as path, ThreadPoolExecutor(1) as pool:
        store = ours.shared(path, Durability.WRITTEN)
        try:
            gate = threading.Barrier(2)
            received = pool.submit(receiving, store.log, subscribers, events, gate.wait)
            gate.wait()
            begun = publish(store.append, samples(events))
            return median(latencies_us(begun, received.result()))
        finally:
            store.close()


def _in_threads(log: Log, subscribers: int, events: int, ready: Ready) -> list[list[float]]:
    def receive(subscription: sl.Subscription[sl.Record]) -> list[float]:
        came = []
        for record in subscription:
            came.append(now())
            if record.offset == events - 1:
                break
        return came

    subscriptions = [sl.subscribe(log, ours.TOPIC) for _ in range(subscribers)]
    with ThreadPoolExecutor(subscribers) as pool:
        receivers = [pool.submit(receive, each) for each in subscriptions]
        ready()
        received = [receiver.result() for receiver in receivers]
    for subscription in subscriptions:
        subscription.close()
    return received


def _on_loop(log: Log, subscribers: int, events: int, ready: Ready) -> list[list[float]]:
    async def receive(subscription: sl.Subscription[sl.Record]) -> list[float]:
        came = []
        async for record in sl.AsyncSubscription(subscription):
            came.append(now())
            if record.offset == events - 1:
                break
        return came

    async def receive_all(subscriptions: list[sl.Subscription[sl.Record]]) -> list[list[float]]:
        return await asyncio.gather(*map(receive, subscriptions))

    subscriptions = [sl.subscribe(log, ours.TOPIC) for _ in range(subscribers)]
    ready()
    received = asyncio.run(receive_all(subscriptions))
    for subscription in subscriptions:
        subscription.close()
    return received


def _queues(subscribers: int, events: int) -> float:
    """A queue for each subscriber, each of them a thread."""
    queues: list[queue.Queue[Sample]] = [queue.Queue() for _ in range(subscribers)]

    def receive(mine: queue.Queue[Sample]) -> list[float]:
        came = []
        for _ in range(events):
            mine.get()
            came.append(now())
        return came

    def put(sample: Sample) -> None:
        for each in queues:
            each.put(sample)

    with ThreadPoolExecutor(subscribers) as pool:
        receivers = [pool.submit(receive, each) for each in queues]
        begun = publish(put, samples(events))
        return median(latencies_us(begun, [receiver.result() for receiver in receivers]))


def _loop_queues(subscribers: int, events: int) -> float:
    """An asyncio queue for each subscriber, all of them tasks of one loop.

    The publisher is another thread: one call wakes the loop, which puts into all queues.
    """
    queues: list[asyncio.Queue[Sample]] = [asyncio.Queue() for _ in range(subscribers)]
    loops: queue.Queue[asyncio.AbstractEventLoop] = queue.Queue()

    async def receive(mine: asyncio.Queue[Sample]) -> list[float]:
        came = []
        for _ in range(events):
            await mine.get()
            came.append(now())
        return came

    async def receive_all() -> list[list[float]]:
        loops.put(asyncio.get_running_loop())
        return await asyncio.gather(*map(receive, queues))

    def put(sample: Sample) -> None:
        for each in queues:
            each.put_nowait(sample)

    with ThreadPoolExecutor(1) as pool:
        received = pool.submit(lambda: asyncio.run(receive_all()))
        loop = loops.get()
        begun = publish(lambda sample: loop.call_soon_threadsafe(put, sample), samples(events))
        return median(latencies_us(begun, received.result()))
