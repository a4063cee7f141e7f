"""Logs over a store that a test controls, and what is read from them."""

from pathlib import Path
from typing import Any

import pyarrow as pa

import strandline as sl
from strandline.log import Log
from strandline.stores.files import FileStore
from strandline.stores.memory import MemoryStore
from strandline.stores.sqlite import SqliteStore
from strandline.tiering import ObjectStore, Tier, tier
from tests.tiering.faulty_store import MemoryObjects

BACKENDS = ("memory", "sqlite", "file")


class LogOver(Log):
    """A log whose tier is `objects`."""

    objects: ObjectStore


def opened(backend: str, folder: Path, objects: ObjectStore | None = None) -> LogOver:
    """Return a log of this kind over `objects`; the same folder is the same log."""
    over = objects or MemoryObjects()

    def open_objects(url: str) -> ObjectStore:
        assert url == over.url
        return over

    store: Any
    if backend == "memory":
        store = MemoryStore()
    elif backend == "sqlite":
        store = SqliteStore(str(folder / "log.db"))
    else:
        store = FileStore(str(folder / "log"), segment_bytes=4096)
    log = LogOver(store, tier=Tier(open_objects))
    log.objects = over
    return log


def filled(log: sl.Log, count: int = 20, topic: str = "t") -> list[sl.Record]:
    """Append events, and return them as they are read."""
    log.create_topic(topic)
    for at in range(0, count, 5):
        values = [sl.Event("k", {"n": n}, key=f"k{n % 3}") for n in range(at, min(count, at + 5))]
        log.append_many(topic, values)
    return list(log.read(topic, 0, 0))


def move(log: Any, topic: str = "t", **options: Any) -> Any:
    """Copy everything in small objects, and evict it."""
    settings = {"piece_records": 7, "include_open": True, "local_bytes": 0, **options}
    return tier(log, topic, log.objects, **settings)


def rows(log: sl.Log, start: int = 0, end: int | None = None, **options: Any) -> list[Any]:
    """Return the rows that `read_batches` gives."""
    found = log.read_batches("t", 0, start, end, **options)
    rows: list[Any] = pa.Table.from_batches(list(found), schema=found.schema).to_pylist()
    return rows
