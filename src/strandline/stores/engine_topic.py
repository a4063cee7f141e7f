"""A topic as a store on an engine knows it, and as it is stored there."""

from dataclasses import dataclass
from uuid import UUID

import msgspec

from strandline.values import CorruptError, InvalidError, Tenant, Topic, TopicSettings


class TopicValue(msgspec.Struct, array_like=True, frozen=True):
    """A topic as it is stored."""

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
    #: What the engine knows the source by, where other programs write the topic.
    source_id: str | None = None


def encode_topic(topic: EngineTopic) -> bytes:
    """Return a topic as it is stored."""
    identity, settings = topic.topic, topic.settings.to_json()
    return msgspec.msgpack.encode(
        TopicValue(
            *(identity.id, identity.name, identity.tenant, settings, topic.created_at_us),
            topic.source_id,
        )
    )


def decode_topic(value: bytes, subject: str, sequence: int) -> EngineTopic:
    """Return a topic from what is stored there; CorruptError if it cannot be read."""
    try:
        found = msgspec.msgpack.decode(value, type=TopicValue)
        tenant = None if found.tenant is None else Tenant(found.tenant)
        settings = TopicSettings.from_json(found.settings)
        named = Topic(found.name, found.id, tenant)
        return EngineTopic(named, settings, found.created_at_us, found.source_id)
    except (msgspec.DecodeError, msgspec.ValidationError, InvalidError) as error:
        raise CorruptError("this topic cannot be read", file=subject, position=sequence) from error
