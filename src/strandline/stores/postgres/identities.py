"""Which writes a partition has stored, so that a repeated write is stored once."""

from typing import Any, Final, LiteralString, NamedTuple

from strandline.log.identities import (
    IdentityState,
    Original,
    check_same_count,
    passed_sequence,
)
from strandline.log.moved import identity_state
from strandline.stores.postgres.database import Connection, PostgresDatabase
from strandline.stores.postgres.partition_head import PostgresPartition
from strandline.values import (
    IDEMPOTENCY_KEYS_KEPT,
    IDENTITY_AGE_S,
    PRODUCER_SEQUENCES_KEPT,
    Offset,
    Tenant,
)

_AGE_US: Final = IDENTITY_AGE_S * 1_000_000
#: How many identities beyond those recognised may accumulate before they are removed.
_SLACK: Final = 1024
_PUT_PRODUCER: Final = """
    INSERT INTO {schema}.producers VALUES (%s, %s, %s, %s, %s, %s)
    ON CONFLICT (slot, tenant, producer) DO UPDATE
    SET latest = excluded.latest, seen_at_us = excluded.seen_at_us, seen = excluded.seen"""
_PUT_KEY: Final = """
    INSERT INTO {schema}.idempotency_keys VALUES (%s, %s, %s, %s, %s, %s, %s)
    ON CONFLICT (slot, tenant, key) DO UPDATE
    SET start = excluded.start, timestamp_us = excluded.timestamp_us,
        count = excluded.count, ordinal = excluded.ordinal"""


class ProducerState(NamedTuple):
    """The progress of one producer in one partition."""

    latest: int
    seen_at_us: int
    seen: int


class PostgresIdentities:
    """Implements IdentityIndex for one transaction, which holds the partition's lock.

    The n-th identity of a producer, or of a partition's keys, has the ordinal n. The number
    of later ones decides whether it is still recognised.
    """

    def __init__(
        self, connection: Connection, database: PostgresDatabase, row: PostgresPartition
    ) -> None:
        self._connection = connection
        self._sql = database.sql
        self._row = row
        self.now_us = 0
        self._producers: dict[tuple[str, str], ProducerState | None] = {}
        self._restarted: list[tuple[str, str]] = []
        self._sequences: dict[tuple[str, str, int], tuple[int, int, int]] = {}
        self._keys: dict[tuple[str, str], tuple[int, int, int, int]] = {}

    # --- producers ---

    def find_sequence(self, tenant: Tenant | None, name: str, sequence: int) -> Original | None:
        whose = tenant or "", name
        producer = self._producer(whose)
        if producer is None or sequence > producer.latest:
            return None
        found = self._sequence(whose, sequence)
        if found is None or producer.seen - found[2] > PRODUCER_SEQUENCES_KEPT:
            raise passed_sequence(name, sequence, producer.latest)
        return Original(Offset(found[0]), found[1])

    def add_sequence(
        self, tenant: Tenant | None, name: str, sequence: int, original: Original
    ) -> None:
        whose = tenant or "", name
        known = self._producer(whose)
        seen = 0 if known is None else known.seen
        if known is None:
            self._restarted.append(whose)
        self._producers[whose] = ProducerState(sequence, original.timestamp_us, seen + 1)
        self._sequences[*whose, sequence] = (original.offset, original.timestamp_us, seen)

    def _producer(self, whose: tuple[str, str]) -> ProducerState | None:
        if whose not in self._producers:
            row = self._one(
                "SELECT latest, seen_at_us, seen FROM {schema}.producers"
                " WHERE slot = %s AND tenant = %s AND producer = %s",
                whose,
            )
            self._producers[whose] = None if row is None else ProducerState(*row)
        found = self._producers[whose]
        return None if found is None or self.now_us - found.seen_at_us > _AGE_US else found

    def _sequence(self, whose: tuple[str, str], sequence: int) -> tuple[Any, ...] | None:
        return self._sequences.get((*whose, sequence)) or self._one(
            "SELECT start, timestamp_us, ordinal FROM {schema}.sequences"
            " WHERE slot = %s AND tenant = %s AND producer = %s AND sequence = %s",
            (*whose, sequence),
        )

    # --- idempotency keys ---

    def find_key(self, tenant: Tenant | None, key: str, count: int) -> Original | None:
        whose = tenant or "", key
        found = self._keys.get(whose) or self._one(
            "SELECT start, timestamp_us, count, ordinal FROM {schema}.idempotency_keys"
            " WHERE slot = %s AND tenant = %s AND key = %s",
            (whose[0], key.encode()),
        )
        if found is None:
            return None
        start, timestamp_us, then, ordinal = found
        seen = self._row.keys_seen
        if seen - ordinal > IDEMPOTENCY_KEYS_KEPT or self.now_us - timestamp_us > _AGE_US:
            return None
        check_same_count(key, count, then)
        return Original(Offset(start), timestamp_us, then)

    def add_key(self, tenant: Tenant | None, key: str, original: Original) -> None:
        self._keys[tenant or "", key] = (*original, self._row.keys_seen)
        self._row.keys_seen += 1

    # --- storing ---

    def store(self) -> None:
        """Store added identities, and remove those no longer recognised."""
        slot = self._row.slot
        if self._sequences:
            self._store_sequences(slot)
        if self._keys:
            rows = [(slot, whose, key.encode(), *at) for (whose, key), at in self._keys.items()]
            self._many(_PUT_KEY, rows)
            last = rows[-1]
            if any(row[-1] % _SLACK == _SLACK - 1 for row in rows):
                self._run(
                    "DELETE FROM {schema}.idempotency_keys"
                    " WHERE slot = %s AND (ordinal <= %s OR timestamp_us < %s)",
                    (slot, last[-1] - IDEMPOTENCY_KEYS_KEPT, self.now_us - _AGE_US),
                )

    def _store_sequences(self, slot: int) -> None:
        for whose in self._restarted:
            self._run(
                "DELETE FROM {schema}.sequences WHERE slot = %s AND tenant = %s AND producer = %s",
                (slot, *whose),
            )
        self._many(
            "INSERT INTO {schema}.sequences VALUES (%s, %s, %s, %s, %s, %s, %s)",
            [(slot, *name, *at) for name, at in self._sequences.items()],
        )
        known = {name: one for name, one in self._producers.items() if one is not None}
        self._many(_PUT_PRODUCER, [(slot, *name, *one) for name, one in known.items()])
        full = {
            name[:2]
            for name, (_, _, ordinal) in self._sequences.items()
            if ordinal % _SLACK == _SLACK - 1
        }
        for whose in full:
            self._run(
                "DELETE FROM {schema}.sequences"
                " WHERE slot = %s AND tenant = %s AND producer = %s AND ordinal < %s",
                (slot, *whose, known[whose].seen - PRODUCER_SEQUENCES_KEPT),
            )
        if full:
            self._run(
                "DELETE FROM {schema}.producers WHERE slot = %s AND seen_at_us < %s",
                (slot, self.now_us - _AGE_US),
            )

    def _one(self, statement: LiteralString, values: tuple[Any, ...]) -> tuple[Any, ...] | None:
        return self._connection.execute(self._sql(statement), (self._row.slot, *values)).fetchone()

    def _run(self, statement: LiteralString, values: tuple[Any, ...]) -> None:
        self._connection.execute(self._sql(statement), values)

    def _many(self, statement: LiteralString, rows: list[tuple[Any, ...]]) -> None:
        self._connection.cursor().executemany(self._sql(statement), rows)


def recognised(connection: Connection, database: PostgresDatabase, slot: int) -> IdentityState:
    """Return the identities that a partition recognises, oldest first."""

    def rows(statement: LiteralString) -> list[tuple[Any, ...]]:
        return connection.execute(database.sql(statement), (slot,)).fetchall()

    producers = rows(
        "SELECT tenant, producer, seen_at_us FROM {schema}.producers"
        " WHERE slot = %s ORDER BY seen_at_us"
    )
    sequences = rows(
        "SELECT tenant, producer, sequence, start, timestamp_us FROM {schema}.sequences"
        " WHERE slot = %s ORDER BY ordinal"
    )
    keys = rows(
        "SELECT tenant, convert_from(key, 'UTF8'), start, timestamp_us, count"
        " FROM {schema}.idempotency_keys WHERE slot = %s ORDER BY ordinal"
    )
    return identity_state(producers, sequences, keys)
