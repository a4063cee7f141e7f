"""The topics of a log, and the slots of their partitions."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, LiteralString
from uuid import UUID

from strandline.log.chain import Chain
from strandline.log.topics import check_new_topic
from strandline.stores.postgres.database import Connection, PostgresDatabase
from strandline.values import CorruptError, InvalidError, Tenant, Topic, TopicSettings

_SELECT: Final = """
    SELECT t.id, t.tenant, t.name, t.settings, t.created_at_us,
        array_agg(p.slot ORDER BY p.number)
    FROM {schema}.topics t JOIN {schema}.partitions p ON p.topic_id = t.id """
_GROUP: Final = " GROUP BY t.id"


@dataclass(frozen=True, eq=False, slots=True)
class PostgresTopic:
    """Implements StoredTopic."""

    topic: Topic
    settings: TopicSettings
    created_at_us: int
    slots: Sequence[int]


class PostgresTopics:
    """Finds and changes topics, using the caller's connection."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database

    def all(self, connection: Connection) -> list[PostgresTopic]:
        """Return the topics of every tenant."""
        return [self._load(row) for row in self._rows(connection, _SELECT + _GROUP, ())]

    def find(
        self, connection: Connection, tenant: Tenant | None, name: str
    ) -> PostgresTopic | None:
        """Return the topic; None if there is none."""
        where = "WHERE t.tenant = %s AND t.name = %s"
        rows = self._rows(connection, _SELECT + where + _GROUP, (tenant or "", name))
        return next((self._load(row) for row in rows), None)

    def find_id(self, connection: Connection, topic_id: UUID) -> PostgresTopic | None:
        """Return the topic of this id; None if there is none."""
        rows = self._rows(connection, _SELECT + "WHERE t.id = %s" + _GROUP, (topic_id,))
        return next((self._load(row) for row in rows), None)

    def create(
        self,
        connection: Connection,
        name: str,
        tenant: Tenant | None,
        settings: TopicSettings,
    ) -> PostgresTopic:
        """Return the existing topic, or create it; the caller excludes other creators."""
        database = self._database
        known = self.find(connection, tenant, name)
        twins = connection.execute(
            database.sql(
                "SELECT name FROM {schema}.topics WHERE tenant = %s AND lower(name) = lower(%s)"
            ),
            (tenant or "", name),
        ).fetchall()
        present = None if known is None else known.settings
        check_new_topic(name, settings, present, [each for (each,) in twins])
        return known or self._make(
            connection, Topic(name, database.clock.new_id(), tenant), settings
        )

    def _make(self, connection: Connection, topic: Topic, settings: TopicSettings) -> PostgresTopic:
        database = self._database
        created_at_us = database.clock.now_us()
        connection.execute(
            database.sql("INSERT INTO {schema}.topics VALUES (%s, %s, %s, %s, %s)"),
            (topic.id, topic.tenant or "", topic.name, settings.to_json(), created_at_us),
        )
        slots = self._add_partitions(connection, topic, settings, range(settings.partitions))
        return PostgresTopic(topic, settings, created_at_us, slots)

    def _add_partitions(
        self, connection: Connection, topic: Topic, settings: TopicSettings, numbers: range
    ) -> Sequence[int]:
        """Create empty partitions with these numbers; return their slots."""
        database = self._database
        slots = []
        for number in numbers:
            origin = None
            if settings.proof:
                origin = Chain(database.log_id, topic.id, number, settings.value_kind).origin
            row = connection.execute(
                database.sql(
                    "INSERT INTO {schema}.partitions (topic_id, number, timeline, anchor, value)"
                    " VALUES (%s, %s, %s, %s, %s) RETURNING slot"
                ),
                (topic.id, number, database.timeline, origin, origin),
            ).fetchone()
            assert row is not None
            slots.append(int(row[0]))
        connection.cursor().executemany(
            database.sql("INSERT INTO {schema}.epochs VALUES (%s, 0, %s, 0)"),
            [(slot, database.clock.new_id()) for slot in slots],
        )
        return slots

    def store_settings(
        self, connection: Connection, topic: PostgresTopic, settings: TopicSettings
    ) -> PostgresTopic:
        """Replace the settings of a topic."""
        connection.execute(
            self._database.sql("UPDATE {schema}.topics SET settings = %s WHERE id = %s"),
            (settings.to_json(), topic.topic.id),
        )
        added = range(topic.settings.partitions, settings.partitions)
        slots = self._add_partitions(connection, topic.topic, settings, added)
        return replace(topic, settings=settings, slots=(*topic.slots, *slots))

    def drop(self, connection: Connection, topic: PostgresTopic) -> None:
        """Remove a topic and everything that belongs to it."""
        sql = self._database.sql
        # Locked like an append does, so that no append can outlive its topic.
        connection.execute(
            sql("SELECT 1 FROM {schema}.partitions WHERE topic_id = %s ORDER BY slot FOR UPDATE"),
            (topic.topic.id,),
        )
        connection.execute(sql("DELETE FROM {schema}.topics WHERE id = %s"), (topic.topic.id,))
        connection.execute(
            sql("DELETE FROM {schema}.records WHERE slot = ANY(%s)"), (list(topic.slots),)
        )

    # --- inside ---

    def _rows(
        self, connection: Connection, statement: LiteralString, values: tuple[Any, ...]
    ) -> Iterable[tuple[Any, ...]]:
        return connection.execute(self._database.sql(statement), values).fetchall()

    def _load(self, row: tuple[Any, ...]) -> PostgresTopic:
        topic_id, tenant, name, settings, created_at_us, slots = row
        try:
            topic = Topic(name, topic_id, Tenant(tenant) if tenant else None)
            loaded = TopicSettings.from_json(bytes(settings))
        except InvalidError as error:
            raise CorruptError(
                "this topic cannot be read", file=self._database.url, position=slots[0]
            ) from error
        return PostgresTopic(topic, loaded, created_at_us, tuple(slots))
