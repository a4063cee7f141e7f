"""How fast events go into a store: from one thread, from many, from tasks, from processes."""

import asyncio
import shutil
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from itertools import count
from multiprocessing.connection import Connection
from pathlib import Path

from benchmarks.crew import crew
from benchmarks.entry import now
from benchmarks.events import Sample, made_again, samples
from benchmarks.stores.store import AsyncOpening, AsyncStore, Opening, Store
from strandline.values import Durability

#: Events that are created at once: few enough to stay in the processor's caches.
PIECE = 1_000

_numbers = count()


@contextmanager
def fresh(scratch: Path) -> Iterator[Path]:
    """Yield an unused path, and remove what was created there and next to it."""
    folder = scratch / str(next(_numbers))
    folder.mkdir()
    try:
        yield folder / "store"
    finally:
        shutil.rmtree(folder)


@contextmanager
def opened(opening: Opening, scratch: Path, durability: Durability) -> Iterator[Store]:
    """Yield a store with one batch, since the first append creates files, also for peers.

    One event would create the files of a single partition only.
    """
    with fresh(scratch) as path, closing(opening(path, durability)) as store:
        store.append_encoded(store.encoded(samples(PIECE)))
        store.append(samples(1)[0])
        yield store


def pieces(events: int, piece: int = PIECE) -> Iterator[list[Sample]]:
    """Yield at least `events` events that were just created."""
    piece = min(events, piece)
    yield from made_again(samples(piece), -(-events // piece))


def single_rate(opening: Opening, scratch: Path, durability: Durability, events: int) -> float:
    """One thread, event after event."""
    with opened(opening, scratch, durability) as store:
        return appended_rate(store, events)


def appended_rate(store: Store, events: int) -> float:
    """Return how many events a second one thread appends, one after the other."""
    append, elapsed_s, appended = store.append, 0.0, 0
    for piece in pieces(events):
        started = now()
        for sample in piece:
            append(sample)
        elapsed_s += now() - started
        appended += len(piece)
    return appended / elapsed_s


def batch_rate(
    opening: Opening, scratch: Path, durability: Durability, batches: int, batch_events: int
) -> float:
    """One thread, batch after batch, from plain objects to what is stored."""
    with opened(opening, scratch, durability) as store:
        return appended_many_rate(store, batches, batch_events)


def appended_many_rate(store: Store, batches: int, batch_events: int) -> float:
    """Return how many events a second one thread appends in batches."""
    elapsed_s = 0.0
    for batch in pieces(batches * batch_events, batch_events):
        started = now()
        store.append_encoded(store.encoded(batch))
        elapsed_s += now() - started
    return batches * batch_events / elapsed_s


def ready_rate(
    opening: Opening, scratch: Path, durability: Durability, batches: int, batch_events: int
) -> float:
    """One thread, batch after batch, of events that were encoded beforehand."""
    elapsed_s = 0.0
    with opened(opening, scratch, durability) as store:
        for batch in pieces(batches * batch_events, batch_events):
            ready = store.encoded(batch)
            started = now()
            store.append_encoded(ready)
            elapsed_s += now() - started
    return batches * batch_events / elapsed_s


def threads_rate(
    opening: Opening, scratch: Path, durability: Durability, threads: int, each: int
) -> float:
    """Many threads, each of which waits for every one of its events."""
    gate = threading.Barrier(threads + 1)

    def produce(events: Sequence[Sample]) -> None:
        gate.wait()
        for sample in events:
            store.append(sample)

    with opened(opening, scratch, durability) as store, ThreadPoolExecutor(threads) as pool:
        producers = [pool.submit(produce, made) for made in made_again(samples(each), threads)]
        gate.wait()
        started = now()
        for producer in producers:
            producer.result()
        return threads * each / (now() - started)


def tasks_rate(
    opening: AsyncOpening, scratch: Path, durability: Durability, tasks: int, each: int
) -> float:
    """Many tasks of one loop, each of which awaits every one of its events."""
    with fresh(scratch) as path, closing(opening(path, durability)) as store:
        return asyncio.run(_tasks_rate(store, tasks, each))


async def _tasks_rate(store: AsyncStore, tasks: int, each: int) -> float:
    async def produce(events: Sequence[Sample]) -> None:
        for sample in events:
            await store.append(sample)

    made = list(made_again(samples(each), tasks))
    await store.append(samples(1)[0])
    started = now()
    async with asyncio.TaskGroup() as group:
        for events in made:
            group.create_task(produce(events))
    return tasks * each / (now() - started)


def processes_rate(
    opening: Opening, scratch: Path, durability: Durability, processes: int, each: int
) -> float:
    """Several processes that append to the same place."""
    with fresh(scratch) as path:
        opening(path, durability).close()
        with crew(_produce, [(opening, path, durability, each)] * processes) as members:
            for member in members:
                member.recv()
            started = now()
            for member in members:
                member.send(None)
            for member in members:
                member.recv()
            return processes * each / (now() - started)


def _produce(
    parent: Connection, opening: Opening, path: Path, durability: Durability, each: int
) -> None:
    store = opening(path, durability)
    made = samples(each)
    store.append(made[0])
    parent.send("ready")
    parent.recv()
    for sample in made:
        store.append(sample)
    parent.send("done")
    store.close()
