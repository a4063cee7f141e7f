"""The stored row of one partition."""

from dataclasses import dataclass
from typing import Final

from strandline.stores.postgres.database import Connection, PostgresDatabase
from strandline.values import Epoch, Marks, Offset

_COLUMNS: Final = "slot, low, first, high, last_us, size_bytes, keys_seen, timeline, anchor, value"
_SELECT: Final = "SELECT " + _COLUMNS + " FROM {schema}.partitions WHERE slot = %s"  # noqa: S608 - Ours.
#: The lock lasts until the commit, so that offsets follow the order of commits.
LOCK: Final = _SELECT + " FOR NO KEY UPDATE"
LOCK_AT_ONCE: Final = LOCK + " NOWAIT"
STORE: Final = """
    UPDATE {schema}.partitions
    SET low = %s, first = %s, high = %s, last_us = %s, size_bytes = %s, keys_seen = %s,
        timeline = %s, anchor = %s, value = %s
    WHERE slot = %s"""


@dataclass(slots=True)
class PostgresPartition:
    """The ends, the last timestamp and the size of one partition."""

    slot: int
    low: int
    #: The oldest offset that is stored here.
    first: int
    high: int
    last_us: int
    size_bytes: int
    keys_seen: int
    timeline: str
    #: For a topic with a proof: the chain's values before `first` and before `high`.
    anchor: bytes | None
    value: bytes | None

    def marks(self, *, is_durable: bool) -> Marks:
        """Return the marks; committed records are durable if the server's commits are."""
        durable = self.high if is_durable else self.low
        return Marks(Offset(self.low), Offset(self.high), Offset(durable))

    def copied(self) -> "PostgresPartition":
        """Return another one with the same fields."""
        return PostgresPartition(
            *(self.slot, self.low, self.first, self.high, self.last_us, self.size_bytes),
            *(self.keys_seen, self.timeline, self.anchor, self.value),
        )

    def fields(self) -> tuple[object, ...]:
        """Return the parameters of `STORE`."""
        return (
            *(self.low, self.first, self.high, self.last_us, self.size_bytes),
            *(self.keys_seen, self.timeline, self.anchor, self.value, self.slot),
        )


#: Stands for a partition that could not be read.
NO_PARTITION: Final = PostgresPartition(-1, 0, 0, 0, 0, 0, 0, "", None, None)


def load_partition(
    connection: Connection, database: PostgresDatabase, slot: int
) -> PostgresPartition | None:
    """Return the partition of this slot; None if its topic was dropped."""
    found = connection.execute(database.sql(_SELECT), (slot,)).fetchone()
    return None if found is None else PostgresPartition(*found)


def lock_partition(
    connection: Connection, database: PostgresDatabase, slot: int
) -> PostgresPartition | None:
    """Return the partition, locked until the transaction ends; None if it was dropped."""
    found = connection.execute(database.sql(LOCK), (slot,)).fetchone()
    return None if found is None else PostgresPartition(*found)


def load_epochs(connection: Connection, database: PostgresDatabase, slot: int) -> list[Epoch]:
    """Return the epochs of a partition, oldest first."""
    rows = connection.execute(
        database.sql("SELECT number, id, start FROM {schema}.epochs WHERE slot = %s ORDER BY 1"),
        (slot,),
    )
    return [Epoch(number, epoch_id, Offset(start)) for number, epoch_id, start in rows]


def follow_timeline(
    connection: Connection, database: PostgresDatabase, row: PostgresPartition
) -> None:
    """Begin an epoch if the server was replaced or restored since the last append.

    Records that were acknowledged last may then be missing.
    """
    if row.timeline != database.timeline:
        connection.execute(
            database.sql(
                "INSERT INTO {schema}.epochs SELECT %s, max(number) + 1, %s, %s"
                " FROM {schema}.epochs WHERE slot = %s"
            ),
            (row.slot, database.clock.new_id(), row.high, row.slot),
        )
        row.timeline = database.timeline
