"""The Kafka topics of a log: their names and settings."""

import hashlib
from typing import Final, NamedTuple
from uuid import UUID

from strandline.stores.kafka.clients import MESSAGE_BYTES_MAX, KafkaClients

_KEY_HEX: Final = 40


class KafkaNames(NamedTuple):
    """The topics of one log: their names begin with its prefix."""

    prefix: str

    @property
    def keyed(self) -> str:
        """The topic with the keyed values."""
        return f"{self.prefix}.log"

    def records(self, topic_id: UUID) -> str:
        """The Kafka topic with the frames of a topic of the log."""
        return f"{self.prefix}.{topic_id.hex}"


class TopicForm(NamedTuple):
    """Settings for new topics."""

    replicas: int
    is_synced: bool

    def create(self, clients: KafkaClients, name: str, partitions: int, **more: str) -> None:
        """Create a topic, unless it exists."""
        config = {
            "cleanup.policy": "delete",
            "max.message.bytes": str(MESSAGE_BYTES_MAX),
            "min.insync.replicas": str(self.replicas // 2 + 1),
            "retention.bytes": "-1",
            "retention.ms": "-1",
            "unclean.leader.election.enable": "false",
            **more,
        }
        if self.is_synced:
            config["flush.messages"] = "1"
        clients.retried(lambda: clients.create_topic(name, partitions, self.replicas, config))


def key_of_topic(topic_id: UUID) -> str:
    """Return the key of a stored topic."""
    return f"t.{topic_id.hex}"


def keys_of_topic(topic_id: UUID) -> str:
    """Return the prefix of the keys in a topic's keyed area."""
    return f"k.{topic_id.hex}."


def key_in_topic(topic_id: UUID, key: str) -> str:
    """Return our key for a key in a topic's keyed area."""
    digest = hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:_KEY_HEX]
    return keys_of_topic(topic_id) + digest
