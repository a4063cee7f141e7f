"""`bytes.*`: what an event takes up on the disk; `subscribers.memory`: a subscriber, in memory."""

import resource
from collections.abc import Callable, Mapping
from contextlib import closing
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

import strandline as sl
from benchmarks.crew import crew
from benchmarks.entry import Contender, Entry
from benchmarks.events import samples
from benchmarks.producing import fresh
from benchmarks.sizes import Sizes
from benchmarks.stores import ours
from benchmarks.stores.lmdb import Lmdb
from benchmarks.stores.raw import RawFile
from benchmarks.stores.rocksdb import RocksDb
from benchmarks.stores.sqlite import SqliteTable
from benchmarks.stores.store import Store
from strandline.values import Durability

BLOCK_BYTES = 512
KIB = 1 << 10
MEMORY_MIB = 1 << 10


def entries(sizes: Sizes) -> tuple[Entry, ...]:
    """Return the entries of `bytes.` and `subscribers.`."""
    return (
        Entry(
            name="bytes.hot",
            unit="bytes/event",
            contenders=partial(_hot, sizes),
            bars={"raw": 0.85},
        ),
        Entry(
            name="bytes.cold",
            unit="bytes/event",
            contenders=partial(_cold, sizes),
            bars={"raw": 3},
        ),
        Entry(
            name="subscribers.memory",
            unit="MiB",
            contenders=partial(_subscribers, sizes),
            bars={"wanted": 1},
        ),
    )


# --- bytes ---

Filled = Callable[[Path, int], None]
"""Makes a store, puts so many events in it, and closes it."""


def _hot(sizes: Sizes, scratch: Path) -> Mapping[str, Contender]:
    """Events as they were appended, one by one."""
    ways: Mapping[str, Filled] = {
        "ours": partial(_fill_ours, sizes, is_cold=False),
        "raw": _fill_raw,
        "sqlite": _fill_sqlite,
        "lmdb": _fill_lmdb,
    }
    return _measured(ways, sizes, scratch)


def _cold(sizes: Sizes, scratch: Path) -> Mapping[str, Contender]:
    """Events in their final form."""
    ways: Mapping[str, Filled] = {
        "ours": partial(_fill_ours, sizes, is_cold=True),
        "raw": _fill_raw,
        "rocksdb": _fill_rocksdb,
    }
    return _measured(ways, sizes, scratch)


def _measured(ways: Mapping[str, Filled], sizes: Sizes, scratch: Path) -> Mapping[str, Contender]:
    return {
        name: partial(_bytes_per_event, fill, sizes.bytes_events, scratch)
        for name, fill in ways.items()
    }


def _bytes_per_event(fill: Filled, events: int, scratch: Path) -> float:
    with fresh(scratch) as path:
        fill(path, events)
        return disk_bytes(path.parent) / events


def disk_bytes(folder: Path) -> int:
    """Return the disk space of the files in a folder: holes do not count, reserved space does."""
    return sum(path.stat().st_blocks for path in folder.rglob("*")) * BLOCK_BYTES


def _fill_ours(sizes: Sizes, path: Path, events: int, *, is_cold: bool) -> None:
    with closing(ours.with_segments(path, sizes.bytes_segment, is_cold=is_cold)) as store:
        _fill(store, events)
        if is_cold:
            store.seal()


def _fill_raw(path: Path, events: int) -> None:
    with closing(RawFile(path, Durability.WRITTEN)) as store:
        _fill(store, events)


def _fill_sqlite(path: Path, events: int) -> None:
    with closing(SqliteTable(path, Durability.WRITTEN)) as store:
        _fill(store, events)


def _fill_lmdb(path: Path, events: int) -> None:
    with closing(Lmdb(path, Durability.WRITTEN)) as store:
        _fill(store, events)


def _fill_rocksdb(path: Path, events: int) -> None:
    with closing(RocksDb(path, Durability.WRITTEN)) as store:
        _fill(store, events)
        store.settle()


def _fill(store: Store, events: int) -> None:
    for sample in samples(events):
        store.append(sample)


# --- memory ---


def _subscribers(sizes: Sizes, scratch: Path) -> Mapping[str, Contender]:
    return {
        "ours": partial(_memory_mib, sizes.subscribers, scratch),
        "wanted": lambda: MEMORY_MIB,
    }


def _memory_mib(subscribers: int, scratch: Path) -> float:
    with fresh(scratch) as path, crew(_subscribe, [(path, subscribers)]) as (member,):
        peak: float = member.recv()
        return peak


def _subscribe(parent: Connection, path: Path, subscribers: int) -> None:
    """Send the peak memory of a process whose subscribers have each read everything."""
    with closing(ours.shared(path, Durability.WRITTEN)) as store:
        store.append_encoded(store.encoded(samples(1_000)))
        subscriptions = [sl.subscribe(store.log, ours.TOPIC) for _ in range(subscribers)]
        for subscription in subscriptions:
            for _ in range(1_000):
                assert subscription.next(0) is not None
        store.append(samples(1)[0])
        for subscription in subscriptions:
            assert subscription.next(10) is not None
        parent.send(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / KIB)
        for subscription in subscriptions:
            subscription.close()
