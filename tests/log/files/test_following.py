"""Readers that follow a partition: what came since they reached the end, read at once."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypedDict

import pytest

import strandline as sl
from strandline.log.files import FileLog
from strandline.values import (
    CorruptError,
    Durability,
    Event,
    InvalidError,
    Record,
    Topic,
    TrimmedError,
)


class Limits(TypedDict):
    """What a subscription asks for at a time."""

    records_max: int
    bytes_max: int


LIMITS: Limits = {"records_max": 100, "bytes_max": 1 << 20}


@pytest.fixture
def log(tmp_path: Path) -> Iterator[FileLog]:
    with FileLog(str(tmp_path / "log")) as opened:
        yield opened


@pytest.fixture
def reader(log: FileLog, tmp_path: Path) -> Iterator[FileLog]:
    with FileLog(str(tmp_path / "log"), mode="read") as opened:
        yield opened


def follow(reader: FileLog, topic: Topic) -> int:
    """Come to the end in the way of a subscription, and return it."""
    at = 0
    while page := list(reader.read(topic, 0, at, **LIMITS)):
        at += len(page)
    return at


def plainly(reader: FileLog, topic: Topic, start: int) -> list[Record]:
    return list(reader.read(topic, 0, start))


APPENDS: dict[str, Callable[[FileLog], object]] = {
    "one": lambda log: log.append("orders", Event("made", {"n": 1}, key="k")),
    "without key or headers": lambda log: log.append("orders", Event("made")),
    "with headers": lambda log: log.append("orders", Event("made", 1, headers={"a": "å"})),
    "several in a row": lambda log: [log.append("orders", Event("made", n)) for n in range(20)],
    "a few rows": lambda log: log.append_many("orders", [Event("made", n) for n in range(10)]),
    "columns": lambda log: log.append_many("orders", [Event("made", n) for n in range(90)]),
    "for a tenant": lambda log: log.append("orders", Event("made"), tenant="acme"),
    "recognisable": lambda log: log.append(
        "orders", Event("made"), idempotency_key=f"after {log.marks('orders', 0).high}"
    ),
    "large": lambda log: log.append("orders", Event("made", "x" * 100_000)),
    "durable": lambda log: log.append("orders", Event("made"), durability=Durability.DURABLE),
}


@pytest.mark.parametrize("before", APPENDS.values(), ids=APPENDS)
@pytest.mark.parametrize("then", APPENDS.values(), ids=APPENDS)
def test_who_follows_reads_what_others_read(
    log: FileLog,
    reader: FileLog,
    before: Callable[[FileLog], object],
    then: Callable[[FileLog], object],
) -> None:
    log.create_topic("orders")
    before(log)
    topic = reader.topic("orders")
    at = follow(reader, topic)
    then(log)

    found = list(reader.read(topic, 0, at, **LIMITS))

    assert found == plainly(reader, topic, at)
    assert found


def test_limits_hold_for_who_follows(log: FileLog, reader: FileLog) -> None:
    log.create_topic("orders")
    log.append("orders", Event("made"))
    topic = reader.topic("orders")
    at = follow(reader, topic)
    for number in range(5):
        log.append("orders", Event("made", number))
    (size,) = {len(each.event.payload_json) + 6 for each in plainly(reader, topic, at)}

    assert len(list(reader.read(topic, 0, at, records_max=3, bytes_max=1 << 20))) == 3
    assert len(list(reader.read(topic, 0, at, records_max=0, bytes_max=1 << 20))) == 0
    assert len(list(reader.read(topic, 0, at, records_max=9, bytes_max=2 * size))) == 2
    assert len(list(reader.read(topic, 0, at, records_max=9, bytes_max=0))) == 0
    assert list(reader.read(topic, 0, at, **LIMITS, durable_only=True)) == []
    log.sync("orders", 0)
    assert len(list(reader.read(topic, 0, at, **LIMITS, durable_only=True))) == 5


def test_a_flipped_bit_in_the_last_frame_is_told_who_follows(
    log: FileLog, reader: FileLog, tmp_path: Path
) -> None:
    log.create_topic("orders")
    log.append("orders", Event("made", "before"))
    topic = reader.topic("orders")
    at = follow(reader, topic)
    log.append("orders", Event("made", "the value that is flipped"))
    (segment,) = tmp_path.glob("log/topics/*/0/segments/*")
    content = bytearray(segment.read_bytes())
    content[content.index(b"flipped")] ^= 1
    segment.write_bytes(content)

    with pytest.raises(CorruptError):
        list(reader.read(topic, 0, at, **LIMITS))


def test_what_was_trimmed_dropped_or_is_not_there_is_told_who_follows(
    log: FileLog, reader: FileLog
) -> None:
    log.create_topic("orders")
    log.append("orders", Event("made"))
    topic = reader.topic("orders")
    at = follow(reader, topic)
    log.append("orders", Event("made"))
    with pytest.raises(InvalidError):
        reader.read(topic, 0, at + 2, **LIMITS)
    with pytest.raises(InvalidError):
        reader.read(topic, 1, at, **LIMITS)
    log.trim("orders", 0, at + 1)
    with pytest.raises(TrimmedError):
        reader.read(topic, 0, at, **LIMITS)
    assert len(list(reader.read(topic, 0, at + 1, **LIMITS))) == 0
    log.drop_topic("orders")
    with pytest.raises(InvalidError):
        reader.read(topic, 0, at + 1, **LIMITS)
    with pytest.raises(InvalidError):
        reader.marks(topic, 0)


def test_who_follows_meets_a_new_epoch_and_a_new_segment(tmp_path: Path) -> None:
    url = f"file:{tmp_path / 'log'}"
    with sl.open(url) as first, sl.open(url, mode="read") as reader:
        first.create_topic("orders")
        first.append("orders", Event("made", 0))
        with sl.subscribe(reader, "orders") as subscription:
            assert next(subscription).payload == 0
            first.append("orders", Event("made", 1))
            assert next(subscription).payload == 1
            with sl.open(url, take_over=True, exclusive=True) as second:
                for number in range(2, 6):
                    second.append("orders", Event("made", number))
                    assert next(subscription).payload == number
                assert isinstance(second, FileLog)
                second.seal("orders")
                second.append("orders", Event("made", 6))
                assert next(subscription).payload == 6
