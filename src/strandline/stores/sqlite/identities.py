"""Which writes a partition has stored, so that a repeated write is stored once."""

import sqlite3
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from strandline.log.identities import IdentityState, Original, check_same_count, passed_sequence
from strandline.log.moved import identity_state
from strandline.stores.sqlite.checksum import check_row, row_crc
from strandline.stores.sqlite.database import Database
from strandline.stores.sqlite.partition_row import PartitionRow
from strandline.values import (
    IDEMPOTENCY_KEYS_KEPT,
    IDENTITY_AGE_S,
    PRODUCER_SEQUENCES_KEPT,
    CorruptError,
    Offset,
)

_AGE_US = IDENTITY_AGE_S * 1_000_000
#: How many identities beyond those recognised may accumulate before they are removed.
_SLACK = 1024
#: The tables, and the columns of their keys.
_KEYS = {
    "keys": ("slot", "tenant", "key"),
    "producers": ("slot", "tenant", "producer"),
    "sequences": ("slot", "tenant", "producer", "sequence"),
}


class Producer(NamedTuple):
    """The progress of one producer in one partition."""

    latest: int
    seen_at_us: int
    seen: int


ProducerName = tuple[int, str, str]
"""Slot, tenant, name."""


class SqliteIdentities:
    """The identities that one transaction reads and adds. For the lock's holder only.

    The n-th identity of a producer, or of a partition's keys, has the ordinal n. The number
    of later ones decides whether it is still recognised.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._path = database.path
        #: The checksums of rows found, by table and key: new rows may replace them.
        self._stored: dict[tuple[int | str, ...], int] = {}
        self._producers: dict[ProducerName, Producer | None] = {}
        self._reset: list[ProducerName] = []
        self._sequences: dict[tuple[int, str, str, int], tuple[int, int, int]] = {}
        self._keys: dict[tuple[int, str, str], tuple[int, int, int, int]] = {}

    @property
    def _connection(self) -> sqlite3.Connection:
        return self._database.writer

    # --- producers ---

    def find_sequence(self, name: ProducerName, sequence: int, now_us: int) -> Original | None:
        """Return where this sequence went; None if it is new; ConflictError if it was skipped."""
        producer = self._producer(name, now_us)
        if producer is None or sequence > producer.latest:
            return None
        found = self._sequence(name, sequence)
        if found is None or producer.seen - found[2] > PRODUCER_SEQUENCES_KEPT:
            raise passed_sequence(name[2], sequence, producer.latest)
        return Original(Offset(found[0]), found[1])

    def add_sequence(self, name: ProducerName, sequence: int, original: Original) -> None:
        """Record where a new sequence went."""
        known = self._producer(name, original.timestamp_us)
        seen = 0 if known is None else known.seen
        if known is None:
            self._reset.append(name)
        self._producers[name] = Producer(sequence, original.timestamp_us, seen + 1)
        self._sequences[*name, sequence] = (original.offset, original.timestamp_us, seen)

    def _producer(self, name: ProducerName, now_us: int) -> Producer | None:
        if name not in self._producers:
            self._producers[name] = self._load_producer(name)
        producer = self._producers[name]
        if producer is not None and now_us - producer.seen_at_us > _AGE_US:
            return None
        return producer

    def _load_producer(self, name: ProducerName) -> Producer | None:
        row = self._connection.execute(
            "SELECT latest, seen_at_us, seen, crc FROM strandline_producers"
            " WHERE slot = ? AND tenant = ? AND producer = ?",
            name,
        ).fetchone()
        if row is None:
            return None
        check_row(self._path, "producers", name[0], (*name, *row[:3]), row[3])
        self._stored["producers", *name] = row[3]
        return Producer(*row[:3])

    def _sequence(self, name: ProducerName, sequence: int) -> tuple[int, int, int] | None:
        if (added := self._sequences.get((*name, sequence))) is not None:
            return added
        row = self._connection.execute(
            "SELECT start, timestamp_us, ordinal, crc FROM strandline_sequences"
            " WHERE slot = ? AND tenant = ? AND producer = ? AND sequence = ?",
            (*name, sequence),
        ).fetchone()
        if row is None:
            return None
        check_row(self._path, "sequences", name[0], (*name, sequence, *row[:3]), row[3])
        return row[0], row[1], row[2]

    # --- idempotency keys ---

    def find_key(
        self, head: PartitionRow, tenant: str, key: str, count: int, now_us: int
    ) -> Original | None:
        """Return where the write of this key went, or None if it is new.

        ConflictError if it had another number of records.
        """
        found = self._key(head.slot, tenant, key)
        if found is None:
            return None
        start, timestamp_us, then, ordinal = found
        if head.keys_seen - ordinal > IDEMPOTENCY_KEYS_KEPT or now_us - timestamp_us > _AGE_US:
            return None
        check_same_count(key, count, then)
        return Original(Offset(start), timestamp_us, then)

    def add_key(self, head: PartitionRow, tenant: str, key: str, original: Original) -> None:
        """Record where the write of a new key went."""
        self._keys[head.slot, tenant, key] = (*original, head.keys_seen)
        head.keys_seen += 1

    def _key(self, slot: int, tenant: str, key: str) -> tuple[int, int, int, int] | None:
        if (added := self._keys.get((slot, tenant, key))) is not None:
            return added
        row = self._connection.execute(
            "SELECT start, timestamp_us, count, ordinal, crc FROM strandline_keys"
            " WHERE slot = ? AND tenant = ? AND key = ?",
            (slot, tenant, key),
        ).fetchone()
        if row is None:
            return None
        check_row(self._path, "keys", slot, (slot, tenant, key, *row[:4]), row[4])
        self._stored["keys", slot, tenant, key] = row[4]
        return row[0], row[1], row[2], row[3]

    # --- storing ---

    def check(self, head: PartitionRow) -> None:
        """Raise CorruptError unless all identities of a partition are present and undamaged.

        Each process checks this once; later it checks only the rows that it uses.
        """
        checked = self._database.checked_identities
        if head.slot not in checked:
            check_identities(self._connection, self._path, head)
            checked.add(head.slot)

    def store(self, heads: Mapping[int, PartitionRow]) -> None:
        """Store added identities, remove unrecognised ones, and update the heads' counts."""
        if self._sequences:
            self._store_sequences(heads)
        if self._keys:
            self._store_keys(heads)

    def _store_sequences(self, heads: Mapping[int, PartitionRow]) -> None:
        for name in self._reset:
            self._remove(heads, "sequences WHERE slot = ? AND tenant = ? AND producer = ?", *name)
        self._put(heads, "sequences", [(*name, *place) for name, place in self._sequences.items()])
        producers = {name: one for name, one in self._producers.items() if one is not None}
        self._put(heads, "producers", [(*name, *producer) for name, producer in producers.items()])
        for name, ordinals in _ordinals_by_producer(self._sequences).items():
            if any(ordinal % _SLACK == _SLACK - 1 for ordinal in ordinals):
                self._remove(
                    heads,
                    "sequences WHERE slot = ? AND tenant = ? AND producer = ? AND ordinal < ?",
                    *(*name, producers[name].seen - PRODUCER_SEQUENCES_KEPT),
                )

    def _store_keys(self, heads: Mapping[int, PartitionRow]) -> None:
        rows = [(*key, *place) for key, place in self._keys.items()]
        self._put(heads, "keys", rows)
        for slot, _, _, _, now_us, _, ordinal in rows:
            if ordinal % _SLACK == _SLACK - 1:
                self._remove(
                    heads,
                    "keys WHERE slot = ? AND (ordinal <= ? OR timestamp_us < ?)",
                    *(slot, ordinal - IDEMPOTENCY_KEYS_KEPT, now_us - _AGE_US),
                )
                self._remove(
                    heads, "producers WHERE slot = ? AND seen_at_us < ?", slot, now_us - _AGE_US
                )

    def _put(
        self,
        heads: Mapping[int, PartitionRow],
        table: str,
        rows: Sequence[tuple[int | str, ...]],
    ) -> None:
        """Store rows, replacing those with the same key."""
        for row in rows:
            replaced = self._stored.pop((table, *row[: len(_KEYS[table])]), None)
            if replaced is not None:
                _count(heads[int(row[0])], -1, -replaced)
        sealed = [(*row, row_crc(table, *row)) for row in rows]
        marks = ", ".join("?" * len(sealed[0]))
        self._connection.executemany(
            f"INSERT OR REPLACE INTO strandline_{table} VALUES ({marks})",  # noqa: S608 - Names of ours.
            sealed,
        )
        for row in sealed:
            _count(heads[int(row[0])], 1, int(row[-1]))

    def _remove(
        self, heads: Mapping[int, PartitionRow], which: str, slot: int | str, *fields: int | str
    ) -> None:
        """Remove rows of one slot; `which` is a table and a condition."""
        where = (slot, *fields)
        count, total = self._connection.execute(
            f"SELECT count(*), coalesce(sum(crc), 0) FROM strandline_{which}",  # noqa: S608 - Ours.
            where,
        ).fetchone()
        if count:
            self._connection.execute(f"DELETE FROM strandline_{which}", where)  # noqa: S608 - Ours.
            _count(heads[int(slot)], -count, -total)


def _count(head: PartitionRow, rows: int, total: int) -> None:
    head.identities += rows
    head.identities_sum += total


def check_identities(connection: sqlite3.Connection, path: str, head: PartitionRow) -> None:
    """Raise CorruptError unless the identities of a partition are present and undamaged."""
    count, total = 0, 0
    for table in _KEYS:
        rows = connection.execute(
            f"SELECT * FROM strandline_{table} WHERE slot = ?",  # noqa: S608 - Names of ours.
            (head.slot,),
        )
        for row in rows:
            check_row(path, table, head.slot, row[:-1], row[-1])
            count += 1
            total += row[-1]
    if (count, total) != (head.identities, head.identities_sum):
        raise CorruptError(
            "rows of identities are missing, so it is unknown which writes are stored already:"
            " restore them from a copy",
            file=path,
            position=head.slot,
            table="strandline_keys, strandline_producers, strandline_sequences",
            rows=count,
            rows_written=head.identities,
        )


def count_identities(connection: sqlite3.Connection, slot: int) -> tuple[int, int]:
    """Return how many identities a partition has, and the sum of their checksums."""
    counts = [
        connection.execute(
            f"SELECT count(*), coalesce(sum(crc), 0) FROM strandline_{table}"  # noqa: S608 - Ours.
            " WHERE slot = ?",
            (slot,),
        ).fetchone()
        for table in _KEYS
    ]
    return sum(count for count, _ in counts), sum(total for _, total in counts)


def _ordinals_by_producer(
    sequences: dict[tuple[int, str, str, int], tuple[int, int, int]],
) -> dict[ProducerName, list[int]]:
    grouped: dict[ProducerName, list[int]] = {}
    for (slot, tenant, name, _), (_, _, ordinal) in sequences.items():
        grouped.setdefault((slot, tenant, name), []).append(ordinal)
    return grouped


def recognised(connection: sqlite3.Connection, slot: int) -> IdentityState:
    """Return the identities that a partition recognises, oldest first."""
    return identity_state(
        *(
            connection.execute(f"SELECT {which} WHERE slot = ? ORDER BY {order}", (slot,))
            for which, order in (
                ("tenant, producer, seen_at_us FROM strandline_producers", "seen_at_us"),
                (
                    "tenant, producer, sequence, start, timestamp_us FROM strandline_sequences",
                    "ordinal",
                ),
                ("tenant, key, start, timestamp_us, count FROM strandline_keys", "ordinal"),
            )
        )
    )
