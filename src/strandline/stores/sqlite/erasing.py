"""Erases the records of a key: replaces their rows with tombstones."""

import sqlite3

from strandline.log.chain import Chain
from strandline.log.erased import size_of_tombstone, tombstone
from strandline.log.history import EventBody
from strandline.stores.sqlite.checksum import Content, record_crc
from strandline.stores.sqlite.database import Database
from strandline.stores.sqlite.partition_row import load_partition, place, store_partitions
from strandline.stores.sqlite.records import RecordRow, Records
from strandline.values import ValueKind

#: How many rows are changed before other processes may write.
_ROWS_MAX = 1000
_WHERE = "FROM strandline_records WHERE place >= ? AND place < ? AND key = ?"
_UPDATE = (
    "UPDATE strandline_records SET key = NULL, kind = ?, value = ?, headers = ?,"
    " occurred_at_us = NULL, size_bytes = ?, crc = ? WHERE place = ?"
)
_RENEWAL = (
    "CREATE TEMP TABLE strandline_kept AS SELECT * FROM strandline_records ORDER BY place",
    "DELETE FROM strandline_records",
    "INSERT INTO strandline_records SELECT * FROM strandline_kept ORDER BY rowid",
    "DROP TABLE strandline_kept",
)


class Erasing:
    """Erases records of one partition."""

    def __init__(self, database: Database, records: Records, chain: Chain, kind: ValueKind) -> None:
        self._database = database
        self._records = records
        self._chain = chain
        self._kind = kind
        slot = records.slot
        self._span = place(slot, 0), place(slot + 1, 0)

    def count(self, key: str) -> int:
        """Return how many records a key has."""
        with self._database.reading() as connection, self._database.translating():
            found = connection.execute(f"SELECT count(*) {_WHERE}", (*self._span, key)).fetchone()
        return int(found[0])

    def erase(self, key: str) -> int:
        """Erase all records of a key, some at a time; return how many."""
        total = 0
        while True:
            with self._database.locked(), self._database.changing() as connection:
                rows = connection.execute(
                    f"SELECT place {_WHERE} ORDER BY place LIMIT ?",
                    (*self._span, key, _ROWS_MAX + 1),
                ).fetchall()
                self._erase_some(connection, [number for (number,) in rows[:_ROWS_MAX]])
                is_last = len(rows) <= _ROWS_MAX
                if is_last and rows:
                    _renew(connection)
            total += min(len(rows), _ROWS_MAX)
            if is_last:
                return total

    def _erase_some(self, connection: sqlite3.Connection, numbers: list[int]) -> None:
        grown = 0
        for number in numbers:
            entry = self._records.entry(connection, number - self._span[0])
            grown += self._erase_row(connection, number, entry)
        row = load_partition(connection, self._database.path, self._records.slot)
        if row is not None and numbers:
            row.size_bytes += grown
            store_partitions(connection, [row])

    def _erase_row(self, connection: sqlite3.Connection, number: int, entry: RecordRow) -> int:
        """Erase one record; return how many bytes larger it is counted than before."""
        records = self._records
        digest = self._chain.digest_kept(entry) if records.is_proved else None
        body = tombstone(self._kind, digest)
        size = size_of_tombstone(body)
        kind, value, headers = body[:3] if isinstance(body, EventBody) else (None, body, None)
        content: Content = (None, entry.tenant, kind, value, headers, None, size)
        crc = record_crc(
            records.topic_id, records.partition, entry.offset, entry.timestamp_us, content
        )
        connection.execute(_UPDATE, (kind, value, headers, size, crc, number))
        return size - entry.size_bytes


def _renew(connection: sqlite3.Connection) -> None:
    """Write all records to new pages.

    When SQLite moves rows between pages, old content stays in unused parts of pages. Pages
    that become unused as a whole are overwritten, because of `secure_delete`.
    """
    for statement in _RENEWAL:
        connection.execute(statement)
