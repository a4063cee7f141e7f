"""The named cursors of a SQLite log."""

from abc import abstractmethod
from collections.abc import Sequence

from strandline.log.numbers import check_whole
from strandline.log.results import TopicName
from strandline.log.terms import owner
from strandline.stores.sqlite.consumers import Consumers
from strandline.stores.sqlite.database import Database
from strandline.stores.sqlite.reader import SqliteReader
from strandline.stores.sqlite.writer import Writer
from strandline.values import ConsumerLag, Mode, Offset, check_consumer_name


class SqliteConsumers(SqliteReader):
    """Implements LogConsumers, and what a reader is."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._consumers = Consumers(database)

    def ack(
        self,
        topic: TopicName,
        consumer: str,
        partition: int,
        end: int,
        *,
        tenant: str | None = None,
    ) -> Offset:
        name = check_consumer_name(consumer)
        check_whole("end", end)
        writer = self._check_mode(Mode.CONSUME)
        self._make_durable_before(topic, partition, end)
        with self._database.changing() as connection:
            entry, _, row = self._row(connection, topic, partition)
            whose = owner(entry.topic, tenant)
            offset = row.check_not_beyond(end)
            known = self._consumers.find(connection, row.slot, whose, name)
            if known is not None:
                self._consumers.check(connection, entry, row, known)
                offset = max(offset, Offset(known.offset))
            self._consumers.put(connection, row.slot, whose, name, offset)
        writer.sync()
        return offset

    def seek(
        self,
        topic: TopicName,
        consumer: str,
        partition: int,
        offset: int,
        *,
        tenant: str | None = None,
    ) -> None:
        name = check_consumer_name(consumer)
        check_whole("offset", offset)
        writer = self._check_mode(Mode.CONSUME)
        self._make_durable_before(topic, partition, offset)
        with self._database.changing() as connection:
            entry, _, row = self._row(connection, topic, partition)
            whose = owner(entry.topic, tenant)
            self._consumers.put(connection, row.slot, whose, name, row.check_kept(offset))
        writer.sync()

    def cursor(
        self, topic: TopicName, consumer: str, partition: int, *, tenant: str | None = None
    ) -> Offset | None:
        name = check_consumer_name(consumer)
        with self._database.reading() as connection:
            connection.execute("BEGIN")
            entry, _, row = self._row(connection, topic, partition)
            whose = owner(entry.topic, tenant)
            known = self._consumers.find(connection, row.slot, whose, name)
            if known is None:
                return None
            self._consumers.check(connection, entry, row, known)
            return Offset(known.offset)

    def consumers(self, topic: TopicName, *, tenant: str | None = None) -> Sequence[ConsumerLag]:
        with self._database.reading() as connection:
            connection.execute("BEGIN")
            entry = self._topics.find(connection, topic)
            whose = owner(entry.topic, tenant)
            rows = [
                self._row(connection, entry.topic, number)[2]
                for number in range(entry.settings.partitions)
            ]
            lags = [
                lag for row in rows for lag in self._consumers.lags(connection, entry, row, whose)
            ]
        return sorted(lags, key=lambda lag: (lag.consumer, lag.partition))

    def forget(self, topic: TopicName, consumer: str, *, tenant: str | None = None) -> bool:
        name = check_consumer_name(consumer)
        writer = self._check_mode(Mode.CONSUME)
        with self._database.changing() as connection:
            entry = self._topics.find(connection, topic)
            whose = owner(entry.topic, tenant)
            forgotten = self._consumers.forget(connection, entry.slots, whose, name)
        writer.sync()
        return forgotten

    # --- what the log brings ---

    @abstractmethod
    def _check_mode(self, least: Mode) -> Writer:
        """Return the writer for a call that may wait and needs this mode."""

    @abstractmethod
    def _make_durable_before(self, topic: TopicName, partition: int, offset: int) -> None:
        """Sync, if what lies before `offset` is there and not durable."""
