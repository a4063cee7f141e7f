"""The history of a whole log matches the log, and no other."""

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from strandline.testing import FakeClock
from strandline.values import Durability
from tests.logs import sqlite_log
from tests.model.disk import Disk
from tests.model.log_history import (
    LogHistory,
    Seen,
    SeenPartition,
    SeenRecord,
    SeenTopic,
    look,
)
from tests.model.log_workload import OPERATIONS, LogWorkload

TOPIC_ID = FakeClock().new_id()


@pytest.mark.slow
def test_the_history_of_any_work_agrees_with_the_log(tmp_path: Path) -> None:
    chance = random.Random(3)
    names = ["create_wide", *OPERATIONS, *chance.choices(OPERATIONS, k=60)]
    clock = FakeClock()

    work = LogWorkload(
        Disk(), lambda _: sqlite_log(str(tmp_path / "log"), clock=clock), LogHistory()
    )
    work.run(names)

    with work.log as log:
        seen = look(log)
        assert work.history.check(seen) == []
        assert LogHistory.of(seen).check(seen) == []


def known() -> LogHistory:
    """Return the history of a topic with four records, the first three durable."""
    history = LogHistory()
    history.before_topic("orders", 1)
    history.after_topic("orders", TOPIC_ID)
    history.before_append("orders", 0, [1, 2, 3])
    records = [SeenRecord(offset, offset + 1, 100) for offset in range(4)]
    history.after_append("orders", 0, records[:3], Durability.DURABLE)
    history.after_sync("orders", 0, 3)
    history.before_append("orders", 0, [4])
    history.after_append("orders", 0, records[3:], Durability.WRITTEN)
    history.before_cursor("orders", "billing", 0, 2)
    history.after_cursor("orders", "billing", 0, 2)
    history.before_trim("orders", 0, 1)
    history.after_trim("orders", 0, 1)
    return history


def shown(low: int = 1, high: int = 4, durable: int = 3) -> SeenTopic:
    records = tuple(SeenRecord(offset, offset + 1, 100) for offset in range(low, high))
    partition = SeenPartition(low, high, durable, records)
    return SeenTopic(TOPIC_ID, None, (partition,), {("billing", 0): 2})


def test_what_was_acknowledged_may_be_seen() -> None:
    history = known()

    assert history.check({"orders": shown()}) == []

    history.lose_power()
    assert history.check({"orders": shown(high=3)}) == []


def with_record(index: int, record: SeenRecord) -> SeenTopic:
    [part] = shown().partitions
    records = (*part.records[:index], record, *part.records[index + 1 :])
    return replace(shown(), partitions=(replace(part, records=records),))


@pytest.mark.parametrize(
    ("seen", "finding"),
    [
        ({}, "the topic is lost"),
        ({"orders": shown(), "other": shown()}, "a topic that was not created"),
        ({"orders": shown(high=3)}, "lost at 3"),
        ({"orders": shown(low=0)}, "low 0"),
        ({"orders": shown(low=2)}, "low 2"),
        ({"orders": shown(durable=5)}, "marks"),
        ({"orders": shown(durable=2)}, "durable 2 was 3"),
        ({"orders": replace(shown(), id=FakeClock(seed=1).new_id())}, "another id"),
        ({"orders": replace(shown(), retention_bytes=5)}, "retention"),
        ({"orders": replace(shown(), cursors={("billing", 0): 1})}, "the cursor"),
        ({"orders": replace(shown(), cursors={("billing", 0): 9})}, "beyond the end"),
        ({"orders": replace(shown(), cursors={("billing", 0): "diverged"})}, "the cursor"),
        ({"orders": replace(shown(), cursors={("audit", 0): 1})}, "the cursor"),
        ({"orders": with_record(1, SeenRecord(2, 3, 99))}, "a timestamp goes back"),
        ({"orders": with_record(2, SeenRecord(3, 4, 101))}, "another timestamp"),
        ({"orders": with_record(1, SeenRecord(2, "junk", 100))}, "phantom at 2"),
        ({"orders": replace(shown(), partitions=shown().partitions * 2)}, "2 partitions"),
    ],
)
def test_it_finds(seen: Seen, finding: str) -> None:
    assert any(finding in each for each in known().check(seen))


def test_it_finds_durable_records_that_a_power_loss_took() -> None:
    history = known()
    history.lose_power()

    assert any("lost at 2" in each for each in history.check({"orders": shown(high=2)}))


def test_it_finds_a_topic_that_was_dropped() -> None:
    history = known()
    history.before_drop("orders")

    assert history.check({"orders": shown()}) == []
    assert history.check({}) == []

    history.after_drop("orders")
    assert history.check({"orders": shown()}) == ["orders: the topic has come back"]


@pytest.mark.parametrize(
    ("change", "seen"),
    [
        (lambda history: history.before_trim("orders", 0, 2), shown(low=2)),
        (
            lambda history: history.before_cursor("orders", "billing", 0, 3),
            replace(shown(), cursors={("billing", 0): 3}),
        ),
        (
            lambda history: history.before_retention("orders", 5),
            replace(shown(), retention_bytes=5),
        ),
        (
            lambda history: history.before_forget("orders", "billing"),
            replace(shown(), cursors={("billing", 0): None}),
        ),
    ],
)
def test_what_was_requested_is_seen_or_not(
    change: Callable[[LogHistory], None], seen: SeenTopic
) -> None:
    history = known()
    assert history.check({"orders": seen})

    change(history)

    assert history.check({"orders": seen}) == []
    assert history.check({"orders": shown()}) == []
