"""Rules about reading. Every public function is one."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from uuid import UUID

import pyarrow as pa

from strandline.testing.conformance_checks import (
    OpenLog,
    event,
    fill,
    high,
    numbers,
    refused,
)
from strandline.values import (
    DivergedError,
    Durability,
    Event,
    InvalidError,
    Marks,
    Offset,
    Position,
    TrimmedError,
    ValueKind,
)


def history_is_read_with_its_offsets_and_values(open_log: OpenLog) -> None:
    """TA3; TE1, TE2, TE3, the part that needs no reopening."""
    log = open_log()
    log.create_topic("orders")
    fill(log, "orders", 5)

    read = list(log.read("orders", 0, 0))

    assert [(r.topic, r.partition, r.offset) for r in read] == [("orders", 0, n) for n in range(5)]
    assert [r.payload["n"] for r in read] == [0, 1, 2, 3, 4]


def a_range_is_half_open(open_log: OpenLog) -> None:
    log = open_log()
    log.create_topic("orders")
    fill(log, "orders", 5)

    ranges = {
        (start, end): [record.offset for record in log.read("orders", 0, start, end)]
        for start, end in ((0, 5), (1, 3), (2, 2), (4, None), (5, None), (3, 99))
    }

    assert ranges == {
        (0, 5): [0, 1, 2, 3, 4],
        (1, 3): [1, 2],
        (2, 2): [],
        (4, None): [4],
        (5, None): [],
        (3, 99): [3, 4],
    }


def a_start_that_is_negative_or_beyond_the_end_is_refused(open_log: OpenLog) -> None:
    """Settled for A12, and for what is not subscribing in WA2."""
    log = open_log()
    log.create_topic("orders")
    fill(log, "orders", 5)

    for start in (-1, 6, 10, 2**63, 2**70, True, 1.0, None):
        with refused(InvalidError):
            log.read("orders", 0, start)  # type: ignore[arg-type]
        with refused(InvalidError):
            log.read_batches("orders", 0, start)  # type: ignore[arg-type]
    with refused(InvalidError):
        log.read("orders", 0, 3, 2)
    with refused(InvalidError):
        log.history("orders", 0, 2**70)
    with refused(InvalidError):
        log.history("orders", 0, 6)
    assert not list(log.history("orders", 0, 5).pieces)


def a_limit_of_zero_returns_nothing_and_none_is_no_limit(open_log: OpenLog) -> None:
    """WE9."""
    log = open_log()
    log.create_topic("orders")
    fill(log, "orders", 5)

    counts = [
        len(list(log.read("orders", 0, 1, records_max=most))) for most in (0, 1, 3, 4, 99, None)
    ]

    assert counts == [0, 1, 3, 4, 4, 4]
    assert not list(log.read("orders", 0, 0, bytes_max=0))
    assert len(list(log.read("orders", 0, 0, bytes_max=None))) == 5
    for limit in (-1, 1.5, True):
        with refused(InvalidError):
            log.read("orders", 0, 0, records_max=limit)  # type: ignore[arg-type]
        with refused(InvalidError):
            log.read("orders", 0, 0, bytes_max=limit)  # type: ignore[arg-type]


def a_byte_limit_returns_at_least_one_record(open_log: OpenLog) -> None:
    log = open_log()
    log.create_topic("raw", value_kind=ValueKind.BYTES)
    log.append_many("raw", [b"x" * 100] * 5)

    counts = {
        most: len(list(log.read("raw", 0, 0, bytes_max=most)))
        for most in (1, 99, 100, 199, 200, 350, 500, 10_000)
    }

    assert counts == {1: 1, 99: 1, 100: 1, 199: 1, 200: 2, 350: 3, 500: 5, 10_000: 5}
    assert len(list(log.read("raw", 0, 0, records_max=2, bytes_max=350))) == 2


def a_read_ends_where_the_partition_ended_at_the_call(open_log: OpenLog) -> None:
    log = open_log()
    log.create_topic("orders")
    fill(log, "orders", 2)

    reading = log.read("orders", 0, 0)
    fill(log, "orders", 3)

    assert [record.offset for record in reading] == [0, 1]


def an_unknown_partition_is_refused_everywhere(open_log: OpenLog) -> None:
    """WA6, for what is not subscribing."""
    log = open_log()
    log.create_topic("orders", partitions=2)
    calls: tuple[Callable[[int], object], ...] = (
        lambda p: log.read("orders", p, 0),
        lambda p: log.read_batches("orders", p, 0),
        lambda p: log.marks("orders", p),
        lambda p: log.offset_at("orders", p, 0),
        lambda p: log.epochs("orders", p),
        lambda p: log.segments("orders", p),
        lambda p: log.position("orders", p, 0),
        lambda p: log.trim("orders", p, 0),
        lambda p: log.sync("orders", p),
        lambda p: log.ack("orders", "billing", p, 0),
        lambda p: log.seek("orders", "billing", p, 0),
        lambda p: log.cursor("orders", "billing", p),
        lambda p: log.watch().add("orders", p, 0),
    )

    for call in calls:
        for partition in (2, -1):
            with refused(InvalidError):
                call(partition)


def marks_show_where_a_partition_begins_and_ends(open_log: OpenLog) -> None:
    """WA8: there is a low-water mark; an empty partition is no error."""
    log = open_log()
    log.create_topic("orders", partitions=2)
    fill(log, "orders", 5)
    log.trim("orders", 0, 2)

    marks = log.marks("orders", 0)

    assert (marks.low, marks.high) == (2, 5)
    assert marks.low <= marks.durable <= marks.high
    assert log.marks("orders", 1) == Marks(Offset(0), Offset(0), Offset(0))
    assert log.describe_topic("orders").marks == (marks, log.marks("orders", 1))


def sync_and_flush_make_durable_what_can_be(open_log: OpenLog) -> None:
    log = open_log()
    log.create_topic("orders", partitions=2)
    fill(log, "orders", 3, partition=0)
    fill(log, "orders", 3, partition=1)
    reaches_durable = log.durability_max is Durability.DURABLE

    synced = log.sync("orders", 0)
    log.flush()

    expected = 3 if reaches_durable else 0
    assert synced.durable == log.marks("orders", 0).durable == expected
    assert log.marks("orders", 1).durable == expected
    if reaches_durable:
        assert len(list(log.read("orders", 1, 0, durable_only=True))) == expected
    else:
        with refused(InvalidError):
            log.read("orders", 1, 0, durable_only=True)


def segments_tile_what_is_kept(open_log: OpenLog) -> None:
    log = open_log()
    log.create_topic("orders", partitions=2)
    fill(log, "orders", 50)
    log.trim("orders", 0, 7)

    segments = log.segments("orders", 0)

    assert not log.segments("orders", 1)
    assert (segments[0].start, segments[-1].end) == (7, 50)
    assert all(a.end == b.start for a, b in pairwise(segments))
    assert all(segment.start < segment.end for segment in segments)
    for segment in segments:
        read = list(log.read("orders", 0, segment.start, segment.end))
        assert segment.first_timestamp_us == read[0].timestamp_us
        assert segment.last_timestamp_us == read[-1].timestamp_us
        assert segment.size_bytes > 0


def epochs_begin_at_zero_and_rise(open_log: OpenLog) -> None:
    log = open_log()
    log.create_topic("orders")
    fill(log, "orders", 5)

    epochs = log.epochs("orders", 0)

    assert epochs[0].start == 0
    assert all(a.number < b.number for a, b in pairwise(epochs))
    assert all(a.start <= b.start for a, b in pairwise(epochs))
    assert len({epoch.id for epoch in epochs}) == len(epochs)


def a_stored_position_leads_back_to_its_offset(open_log: OpenLog) -> None:
    log = open_log()
    topic = log.create_topic("orders")
    fill(log, "orders", 5)

    for offset in (0, 3, 5):
        stored = log.position("orders", 0, offset).to_json()
        position = Position.from_json(stored)
        assert log.resolve(position) == offset
        assert (position.log_id, position.topic_id) == (log.id, topic.id)
    if log.durability_max is Durability.DURABLE:
        assert log.marks("orders", 0).durable == high(log, "orders")
    with refused(InvalidError):
        log.position("orders", 0, 6)


def a_position_that_lost_its_history_is_recognised(open_log: OpenLog) -> None:
    log, other = open_log(), open_log()
    for each in (log, other):
        each.create_topic("orders")
        fill(each, "orders", 5)
    position = log.position("orders", 0, 4)

    with refused(InvalidError):
        other.resolve(position)
    with refused(DivergedError) as replaced:
        log.resolve(replace(position, epoch_id=UUID(int=1)))
    with refused(DivergedError) as later:
        log.resolve(replace(position, epoch=position.epoch + 1, epoch_id=UUID(int=1)))
    with refused(InvalidError):
        log.resolve(replace(position, offset=Offset(6)))
    log.trim("orders", 0, 5)
    with refused(TrimmedError) as trimmed:
        log.resolve(position)
    with refused(TrimmedError):
        log.position("orders", 0, 4)
    log.drop_topic("orders")
    with refused(InvalidError):
        log.resolve(position)

    assert replaced.value.diverged_at == 0
    assert later.value.diverged_at == position.offset
    assert trimmed.value.oldest == 5


def events_are_read_as_columns(open_log: OpenLog) -> None:
    log = open_log()
    acmes = log.create_topic("orders", tenant="acme", partitions=2)
    log.append(acmes, Event("created", {"n": 0}, key="k", headers={"h": "1"}), partition=1)
    log.append(acmes, Event("paid", [1]), partition=1)

    batches = log.read_batches(acmes, 1, 0)

    rows = pa.table(batches).to_pylist()
    times = [record.timestamp for record in log.read(acmes, 1, 0)]
    assert [row.pop("_timestamp") for row in rows] == times
    assert [tuple(row.values()) for row in rows] == [
        (1, 0, 0, "k", "acme", "created", '{"n":0}', '{"h":"1"}', None),
        (1, 1, 0, None, "acme", "paid", "[1]", "{}", None),
    ]
    assert batches.schema.names == [
        *("_partition", "_offset", "_row", "_timestamp", "_key", "_tenant"),
        *("kind", "payload", "headers", "occurred_at"),
    ]


def bytes_and_batches_are_read_as_columns(open_log: OpenLog) -> None:
    log = open_log()
    log.create_topic("raw", value_kind=ValueKind.BYTES)
    log.create_topic("typed", value_kind=ValueKind.BATCH)
    log.append_many("raw", [b"a", b"\xff"])
    log.append("typed", pa.record_batch({"x": [1, 2]}))
    log.append("typed", pa.record_batch({"y": ["q"], "x": [3]}), key="k")

    raw = pa.table(log.read_batches("raw", 0, 0))
    typed = pa.table(log.read_batches("typed", 0, 0))

    assert raw.column("value").to_pylist() == [b"a", b"\xff"]
    assert typed.select(["_offset", "_row", "_key", "x", "y"]).to_pydict() == {
        "_offset": [0, 0, 1],
        "_row": [0, 1, 0],
        "_key": [None, None, "k"],
        "x": [1, 2, 3],
        "y": [None, None, "q"],
    }


def one_column_of_two_types_is_refused(open_log: OpenLog) -> None:
    log = open_log()
    log.create_topic("typed", value_kind=ValueKind.BATCH)
    log.append("typed", pa.record_batch({"x": [1]}))
    log.append("typed", pa.record_batch({"x": ["text"]}))

    with refused(InvalidError):
        pa.table(log.read_batches("typed", 0, 0))

    assert pa.table(log.read_batches("typed", 0, 1)).column("x").to_pylist() == ["text"]


def batches_keep_the_rules_of_reading(open_log: OpenLog) -> None:
    log = open_log()
    log.create_topic("orders")
    log.create_topic("empty", value_kind=ValueKind.BYTES)
    fill(log, "orders", 10)

    def offsets(start: int, end: int | None = None, records_max: int | None = None) -> list[int]:
        batches = log.read_batches("orders", 0, start, end, records_max=records_max)
        found: list[int] = pa.table(batches).column("_offset").to_pylist()
        return found

    assert offsets(3) == list(range(3, 10))
    assert offsets(2, 4) == [2, 3]
    assert offsets(2, records_max=0) == []
    assert offsets(2, records_max=3) == [2, 3, 4]
    assert offsets(10) == []
    first = pa.table(log.read_batches("orders", 0, 4, bytes_max=1))
    assert first.column("_offset").to_pylist() == [4]
    assert not list(log.read_batches("empty", 0, 0))
    assert "value" in log.read_batches("empty", 0, 0).schema.names
    log.trim("orders", 0, 5)
    with refused(TrimmedError):
        log.read_batches("orders", 0, 4)


def batches_are_handed_to_arrow_as_a_stream(open_log: OpenLog) -> None:
    log = open_log()
    log.create_topic("orders")
    fill(log, "orders", 10)
    batches = log.read_batches("orders", 0, 0)

    reader = pa.RecordBatchReader.from_stream(batches)

    assert reader.schema == batches.schema
    assert reader.read_all().num_rows == sum(batch.num_rows for batch in batches) == 10


def what_an_append_returned_for_a_read_sees(open_log: OpenLog) -> None:
    """S2."""
    log = open_log()
    log.create_topic("orders")

    for number in range(20):
        receipt = log.append("orders", event(number))
        assert numbers(log, "orders", 0, receipt.offset) == [number]
