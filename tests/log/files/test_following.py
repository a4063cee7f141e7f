"""Readers that follow a partition: what came since they reached the end, read at once."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypedDict

import pytest

import strandline as sl
from strandline.io import SystemIo
from strandline.log import Log
from strandline.testing import FaultyIo
from strandline.values import (
    CorruptError,
    Durability,
    Event,
    InvalidError,
    Record,
    Topic,
    TrimmedError,
)
from tests.logs import file_log

PATIENCE_S = 20.0


class Limits(TypedDict):
    """What a subscription asks for at a time."""

    records_max: int
    bytes_max: int


LIMITS: Limits = {"records_max": 100, "bytes_max": 1 << 20}


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with file_log(str(tmp_path / "log")) as opened:
        yield opened


@pytest.fixture
def reader(log: Log, tmp_path: Path) -> Iterator[Log]:
    with file_log(str(tmp_path / "log"), mode="read") as opened:
        yield opened


def follow(reader: Log, topic: Topic) -> int:
    """Come to the end in the way of a subscription, and return it."""
    at = 0
    while page := list(reader.read(topic, 0, at, **LIMITS)):
        at += len(page)
    return at


def plainly(reader: Log, topic: Topic, start: int) -> list[Record]:
    return list(reader.read(topic, 0, start))


APPENDS: dict[str, Callable[[Log], object]] = {
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
    log: Log,
    reader: Log,
    before: Callable[[Log], object],
    then: Callable[[Log], object],
) -> None:
    log.create_topic("orders")
    before(log)
    topic = reader.topic("orders")
    at = follow(reader, topic)
    then(log)

    found = list(reader.read(topic, 0, at, **LIMITS))

    assert found == plainly(reader, topic, at)
    assert found


def test_limits_hold_for_followers(log: Log, reader: Log) -> None:
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


def test_a_flipped_bit_in_the_last_frame_is_raised_to_followers(
    log: Log, reader: Log, tmp_path: Path
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


def test_what_was_trimmed_dropped_or_is_not_there_is_raised_to_followers(
    log: Log, reader: Log
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
                assert isinstance(second, Log)
                second.seal("orders")
                second.append("orders", Event("made", 6))
                assert next(subscription).payload == 6


@pytest.mark.slow
@pytest.mark.parametrize("before", APPENDS.values(), ids=APPENDS)
@pytest.mark.parametrize("then", APPENDS.values(), ids=APPENDS)
def test_subscribers_in_the_writers_process_are_given_what_others_read(
    log: Log, before: Callable[[Log], object], then: Callable[[Log], object]
) -> None:
    topic = log.create_topic("orders")
    before(log)
    at = log.marks("orders", 0).high
    with sl.subscribe(log, "orders") as one, sl.subscribe(log, "orders", start=at) as other:
        for _ in range(at):
            one.next(PATIENCE_S)
        then(log)
        then(log)

        end = log.marks("orders", 0).high
        found = [[each.next(PATIENCE_S) for _ in range(at, end)] for each in (one, other)]

    assert found == [plainly(log, topic, at)] * 2


def test_subscribers_in_the_writers_process_meet_trims_and_new_segments(log: Log) -> None:
    log.create_topic("orders")
    with sl.subscribe(log, "orders") as one, sl.subscribe(log, "orders") as other:
        for number in range(20):
            log.append("orders", Event("made", number))
            for each in (one, other):
                record = each.next(PATIENCE_S)
                assert record is not None
                assert (record.offset, record.payload) == (number, number)
            if number % 5 == 3:
                log.seal("orders")
            if number % 7 == 3:
                log.trim("orders", 0, number)


def test_what_this_process_has_written_is_not_read_from_the_file(tmp_path: Path) -> None:
    io = FaultyIo(SystemIo())
    with file_log(str(tmp_path / "log"), io=io) as log:
        topic = log.create_topic("orders")
        log.append("orders", Event("made"))
        at = follow(log, topic)
        log.watch().add(topic, 0, at)
        found: list[Record] = []
        reads = []
        for number in range(3):
            log.append("orders", Event("made", number))
            before = io.count("pread")
            found += log.read(topic, 0, at + number, **LIMITS)
            reads.append(io.count("pread") - before)

        assert found == plainly(log, topic, at)
        # Of the tail.
        assert reads == [1, 1, 1]


def test_what_others_wrote_is_read_once_for_all_followers(tmp_path: Path, log: Log) -> None:
    log.create_topic("orders")
    io = FaultyIo(SystemIo())
    with file_log(str(tmp_path / "log"), mode="read", io=io) as reader:
        log.append("orders", Event("made"))
        topic = reader.topic("orders")
        at = follow(reader, topic)
        log.append("orders", Event("made", 1))
        before = io.count("pread")
        pages = [list(reader.read(topic, 0, at, **LIMITS)) for _ in range(3)]
        reads = io.count("pread") - before

        assert pages == [plainly(reader, topic, at)] * 3
        # The tail each time, and the frame.
        assert reads == 4


def test_what_is_kept_gives_way_to_what_others_write(tmp_path: Path, log: Log) -> None:
    topic = log.create_topic("orders")
    log.append("orders", Event("made"))
    at = follow(log, topic)
    log.watch().add(topic, 0, at)
    log.append("orders", Event("made", "here"))
    with file_log(str(tmp_path / "log")) as other:
        other.append("orders", Event("made", "elsewhere"))
        found = list(log.read(topic, 0, at, **LIMITS))
        alone = list(log.read(topic, 0, at + 1, **LIMITS))

    assert [each.payload for each in found] == ["here", "elsewhere"]
    assert found == plainly(log, topic, at)
    assert alone == found[1:]


def test_what_is_kept_is_not_what_a_restored_log_holds(tmp_path: Path) -> None:
    path, saved = tmp_path / "log", tmp_path / "saved"
    with file_log(str(path)) as log:
        topic = log.create_topic("orders")
        log.append("orders", Event("made"))
        at = follow(log, topic)
        log.watch().add(topic, 0, at)
        shutil.copytree(path, saved)
        log.append("orders", Event("made", "lost"))
        path.rename(tmp_path / "away")
        saved.rename(path)
        with file_log(str(path)) as other:
            other.append("orders", Event("made", "kept"))

        assert [each.payload for each in log.read(topic, 0, at, **LIMITS)] == ["kept"]
