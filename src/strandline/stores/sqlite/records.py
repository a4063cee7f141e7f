"""Reads records in pages, and checks each record."""

import sqlite3
import struct
from collections.abc import Iterator
from typing import Final, NamedTuple, TypeAlias

from strandline.log.draft import load
from strandline.log.history import Body, EventBody
from strandline.log.store import dropped
from strandline.stores.sqlite.checksum import record_crc
from strandline.stores.sqlite.database import Database
from strandline.stores.sqlite.partition_row import load_partition, place
from strandline.stores.sqlite.schema import OFFSET_BITS
from strandline.stores.sqlite.topics import SqliteTopic
from strandline.values import (
    CorruptError,
    Offset,
    Partition,
    Record,
    Tenant,
    TrimmedError,
    ValueKind,
)

_PAGE_RECORDS = 1024
_PAGE_BYTES = 8 * 1024 * 1024
_NO_HEADERS = b"{}"
_OFFSET_MASK = (1 << OFFSET_BITS) - 1
_COLUMNS = "place, timestamp_us, key, tenant, kind, value, headers, occurred_at_us, size_bytes, crc"
_SELECT = f"SELECT {_COLUMNS} FROM strandline_records"  # noqa: S608 - Names of ours.


Row: TypeAlias = tuple[
    int, int, str | None, str | None, str | None, bytes, bytes | None, int | None, int, int
]


class RecordRow(NamedTuple):
    """A stored record."""

    offset: Offset
    timestamp_us: int
    key: str | None
    tenant: Tenant | None
    body: Body
    size_bytes: int


class RowSpan(NamedTuple):
    """The records to read: [start, end), within limits; None is no limit."""

    start: int
    end: int
    bytes_max: int | None


class Records:
    """The records of one partition, read without a lock."""

    def __init__(self, database: Database, entry: SqliteTopic, partition: int) -> None:
        self._database = database
        self.topic: Final = entry.topic
        self.topic_id: Final = entry.topic.id.bytes
        self._kind = entry.settings.value_kind
        self.is_proved: Final = entry.is_proved
        self.partition: Final = Partition(partition)
        self.slot: Final = entry.slot(partition)

    def entries(self, span: RowSpan) -> Iterator[RecordRow]:
        """Yield the entries of `span`, one page at a time."""
        for page in self.pages(span):
            yield from page

    def records(self, span: RowSpan) -> Iterator[Record]:
        """Yield the records of `span`."""
        name, kind, partition = self.topic.name, self._kind, self.partition
        for entry in self.entries(span):
            value = load(kind, entry.body, entry.key)
            yield Record(
                *(name, partition, entry.offset, entry.timestamp_us, entry.key, entry.tenant),
                value=value,
            )

    def pages(self, span: RowSpan) -> Iterator[list[RecordRow]]:
        """Yield the entries of `span` in lists of a bounded size."""
        start, remaining = span.start, span.bytes_max
        if remaining == 0:
            return
        is_first = True
        while start < span.end:
            page = self._page(start, span.end)
            if remaining is not None:
                kept = _within(page, remaining, is_first=is_first)
                remaining -= sum(entry.size_bytes for entry in kept)
                if len(kept) < len(page):
                    if kept:
                        yield kept
                    return
            yield page
            is_first = False
            start += len(page)

    def entry(self, connection: sqlite3.Connection, offset: int) -> RecordRow:
        """Return the record at `offset`, which must exist."""
        found = connection.execute(
            f"{_SELECT} WHERE place = ?", (place(self.slot, offset),)
        ).fetchone()
        if found is None:
            raise self._missing(offset)
        return self._load(found)

    def size_before(self, connection: sqlite3.Connection, start: int, end: int) -> int:
        """Return the size of the entries in [start, end)."""
        row = connection.execute(
            "SELECT coalesce(sum(size_bytes), 0) FROM strandline_records"
            " WHERE place >= ? AND place < ?",
            (place(self.slot, start), place(self.slot, end)),
        ).fetchone()
        return int(row[0])

    # --- inside ---

    def _page(self, start: int, end: int) -> list[RecordRow]:
        entries: list[RecordRow] = []
        size = 0
        with self._database.reading() as connection, self._database.translating():
            rows = connection.execute(
                f"{_SELECT} WHERE place >= ? AND place < ? ORDER BY place LIMIT ?",
                (place(self.slot, start), place(self.slot, end), _PAGE_RECORDS),
            )
            try:
                for expected, row in enumerate(rows, start):
                    if row[0] & _OFFSET_MASK != expected:
                        break
                    try:
                        entry = self._load(row)
                    except CorruptError:
                        if not entries:
                            raise
                        # Return what comes before the damage; reading the next page raises.
                        break
                    entries.append(entry)
                    size += entry.size_bytes
                    if size >= _PAGE_BYTES:
                        break
            finally:
                # Otherwise a stored exception keeps the connection at an old snapshot.
                rows.close()
            if not entries:
                self._explain_gap(connection, start)
        return entries

    def _explain_gap(self, connection: sqlite3.Connection, offset: int) -> None:
        row = load_partition(connection, self._database.path, self.slot)
        if row is None:
            raise dropped(self.topic)
        if offset < row.first:
            raise TrimmedError(
                row.first, topic=self.topic.name, partition=self.partition, offset=offset
            )
        raise self._missing(offset)

    def _missing(self, offset: int) -> CorruptError:
        return CorruptError(
            "a record is missing, restore it from a copy",
            file=self._database.path,
            position=place(self.slot, offset),
            topic=self.topic.name,
            partition=self.partition,
            offset=offset,
        )

    def _load(self, row: Row) -> RecordRow:
        number, timestamp_us, crc = row[0], row[1], row[9]
        offset = number & _OFFSET_MASK
        try:
            found = record_crc(self.topic_id, self.partition, offset, timestamp_us, row[2:9])
        except (TypeError, AttributeError, struct.error):
            found = -1  # Damage has changed the type of a column.
        if found != crc:
            raise CorruptError(
                "this record does not match its checksum, restore it from a copy",
                file=self._database.path,
                position=number,
                topic=self.topic.name,
                partition=self.partition,
                offset=offset,
            )
        key, tenant, kind, value, headers, occurred_at_us, size = row[2:9]
        body: Body = value
        if self._kind is ValueKind.EVENT:
            assert kind is not None
            body = EventBody(
                kind, value, _NO_HEADERS if headers is None else headers, occurred_at_us
            )
        return RecordRow(
            Offset(offset), timestamp_us, key, Tenant(tenant) if tenant else None, body, size
        )


def _within(page: list[RecordRow], bytes_max: int, *, is_first: bool) -> list[RecordRow]:
    total = 0
    for index, entry in enumerate(page):
        total += entry.size_bytes
        if total > bytes_max:
            return page[: max(1, index) if is_first else index]
    return page
