"""A log counts what it does, and reports it in one place."""

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import strandline as sl
from strandline.log import Log, LogMetrics
from strandline.log.appending import Appends
from strandline.testing.conformance_checks import PATIENCE_S, started
from strandline.values import ClosedError, ConflictError, Event, InvalidError
from strandline.writes import SAMPLED_EVERY
from tests.planting import Bug

EVENT = Event("counted", {"n": 1})
SIZE = len(EVENT.kind) + len(EVENT.payload_json) + len(EVENT.headers_json)


@pytest.fixture(params=["memory", "file", "sqlite"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Log]:
    kind: str = request.param
    with sl.open("memory:" if kind == "memory" else f"{kind}:{tmp_path}/log") as log:
        yield log


def test_a_new_log_counts_from_nothing(log: Log) -> None:
    metrics = log.metrics()

    assert (metrics.appends, metrics.records, metrics.bytes) == (0, 0, 0)
    assert (metrics.reads, metrics.acks, metrics.waits, metrics.hints) == (0, 0, 0, 0)
    assert metrics.subscriptions == 0
    assert metrics.topics == {}


def test_appends_are_counted_with_records_and_bytes_by_topic(log: Log) -> None:
    orders, bills = log.create_topic("orders", partitions=2), log.create_topic("bills")

    append_some(log)

    found = log.metrics()
    assert (found.topics[orders].appends, found.topics[orders].records) == (3, 6)
    assert found.topics[orders].bytes == 6 * SIZE
    assert (found.topics[bills].appends, found.topics[bills].records) == (1, 1)
    assert (found.appends, found.records, found.bytes) == (4, 7, 7 * SIZE)


def append_some(log: Log) -> None:
    log.append("orders", EVENT, partition=0)
    log.append_many("orders", [EVENT] * 4, partition=1)
    log.append(log.topic("orders"), EVENT, partition=0)
    log.append("bills", EVENT)


def test_an_append_that_is_not_counted_is_noticed() -> None:
    bug = Bug("bytes are not counted", Appends, "_append", "counts.bytes += _", "pass")

    with bug.planted(), sl.open("memory:") as log, pytest.raises(AssertionError):
        test_appends_are_counted_with_records_and_bytes_by_topic(log)


def test_a_refused_append_is_not_counted(log: Log) -> None:
    topic = log.create_topic("orders")
    log.append("orders", EVENT)

    with pytest.raises(ConflictError):
        log.append("orders", EVENT, expected_offset=7)

    assert log.metrics().topics[topic].appends == 1


def test_appends_of_several_threads_are_counted_each(log: Log) -> None:
    topic = log.create_topic("orders", partitions=4)

    def run(number: int) -> None:
        for _ in range(50):
            log.append("orders", EVENT, partition=number)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert log.metrics().topics[topic].appends == 200


def test_a_dropped_topic_stays_counted(log: Log) -> None:
    topic = log.create_topic("orders")
    log.append("orders", EVENT)
    before = log.metrics().writes

    log.drop_topic("orders")
    log.create_topic("orders")
    log.append("orders", EVENT)

    after = log.metrics()
    assert after.topics[topic].records == 1
    assert after.records == 2
    assert (before is None) == (after.writes is None)
    assert before is None or after.writes is None or after.writes.applied > before.applied


def test_reads_and_acks_are_counted(log: Log) -> None:
    log.create_topic("orders")
    log.append_many("orders", [EVENT, EVENT])

    list(log.read("orders", 0, 0))
    list(log.read_batches("orders", 0, 0))
    with log.consumer("orders", "billing") as consumer:
        for delivery in consumer:
            consumer.ack(delivery.record)
            if delivery.record.offset == 1:
                break

    metrics = log.metrics()
    assert metrics.reads >= 3
    assert metrics.acks >= 1


def test_an_ack_that_is_refused_is_not_counted(log: Log) -> None:
    log.create_topic("orders")
    log.append("orders", EVENT)

    with pytest.raises(InvalidError):
        log.ack("orders", "billing", 0, 2)
    assert log.metrics().acks == 0
    log.ack("orders", "billing", 0, 1)

    assert log.metrics().acks == 1


def test_an_ack_behind_a_record_that_comes_later_is_counted(log: Log) -> None:
    log.create_topic("orders")
    log.append_many("orders", [EVENT, EVENT])
    with log.consumer("orders", "billing") as consumer:
        first, second = next(consumer), next(consumer)
        consumer.nack(first, delay_s=60)
        before = log.metrics().acks

        consumer.ack(second)

        assert log.metrics().acks == before + 1


def test_subscriptions_their_waits_and_hints_are_counted(log: Log) -> None:
    log.create_topic("orders")
    with log.subscribe("orders") as subscription:
        first = started(lambda: next(iter(subscription)))
        deadline = time.monotonic() + PATIENCE_S
        while log.metrics().waits == 0:
            assert time.monotonic() < deadline, "no thread waits"

        log.append("orders", EVENT)

        first.result(PATIENCE_S)
        during = log.metrics()
    after = log.metrics()
    assert during.subscriptions == 1
    assert during.waits >= 1
    assert during.hints >= 1
    assert after.subscriptions == 0
    assert after.hints >= during.hints
    assert after.waits >= during.waits


def test_a_store_with_a_coordinator_shows_of_flushes_and_syncs_and_of_how_long_they_took(
    tmp_path: Path,
) -> None:
    for kind in ("file", "sqlite"):
        with sl.open(f"{kind}:{tmp_path}/{kind}") as log:
            topic = log.create_topic("orders", partitions=2)
            for number in range(2 * SAMPLED_EVERY + 2):
                log.append("orders", EVENT, partition=number % 2)
            log.append("orders", EVENT, partition=0, durability="durable")

            found = log.metrics()

            assert found.writes is not None
            assert found.writes.applied == 2 * SAMPLED_EVERY + 3
            assert sum(found.writes.flushes.values()) == found.writes.applied
            assert found.writes.syncs >= 1
            for measured in (found.writes.send, found.writes.apply, found.writes.flush):
                assert measured.count >= 2
            assert found.writes.delta_bytes.largest > 0
            each = found.topics[topic].writes
            assert (each == found.writes) is (kind == "file")


def test_a_store_in_memory_has_no_coordinator() -> None:
    with sl.open("memory:") as log:
        assert log.metrics().writes is None


def test_metrics_are_plain_values_for_exporters(log: Log) -> None:
    log.create_topic("orders")
    log.append("orders", EVENT)

    found = json.loads(json.dumps(log.metrics().to_dict()))

    assert found["records"] == 1
    assert found["topics"][0]["topic"] == "orders"
    assert found["topics"][0]["records"] == 1
    assert set(found) >= {"reads", "acks", "subscriptions", "waits", "hints", "writes", "bytes"}


def test_metrics_show_in_a_notebook(log: Log) -> None:
    log.create_topic("orders")
    log.append("orders", EVENT)

    assert "<td>orders</td><td>1</td>" in log.metrics()._repr_html_()


def test_a_closed_log_shows_nothing(log: Log) -> None:
    log.close()

    with pytest.raises(ClosedError):
        log.metrics()


def test_a_tier_does_not_hide_what_its_store_counts(tmp_path: Path) -> None:
    with sl.open(f"file:{tmp_path}/log") as log:
        log.create_topic("orders")
        log.append("orders", EVENT)

        found: LogMetrics = log.metrics()

        assert found.writes is not None
        assert found.writes.applied == 1
