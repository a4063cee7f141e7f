"""The write path: appends decided in memory, stored in one transaction per drain."""

import contextlib
import sqlite3
from bisect import bisect_left
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from strandline.log.chain import Chain, link
from strandline.log.draft import Draft
from strandline.log.history import EventBody
from strandline.log.identities import Original
from strandline.log.loops import is_on_loop
from strandline.log.terms import Terms
from strandline.stores.sqlite.chain_values import ValueRow, load_value, store_values, value_row
from strandline.stores.sqlite.checksum import Content, record_crc
from strandline.stores.sqlite.database import CHECKPOINT_BYTES, Database
from strandline.stores.sqlite.durable_marks import DurableMarks
from strandline.stores.sqlite.identities import Identities
from strandline.stores.sqlite.lineage import Lineage
from strandline.stores.sqlite.partition_row import (
    PartitionRow,
    load_partition,
    place,
    store_partitions,
)
from strandline.stores.sqlite.records import Row
from strandline.stores.sqlite.schema import OFFSET_BITS, translated
from strandline.stores.sqlite.topics import TopicEntry
from strandline.values import (
    ClosedError,
    ConflictError,
    CorruptError,
    InvalidError,
    Offset,
    Partition,
    StrandlineError,
    Tenant,
    UnavailableError,
)
from strandline.writes.standby import Standby

_NO_HEADERS = b"{}"
_ALONE = range(1)
_ROW_BYTES = 64
#: About what the smallest transaction adds to the write-ahead log, and each row besides.
COMMIT_BYTES = 5 * 1024
PAGE_BYTES = 4 * 1024
#: How many records a partition's row may lag behind.
_TAIL_MAX = 64
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


class Single(NamedTuple):
    """An append of one value that brings no identity, which most are."""

    entry: TopicEntry
    partition: Partition
    draft: Draft
    tenant: Tenant | None
    expected_offset: int | None


class Placed(NamedTuple):
    """Where one value of an append went."""

    partition: Partition
    offset: Offset
    timestamp_us: int
    is_repeat: bool


class Run(NamedTuple):
    """Values of one append, by their indices, at adjacent offsets and with one timestamp."""

    partition: Partition
    indices: Sequence[int]
    start: int
    timestamp_us: int
    is_repeat: bool


class Placement(NamedTuple):
    """Where the values went, and what kept the others from being stored."""

    runs: Sequence[Run]
    error: StrandlineError | None

    def find(self, index: int) -> Placed | None:
        """Return where a value went; None if it was not stored."""
        for partition, indices, start, timestamp_us, is_repeat in self.runs:
            at = bisect_left(indices, index)
            if at < len(indices) and indices[at] == index:
                return Placed(partition, Offset(start + at), timestamp_us, is_repeat)
        return None


class Heads:
    """The partitions as they are, for as long as nobody else writes. The lock holder's."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.rows: dict[int, PartitionRow] = {}
        #: Of topics with a proof: the chain of each slot, and its value at the end.
        self.values: dict[int, tuple[Chain, bytes]] = {}
        self.version: tuple[int, int] | None = None


class Changes(NamedTuple):
    """What one transaction stores."""

    records: list[Row]
    heads: dict[int, PartitionRow]
    identities: Identities | None
    values: list[ValueRow]
    size_bytes: int

    def store(self, connection: sqlite3.Connection, due: Collection[PartitionRow]) -> None:
        """Put it into the present transaction, with the partitions' rows that are due."""
        records, _, identities, values, _ = self
        if len(records) == 1:
            connection.execute(_INSERT, records[0])
        else:
            connection.executemany(_INSERT, records)
        if values:
            store_values(connection, values)
        if due:
            store_partitions(connection, due)
        if identities is not None:
            identities.store()


class AppendDelta:
    """Implements Delta: decides offsets, timestamps, conflicts and repeats."""

    __slots__ = ("_changed", "_database", "_heads", "_identities", "_records", "_size", "_values")

    def __init__(self, heads: Heads) -> None:
        self._heads = heads
        self._database = heads.database
        self._size = 0
        self._records: list[Row] = []
        self._values: list[ValueRow] = []
        self._changed: dict[int, PartitionRow] = {}
        self._identities: Identities | None = None

    def apply(self, write: Append | Single) -> Placement:
        if isinstance(write, Single):
            return self._apply_single(write)
        runs: list[Run] = []
        for number, part in enumerate(write.parts):
            try:
                runs += self._apply_part(write, part)
            except StrandlineError as error:
                if number == 0:
                    raise
                return Placement(runs, error)
        return Placement(runs, None)

    def size(self) -> int:
        return self._size

    def freeze(self) -> tuple[Changes, Heads]:
        changes = Changes(self._records, self._changed, self._identities, self._values, self._size)
        return changes, self._heads

    def reader(self) -> None:
        return None

    # --- inside ---

    def _apply_single(self, write: Single) -> Placement:
        entry, partition, draft, tenant, expected = write
        slot = entry.first_slot + partition
        head = self._heads.rows.get(slot) or self._load_head(slot)
        offset = head.high
        if expected is not None and expected != offset:
            raise _conflict(expected, offset)
        _check_room(offset, 1)
        now_us = self._database.clock.now_us()
        now_us = max(head.last_us, now_us)
        content = _content(draft, tenant)
        crc = record_crc(entry.id_bytes, partition, offset, now_us, content)
        if entry.is_proved:
            self._link(entry, partition, [draft], tenant, now_us)
        self._records.append((slot << OFFSET_BITS | offset, now_us, *content, crc))
        self._size += draft.size_bytes + _ROW_BYTES
        head.size_bytes += draft.size_bytes
        head.high = offset + 1
        head.last_us = now_us
        self._changed[slot] = head
        return Placement((Run(partition, _ALONE, offset, now_us, is_repeat=False),), None)

    def _apply_part(self, write: Append, part: Part) -> list[Run]:
        slot = write.entry.first_slot + part.partition
        head = self._heads.rows.get(slot) or self._load_head(slot)
        now_us = max(self._database.clock.now_us(), head.last_us)
        originals = self._find_repeats(write, part, head, now_us)
        expected = write.terms.expected_offset
        if not originals and expected is not None and expected != head.high:
            raise _conflict(expected, head.high)
        runs = _repeats(part, originals)
        fresh = part.drafts[len(originals) :]
        if fresh:
            runs.append(self._add(write, part, head, fresh, now_us))
        return runs

    def _load_head(self, slot: int) -> PartitionRow:
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
        if terms.producer is None and terms.idempotency_key is None:
            return []
        if self._identities is None:
            self._identities = Identities(self._database)
        identities = self._identities
        if terms.idempotency_key is not None:
            original = identities.find_key(
                head, tenant, terms.idempotency_key, len(part.drafts), now_us
            )
            return [] if original is None else original.each()
        assert terms.producer is not None
        name = head.slot, tenant, terms.producer
        # Sequences rise, and so whatever is repeated comes first.
        each = [
            identities.find_sequence(name, (terms.sequence or 0) + index, now_us)
            for index in part.indices
        ]
        return [original for original in each if original is not None]

    def _add(
        self, write: Append, part: Part, head: PartitionRow, fresh: Sequence[Draft], now_us: int
    ) -> Run:
        start, slot, tenant = head.high, head.slot, write.tenant
        _check_room(start, len(fresh))
        topic_id, partition = write.entry.id_bytes, part.partition
        contents = [_content(draft, tenant) for draft in fresh]
        if write.entry.is_proved:
            self._link(write.entry, partition, fresh, tenant, now_us)
        self._records += [
            (
                place(slot, offset),
                now_us,
                *content,
                record_crc(topic_id, partition, offset, now_us, content),
            )
            for offset, content in enumerate(contents, start)
        ]
        added_bytes = sum([draft.size_bytes for draft in fresh])
        self._size += added_bytes + _ROW_BYTES * len(fresh)
        head.size_bytes += added_bytes
        head.high = start + len(fresh)
        head.last_us = now_us
        self._changed[slot] = head
        indices = part.indices[-len(fresh) :]
        self._remember(write, indices, head, start)
        return Run(partition, indices, start, now_us, is_repeat=False)

    def _link(
        self,
        entry: TopicEntry,
        partition: Partition,
        drafts: Sequence[Draft],
        tenant: Tenant | None,
        now_us: int,
    ) -> None:
        """Chain records that are about to be added."""
        slot = entry.first_slot + partition
        chain, value = self._heads.values.get(slot) or self._load_value(entry, partition)
        for offset, draft in enumerate(drafts, self._heads.rows[slot].high):
            value = link(value, chain.digest(offset, now_us, draft.key, tenant, draft.body))
            self._values.append(value_row(slot, offset, value))
        self._heads.values[slot] = chain, value

    def _load_value(self, entry: TopicEntry, partition: Partition) -> tuple[Chain, bytes]:
        database, slot = self._database, entry.first_slot + partition
        chain = Chain(database.log_id, entry.topic.id, partition, entry.settings.value_kind)
        high = self._heads.rows[slot].high
        try:
            with translated(database.path):
                return chain, load_value(database.writer, database.path, slot, high, chain)
        except CorruptError:
            # What is damaged stays a finding, and does not keep anybody from appending.
            return chain, chain.origin

    def _remember(
        self, write: Append, indices: Sequence[int], head: PartitionRow, start: int
    ) -> None:
        terms, tenant = write.terms, write.tenant or ""
        identities = self._identities
        if identities is None:
            return
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
        self._heads = Heads(database)
        self._standby = Standby("strandline-checkpoint", self._tidy_later)

    def enter(self, timeout_s: float) -> Heads:
        database, heads = self._database, self._heads
        if not self._begin_at_once():
            self._begin(timeout_s)
        version = database.lock.breaks, database.changes
        if version != heads.version:
            heads.rows.clear()
            heads.values.clear()
            heads.version = version
        return heads

    def _begin_at_once(self) -> bool:
        """Begin where nobody is in the way and nobody else was here since our last time.

        That is asked inside SQLite's own lock, and so stays true.
        """
        database = self._database
        lock = database.lock
        if not self._lineage.is_checked or not lock.try_acquire():
            return False
        try:
            if database.try_begin() and lock.is_unbroken():
                return True
        except BaseException:
            self.leave()
            raise
        self.leave()
        return False

    def enter_with(self, connection: sqlite3.Connection, timeout_s: float) -> None:
        """Do what `enter` does, with this connection as the one that writes until `leave`."""
        self._begin(timeout_s, connection)

    def _begin(self, timeout_s: float, lent: sqlite3.Connection | None = None) -> None:
        database = self._database
        deadline = database.clock.monotonic() + timeout_s
        database.lock.acquire(timeout_s)
        try:
            database.lend(lent)
            database.begin(max(0.0, deadline - database.clock.monotonic()))
            self._lineage.check(database.writer)
            # Even the lock's file may have been another's until we began.
            self._heads.version = None
        except BaseException:
            self.leave()
            raise

    def leave(self) -> None:
        database = self._database
        try:
            # The writer is missing if opening it has failed.
            if database.is_in_transaction:
                # Nothing was stored, whatever was decided.
                self._heads.version = None
                database.writer.rollback()
            database.take_back()
            if database.logged_bytes >= CHECKPOINT_BYTES:
                # Whatever is in the way, what was written is: the next append asks again.
                with contextlib.suppress(UnavailableError):
                    self._tidy()
        finally:
            database.take_back()
            database.lock.release()

    def _tidy(self) -> None:
        if is_on_loop():
            self._standby.wake()
        else:
            self._marks.checkpoint()

    def _tidy_later(self) -> None:
        with contextlib.suppress(UnavailableError, ClosedError), self._database.locked():
            self._marks.checkpoint()


class AppendFlusher:
    """Implements Flusher: one transaction for each drain, one sync for all who wait."""

    def __init__(
        self,
        database: Database,
        marks: DurableMarks,
        on_written: Callable[[Mapping[int, PartitionRow]], None],
    ) -> None:
        self._database = database
        self._marks = marks
        self._on_written = on_written

    def flush(self, frozen: Changes, epochs: range) -> None:  # noqa: ARG002 - Offsets tell more.
        connection = self._database.writer
        heads = frozen.heads
        due: Collection[PartitionRow] = heads.values()
        if frozen.identities is None:
            due = [head for head in due if is_due(head) or self._marks.is_unnoted(head.slot)]
        if due:
            self._marks.carry(due)
        frozen.store(connection, due)
        connection.execute("COMMIT")
        self._marks.wrote(heads)
        self._database.logged_bytes += COMMIT_BYTES + PAGE_BYTES * len(due) + frozen.size_bytes
        self._on_written(heads)

    def sync(self) -> None:
        self._marks.sync()


def is_due(head: PartitionRow) -> bool:
    """Whether a partition's row lags behind as far as it may."""
    return head.high - head.noted >= _TAIL_MAX


def _content(draft: Draft, tenant: Tenant | None) -> Content:
    body = draft.body
    if not isinstance(body, EventBody):
        return draft.key, tenant, None, body, None, None, draft.size_bytes
    kind, value, headers, occurred_at_us = body
    stored = None if headers == _NO_HEADERS else headers
    return draft.key, tenant, kind, value, stored, occurred_at_us, draft.size_bytes


def _conflict(expected: int, end: int) -> ConflictError:
    return ConflictError(
        "the partition does not end at the expected offset, read on and try again",
        expected_offset=expected,
        end=end,
    )


def _check_room(start: int, count: int) -> None:
    if start + count >= 1 << OFFSET_BITS:
        raise InvalidError("this partition has as many records as it can number", end=start)


def _repeats(part: Part, originals: Sequence[Original]) -> list[Run]:
    runs: list[Run] = []
    for index, (offset, timestamp_us, _) in zip(part.indices, originals, strict=False):
        last = runs[-1] if runs else None
        if (
            last is not None
            and offset == last.start + len(last.indices)
            and timestamp_us == last.timestamp_us
        ):
            runs[-1] = last._replace(indices=(*last.indices, index))
        else:
            runs.append(Run(part.partition, (index,), offset, timestamp_us, is_repeat=True))
    return runs
