"""What a log that is open for consuming may change: cursors, and internal topics."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from strandline.log import Log
from strandline.values import Event, InvalidError
from tests.logs import sqlite_log

NOTES = "__strandline.notes"


@pytest.fixture
def consuming(tmp_path: Path) -> Iterator[Log]:
    path = str(tmp_path / "events.db")
    with sqlite_log(path) as log:
        log.create_topic("orders")
        log.append("orders", Event("a", 1))
    with sqlite_log(path, mode="consume") as log:
        yield log


def test_consuming_moves_cursors_and_keeps_internal_topics(consuming: Log) -> None:
    consuming.create_topic(NOTES, internal=True, partitions=2)
    for number in range(3):
        consuming.append(NOTES, Event("note", number), partition=1)
    consuming.trim(NOTES, 1, 2)

    assert consuming.ack("orders", "billing", 0, 1) == 1
    assert [record.payload for record in consuming.read(NOTES, 1, 2)] == [2]


def test_consuming_changes_no_other_topic(consuming: Log) -> None:
    calls: tuple[Callable[[], object], ...] = (
        lambda: consuming.create_topic("more"),
        lambda: consuming.append("orders", Event("a", 2)),
        lambda: consuming.append(consuming.topic("orders"), Event("a", 2)),
        lambda: consuming.trim("orders", 0, 1),
        lambda: consuming.apply_retention("orders"),
        lambda: consuming.change_retention("orders", retention_age_s=1, retention_bytes=None),
        lambda: consuming.drop_topic("orders"),
    )
    for call in calls:
        with pytest.raises(InvalidError, match="mode"):
            call()

    assert [topic.name for topic in consuming.topics()] == ["orders"]
    assert consuming.describe_topic("orders").records == 1


def test_reading_counts_no_delivery_and_reports_it(tmp_path: Path) -> None:
    path = str(tmp_path / "events.db")
    sqlite_log(path).close()

    with sqlite_log(path, mode="read") as log, pytest.raises(InvalidError, match="mode"):
        log.create_topic(NOTES, internal=True)


def test_reading_makes_no_file_of_its_own(tmp_path: Path) -> None:
    """A position is durable, so that even a reader syncs."""
    path = str(tmp_path / "events.db")
    with sqlite_log(path) as writer:
        writer.create_topic("orders")
        writer.append("orders", Event("a", 1))
        Path(f"{path}-strandline.lock").unlink()
        before = sorted(tmp_path.iterdir())

        with sqlite_log(path, mode="read") as reader:
            position = reader.position("orders", 0, 1)
            assert reader.resolve(position) == 1

        assert sorted(tmp_path.iterdir()) == before


def test_a_log_that_was_opened_for_reading_keeps_its_consumers(consuming: Log) -> None:
    consuming.ack("orders", "billing", 0, 1)
    path = str(consuming.describe().location).partition(":")[2]

    with sqlite_log(path, mode="read") as reader, pytest.raises(InvalidError, match="mode"):
        reader.delete_consumer("orders", "billing")

    assert consuming.delete_consumer("orders", "billing")
