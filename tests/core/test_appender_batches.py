"""A warm `append_many` by the core, from the name of a topic to the receipts."""

import errno
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import strandline as sl
from strandline.io import SystemIo
from strandline.log import Log
from strandline.testing import FakeClock, FaultyIo
from strandline.values import Durability, partition_for_key
from tests.core.plain import needs_core
from tests.core.test_references import grown
from tests.log.files.test_warm_append import traced
from tests.logs import file_log

pytestmark = needs_core

PARTITIONS = 4
KEYS = [str(number) for number in range(20)]


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no topic looked at again, however slow a test is."""
    monkeypatch.setattr("strandline.log.topic_lane.ROUTE_CHECK_S", 3600.0)


@pytest.fixture(params=[False, True], ids=["shared", "exclusive"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Log]:
    with file_log(f"{tmp_path}/log", exclusive=request.param) as made:
        made.create_topic("orders")
        made.append("orders", sl.Event("first"))
        yield made


def events(count: int) -> list[sl.Event]:
    return [sl.Event("k", number) for number in range(count)]


def appended(log: Log, topic: str = "orders") -> int:
    """Return how many appends the core has made of itself since the last time."""
    found: Any = log._appenders  # noqa: SLF001 - Only this shows it.
    of_topic = found[topic]
    each = of_topic if isinstance(of_topic, list) else [of_topic]
    return sum(appender.take_counts()[0] for appender in each if appender is not None)


def test_python_does_no_more_than_make_the_receipts(tmp_path: Path) -> None:
    with file_log(f"{tmp_path}/log", exclusive=True) as log:
        log.create_topic("orders")
        log.append("orders", sl.Event("first"))
        append = partial(log.append_many, "orders", events(10))

        # Now and then an owner looks after its files, in Python.
        fewest = min((traced(append) for _ in range(20)), key=len)

    assert fewest == ["log.py append_many", "receipts.py receipts_of", "receipts.py __init__"]


@pytest.mark.parametrize("count", [1, 10, 100])
def test_receipts_have_all_that_those_by_python_have(log: Log, count: int) -> None:
    warm = log.append_many("orders", events(count))
    plain = log.append_many("orders", events(count), producer="p", sequence=0)

    assert [each.offset for each in warm] == [*range(1, count + 1)]
    assert [each.offset for each in plain] == [*range(count + 1, 2 * count + 1)]
    assert {(each.partition, each.is_repeat, each.level) for each in [*warm, *plain]} == {
        (0, False, Durability.WRITTEN)
    }
    assert len({each.timestamp_us for each in warm}) == 1
    assert (len(warm), warm.is_settled) == (count, True)
    assert repr(warm).partition("offset")[0] == repr(plain).partition("offset")[0]
    assert warm.wait("durable")[-1].level is Durability.DURABLE
    assert [each.payload for each in log.read("orders", 0, 1)] == [*range(count)] * 2


@pytest.mark.parametrize("level", [Durability.WRITTEN, "written", Durability.DURABLE, "durable"])
def test_a_batch_reaches_the_level_that_it_requests(tmp_path: Path, level: Any) -> None:
    with file_log(f"{tmp_path}/log") as log:
        log.create_topic("orders")
        log.append("orders", sl.Event("first"))

        receipts = log.append_many("orders", events(3), durability=level)

        assert {each.level for each in receipts} == {Durability.parse(level)}
        assert appended(log) == 1


def test_one_value_is_no_list_and_a_list_is_no_value(log: Log) -> None:
    event: Any = sl.Event("k")
    several: Any = [event]
    for call in (lambda: log.append("orders", several), lambda: log.append_many("orders", event)):
        with pytest.raises(sl.InvalidError):
            call()

    assert len(log.append_many("orders", [])) == 0
    assert log.marks("orders", 0).high == 1


def test_a_list_with_a_value_that_may_not_be_stored_stores_nothing(tmp_path: Path) -> None:
    with file_log(f"{tmp_path}/log", record_bytes_max=100) as log:
        log.create_topic("orders")
        log.append("orders", sl.Event("k"))
        wrong: list[Any] = [b"bytes", None, sl.Event("k", "x" * 200)]

        for value in wrong:
            with pytest.raises(sl.InvalidError):
                log.append_many("orders", [sl.Event("k"), value])

        assert log.marks("orders", 0).high == 1


def test_a_list_may_change_after_it_was_appended(log: Log) -> None:
    batch = events(3)
    receipts = log.append_many("orders", batch)
    batch.clear()

    assert [each.offset for each in receipts] == [1, 2, 3]


@pytest.mark.parametrize("nth", [1, 2])
def test_a_failed_write_ends_the_log_as_in_python(tmp_path: Path, nth: int) -> None:
    io = FaultyIo(SystemIo())
    with file_log(f"{tmp_path}/log", io=io, clock=FakeClock(), exclusive=True) as log:
        log.create_topic("orders")
        log.append("orders", sl.Event("k"))
        assert appended(log) == 0
        io.fail(nth, errno.EIO)

        with pytest.raises(sl.UnknownError) as caught:
            log.append_many("orders", events(3))
        with pytest.raises(sl.FailedError):
            log.append_many("orders", events(3))

    assert isinstance(caught.value.__cause__, OSError)


def test_a_lock_that_cannot_be_taken_hands_the_events_back(tmp_path: Path) -> None:
    io = FaultyIo(SystemIo())
    batch = events(3)
    with file_log(f"{tmp_path}/log", io=io, clock=FakeClock()) as log:
        log.create_topic("orders")
        log.append("orders", sl.Event("k"))
        io.fail(1, errno.EIO)

        with pytest.raises(sl.UnavailableError) as caught:
            log.append_many("orders", batch)
        io.clear_faults()

        assert caught.value.write == batch
        assert log.append_many("orders", batch)[0].offset == 1


def test_batches_continue_by_the_core_after_a_take_over(tmp_path: Path) -> None:
    with file_log(f"{tmp_path}/log") as log:
        log.create_topic("orders")
        log.append("orders", sl.Event("k"))
        taken = file_log(f"{tmp_path}/log", take_over=True, exclusive=True, lock_timeout_s=0.01)
        taken.append("orders", sl.Event("k"))
        taken.close()

        offsets = [log.append_many("orders", events(2))[1].offset for _ in range(4)]

        assert offsets == [3, 5, 7, 9]
        assert appended(log) > 0


def test_no_block_is_left_behind_by_many_batches(log: Log) -> None:
    def append() -> None:
        receipts = log.append_many("orders", events(3))
        assert (receipts[2].offset, receipts.is_settled) != (0, False)

    assert grown(append, 2_000) < 200


# --- several partitions ---


@pytest.mark.parametrize("exclusive", [False, True])
def test_single_events_go_to_the_partitions_of_their_keys(tmp_path: Path, exclusive: bool) -> None:
    with file_log(f"{tmp_path}/log", exclusive=exclusive) as log:
        log.create_topic("orders", partitions=PARTITIONS)
        log.append_many("orders", [sl.Event("k", key=key) for key in KEYS])
        before = log.metrics()
        appended(log)

        receipts = [log.append("orders", sl.Event("k", key=key)) for key in KEYS]
        made, after = appended(log), log.metrics()

        assert [each.partition for each in receipts] == [
            partition_for_key(key, PARTITIONS) for key in KEYS
        ]
        highs = [log.marks("orders", number).high for number in range(PARTITIONS)]
        assert sum(highs) == 2 * len(KEYS)
        # Now and then Python looks after the files of an owner.
        assert made > len(KEYS) // 2
        assert after.records - before.records == len(KEYS) - made


def test_events_without_a_key_go_to_each_partition_in_turn(tmp_path: Path) -> None:
    with file_log(f"{tmp_path}/log") as log:
        log.create_topic("orders", partitions=PARTITIONS)
        log.append_many("orders", [sl.Event("k", key=key) for key in KEYS])

        receipts = [log.append("orders", sl.Event("k")) for _ in range(2 * PARTITIONS)]

        assert sorted(each.partition for each in receipts) == sorted([*range(PARTITIONS)] * 2)
