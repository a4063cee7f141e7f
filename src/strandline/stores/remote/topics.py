"""Topics as a server knows them."""

from dataclasses import dataclass

from strandline.log import wire
from strandline.values import Topic, TopicSettings


@dataclass(frozen=True, slots=True, eq=False)
class RemoteTopic:
    """Implements StoredTopic."""

    topic: Topic
    settings: TopicSettings
    created_at_us: int


def topic_of(found: wire.WireTopic) -> RemoteTopic:
    """Decode a topic."""
    return RemoteTopic(
        Topic.from_json(found.topic), TopicSettings.from_json(found.settings), found.created_at_us
    )
