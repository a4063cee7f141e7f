"""A topic of a store on an engine, and its stored form."""

from dataclasses import dataclass
from uuid import UUID

import msgspec

from strandline.values import CorruptError, InvalidError, Tenant, Topic, TopicSettings


class TopicValue(msgspec.Struct, array_like=True, frozen=True):
    """The stored form of a topic."""

    id: UUID
    name: str
    tenant: str | None
    settings: bytes
    created_at_us: int
    source_id: str | None = None


@dataclass(frozen=True, eq=False, slots=True)
class EngineTopic:
    """Implements StoredTopic."""

    topic: Topic
    settings: TopicSettings
    created_at_us: int
    #: The engine's identifier of the source, if other programs write the topic.
    source_id: str | None = None


def encode_topic(topic: EngineTopic) -> bytes:
    """Encode a topic for storage."""
    identity, settings = topic.topic, topic.settings.to_json()
    return msgspec.msgpack.encode(
        TopicValue(
            *(identity.id, identity.name, identity.tenant, settings, topic.created_at_us),
            topic.source_id,
        )
    )


def decode_topic(value: bytes, subject: str, sequence: int) -> EngineTopic:
    """Decode a stored topic; CorruptError if it cannot be read."""
    try:
        found = msgspec.msgpack.decode(value, type=TopicValue)
        tenant = None if found.tenant is None else Tenant(found.tenant)
        settings = TopicSettings.from_json(found.settings)
        named = Topic(found.name, found.id, tenant)
        return EngineTopic(named, settings, found.created_at_us, found.source_id)
    except (msgspec.DecodeError, msgspec.ValidationError, InvalidError) as error:
        raise CorruptError("this topic cannot be read", file=subject, position=sequence) from error
