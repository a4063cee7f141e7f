"""The topics of a log."""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple
from uuid import UUID

from strandline.clock import Clock
from strandline.log.topics import check_new_topic
from strandline.stores.sqlite.added_slots import load_added_slots, store_added_slots
from strandline.stores.sqlite.chain_values import make_table, remove_values
from strandline.stores.sqlite.checksum import check_row, row_crc
from strandline.stores.sqlite.partition_row import (
    PartitionRow,
    add_epoch,
    lost,
    place,
    store_partitions,
)
from strandline.stores.sqlite.schema import SLOTS_MAX
from strandline.values import (
    CorruptError,
    Epoch,
    InvalidError,
    Offset,
    Tenant,
    Topic,
    TopicSettings,
)

_SELECT = "SELECT id, tenant, name, first_slot, settings, created_at_us, crc FROM strandline_topics"
# Created with the first topic that needs it: older logs do not have it. Names are ASCII.
_INDEX_WITHOUT_CASE = (
    "CREATE INDEX IF NOT EXISTS strandline_topics_without_case"
    " ON strandline_topics (tenant, name COLLATE NOCASE)"
)
_OF_SLOTS = ("partitions", "epochs", "producers", "sequences", "keys")


@dataclass(frozen=True, slots=True)
class SqliteTopic:
    """A stored topic; the partitions that it was created with have adjacent slots."""

    topic: Topic
    settings: TopicSettings
    first_slot: int
    created_at_us: int
    #: The slots of partitions that were added later.
    added_slots: tuple[int, ...] = ()
    #: The slots of all partitions.
    slots: Sequence[int] = field(init=False, repr=False, compare=False)
    #: The topic's id, in the form used in its records' checksums.
    id_bytes: bytes = field(init=False, repr=False, compare=False)

    is_proved: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "id_bytes", self.topic.id.bytes)
        object.__setattr__(self, "is_proved", self.settings.proof)
        first_count = self.settings.partitions - len(self.added_slots)
        first = range(self.first_slot, self.first_slot + first_count)
        object.__setattr__(
            self, "slots", (*first, *self.added_slots) if self.added_slots else first
        )

    def slot(self, partition: int) -> int:
        """Return the slot of a partition."""
        return self.slots[partition]


class SqliteTopics:
    """Finds and changes topics, using the caller's connection."""

    def __init__(self, path: str, clock: Clock) -> None:
        self._path = path
        self._clock = clock

    def find(
        self, connection: sqlite3.Connection, tenant: Tenant | None, name: str
    ) -> SqliteTopic | None:
        """Return the topic, if there is one."""
        row = connection.execute(
            f"{_SELECT} WHERE tenant = ? AND name = ?", (tenant or "", name)
        ).fetchone()
        return None if row is None else self._load(connection, row)

    def find_id(self, connection: sqlite3.Connection, topic_id: UUID) -> SqliteTopic | None:
        """Return the topic of this id."""
        row = connection.execute(f"{_SELECT} WHERE id = ?", (topic_id.bytes,)).fetchone()
        return None if row is None else self._load(connection, row)

    def all(self, connection: sqlite3.Connection) -> list[SqliteTopic]:
        """Return the topics of all tenants."""
        self._check_count(connection)
        rows = connection.execute(_SELECT).fetchall()
        return [self._load(connection, row) for row in rows]

    def create(
        self,
        connection: sqlite3.Connection,
        name: str,
        tenant: Tenant | None,
        settings: TopicSettings,
    ) -> SqliteTopic:
        """Create the topic and return it, or return an equal one that exists."""
        known = self.find(connection, tenant, name)
        case_variants = self._case_variants(connection, tenant, name)
        check_new_topic(name, settings, None if known is None else known.settings, case_variants)
        return known if known is not None else self._make(connection, name, tenant, settings)

    def change_settings(
        self, connection: sqlite3.Connection, entry: SqliteTopic, settings: TopicSettings
    ) -> SqliteTopic:
        """Replace the settings of a topic, and create added partitions."""
        added = settings.partitions - entry.settings.partitions
        slots = entry.added_slots
        if added:
            row = load_log(connection, self._path)
            first_slot = self._take_slots(connection, row, added)
            new = range(first_slot, first_slot + added)
            by_number = dict(enumerate(new, entry.settings.partitions))
            store_added_slots(connection, entry.first_slot, by_number)
            self._make_partitions(connection, new)
            slots = (*slots, *new)
        changed = replace(entry, settings=settings, added_slots=slots)
        self._store(connection, changed)
        return changed

    def drop(self, connection: sqlite3.Connection, entry: SqliteTopic) -> None:
        """Remove a topic and everything that belongs to it."""
        first_count = len(entry.slots) - len(entry.added_slots)
        runs = [(entry.first_slot, entry.first_slot + first_count)]
        for start, end in runs + [(slot, slot + 1) for slot in entry.added_slots]:
            self._remove_slots(connection, entry, start, end)
        for table in ("keyed", "keyed_names", *(["added_slots"] if entry.added_slots else ())):
            connection.execute(
                f"DELETE FROM strandline_{table} WHERE first_slot = ?",  # noqa: S608 - Names of ours.
                (entry.first_slot,),
            )
        connection.execute("DELETE FROM strandline_topics WHERE id = ?", (entry.topic.id.bytes,))
        row = load_log(connection, self._path)
        store_log(connection, row._replace(topics=row.topics - 1))

    # --- inside ---

    def _remove_slots(
        self, connection: sqlite3.Connection, entry: SqliteTopic, start: int, end: int
    ) -> None:
        """Remove the content of these slots."""
        for table in _OF_SLOTS:
            connection.execute(
                f"DELETE FROM strandline_{table} WHERE slot >= ? AND slot < ?",  # noqa: S608 - Names of ours.
                (start, end),
            )
        connection.execute(
            "DELETE FROM strandline_records WHERE place >= ? AND place < ?",
            (place(start, 0), place(end, 0)),
        )
        if entry.is_proved:
            remove_values(connection, place(start, 0), place(end, 0))

    def _load(
        self,
        connection: sqlite3.Connection,
        row: tuple[bytes, str, str, int, bytes, int, int],
    ) -> SqliteTopic:
        check_row(self._path, "topics", row[3], row[:6], row[6])
        topic_id, tenant, name, first_slot, settings, created_at_us, _ = row
        try:
            topic = Topic(name, UUID(bytes=topic_id), Tenant(tenant) if tenant else None)
            loaded = TopicSettings.from_json(settings)
        except InvalidError as error:
            raise CorruptError(
                "this topic cannot be read", file=self._path, position=first_slot
            ) from error
        added: tuple[int, ...] = ()
        if loaded.earlier_partitions:
            numbers = range(loaded.earlier_partitions[0].partitions, loaded.partitions)
            added = load_added_slots(connection, self._path, first_slot, numbers)
        return SqliteTopic(topic, loaded, first_slot, created_at_us, added)

    def _store(self, connection: sqlite3.Connection, entry: SqliteTopic) -> None:
        topic = entry.topic
        row = (
            *(topic.id.bytes, topic.tenant or "", topic.name, entry.first_slot),
            *(entry.settings.to_json(), entry.created_at_us),
        )
        connection.execute(
            "INSERT OR REPLACE INTO strandline_topics VALUES (?, ?, ?, ?, ?, ?, ?)",
            (*row, row_crc("topics", *row)),
        )

    def _make(
        self,
        connection: sqlite3.Connection,
        name: str,
        tenant: Tenant | None,
        settings: TopicSettings,
    ) -> SqliteTopic:
        self._check_count(connection)
        log_row = load_log(connection, self._path)
        log_row = log_row._replace(topics=log_row.topics + 1)
        first_slot = self._take_slots(connection, log_row, settings.partitions)
        topic = Topic(name, self._clock.new_id(), tenant)
        added = self._added_at_once(connection, settings, first_slot)
        entry = SqliteTopic(topic, settings, first_slot, self._clock.now_us(), added)
        self._store(connection, entry)
        if settings.proof:
            make_table(connection)
        self._make_partitions(connection, entry.slots)
        return entry

    def _added_at_once(
        self, connection: sqlite3.Connection, settings: TopicSettings, first_slot: int
    ) -> tuple[int, ...]:
        """Return the slots of partitions of a new topic that were added where it is copied from."""
        if not settings.earlier_partitions:
            return ()
        numbers = range(settings.earlier_partitions[0].partitions, settings.partitions)
        by_number = {number: first_slot + number for number in numbers}
        store_added_slots(connection, first_slot, by_number)
        return tuple(by_number.values())

    def _make_partitions(self, connection: sqlite3.Connection, slots: Sequence[int]) -> None:
        store_partitions(connection, [PartitionRow(slot) for slot in slots])
        for slot in slots:
            add_epoch(connection, slot, Epoch(0, self._clock.new_id(), Offset(0)))

    def _take_slots(self, connection: sqlite3.Connection, row: "LogRow", count: int) -> int:
        """Store the log's row; return the first of `count` unused slots."""
        next_slot = row.next_slot
        if next_slot + count > SLOTS_MAX:
            raise InvalidError(
                "this log has used up all partition numbers of one file, use another log",
                partitions_max=SLOTS_MAX,
            )
        store_log(connection, row._replace(next_slot=next_slot + count))
        return next_slot

    def _case_variants(
        self, connection: sqlite3.Connection, tenant: Tenant | None, name: str
    ) -> Sequence[str]:
        """Return the names that differ only by case, using an index."""
        connection.execute(_INDEX_WITHOUT_CASE)
        found = connection.execute(
            "SELECT name FROM strandline_topics INDEXED BY strandline_topics_without_case"
            " WHERE tenant = ? AND name = ? COLLATE NOCASE",
            (tenant or "", name),
        )
        return [each for (each,) in found]

    def _check_count(self, connection: sqlite3.Connection) -> None:
        """Raise CorruptError if the row of a topic is missing."""
        stored = load_log(connection, self._path).topics
        (found,) = connection.execute("SELECT count(*) FROM strandline_topics").fetchone()
        if found != stored:
            raise lost(self._path, "topics", 0)


class LogRow(NamedTuple):
    """The log's own row."""

    format: int
    log_id: bytes
    inode: int
    next_slot: int
    #: The number of topics.
    topics: int


def load_log(connection: sqlite3.Connection, path: str) -> LogRow:
    """Return the log's own row."""
    row = connection.execute(
        "SELECT format, log_id, inode, next_slot, topics, crc FROM strandline_log"
    ).fetchone()
    if row is None:
        raise CorruptError("the log has lost its identity", file=path, position=1)
    check_row(path, "log", 1, row[:5], row[5])
    return LogRow(*row[:5])


def store_log(connection: sqlite3.Connection, row: LogRow) -> None:
    """Replace the log's own row."""
    connection.execute(
        "UPDATE strandline_log"
        " SET format = ?, log_id = ?, inode = ?, next_slot = ?, topics = ?, crc = ?",
        (*row, row_crc("log", *row)),
    )
