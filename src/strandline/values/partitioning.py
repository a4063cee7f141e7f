"""Key to partition, the same in every process, on every machine, for ever.

The hash is 32-bit MurmurHash2 with the seed that Kafka's producers use, so that a
key keeps its partition when data moves between the two.
"""

import struct
from functools import lru_cache

from strandline.values.errors import InvalidError
from strandline.values.topic import Partition

_SEED = 0x9747B28C
_FACTOR = 0x5BD1E995
_MASK = 0xFFFFFFFF
_KEPT_CHARS_MAX = 64


def partition_for_key(key: str, count: int) -> Partition:
    """Return the partition of `key` among `count`: murmur2 of its UTF-8 bytes, sign
    bit cleared, modulo `count`."""
    if count < 1:
        raise InvalidError("a topic has at least one partition", partitions=count)
    if count == 1:
        return Partition(0)
    hashed = _kept_hash(key) if len(key) <= _KEPT_CHARS_MAX else murmur2(key.encode())
    return Partition((hashed & 0x7FFFFFFF) % count)


@lru_cache(maxsize=1 << 14)
def _kept_hash(key: str) -> int:
    # Many records share few keys, and the hash is slow in Python.
    return murmur2(key.encode())


def murmur2(data: bytes) -> int:
    """Return the 32-bit MurmurHash2 of `data`, unsigned."""
    size = len(data)
    value = _SEED ^ size
    words = size // 4
    for word in struct.unpack_from(f"<{words}I", data):
        mixed = (word * _FACTOR) & _MASK
        mixed = ((mixed ^ (mixed >> 24)) * _FACTOR) & _MASK
        value = ((value * _FACTOR) & _MASK) ^ mixed
    rest = data[words * 4 :]
    if rest:
        value = ((value ^ int.from_bytes(rest, "little")) * _FACTOR) & _MASK
    value = ((value ^ (value >> 13)) * _FACTOR) & _MASK
    return value ^ (value >> 15)


def unknown_partition(partition: object, partitions: int, **fields: object) -> InvalidError:
    """Return the message for a partition that a topic with so many partitions does not have."""
    return InvalidError(
        f"the topic has no such partition, its partitions are 0 to {partitions - 1}",
        **fields,
        partition=partition,
        partitions=partitions,
    )
