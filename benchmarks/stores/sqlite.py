"""SQLite: one table, WAL, one transaction for each call."""

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from benchmarks.events import Payload, Sample
from benchmarks.stores.store import exhausted
from strandline.values import Durability

BUSY_S = 60

_CREATE = (
    "CREATE TABLE IF NOT EXISTS events (id INTEGER PRIMARY KEY, kind TEXT, key TEXT,"
    " payload BLOB, headers BLOB, at_us INTEGER)"
)
_INSERT = "INSERT INTO events (kind, key, payload, headers, at_us) VALUES (?, ?, ?, ?, ?)"
_SELECT = "SELECT id, kind, key, payload, headers, at_us FROM events WHERE id > ? ORDER BY id"

Row = tuple[int, str, str, bytes, bytes, int]

_encode = msgspec.json.Encoder().encode
_decode_payload = msgspec.json.Decoder(Payload).decode
_decode_headers = msgspec.json.Decoder(dict[str, str]).decode


def row_of(sample: Sample) -> tuple[object, ...]:
    """Return the sample as a row."""
    return (
        sample.kind,
        sample.key,
        _encode(sample.payload),
        _encode(sample.headers),
        sample.occurred_at_us,
    )


def sample_of(row: Row) -> Sample:
    """Return the row as a sample."""
    _, kind, key, payload, headers, at_us = row
    return Sample(kind, key, _decode_payload(payload), _decode_headers(headers), at_us)


class SqliteTable:
    """Each thread has a connection of its own.

    NORMAL leaves the WAL to the operating system, FULL syncs it with each commit.
    """

    def __init__(self, path: Path, durability: Durability) -> None:
        self._path = path
        self._level = "FULL" if durability is Durability.DURABLE else "NORMAL"
        self._local = threading.local()
        self._connections: list[sqlite3.Connection] = []
        self._connection().execute(_CREATE)

    def append(self, sample: Sample) -> None:
        self._connection().execute(_INSERT, row_of(sample))

    def encoded(self, samples: Sequence[Sample]) -> list[tuple[object, ...]]:
        return [row_of(sample) for sample in samples]

    def append_encoded(self, events: list[tuple[object, ...]]) -> None:
        mine = self._connection()
        mine.execute("BEGIN IMMEDIATE")
        mine.executemany(_INSERT, events)
        mine.execute("COMMIT")

    def after(self, number: int) -> list[Row]:
        """Return what was inserted after the row `number`."""
        return self._connection().execute(_SELECT, (number,)).fetchall()

    def scan(self) -> int:
        return exhausted(self._rows())

    def payloads(self) -> Iterator[Payload]:
        for row in self._rows():
            yield sample_of(row).payload

    def close(self) -> None:
        for each in self._connections:
            each.close()

    def _rows(self) -> Iterator[Row]:
        return self._connection().execute(_SELECT, (0,))

    def _connection(self) -> sqlite3.Connection:
        mine: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if mine is None:
            mine = sqlite3.connect(
                self._path, timeout=BUSY_S, isolation_level=None, check_same_thread=False
            )
            mine.execute("PRAGMA journal_mode = WAL")
            mine.execute(f"PRAGMA synchronous = {self._level}")
            self._connections.append(mine)
            self._local.connection = mine
        return mine
