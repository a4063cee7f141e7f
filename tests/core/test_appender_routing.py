"""Partitions that are added while the core appends: no value is routed by the old count."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import strandline as sl
from strandline.log import Log
from strandline.log.topic_changes import ROUTE_DELAY_S
from strandline.stores.files import FileStore
from strandline.testing import FakeClock
from strandline.values import partition_for_key
from tests.core.plain import needs_core
from tests.logs import file_log

pytestmark = needs_core

KEY = next(key for key in map(str, range(100)) if partition_for_key(key, 4) == 3)
EVENT = sl.Event("placed", key=KEY)
PATIENCE_S = 60.0


def warm(log: Log) -> Any:
    """Have the core append; return what does."""
    for _ in range(2):
        log.append("orders", EVENT)
    found: Any = log._appenders  # noqa: SLF001 - Only this shows it.
    return found["orders"]


def by_fake_clock(path: Path, clock: FakeClock) -> Log:
    return file_log(f"{path}/log", clock=clock)


def by_fake_clock_of_the_log_alone(path: Path, clock: FakeClock) -> Log:
    return Log(FileStore(f"{path}/log"), clock=clock)


@pytest.mark.parametrize("opened", [by_fake_clock, by_fake_clock_of_the_log_alone])
def test_a_key_goes_by_the_count_that_another_process_has_stored(
    tmp_path: Path, opened: Callable[[Path, FakeClock], Log]
) -> None:
    clock = FakeClock()
    with opened(tmp_path, clock) as log, by_fake_clock(tmp_path, clock) as other:
        log.create_topic("orders")
        appender = warm(log)
        other.add_partitions("orders", 4)

        before = log.append("orders", EVENT)
        clock.advance(ROUTE_DELAY_S)
        after = [log.append("orders", EVENT) for _ in range(3)]

        assert before.partition == 0
        assert [(each.partition, each.offset) for each in after] == [(3, 0), (3, 1), (3, 2)]
        # The second, and the one before the change.
        assert appender.take_counts()[0] <= 2


def test_the_system_clock_tells_when_to_look_again(tmp_path: Path) -> None:
    # Its clock is years behind, so that what it adds is in force at once.
    past = file_log(f"{tmp_path}/log", clock=FakeClock())
    with sl.open(f"file:{tmp_path}/log") as log, past:
        log.create_topic("orders")
        warm(log)
        past.add_partitions("orders", 4)

        deadline = time.monotonic() + PATIENCE_S
        while (receipt := log.append("orders", EVENT)).partition == 0:
            assert time.monotonic() < deadline, "it still uses the old count"

        assert receipt.partition == 3


def test_an_appender_appends_nothing_from_its_time_on(tmp_path: Path) -> None:
    clock = FakeClock()
    with by_fake_clock(tmp_path, clock) as log:
        log.create_topic("orders")
        appender = warm(log)
        appender.take_counts()
        appender.fresh_until = clock.monotonic()

        log.append("orders", EVENT)
        log.append("orders", EVENT)

        # Both in Python, which has no reason to look at the topic yet.
        assert appender.take_counts()[0] == 0


@pytest.mark.parametrize("exclusive", [False, True])
def test_a_log_goes_by_what_it_has_added_itself(tmp_path: Path, exclusive: bool) -> None:
    clock = FakeClock()
    with file_log(f"{tmp_path}/log", clock=clock, exclusive=exclusive) as log:
        log.create_topic("orders")
        warm(log)

        log.add_partitions("orders", 4)
        before = [log.append("orders", EVENT).partition for _ in range(3)]
        clock.advance(ROUTE_DELAY_S)

        assert before == [0, 0, 0]
        assert log.append("orders", EVENT).partition == 3


def test_tasks_go_by_the_count_that_another_process_has_stored(tmp_path: Path) -> None:
    clock = FakeClock()

    async def work(other: Log) -> list[int]:
        async with by_fake_clock(tmp_path, clock) as log:
            for _ in range(3):
                await log.append("orders", EVENT)
            other.add_partitions("orders", 4)
            before = await log.append("orders", EVENT)
            clock.advance(ROUTE_DELAY_S)
            after = [log.append("orders", EVENT) for _ in range(3)]
            return [before.partition, *[(await each).partition for each in after]]

    with by_fake_clock(tmp_path, clock) as other:
        other.create_topic("orders")

        assert asyncio.run(work(other)) == [0, 3, 3, 3]


def test_what_the_core_appends_counts_as_applied_and_flushed(tmp_path: Path) -> None:
    with file_log(f"{tmp_path}/log") as log:
        topic = log.create_topic("orders")
        warm(log)
        log.append("orders", EVENT)
        log.append_many("orders", [EVENT] * 3)
        log.append("orders", EVENT, idempotency_key="once")

        found = log.metrics()

        assert found.writes is not None
        assert (found.appends, found.records) == (5, 7)
        assert found.writes.applied == 5
        assert sum(found.writes.flushes.values()) == 5
        assert found.topics[topic].writes == found.writes


def test_what_was_applied_before_a_take_over_stays_counted(tmp_path: Path) -> None:
    with file_log(f"{tmp_path}/log") as log:
        log.create_topic("orders")
        warm(log)
        with file_log(
            f"{tmp_path}/log", take_over=True, exclusive=True, lock_timeout_s=0.01
        ) as new:
            new.append("orders", EVENT)
        for _ in range(3):
            log.append("orders", EVENT)
        log.drop_topic("orders")

        found = log.metrics()

        assert found.writes is not None
        assert found.writes.applied == found.appends == 5
