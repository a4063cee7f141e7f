"""Logs over a store that a test holds in its hand, and what is read from them."""

from pathlib import Path
from typing import Any

import pyarrow as pa

import strandline as sl
from strandline.log import Log
from strandline.opening import OpenedLog
from strandline.tiering import ObjectStore, tier
from tests.tiering.faulty_store import MemoryObjects

BACKENDS = ("memory", "sqlite", "file")


class _OverStore:
    objects: ObjectStore

    def _open_store(self, url: str) -> ObjectStore:
        assert url == self.objects.url
        return self.objects


class MemoryOver(_OverStore, Log):  # type: ignore[misc] # Overrides a hook.
    """In memory."""


class SqliteOver(_OverStore, Log):  # type: ignore[misc] # As above.
    """In SQLite."""


class FileOver(_OverStore, Log):  # type: ignore[misc] # As above.
    """In files, with small segments."""


def opened(backend: str, folder: Path, objects: ObjectStore | None = None) -> OpenedLog:
    """Return a log of this kind over `objects`; the same folder is the same log."""
    log: Any
    if backend == "memory":
        log = MemoryOver()
    elif backend == "sqlite":
        log = SqliteOver(str(folder / "log.db"))
    else:
        log = FileOver(str(folder / "log"), segment_bytes=4096)
    log.objects = objects or MemoryObjects()
    found: OpenedLog = log
    return found


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
