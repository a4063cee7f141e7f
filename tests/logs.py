"""Logs over a store of each kind, for tests with options that no URL has."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import strandline as sl
from strandline.log import Log, StoreTier
from strandline.stores.files import FileStore
from strandline.stores.memory import MemoryStore
from strandline.stores.sqlite import SqliteStore
from strandline.tiering import Tier as ObjectTier

OpenAgain = Callable[[], Log]
#: For rooms that know no store: two are enough, and make test-all has the third.
SCHEMES = ("memory", "file", pytest.param("sqlite", marks=pytest.mark.heavy))

_OF_LOG = ("auto_create", "record_bytes_max", "broker")


def memory_log(**options: Any) -> Log:
    """Return a log in memory."""
    return _log(MemoryStore(options.get("clock")), options)


def file_log(path: str, **options: Any) -> Log:
    """Return the log in a directory; options are those of FileStore and of Log."""
    return _log(FileStore(path, **_of_store(options)), options)


def sqlite_log(path: str, **options: Any) -> Log:
    """Return the log in a database; options are those of SqliteStore and of Log."""
    return _log(SqliteStore(path, **_of_store(options)), options)


def tiered_log(scheme: str, path: str, **options: Any) -> Log:
    """Return a log of this kind that reads what was evicted from its tier, as it is opened."""
    options["tier"] = ObjectTier()
    if scheme == "memory":
        return memory_log(**options)
    return (file_log if scheme == "file" else sqlite_log)(path, **options)


@contextlib.contextmanager
def opened_again(scheme: str, folder: Path) -> Iterator[OpenAgain]:
    """Give what returns the same log each time, as another process would open it."""
    opened: list[Log] = []

    def open_log() -> Log:
        if scheme == "memory" and opened:
            return opened[0]
        opened.append(sl.open("memory:" if scheme == "memory" else f"{scheme}:{folder / 'events'}"))
        return opened[-1]

    try:
        yield open_log
    finally:
        for log in opened:
            log.close()


def _of_store(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name not in (*_OF_LOG, "tier")}


def _log(store: Any, options: dict[str, Any]) -> Log:
    tier: StoreTier | None = options.get("tier")
    rest = {name: options[name] for name in _OF_LOG if name in options}
    return Log(store, tier=tier, clock=options.get("clock"), **rest)
