"""Another program that writes topics of Kafka's, with the client that such programs use."""

import itertools
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec
from confluent_kafka.cimpl import NewPartitions, NewTopic, TopicPartition

from tests.stores.kafka.server import KafkaServer

_NUMBERS = itertools.count()
_PATIENCE_S = 30.0


class ForeignTopic:
    """A topic that no log has made."""

    def __init__(
        self, server: KafkaServer, *, partitions: int = 1, config: dict[str, str] | None = None
    ) -> None:
        self.settings: dict[str, Any] = {"bootstrap.servers": server.address}
        self.name = f"foreign-{os.getpid()}-{next(_NUMBERS)}"
        self._admin = AdminClient(self.settings)
        self._producer = Producer(self.settings)
        self.create(partitions, config)

    def create(self, partitions: int = 1, config: dict[str, str] | None = None) -> None:
        topic = NewTopic(self.name, partitions, 1, config=config or {})
        self._wait(self._admin.create_topics([topic]))

    def delete(self) -> None:
        self._wait(self._admin.delete_topics([self.name]))

    def add_partitions(self, count: int) -> None:
        self._wait(self._admin.create_partitions([NewPartitions(self.name, count)]))

    def delete_before(self, partition: int, offset: int) -> None:
        place = TopicPartition(self.name, partition, offset)
        self._wait(self._admin.delete_records([place]))

    def send(
        self,
        values: Iterable[bytes | None],
        *,
        partition: int = 0,
        key: bytes | None = None,
        headers: list[tuple[str, bytes | None]] | None = None,
        time_ms: int = 0,
    ) -> None:
        for value in values:
            self._producer.produce(
                self.name,
                value,
                key,
                partition=partition,
                timestamp=time_ms,
                headers=list(headers or ()),
            )
        assert self._producer.flush(_PATIENCE_S) == 0

    def transact(self, values: Sequence[bytes], *, commit: bool) -> None:
        """Write a transaction, and return once its marker is there, too."""
        marked = self.end() + len(values) + 1
        writer = self.transaction()
        for value in values:
            writer.produce(self.name, value, partition=0)
        if commit:
            writer.commit_transaction(_PATIENCE_S)
        else:
            writer.flush(_PATIENCE_S)
            writer.abort_transaction(_PATIENCE_S)
        # The coordinator answers before the marker is written.
        while self.end() < marked:
            time.sleep(0.01)

    def end(self) -> int:
        """Return the offset after the last message or marker of the first partition."""
        place = TopicPartition(self.name, 0)
        asked: Any = self._admin.list_offsets({place: OffsetSpec.latest()})  # type: ignore[no-untyped-call] # It has no types.
        return int(asked[place].result(_PATIENCE_S).offset)

    def transaction(self) -> Producer:
        """Return a producer with its own transaction, which has begun."""
        name = f"writer-{os.getpid()}-{next(_NUMBERS)}"
        writer = Producer({**self.settings, "transactional.id": name})
        writer.init_transactions(_PATIENCE_S)
        writer.begin_transaction()
        return writer

    def _wait(self, asked: Mapping[Any, Any]) -> None:
        for each in asked.values():
            each.result(_PATIENCE_S)
