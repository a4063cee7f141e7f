"""Reads records, a bounded page at a time."""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, Final, NamedTuple

from strandline.log.draft import load
from strandline.log.draft_columns import event_columns
from strandline.log.history import Body, EventBody
from strandline.log.ranges import ReadSpan, count_within
from strandline.log.store import dropped
from strandline.log.stored_records import PlacedDrafts, StoredRecord
from strandline.stores.postgres.database import Connection, PostgresDatabase
from strandline.stores.postgres.partition_head import load_partition
from strandline.stores.postgres.topics import PostgresTopic
from strandline.values import (
    CorruptError,
    Offset,
    Partition,
    Record,
    Tenant,
    TrimmedError,
    ValueKind,
)

_PAGE_RECORDS: Final = 4096
_PAGE_BYTES: Final = 8 * 1024 * 1024
_NO_HEADERS: Final = b"{}"
COLUMNS: Final = (
    "slot, place, timestamp_us, key, tenant, kind, value, headers, occurred_at_us, size_bytes,"
    " chained"
)
_READ: Final = COLUMNS.removeprefix("slot, ")
#: Large values stored out of line are fetched only for the rows of the page.
_PAGE: Final = (
    "SELECT " + _READ + " FROM (SELECT *, sum(size_bytes) OVER (ORDER BY place) - size_bytes"  # noqa: S608 - Ours.
    " AS before FROM {schema}.records WHERE slot = %s AND place >= %s AND place < %s"
    " ORDER BY place LIMIT %s) page WHERE before < %s ORDER BY place"
)
#: Each row also has the partition's ends, read at the same moment; one row if it has no records.
_FIRST_PAGE: Final = (
    "SELECT low, first, high, page.* FROM {schema}.partitions LEFT JOIN LATERAL ("  # noqa: S608 - Ours.
    + _PAGE
    + ") page ON true WHERE slot = %s ORDER BY place"
)


class SeenEnds(NamedTuple):
    """The ends of a partition, read by a statement."""

    low: int
    first: int
    high: int


class PostgresRecords:
    """The records of one partition."""

    def __init__(self, database: PostgresDatabase, topic: PostgresTopic, partition: int) -> None:
        self._database = database
        self._topic = topic
        self._kind = topic.settings.value_kind
        self.partition: Final = Partition(partition)
        self.slot: Final = topic.slots[partition]

    def records(self, span: ReadSpan, begin: Sequence[StoredRecord] = ()) -> Iterator[Record]:
        """Yield the records of `span`; `begin` are its first ones, if they were read already."""
        name, kind, partition = self._topic.topic.name, self._kind, self.partition
        for page in self.pages(span, begin):
            for each in page:
                yield Record(
                    *(name, partition, each.offset, each.timestamp_us, each.key, each.tenant),
                    value=load(kind, each.body, each.key),
                )

    def pages(
        self, span: ReadSpan, begin: Sequence[StoredRecord] = ()
    ) -> Iterator[Sequence[StoredRecord]]:
        """Yield the entries of `span` in lists of a bounded size."""
        start, left = span.start, span.bytes_max
        begin = begin[: span.end - start]
        while start < span.end and left != 0:
            page, begin = begin or self._page(start, span.end), ()
            kept = page[: count_within((each.size_bytes for each in page), left)]
            if left is not None and start > span.start and kept[0].size_bytes > left:
                return
            yield kept
            if len(kept) < len(page):
                return
            if left is not None:
                left = max(0, left - sum(each.size_bytes for each in kept))
            start += len(page)

    def first(self, connection: Connection, offset: int) -> StoredRecord:
        """Return the record at `offset`, which must exist."""
        page = self._select(connection, offset, offset + 1)
        if not page:
            raise self._missing(offset)
        return page[0]

    def begin(self, start: int, end: int) -> tuple[SeenEnds, Sequence[StoredRecord]]:
        """Return the ends, and some records from `start` on, which may have been removed."""
        limits = self.slot, start, end, _PAGE_RECORDS, _PAGE_BYTES
        with self._database.connection() as connection:
            rows = connection.execute(
                self._database.sql(_FIRST_PAGE), (*limits, self.slot), binary=True
            ).fetchall()
        if not rows:
            raise dropped(self._topic.topic)
        page = [self._load(row[3:]) for row in rows if row[3] is not None]
        return SeenEnds(*rows[0][:3]), _dense(page, start)

    # --- inside ---

    def _page(self, start: int, end: int) -> list[StoredRecord]:
        with self._database.connection() as connection:
            dense = _dense(self._select(connection, start, end), start)
            if not dense:
                self._explain_gap(connection, start)
        return dense

    def _select(self, connection: Connection, start: int, end: int) -> list[StoredRecord]:
        rows = connection.execute(
            self._database.sql(_PAGE),
            (self.slot, start, end, _PAGE_RECORDS, _PAGE_BYTES),
            binary=True,
        )
        return [self._load(row) for row in rows]

    def _explain_gap(self, connection: Connection, offset: int) -> None:
        row = load_partition(connection, self._database, self.slot)
        name = self._topic.topic.name
        if row is None:
            raise dropped(self._topic.topic)
        if offset < row.first:
            raise TrimmedError(row.first, topic=name, partition=self.partition, offset=offset)
        raise self._missing(offset)

    def _missing(self, offset: int) -> CorruptError:
        return CorruptError(
            "a record is missing, restore it from a copy",
            file=self._database.url,
            position=offset,
            topic=self._topic.topic.name,
            partition=self.partition,
            offset=offset,
        )

    def _load(self, row: tuple[Any, ...]) -> StoredRecord:
        place, stamp, key, tenant, kind, value, headers, occurred_at_us, size, chained = row
        body: Body = value
        if self._kind is ValueKind.EVENT:
            body = EventBody(
                kind.decode(), value, _NO_HEADERS if headers is None else headers, occurred_at_us
            )
        return StoredRecord(
            Offset(place),
            stamp,
            None if key is None else key.decode(),
            Tenant(tenant) if tenant else None,
            body,
            size,
            chained,
        )


def _dense(page: Sequence[StoredRecord], start: int) -> list[StoredRecord]:
    """Return the records from `start` on, up to the first gap."""
    return [each for number, each in enumerate(page, start) if each.offset == number]


def columns_of(placed: Sequence[PlacedDrafts]) -> Sequence[Sequence[Any]]:
    """Return the columns of `COLUMNS` without the slot; key and kind are texts."""
    parts = [_columns(each) for each in placed]
    if len(parts) == 1:
        return parts[0]
    return [list(chain.from_iterable(column)) for column in zip(*parts, strict=True)]


def _columns(placed: PlacedDrafts) -> tuple[Sequence[Any], ...]:
    start, stamp, tenant, drafts, chained = placed
    count = len(drafts)
    kinds: Sequence[Any] = (None,) * count
    headers = occurred_at_us = kinds
    values: Sequence[Any]
    found = event_columns(drafts)
    if found is not None:
        keys, kinds, values, headers, occurred_at_us, sizes = found
        headers = [None if each == _NO_HEADERS else each for each in headers]
    else:
        keys, bodies, sizes = zip(*drafts, strict=True)
        values = [each if isinstance(each, bytes) else each.to_pybytes() for each in bodies]
    return (
        *(range(start, start + count), (stamp,) * count, keys, (tenant,) * count, kinds, values),
        *(headers, occurred_at_us, sizes, (None,) * count if chained is None else chained),
    )
