"""The write path: appends decided in memory, stored in one transaction per drain."""

import contextlib
import sqlite3
from collections.abc import Callable, Sequence
from typing import NamedTuple

from strandline.clock import Clock
from strandline.log.draft import Draft, EventBody
from strandline.log.loops import is_on_loop
from strandline.log.sqlite.checksum import Content, record_crc
from strandline.log.sqlite.database import CHECKPOINT_BYTES, Database
from strandline.log.sqlite.durable_marks import DurableMarks
from strandline.log.sqlite.identities import Identities, Original
from strandline.log.sqlite.lineage import Lineage
from strandline.log.sqlite.partition_row import (
    PartitionRow,
    load_partition,
    place,
    store_partitions,
)
from strandline.log.sqlite.schema import OFFSET_BITS, translated
from strandline.log.sqlite.topics import TopicEntry
from strandline.log.terms import Terms
from strandline.values import (
    ClosedError,
    ConflictError,
    InvalidError,
    Offset,
    Partition,
    StrandlineError,
    Tenant,
    UnavailableError,
)
from strandline.writes.standby import Standby

_NO_HEADERS = b"{}"
_ROW_BYTES = 64
#: About what the smallest transaction adds to the write-ahead log.
_COMMIT_BYTES = 12 * 1024
_INSERT = "INSERT INTO strandline_records VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"


class DroppedError(InvalidError):
    """The topic went away between finding it and writing to it: find it again."""


class Part(NamedTuple):
    """What one append brings to one partition."""

    partition: Partition
    indices: Sequence[int]
    drafts: Sequence[Draft]


class Append(NamedTuple):
    """One call of `append` or `append_many`."""

    entry: TopicEntry
    parts: Sequence[Part]
    tenant: Tenant | None
    terms: Terms


class Placed(NamedTuple):
    """Where one value of an append went."""

    partition: Partition
    offset: Offset
    timestamp_us: int
    is_repeat: bool


class Placement(NamedTuple):
    """Where the values went, by index, and what kept the others from being stored."""

    places: dict[int, Placed]
    error: StrandlineError | None


class Heads:
    """The partitions as they are, for as long as nobody else writes. The lock holder's."""

    def __init__(self) -> None:
        self.rows: dict[int, PartitionRow] = {}
        self.version: tuple[int, int] | None = None


class Changes(NamedTuple):
    """What one transaction stores."""

    records: list[tuple[object, ...]]
    heads: dict[int, PartitionRow]
    identities: Identities
    size_bytes: int


class AppendDelta:
    """Implements Delta: decides offsets, timestamps, conflicts and repeats."""

    def __init__(self, heads: Heads, database: Database) -> None:
        self._heads = heads
        self._database = database
        self._clock: Clock = database.clock
        self._size = 0
        self._changes = Changes([], {}, Identities(database), 0)

    def apply(self, write: Append) -> Placement:
        places: dict[int, Placed] = {}
        for number, part in enumerate(write.parts):
            try:
                placed = self._apply_part(write, part)
            except StrandlineError as error:
                if number == 0:
                    raise
                return Placement(places, error)
            places.update(zip(part.indices, placed, strict=True))
        return Placement(places, None)

    def size(self) -> int:
        return self._size

    def freeze(self) -> tuple[Changes, Heads]:
        return self._changes._replace(size_bytes=self._size), self._heads

    def reader(self) -> None:
        return None

    # --- inside ---

    def _apply_part(self, write: Append, part: Part) -> list[Placed]:
        head = self._head(write.entry.first_slot + part.partition)
        now_us = max(self._clock.now_us(), head.last_us)
        originals = self._find_repeats(write, part, head, now_us)
        placed = [
            Placed(part.partition, one.offset, one.timestamp_us, is_repeat=True)
            for one in originals
        ]
        if not placed:
            _check_expected(head, write.terms.expected_offset)
        fresh = part.drafts[len(placed) :]
        if fresh:
            placed += self._add(write, part, head, fresh, now_us)
        return placed

    def _head(self, slot: int) -> PartitionRow:
        head = self._heads.rows.get(slot)
        if head is None:
            with translated(self._database.path):
                head = load_partition(self._database.writer, self._database.path, slot)
            if head is None:
                raise DroppedError("this topic was dropped", near=[])
            self._heads.rows[slot] = head
        return head

    def _find_repeats(
        self, write: Append, part: Part, head: PartitionRow, now_us: int
    ) -> list[Original]:
        terms, tenant = write.terms, write.tenant or ""
        if terms.idempotency_key is not None:
            original = self._changes.identities.find_key(
                head, tenant, terms.idempotency_key, len(part.drafts), now_us
            )
            return [] if original is None else _spread(original)
        if terms.producer is None:
            return []
        name = head.slot, tenant, terms.producer
        # Sequences rise, and so whatever is repeated comes first.
        each = [
            self._changes.identities.find_sequence(name, (terms.sequence or 0) + index, now_us)
            for index in part.indices
        ]
        return [original for original in each if original is not None]

    def _add(
        self, write: Append, part: Part, head: PartitionRow, fresh: Sequence[Draft], now_us: int
    ) -> list[Placed]:
        start = head.high
        if start + len(fresh) >= 1 << OFFSET_BITS:
            raise InvalidError("this partition has as many records as it can number", end=start)
        topic_id, slot = write.entry.topic.id, head.slot
        records: list[tuple[object, ...]] = []
        added_bytes = 0
        for offset, draft in enumerate(fresh, start):
            content = _content(draft, write.tenant)
            crc = record_crc(topic_id, part.partition, offset, now_us, content)
            records.append((place(slot, offset), now_us, *content, crc))
            added_bytes += draft.size_bytes
        self._changes.records.extend(records)
        self._size += added_bytes + _ROW_BYTES * len(records)
        head.size_bytes += added_bytes
        head.high = start + len(fresh)
        head.last_us = now_us
        self._changes.heads[slot] = head
        self._remember(write, part.indices[-len(fresh) :], head, start)
        return [
            Placed(part.partition, Offset(offset), now_us, is_repeat=False)
            for offset in range(start, head.high)
        ]

    def _remember(
        self, write: Append, indices: Sequence[int], head: PartitionRow, start: int
    ) -> None:
        terms, tenant = write.terms, write.tenant or ""
        identities = self._changes.identities
        if terms.idempotency_key is not None:
            original = Original(Offset(start), head.last_us, len(indices))
            identities.add_key(head, tenant, terms.idempotency_key, original)
        elif terms.producer is not None:
            name = head.slot, tenant, terms.producer
            for offset, index in enumerate(indices, start):
                original = Original(Offset(offset), head.last_us)
                identities.add_sequence(name, (terms.sequence or 0) + index, original)


class AppendBracket:
    """Implements Bracket: the lock, a transaction, and what others have written."""

    def __init__(self, database: Database, marks: DurableMarks) -> None:
        self._database = database
        self._marks = marks
        self._lineage = Lineage(database)
        self._heads = Heads()
        self._standby = Standby("strandline-checkpoint", self._tidy_later)

    def enter(self, timeout_s: float) -> Heads:
        database = self._database
        deadline = database.clock.monotonic() + timeout_s
        database.lock.acquire(timeout_s)
        try:
            database.begin(max(0.0, deadline - database.clock.monotonic()))
            self._catch_up(database.writer)
        except BaseException:
            self.leave()
            raise
        return self._heads

    def leave(self) -> None:
        database = self._database
        try:
            # The writer is missing if opening it has failed.
            if database.is_in_transaction:
                # Nothing was stored, whatever was decided.
                self._heads.version = None
                database.writer.rollback()
            self._tidy()
        finally:
            database.lock.release()

    def _tidy(self) -> None:
        if self._database.logged_bytes < CHECKPOINT_BYTES:
            return
        if is_on_loop():
            self._standby.wake()
        else:
            self._marks.checkpoint()

    def _tidy_later(self) -> None:
        # The next append asks again.
        with contextlib.suppress(UnavailableError, ClosedError), self._database.locked():
            self._marks.checkpoint()

    def _catch_up(self, connection: sqlite3.Connection) -> None:
        self._lineage.check(connection)
        strangers = connection.execute("PRAGMA data_version").fetchone()[0]
        version = strangers, self._database.changes
        if version != self._heads.version:
            self._heads.rows.clear()
            self._heads.version = version


class AppendFlusher:
    """Implements Flusher: one transaction for each drain, one sync for all who wait."""

    def __init__(
        self,
        database: Database,
        marks: DurableMarks,
        on_written: Callable[[Changes], None],
    ) -> None:
        self._database = database
        self._marks = marks
        self._on_written = on_written

    def flush(self, frozen: Changes, epochs: range) -> None:  # noqa: ARG002 - Offsets tell more.
        connection = self._database.writer
        connection.executemany(_INSERT, frozen.records)
        self._marks.carry(frozen.heads)
        store_partitions(connection, frozen.heads.values())
        frozen.identities.store()
        connection.execute("COMMIT")
        self._marks.wrote(frozen.heads)
        self._database.logged_bytes += _COMMIT_BYTES + frozen.size_bytes
        self._on_written(frozen)

    def sync(self) -> None:
        self._marks.sync()


def _content(draft: Draft, tenant: Tenant | None) -> Content:
    body = draft.body
    if not isinstance(body, EventBody):
        return draft.key, tenant, None, body, None, None, draft.size_bytes
    kind, value, headers, occurred_at_us = body
    stored = None if headers == _NO_HEADERS else headers
    return draft.key, tenant, kind, value, stored, occurred_at_us, draft.size_bytes


def _check_expected(head: PartitionRow, expected: int | None) -> None:
    if expected is not None and expected != head.high:
        raise ConflictError(
            "the partition does not end at the expected offset, read on and try again",
            expected_offset=expected,
            end=head.high,
        )


def _spread(original: Original) -> list[Original]:
    return [
        Original(Offset(original.offset + index), original.timestamp_us)
        for index in range(original.records)
    ]
