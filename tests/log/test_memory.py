"""What is a log's own that lies in memory, beside the conformance suite."""

import asyncio
import os
import signal
from collections.abc import Callable

import pytest

from strandline.log import Log
from strandline.testing import FakeClock
from strandline.values import (
    ClosedError,
    Durability,
    Event,
    InvalidError,
    ValueKind,
)
from tests.logs import memory_log


def takes_a_log(log: Log) -> Log:
    """Hold, for the type checker, that a Log is a Log."""
    return log


def test_it_reaches_applied_and_reports_it() -> None:
    log = takes_a_log(memory_log())
    log.create_topic("orders")

    receipt = log.append("orders", Event("a"))

    assert receipt.level is Durability.APPLIED
    assert log.durability_max is Durability.APPLIED
    with pytest.raises(InvalidError, match="file:"):
        log.append("orders", Event("a"), durability=Durability.WRITTEN)
    with pytest.raises(InvalidError, match="file:"):
        receipt.wait(Durability.DURABLE)
    with pytest.raises(InvalidError, match="durable_only"):
        log.read("orders", 0, 0, durable_only=True)


def test_a_whole_call_can_be_waited_on_and_awaited() -> None:
    log = memory_log()
    log.create_topic("orders")
    receipts = log.append_many("orders", [Event("a"), Event("b")])

    async def on_a_loop() -> list[int]:
        return [receipt.offset for receipt in await receipts]

    assert receipts.wait() is receipts
    assert asyncio.run(on_a_loop()) == [0, 1]
    with pytest.raises(InvalidError):
        receipts.wait(Durability.WRITTEN)


def test_the_same_calls_on_the_same_clock_give_the_same_log() -> None:
    def story() -> list[object]:
        log = memory_log(clock=FakeClock(seed=7))
        topic = log.create_topic("orders", partitions=3)
        receipts = [repr(log.append("orders", Event("a", n))) for n in range(5)]
        return [log.id, topic, receipts, log.epochs("orders", 0), log.describe()]

    assert story() == story()


def test_retention_is_applied_after_each_append() -> None:
    log = memory_log()
    log.create_topic("raw", value_kind=ValueKind.BYTES, retention_bytes=250)

    for _ in range(10):
        log.append("raw", b"x" * 100)

    assert log.marks("raw", 0).low == 8
    assert log.describe().size_bytes == 200


def test_a_child_of_a_fork_has_to_open_its_own() -> None:
    log = memory_log()
    log.create_topic("orders")

    assert in_child(lambda: log.append("orders", Event("a"))) == "ClosedError"
    assert in_child(log.topics) == "ClosedError"
    assert in_child(log.watch().wait) == "ClosedError"


def test_a_read_that_has_begun_is_not_disturbed_by_a_trim() -> None:
    log = memory_log()
    log.create_topic("orders")
    log.append_many("orders", [Event("a", n) for n in range(5)])

    reading = log.read("orders", 0, 0)
    log.trim("orders", 0, 5)

    assert [record.payload for record in reading] == [0, 1, 2, 3, 4]


@pytest.mark.slow
def test_many_records_come_as_several_record_batches() -> None:
    log = memory_log()
    log.create_topic("raw", value_kind=ValueKind.BYTES)
    log.append_many("raw", [b"x"] * 10_000)
    log.append_many("raw", [b"x" * 16_000_000] * 5)

    batches = list(log.read_batches("raw", 0, 0))

    assert [batch.num_rows for batch in batches] == [4096, 4096, 1812, 1]
    assert sum(batch.num_rows for batch in batches) == 10_005


def test_a_closed_watch_is_dropped_by_its_log_and_partitions() -> None:
    log = memory_log()
    log.create_topic("orders")
    watch = log.watch()
    watch.add("orders", 0, 0)

    watch.close()

    with pytest.raises(ClosedError):
        watch.add("orders", 0, 0)
    with pytest.raises(ClosedError):
        watch.remove("orders", 0)
    log.append("orders", Event("a"))
    log.close()


def in_child(action: Callable[[], object]) -> str:
    """Return the name of the error that `action` raises in the child of a fork."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        try:
            action()
            name = "nothing"
        except BaseException as error:  # noqa: BLE001 The child has to end here.
            name = type(error).__name__
        os.write(writing, name.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        name = pipe.read()
    os.waitpid(child, 0)
    return name


def test_added_partitions_are_filled_from_the_next_append_on() -> None:
    log = memory_log(clock=FakeClock())
    log.create_topic("orders")
    log.append("orders", Event("a"))

    log.add_partitions("orders", 2)

    assert {log.append("orders", Event("a")).partition for _ in range(2)} == {0, 1}
