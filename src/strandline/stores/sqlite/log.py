"""A log in one SQLite file."""

import os
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Self

from strandline.clock import Clock, SystemClock
from strandline.io import Io, SystemIo
from strandline.log.calls import Calls
from strandline.log.draft import kind_of
from strandline.log.local_watch import LocalWatch
from strandline.log.loops import check_may_wait, is_on_loop
from strandline.log.numbers import check_flag, check_lock_timeout, check_whole
from strandline.log.results import TopicName, Value
from strandline.log.terms import Terms, check_durable, is_internal
from strandline.log.verifying import unproved
from strandline.stores.sqlite.appends import DroppedError
from strandline.stores.sqlite.chain_values import load_value
from strandline.stores.sqlite.consuming import SqliteConsumers
from strandline.stores.sqlite.database import Database
from strandline.stores.sqlite.partition_row import PartitionRow, load_epochs
from strandline.stores.sqlite.receipts import SqliteReceipt, SqliteReceipts
from strandline.stores.sqlite.records import Records
from strandline.stores.sqlite.schema import translated
from strandline.stores.sqlite.topics import TopicEntry
from strandline.stores.sqlite.trimming import Trimming
from strandline.stores.sqlite.watching import SqliteWatches
from strandline.stores.sqlite.writer import Writer
from strandline.values import (
    RECORD_BYTES_MAX,
    InvalidError,
    Marks,
    Mode,
    Offset,
    Position,
    ProofHead,
    Tenant,
    Topic,
    TopicDescription,
    TopicSettings,
    TrimReport,
    epoch_before,
)

_RANK = {mode: rank for rank, mode in enumerate(Mode)}


class SqliteLog(SqliteConsumers, Calls[SqliteReceipt, SqliteReceipts]):
    """Implements Log. A child of a fork cannot use it, and is told so.

    `mode="write"` creates the database, or the log's tables in a database that is
    there; the other modes need a log. Retention is applied when asked for.
    """

    def __init__(
        self,
        path: str,
        *,
        mode: str = Mode.WRITE,
        clock: Clock | None = None,
        io: Io | None = None,
        auto_create: bool = False,
        record_bytes_max: int = RECORD_BYTES_MAX,
        lock_timeout_s: float = 10.0,
    ) -> None:
        bytes_max = check_whole("record_bytes_max", record_bytes_max)
        super().__init__(
            Database(
                os.path.abspath(path),
                Mode.parse(mode),
                io if io is not None else SystemIo(),
                clock if clock is not None else SystemClock(),
                check_lock_timeout(lock_timeout_s),
            )
        )
        self._auto_create = auto_create
        self._trimming = Trimming(self._database, self._consumers)
        self._watches = SqliteWatches(self._database, self._marks, self._find)
        #: Where appends of this process went last; an append finds out if it is gone.
        self._recent: dict[TopicName, TopicEntry] = {}
        self._writer = (
            None
            if self.mode is Mode.READ
            else Writer(self._database, self._marks, bytes_max, self._watches.tell_written)
        )

    # --- topics ---

    def _create_topic(
        self, name: str, tenant: Tenant | None, settings: TopicSettings, *, internal: bool
    ) -> Topic:
        writer = self._check_mode(Mode.CONSUME if internal else Mode.WRITE)
        with self._database.changing() as connection:
            entry = self._topics.create(connection, name, tenant, settings)
        writer.sync()
        return entry.topic

    def _change_settings(
        self, topic: TopicName, changed: Callable[[TopicSettings], TopicSettings]
    ) -> TopicDescription:
        self._check_mode(Mode.WRITE)
        with self._database.changing() as connection:
            entry = self._topics.find(connection, topic)
            after = self._topics.change_settings(connection, entry, changed(entry.settings))
        return self.describe_topic(after.topic)

    def drop_topic(self, topic: TopicName) -> None:
        self._check_mode(Mode.WRITE)
        with self._database.changing() as connection:
            entry = self._topics.find(connection, topic)
            self._topics.drop(connection, entry)
        self._watches.tell_slots_dropped(entry.slots)

    # --- writing ---

    def _append(
        self, topic: TopicName, value: Value, key: str | None, terms: Terms
    ) -> SqliteReceipt:
        entry = self._recently(topic)
        if entry is not None and not terms.has_identity and not is_on_loop():
            self._database.check_open()
            assert self._writer is not None
            try:
                return self._writer.append_one(entry, value, key, terms)
            except DroppedError:
                self._recent.pop(topic, None)
        return self._append_each(topic, [value], [key], terms, value)[0]

    def _append_many(
        self,
        topic: TopicName,
        values: Sequence[Value],
        keys: Sequence[str | None] | None,
        terms: Terms,
    ) -> SqliteReceipts:
        return self._append_each(topic, values, keys or [None] * len(values), terms, values)

    def transaction(
        self, connection: sqlite3.Connection | None = None
    ) -> AbstractContextManager[sqlite3.Connection]:
        return self._check_mode(Mode.WRITE).transaction(connection)

    def _append_each(
        self,
        topic: TopicName,
        values: Sequence[Value],
        keys: Sequence[str | None],
        terms: Terms,
        offered: object,
    ) -> SqliteReceipts:
        self._database.check_open()
        writer = self._writer_for(topic)

        def find(is_certain: bool) -> TopicEntry:
            return self._topic_to_append(topic, values, is_certain=is_certain)

        return writer.append(find, values, keys, terms, offered)

    def _writer_for(self, topic: TopicName) -> Writer:
        if self._writer is None or (self.mode is Mode.CONSUME and not is_internal(topic)):
            raise self._not_allowed()
        return self._writer

    def _recently(self, topic: object) -> TopicEntry | None:
        return self._recent.get(topic) if isinstance(topic, (str, Topic)) else None

    def _topic_to_append(
        self, topic: TopicName, values: Sequence[Value], *, is_certain: bool
    ) -> TopicEntry:
        known = self._recently(topic) if not is_certain else None
        if known is not None:
            return known
        try:
            with self._database.reading() as connection:
                entry = self._topics.find(connection, topic)
        except InvalidError:
            if not self._auto_create or isinstance(topic, Topic) or not values:
                raise
            if is_on_loop():
                raise InvalidError(
                    "creating this topic may have to wait, create it before the event loop"
                    " appends, or append with asyncio.to_thread",
                    topic=topic,
                ) from None
            self.create_topic(topic, value_kind=kind_of(values[0]))
            return self._topic_to_append(topic, values, is_certain=True)
        self._recent[topic] = entry
        return entry

    def trim(
        self, topic: TopicName, partition: int, before: int, *, force: bool = False
    ) -> TrimReport:
        before, force = check_whole("before", before), check_flag("force", force)
        self._check_mode(Mode.CONSUME if is_internal(topic) else Mode.WRITE)
        with self._database.changing() as connection:
            records, row = self._records(connection, topic, partition)
            row.check_not_beyond(before)
            report = self._trimming.trim(connection, records, row, before, force=force)
        self._trimming.remove(records, report.low)
        return report

    def evict(self, topic: TopicName, partition: int, before: int) -> Offset:
        check_whole("before", before)
        self._check_mode(Mode.WRITE)
        with self._database.changing() as connection:
            records, row = self._records(connection, topic, partition)
            check_durable(before, self._marks_of(row).durable)
            self._trimming.evict(connection, records, row, before)
        self._trimming.remove(records, row.first)
        return Offset(row.first)

    def apply_retention(self, topic: TopicName) -> Sequence[TrimReport]:
        self._check_mode(Mode.WRITE)
        with self._database.reading() as connection:
            entry = self._topics.find(connection, topic)
        reports = []
        for number in range(entry.settings.partitions):
            with self._database.changing() as connection:
                records, row = self._records(connection, entry.topic, number)
                settings = self._topics.find(connection, entry.topic).settings
                before = self._trimming.retained_from(connection, records, row, settings)
                least = self._trimming.limited_from(connection, records, row, settings)
                report = self._trimming.trim(
                    connection, records, row, before, force=False, least=least
                )
            self._trimming.remove(records, report.low)
            reports.append(report)
        return reports

    def _records(
        self, connection: sqlite3.Connection, topic: TopicName, partition: int
    ) -> tuple[Records, PartitionRow]:
        entry, number, row = self._row(connection, topic, partition)
        return Records(self._database, entry, number), row

    # --- positions and hints ---

    def position(self, topic: TopicName, partition: int, offset: int) -> Position:
        check_whole("offset", offset)
        marks = self.marks(topic, partition)
        if marks.durable < offset <= marks.high:
            check_may_wait()
            self._make_durable(topic, partition)
        with self._database.reading() as connection:
            connection.execute("BEGIN")
            entry, number, row = self._row(connection, topic, partition)
            kept = row.check_kept(offset)
            epoch = epoch_before(kept, load_epochs(connection, self._database.path, row.slot))
        return Position(self.id, entry.topic.id, number, kept, epoch.number, epoch.id)

    def proof_head(self, topic: TopicName, partition: int) -> ProofHead:
        entry, number = self._find(topic, partition)
        if not entry.is_proved:
            raise unproved(entry.topic)
        marks = self.marks(entry.topic, number)
        if marks.durable < marks.high:
            check_may_wait()
            self._make_durable(entry.topic, number)
        chain = self._chain(entry, number)
        with self._database.reading() as connection:
            connection.execute("BEGIN")
            row = self._row(connection, entry.topic, number)[2]
            offset = max(row.low, marks.high)
            value = load_value(connection, self._database.path, row.slot, offset, chain)
        return chain.head(offset, value)

    def watch(self, *, durable_only: bool = False) -> LocalWatch:
        self._database.check_open()
        return self._watches.open(durable_only=check_flag("durable_only", durable_only))

    # --- the whole log ---

    def sync(self, topic: TopicName, partition: int) -> Marks:
        self._check_mode(Mode.CONSUME)
        self._make_durable(topic, partition)
        self._marks.note(self._database.lock_timeout_s)
        return self.marks(topic, partition)

    def flush(self) -> None:
        writer = self._check_mode(Mode.CONSUME)
        with translated(self._database.path), self._database.locked():
            ends = self._marks.note_ends()
        self._marks.expect(ends.items())
        writer.sync()
        self._marks.note(self._database.lock_timeout_s)
        with translated(self._database.path), self._database.locked():
            self._database.checkpoint("TRUNCATE")

    def close(self) -> None:
        if os.getpid() == self._database.pid:
            if self._writer is not None:
                self._writer.check_no_block()
                self._writer.close()
            self._watches.close()
            self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # --- inside ---

    def _check_mode(self, least: Mode) -> Writer:
        self._database.check_open()
        if self._writer is None or _RANK[self.mode] < _RANK[least]:
            raise self._not_allowed()
        check_may_wait()
        return self._writer

    def _not_allowed(self) -> InvalidError:
        return InvalidError("the log was opened in a mode that does not allow this", mode=self.mode)

    def _make_durable_before(self, topic: TopicName, partition: int, offset: int) -> None:
        marks = self.marks(topic, partition)
        if marks.durable < offset <= marks.high:
            self._make_durable(topic, partition)

    def _make_durable(self, topic: TopicName, partition: int) -> None:
        if self._writer is None:
            # A sync changes no byte. The mark stays as it is.
            with translated(self._database.path):
                self._database.sync()
            return
        with self._database.reading() as connection:
            connection.execute("BEGIN")
            row = self._row(connection, topic, partition)[2]
        self._marks.expect([(row.slot, row.high)])
        self._writer.sync()
