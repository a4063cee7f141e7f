"""Maps a user's partition to a partition of the catalogue, equally in every process.

Kafka distributes the metadata of its remote segments with the same function.
"""

from collections.abc import Iterable
from uuid import UUID

from strandline.tiering.segment import UserPartition
from strandline.values import InvalidError, Topic
from strandline.values.partitioning import murmur2

_MASK = 0xFFFFFFFF
_LONG = 0xFFFFFFFFFFFFFFFF


def catalogue_partition(topic_id: UUID, partition: int, count: int) -> int:
    """Return the partition among `count` with the events of this user partition."""
    if count < 1:
        raise InvalidError("a topic has at least one partition", partitions=count)
    low, high = topic_id.int & _LONG, topic_id.int >> 64
    combined = 1
    for part in (_folded(low), _folded(high), partition):
        combined = (31 * combined + part) & _MASK
    return (murmur2(combined.to_bytes(4, "big")) & 0x7FFFFFFF) % count


def catalogue_partitions(places: Iterable[UserPartition], count: int) -> list[int]:
    """Return the partitions with the events of all these, ascending, without duplicates."""
    return sorted({catalogue_partition(*place.identity, count) for place in places})


def _folded(long: int) -> int:
    return (long ^ (long >> 32)) & _MASK


def topic_folder(topic: Topic) -> str:
    """Return the readable folder of a topic's objects in a store.

    The end of the topic's id makes it unique; no tenant's name begins with `-`.
    """
    return f"{topic.tenant or '-global'}/{topic.name}-{topic.id.hex[-8:]}"
