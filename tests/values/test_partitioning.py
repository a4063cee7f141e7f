"""Key to partition: the hash never changes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.values import InvalidError, murmur2, partition_for_key


def signed(value: int) -> int:
    return value - (1 << 32) if value >= 1 << 31 else value


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_the_hash_is_that_of_kafkas_producers(data: bytes, expected: int) -> None:
    assert signed(murmur2(data)) == expected


def fold(value: int) -> int:
    return (value ^ (value >> 32)) & 0xFFFFFFFF


def segment_bucket(topic_id: int, partition: int, count: int) -> int:
    combined = 1
    for part in (topic_id & (1 << 64) - 1, topic_id >> 64, partition):
        combined = (combined * 31 + fold(part)) & 0xFFFFFFFF
    return (murmur2(combined.to_bytes(4, "big")) & 0x7FFFFFFF) % count


@pytest.mark.parametrize(
    ("topic_id", "partition", "count", "bucket"),
    [(0xFEED, 0, 16, 3), (0xFEED, 1, 16, 15), (1, 0, 2, 1), (1, 0, 4, 3), (1, 0, 50, 35)],
)
def test_b17_the_hash_gives_the_published_segment_buckets(
    topic_id: int, partition: int, count: int, bucket: int
) -> None:
    assert segment_bucket(topic_id, partition, count) == bucket


@pytest.mark.parametrize(
    ("key", "count", "expected"),
    [
        ("21", 4, 0),
        ("foobar", 16, 14),
        ("c-9", 1, 0),
        ("", 7, 2),
        ("ключ", 4096, 624),
        ("注文17", 4096, 1548),
    ],
)
def test_a_key_keeps_its_partition_for_ever(key: str, count: int, expected: int) -> None:
    assert partition_for_key(key, count) == expected


@pytest.mark.slow
@given(st.text(), st.integers(1, 4096))
def test_a_partition_is_always_one_of_the_topics(key: str, count: int) -> None:
    assert 0 <= partition_for_key(key, count) < count


@pytest.mark.parametrize("count", [0, -1])
def test_a_topic_without_partitions_is_refused(count: int) -> None:
    with pytest.raises(InvalidError):
        partition_for_key("k", count)
