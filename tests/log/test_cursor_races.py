"""Cursors of one consumer, moved at the same time: none of the moves is lost."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from strandline.log import Log
from strandline.log.topic_table import TopicTable
from strandline.stores.files.keys import FileKeys
from strandline.stores.sqlite.store import SqliteStore
from strandline.testing import FakeClock
from strandline.values import Event
from tests.logs import file_log, memory_log, sqlite_log
from tests.planting import Bug

SCHEMES = ("memory", "file", "sqlite")


class MeddlingClock(FakeClock):
    """Calls `meddle` once, when it is next asked for the time."""

    meddle: Callable[[], object] | None = None

    def now_us(self) -> int:
        """See Clock."""
        meddle, self.meddle = self.meddle, None
        if meddle is not None:
            meddle()
        return super().now_us()


def opened(scheme: str, path: Path, clock: FakeClock) -> Log:
    if scheme == "memory":
        return memory_log(clock=clock)
    return (file_log if scheme == "file" else sqlite_log)(str(path), clock=clock)


@pytest.fixture
def clock() -> MeddlingClock:
    return MeddlingClock()


@pytest.fixture
def scheme() -> str:
    return "memory"


def filled(log: Log) -> Log:
    log.create_topic("orders", partitions=2)
    for partition in range(2):
        log.append_many("orders", [Event("made", n) for n in range(9)], partition=partition)
        log.sync("orders", partition)
    log.ack("orders", "billing", 0, 1)
    return log


@pytest.fixture
def log(scheme: str, tmp_path: Path, clock: MeddlingClock) -> Iterator[Log]:
    with opened(scheme, tmp_path / "log", clock) as log:
        yield filled(log)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_an_ack_that_another_one_overtakes_is_decided_again(log: Log, clock: MeddlingClock) -> None:
    clock.meddle = lambda: log.ack("orders", "billing", 0, 5)

    assert log.ack("orders", "billing", 0, 3) == 5
    assert log.cursor("orders", "billing", 0) == 5


@pytest.mark.parametrize("scheme", SCHEMES)
def test_acks_in_two_partitions_at_the_same_time_are_both_kept(
    log: Log, clock: MeddlingClock
) -> None:
    clock.meddle = lambda: log.ack("orders", "billing", 1, 5)

    log.ack("orders", "billing", 0, 3)

    assert [log.cursor("orders", "billing", number) for number in range(2)] == [3, 5]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_consumer_that_is_deleted_during_an_ack_begins_again(
    log: Log, clock: MeddlingClock
) -> None:
    log.ack("orders", "billing", 1, 7)
    clock.meddle = lambda: log.delete_consumer("orders", "billing")

    assert log.ack("orders", "billing", 0, 3) == 3
    assert [log.cursor("orders", "billing", number) for number in range(2)] == [3, None]


@pytest.mark.parametrize(
    ("scheme", "bug"),
    [
        ("memory", Bug("memory", TopicTable, "put_key", "_ != expected", "False")),
        ("file", Bug("file", FileKeys, "put", "_ != expected", "False")),
        ("sqlite", Bug("sqlite", SqliteStore, "put_key", "_ != expected", "False")),
    ],
    ids=str,
)
def test_a_store_that_replaces_whatever_is_there_is_noticed(
    scheme: str, clock: MeddlingClock, bug: Bug, tmp_path: Path
) -> None:
    # Opened with the bug: a store binds the methods of its parts.
    with bug.planted(), opened(scheme, tmp_path / "log", clock) as log:
        filled(log)
        with pytest.raises(AssertionError):
            test_an_ack_that_another_one_overtakes_is_decided_again(log, clock)
        with pytest.raises(AssertionError):
            test_acks_in_two_partitions_at_the_same_time_are_both_kept(log, clock)
