"""The topics of a log."""

import difflib
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from uuid import UUID

from strandline.clock import Clock
from strandline.log.results import TopicName
from strandline.log.terms import check_partition
from strandline.stores.sqlite.chain_values import make_table, remove_values
from strandline.stores.sqlite.checksum import check_row, row_crc
from strandline.stores.sqlite.partition_row import PartitionRow, add_epoch, place, store_partitions
from strandline.stores.sqlite.schema import SLOTS_MAX
from strandline.values import (
    ConflictError,
    CorruptError,
    Epoch,
    InvalidError,
    Offset,
    Tenant,
    Topic,
    TopicSettings,
    check_case_twin,
    check_topic_name,
)
from strandline.values.names import RESERVED_PREFIX

_NEAR_MAX = 3
_SELECT = "SELECT id, tenant, name, first_slot, settings, created_at_us, crc FROM strandline_topics"
_OF_SLOTS = (*("partitions", "epochs", "consumers", "producers", "sequences", "keys"),)


@dataclass(frozen=True, slots=True)
class TopicEntry:
    """A topic as it is stored; its partitions have adjacent slots."""

    topic: Topic
    settings: TopicSettings
    first_slot: int
    created_at_us: int
    #: The topic's id, as the checksums of its records have it.
    id_bytes: bytes = field(init=False, repr=False, compare=False)

    is_proved: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "id_bytes", self.topic.id.bytes)
        object.__setattr__(self, "is_proved", self.settings.proof)

    def slot(self, partition: int) -> int:
        """Return the slot of a partition; InvalidError if there is none."""
        return self.first_slot + check_partition(partition, self.settings.partitions)

    @property
    def slots(self) -> range:
        """The slots of all partitions."""
        return range(self.first_slot, self.first_slot + self.settings.partitions)


class Topics:
    """Finds and changes topics on a connection that the caller brings."""

    def __init__(self, path: str, clock: Clock) -> None:
        self._path = path
        self._clock = clock

    def find(
        self, connection: sqlite3.Connection, topic: TopicName, tenant: Tenant | None = None
    ) -> TopicEntry:
        """Return the topic; InvalidError with near matches if there is none."""
        if isinstance(topic, Topic):
            name, tenant = topic.name, topic.tenant
        else:
            name = check_topic_name(topic, internal=True)
        found = self._get(connection, tenant, name)
        if found is None or (isinstance(topic, Topic) and found.topic.id != topic.id):
            raise self._unknown(connection, name, tenant)
        return found

    def find_id(self, connection: sqlite3.Connection, topic_id: UUID) -> TopicEntry | None:
        """Return the topic of this id."""
        row = connection.execute(f"{_SELECT} WHERE id = ?", (topic_id.bytes,)).fetchone()
        return None if row is None else self._load(row)

    def all(self, connection: sqlite3.Connection) -> list[TopicEntry]:
        """Return the topics of everybody."""
        return [self._load(row) for row in connection.execute(_SELECT)]

    def list(
        self, connection: sqlite3.Connection, tenant: Tenant | None, *, internal: bool
    ) -> Sequence[Topic]:
        """Return the tenant's topics sorted by name."""
        rows = connection.execute(f"{_SELECT} WHERE tenant = ? ORDER BY name", (tenant or "",))
        topics = [self._load(row).topic for row in rows]
        return [each for each in topics if each.name.startswith(RESERVED_PREFIX) == internal]

    def create(
        self,
        connection: sqlite3.Connection,
        name: str,
        tenant: Tenant | None,
        settings: TopicSettings,
    ) -> TopicEntry:
        """Return the new topic, or the one that is the same already."""
        known = self._get(connection, tenant, name)
        if known is None:
            check_case_twin(name, self._names(connection, tenant))
            return self._make(connection, name, tenant, settings)
        if known.settings != settings:
            raise ConflictError(
                "the topic exists with other settings, use it as it is or choose another name",
                topic=name,
                **known.settings.unlike(settings),
            )
        return known

    def change_settings(
        self, connection: sqlite3.Connection, entry: TopicEntry, settings: TopicSettings
    ) -> TopicEntry:
        """Replace the settings of a topic."""
        changed = replace(entry, settings=settings)
        self._store(connection, changed)
        return changed

    def drop(self, connection: sqlite3.Connection, entry: TopicEntry) -> None:
        """Remove a topic and all that belongs to it."""
        start, end = entry.slots.start, entry.slots.stop
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
        connection.execute("DELETE FROM strandline_topics WHERE id = ?", (entry.topic.id.bytes,))

    # --- inside ---

    def _get(
        self, connection: sqlite3.Connection, tenant: Tenant | None, name: str
    ) -> TopicEntry | None:
        row = connection.execute(
            f"{_SELECT} WHERE tenant = ? AND name = ?", (tenant or "", name)
        ).fetchone()
        return None if row is None else self._load(row)

    def _load(self, row: tuple[bytes, str, str, int, bytes, int, int]) -> TopicEntry:
        check_row(self._path, "topics", row[3], row[:6], row[6])
        topic_id, tenant, name, first_slot, settings, created_at_us, _ = row
        try:
            topic = Topic(name, UUID(bytes=topic_id), Tenant(tenant) if tenant else None)
            loaded = TopicSettings.from_json(settings)
        except InvalidError as error:
            raise CorruptError(
                "this topic cannot be read", file=self._path, position=first_slot
            ) from error
        return TopicEntry(topic, loaded, first_slot, created_at_us)

    def _store(self, connection: sqlite3.Connection, entry: TopicEntry) -> None:
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
    ) -> TopicEntry:
        first_slot = self._take_slots(connection, settings.partitions)
        topic = Topic(name, self._clock.new_id(), tenant)
        entry = TopicEntry(topic, settings, first_slot, self._clock.now_us())
        self._store(connection, entry)
        if settings.proof:
            make_table(connection)
        store_partitions(connection, [PartitionRow(slot) for slot in entry.slots])
        for slot in entry.slots:
            add_epoch(connection, slot, Epoch(0, self._clock.new_id(), Offset(0)))
        return entry

    def _take_slots(self, connection: sqlite3.Connection, count: int) -> int:
        """Return the first of `count` slots that nobody has had before."""
        version, log_id, inode, next_slot = load_log(connection, self._path)
        if next_slot + count > SLOTS_MAX:
            raise InvalidError(
                "this log has had as many partitions as one file can number, open another",
                partitions_max=SLOTS_MAX,
            )
        store_log(connection, (version, log_id, inode, next_slot + count))
        return next_slot

    def _names(self, connection: sqlite3.Connection, tenant: Tenant | None) -> Sequence[str]:
        return [
            name
            for (name,) in connection.execute(
                "SELECT name FROM strandline_topics WHERE tenant = ?", (tenant or "",)
            )
        ]

    def _unknown(
        self, connection: sqlite3.Connection, name: str, tenant: Tenant | None
    ) -> InvalidError:
        is_internal = name.startswith(RESERVED_PREFIX)
        names = [
            other
            for other in self._names(connection, tenant)
            if other.startswith(RESERVED_PREFIX) == is_internal and other != name
        ]
        near = difflib.get_close_matches(name, names, _NEAR_MAX)
        return InvalidError(
            "there is no such topic, create it first or mend the name", topic=name, near=near
        )


def load_log(connection: sqlite3.Connection, path: str) -> tuple[int, bytes, int, int]:
    """Return format, log id, inode and next slot."""
    row = connection.execute(
        "SELECT format, log_id, inode, next_slot, crc FROM strandline_log"
    ).fetchone()
    if row is None:
        raise CorruptError("the log has lost its identity", file=path, position=1)
    check_row(path, "log", 1, row[:4], row[4])
    return row[0], row[1], row[2], row[3]


def store_log(connection: sqlite3.Connection, row: tuple[int, bytes, int, int]) -> None:
    """Put this in place of what the log was known by."""
    connection.execute(
        "UPDATE strandline_log SET format = ?, log_id = ?, inode = ?, next_slot = ?, crc = ?",
        (*row, row_crc("log", *row)),
    )
