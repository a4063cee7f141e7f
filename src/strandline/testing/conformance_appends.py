"""Rules about appending. Every public function is a rule."""

import asyncio
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pyarrow as pa

from strandline.log import AsyncLog, AsyncReceipt, Log, Receipt, Value
from strandline.testing.conformance_checks import (
    OpenLog,
    event,
    fill,
    high,
    numbers,
    refused,
    together,
)
from strandline.values import (
    ConflictError,
    Durability,
    Event,
    InvalidError,
    Offset,
    ValueKind,
    partition_for_key,
)


def offsets_count_from_zero_in_each_partition(open_log: OpenLog) -> None:
    """TA1."""
    log = open_log()
    log.create_topic("orders", partitions=2)

    offsets = [log.append("orders", event(n), partition=p).offset for n, p in enumerate([0, 0, 1])]

    assert offsets == [0, 1, 0]
    assert [high(log, "orders", partition) for partition in (0, 1)] == [2, 1]


def a_partition_out_of_range_is_refused(open_log: OpenLog) -> None:
    """TA4: and nothing is appended."""
    log = open_log()
    log.create_topic("orders", partitions=2)

    for partition in (2, 5, -1, True, 0.0, "0"):
        with refused(InvalidError):
            log.append("orders", event(0), partition=partition)  # type: ignore[arg-type]

    assert log.describe_topic("orders").records == 0


def ten_thousand_appends_read_back_in_order(open_log: OpenLog) -> None:
    """TE1, its first part; WA8: marks show where it ends."""
    log = open_log()
    log.create_topic("orders")
    count = 10_000

    offsets = [log.append("orders", event(number)).offset for number in range(count)]

    assert offsets == list(range(count))
    read = list(log.read("orders", 0, 0))
    assert [record.offset for record in read] == offsets
    assert [record.payload["n"] for record in read] == offsets


def a_receipt_has_the_place_of_the_record(open_log: OpenLog) -> None:
    log = open_log()
    log.create_topic("orders", partitions=3)

    receipt = log.append("orders", event(7), partition=2)

    (record,) = log.read("orders", 2, 0)
    assert (receipt.partition, receipt.offset) == (record.partition, record.offset) == (2, 0)
    assert receipt.timestamp_us == record.timestamp_us
    assert receipt.is_settled
    assert not receipt.is_repeat


def an_append_reaches_written_or_what_the_log_can(open_log: OpenLog) -> None:
    log = open_log()
    log.create_topic("orders")

    for asked in (None, *Durability):
        if asked is not None and asked > log.durability_max:
            with refused(InvalidError):
                log.append("orders", event(0), durability=asked)
        else:
            least = min(Durability.WRITTEN, log.durability_max) if asked is None else asked
            level = log.append("orders", event(0), durability=asked).level
            assert level is not None
            assert level >= least


def a_receipt_can_be_waited_on_and_awaited(open_log: OpenLog) -> None:
    log = open_log()
    log.create_topic("orders")
    receipt = log.append("orders", event(0))
    best = log.durability_max

    async def on_a_loop() -> AsyncReceipt:
        assert await receipt is receipt
        appended = await AsyncLog(log).append("orders", event(1))
        return await appended.wait(best, 10.0)

    assert receipt.wait() is receipt
    assert receipt.wait(best, 10.0).level == best
    appended = asyncio.run(on_a_loop())
    assert (appended.offset, appended.level) == (1, best)
    for level in Durability:
        if level > best:
            with refused(InvalidError):
                receipt.wait(level)


def a_key_decides_the_partition(open_log: OpenLog) -> None:
    log = open_log()
    log.create_topic("orders", partitions=7)
    log.create_topic("raw", partitions=7, value_kind=ValueKind.BYTES)
    keys = ["", "c-9", "å", "k" * 300]

    by_event = [log.append("orders", event(0, key=key)).partition for key in keys]
    by_argument = [log.append("raw", b"", key=key).partition for key in keys]

    assert by_event == by_argument == [partition_for_key(key, 7) for key in keys]
    assert {r.key for p in range(7) for r in log.read("raw", p, 0)} == set(keys)


def a_partition_given_wins_over_the_key(open_log: OpenLog) -> None:
    log = open_log()
    log.create_topic("orders", partitions=7)
    other = (partition_for_key("c-9", 7) + 1) % 7

    receipt = log.append("orders", event(0, key="c-9"), partition=other)

    (record,) = log.read("orders", other, 0)
    assert receipt.partition == other
    assert record.key == record.event.key == "c-9"


def two_different_keys_are_refused(open_log: OpenLog) -> None:
    log = open_log()
    log.create_topic("orders")

    with refused(InvalidError):
        log.append("orders", event(0, key="a"), key="b")
    for key in (7, b"a", "\ud800"):
        with refused(InvalidError):
            log.append("orders", event(0), key=key)  # type: ignore[arg-type]
    log.append("orders", event(1, key="a"), key="a")

    assert numbers(log, "orders") == [1]


def without_a_key_the_producer_or_idempotency_key_decides(open_log: OpenLog) -> None:
    log = open_log()
    log.create_topic("orders", partitions=7)

    produced = [log.append("orders", event(n), producer="p", sequence=n) for n in range(3)]
    identified = log.append("orders", event(0), idempotency_key="request-1")

    assert {receipt.partition for receipt in produced} == {partition_for_key("p", 7)}
    assert identified.partition == partition_for_key("request-1", 7)


def without_anything_the_partitions_take_turns(open_log: OpenLog) -> None:
    log = open_log()
    log.create_topic("orders", partitions=3)

    single = [log.append("orders", event(n)).partition for n in range(4)]
    many = log.append_many("orders", [event(n) for n in range(5)])

    assert single == [0, 1, 2, 0]
    assert [receipt.partition for receipt in many] == [1] * 5


def append_many_gives_each_value_an_offset_of_its_own(open_log: OpenLog) -> None:
    log = open_log()
    log.create_topic("orders", partitions=2)
    fill(log, "orders", 1, partition=1)
    keys = {partition_for_key(key, 2): key for key in "abcdefgh"}
    events = [event(n, key=keys[n % 2]) for n in range(6)]  # type: ignore[index]

    receipts = log.append_many("orders", events)

    assert len(receipts) == len(events)
    assert [r.partition for r in receipts] == [0, 1, 0, 1, 0, 1]
    assert [r.offset for r in receipts] == [0, 1, 1, 2, 2, 3]
    assert numbers(log, "orders", 0) == [0, 2, 4]
    assert numbers(log, "orders", 1) == [0, 1, 3, 5]
    assert receipts[3].offset == receipts.wait()[3].offset
    assert len(log.append_many("orders", [])) == 0


def append_many_takes_a_key_for_each_value(open_log: OpenLog) -> None:
    log = open_log()
    log.create_topic("raw", partitions=5, value_kind=ValueKind.BYTES)

    receipts = log.append_many("raw", [b"1", b"2"], keys=["a", None])
    with refused(InvalidError):
        log.append_many("raw", [b"1", b"2"], keys=["a"])

    assert receipts[0].partition == partition_for_key("a", 5)
    assert log.describe_topic("raw").records == len(receipts)


def append_many_with_one_bad_value_stores_none(open_log: OpenLog) -> None:
    log = open_log()
    log.create_topic("orders", partitions=2)

    def breaking() -> Iterator[Event]:
        yield event(0)
        raise KeyError

    with refused(InvalidError):
        log.append_many("orders", [event(0), b"bytes", event(1)])
    try:
        log.append_many("orders", breaking())
    except KeyError:
        pass
    else:
        raise AssertionError("the caller's own error is the caller's")

    assert log.describe_topic("orders").records == 0


def an_expected_offset_is_kept_or_refused(open_log: OpenLog) -> None:
    log = open_log()
    log.create_topic("orders", partitions=2)

    log.append("orders", event(0), partition=1, expected_offset=0)
    with refused(ConflictError) as late:
        log.append("orders", event(9), partition=1, expected_offset=0)
    with refused(ConflictError):
        log.append("orders", event(9), partition=1, expected_offset=2)
    log.append_many("orders", [event(1), event(2)], partition=1, expected_offset=1)
    with refused(ConflictError):
        log.append_many("orders", [event(9), event(9)], partition=1, expected_offset=1)

    assert late.value.fields["end"] == 1
    assert numbers(log, "orders", 1) == [0, 1, 2]


def an_expected_offset_needs_one_partition(open_log: OpenLog) -> None:
    log = open_log()
    log.create_topic("orders", partitions=2)
    keys = {partition_for_key(key, 2): key for key in "abcdefgh"}

    with refused(InvalidError):
        log.append("orders", event(0), expected_offset=0)
    with refused(InvalidError):
        log.append_many("orders", [event(0, key=key) for key in keys.values()], expected_offset=0)
    with refused(InvalidError):
        log.append("orders", event(0), partition=0, expected_offset=-1)

    assert log.describe_topic("orders").records == 0


def of_many_writers_that_expect_one_offset_one_wins(open_log: OpenLog) -> None:
    log = open_log()
    log.create_topic("orders")

    def attempt() -> bool:
        try:
            log.append("orders", event(0), expected_offset=0)
        except ConflictError:
            return False
        return True

    won = together([attempt] * 8)

    assert sorted(won) == [False] * 7 + [True]
    assert high(log, "orders") == 1


def a_value_of_another_kind_is_refused(open_log: OpenLog) -> None:
    log = open_log()
    values: dict[ValueKind, Value] = {
        ValueKind.EVENT: event(0),
        ValueKind.BYTES: b"bytes",
        ValueKind.BATCH: pa.record_batch({"x": [1]}),
    }
    for kind in ValueKind:
        log.create_topic(kind.value, value_kind=kind)

    for kind in ValueKind:
        wrong: list[tuple[None, Any]] = [(None, "text"), (None, None), (None, {"n": 1})]
        for own, value in (*values.items(), *wrong):
            if own is kind:
                log.append(kind.value, value)
            else:
                with refused(InvalidError):
                    log.append(kind.value, value)

    assert [high(log, kind.value) for kind in ValueKind] == [1, 1, 1]


def a_batch_that_cannot_be_read_back_is_refused(open_log: OpenLog) -> None:
    log = open_log()
    log.create_topic("typed", value_kind=ValueKind.BATCH)
    column = pa.array([1])

    for batch in (
        pa.record_batch({"x": pa.array([], pa.int64())}),
        pa.RecordBatch.from_arrays([column, column], ["x", "x"]),
        pa.record_batch({"x": [1], "_offset": [2]}),
        pa.record_batch({"x": pa.DictionaryArray.from_arrays([5], ["one"], safe=False)}),
    ):
        with refused(InvalidError):
            log.append("typed", batch)

    assert high(log, "typed") == 0


def values_come_back_as_they_were(open_log: OpenLog) -> None:
    log = open_log()
    payloads: list[object] = [
        None,
        False,
        0,
        "",
        [],
        {},
        {"deep": [1, {"å": 1.5}]},
        "\u2028",
        2**63 - 1,
    ]
    events = [
        Event(
            f"kind.{number}",
            payload,
            key="k" if number % 2 else None,
            headers={"trace": "1"} if number % 3 else {},
            occurred_at=datetime(1999, 1, 1, tzinfo=UTC) if number % 4 else None,
        )
        for number, payload in enumerate(payloads)
    ]
    raw = [b"", b"\0\xff", b"x" * 1000]
    log.create_topic("orders")
    log.create_topic("raw", value_kind=ValueKind.BYTES)

    log.append_many("orders", events)
    log.append_many("raw", raw)

    assert [record.event for record in log.read("orders", 0, 0)] == events
    assert [record.key for record in log.read("orders", 0, 0)] == [each.key for each in events]
    assert [record.value for record in log.read("raw", 0, 0)] == raw


def a_batch_comes_back_whole_at_one_offset(open_log: OpenLog) -> None:
    log = open_log()
    log.create_topic("typed", value_kind=ValueKind.BATCH)
    whole = pa.record_batch({"x": list(range(100)), "s": [None, *"ab" * 49, "end"]})
    batches = [whole, whole.slice(10, 5)]

    offsets = [log.append("typed", batch).offset for batch in batches]

    assert offsets == [0, 1]
    assert [record.value for record in log.read("typed", 0, 0)] == batches


def no_reader_can_change_what_another_sees(open_log: OpenLog) -> None:
    log = open_log()
    log.create_topic("orders")
    payload = {"items": [1]}
    appended = Event("order", payload)
    log.append("orders", appended)

    payload["items"].append(2)
    appended.payload["items"].append(3)
    for record in log.read("orders", 0, 0):
        record.payload["items"].append(4)

    (record,) = log.read("orders", 0, 0)
    assert record.payload == {"items": [1]}


def a_record_as_large_as_allowed_is_taken_and_no_larger(open_log: OpenLog) -> None:
    log = open_log(record_bytes_max=1000)
    log.create_topic("raw", value_kind=ValueKind.BYTES)
    log.create_topic("orders")
    log.create_topic("typed", value_kind=ValueKind.BATCH)

    log.append("raw", b"x" * 999, key="k")
    with refused(InvalidError):
        log.append("raw", b"x" * 1000, key="k")
    with refused(InvalidError):
        log.append_many("raw", [b"x", b"x" * 1001])
    # The kind and the headers count, and a text in JSON has two quotes.
    log.append("orders", Event("kind", "x" * 978, key="key", headers={"h": "value"}))
    with refused(InvalidError):
        log.append("orders", Event("kind", "x" * 979, key="key", headers={"h": "value"}))
    with refused(InvalidError):
        log.append("typed", pa.record_batch({"x": list(range(1000))}))

    assert [high(log, topic) for topic in ("raw", "orders", "typed")] == [1, 1, 0]


def sixteen_mebibytes_are_taken_by_default(open_log: OpenLog) -> None:
    log = open_log()
    log.create_topic("raw", value_kind=ValueKind.BYTES)
    most = b"\xa5" * (16 * 1024 * 1024)

    log.append("raw", most)
    with refused(InvalidError):
        log.append("raw", most + b"1")

    (record,) = log.read("raw", 0, 0)
    assert record.value == most


def concurrent_appends_get_dense_offsets_in_each_ones_order(open_log: OpenLog) -> None:
    log = open_log()
    log.create_topic("orders", partitions=2)
    count = 100

    def produce(name: int) -> list[Receipt]:
        values = (Event("from", [name, n]) for n in range(count))
        return [log.append("orders", value, partition=name % 2) for value in values]

    jobs: list[Callable[[], list[Receipt]]] = [partial(produce, name) for name in range(8)]
    offsets = [[receipt.offset for receipt in receipts] for receipts in together(jobs)]

    for partition in (0, 1):
        taken = sorted(offset for name in range(partition, 8, 2) for offset in offsets[name])
        assert taken == list(range(4 * count))
        _check_order(log, partition, offsets)


def _check_order(log: Log, partition: int, offsets: list[list[Offset]]) -> None:
    timestamp_us = 0
    for record in log.read("orders", partition, 0):
        name, number = record.payload
        assert offsets[name][number] == record.offset
        assert record.timestamp_us >= timestamp_us
        timestamp_us = record.timestamp_us


def concurrent_append_many_calls_do_not_mix(open_log: OpenLog) -> None:
    log = open_log()
    log.create_topic("orders")

    def produce(name: int) -> None:
        for _ in range(10):
            log.append_many("orders", [Event("from", name)] * 5)

    together([partial(produce, name) for name in range(4)])

    names = [record.payload for record in log.read("orders", 0, 0)]
    groups = [names[start : start + 5] for start in range(0, len(names), 5)]
    assert all(len(set(group)) == 1 for group in groups)


def a_record_has_its_tenant(open_log: OpenLog) -> None:
    log = open_log()
    log.create_topic("shared")
    acmes = log.create_topic("orders", tenant="acme")

    log.append("shared", event(0))
    log.append("shared", event(1), tenant="acme")
    log.append(acmes, event(2))
    log.append(acmes, event(3), tenant="acme")
    with refused(InvalidError):
        log.append(acmes, event(4), tenant="other")
    with refused(InvalidError):
        log.append("shared", event(4), tenant="../up")

    assert [record.tenant for record in log.read("shared", 0, 0)] == [None, "acme"]
    assert [record.tenant for record in log.read(acmes, 0, 0)] == ["acme", "acme"]
