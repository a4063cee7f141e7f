"""Cursors of one consumer, moved at the same time: none of the moves is lost."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from strandline.io import Io, SystemIo
from strandline.log import Log
from strandline.log.topic_table import TopicTable
from strandline.stores.files.keys import FileKeys
from strandline.stores.sqlite.store import SqliteStore
from strandline.testing import FakeClock, FaultyIo
from strandline.testing.faulty_io import OperationKind
from strandline.values import Event
from tests.logs import file_log, memory_log, sqlite_log
from tests.planting import Bug

LOCKS: tuple[OperationKind, ...] = ("try_lock",)
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


class Meddler:
    """Has something done in the midst of the next ack.

    In a file log that is before the lock is taken, under which cursors are read and replaced;
    elsewhere it is between the two.
    """

    def __init__(self, clock: MeddlingClock, io: FaultyIo | None = None) -> None:
        self._clock = clock
        self._io = io

    def plan(self, meddle: Callable[[], object]) -> None:
        if self._io is None:
            self._clock.meddle = meddle
        else:
            self._io.before(1, lambda _: _call(meddle), kinds=LOCKS)


def _call(meddle: Callable[[], object]) -> None:
    meddle()


def opened(scheme: str, path: Path, clock: FakeClock, io: Io) -> Log:
    if scheme == "memory":
        return memory_log(clock=clock)
    if scheme == "sqlite":
        return sqlite_log(str(path), clock=clock)
    return file_log(str(path), clock=clock, io=io)


@pytest.fixture
def clock() -> MeddlingClock:
    return MeddlingClock()


@pytest.fixture
def io() -> FaultyIo:
    return FaultyIo(SystemIo())


@pytest.fixture
def meddler(scheme: str, clock: MeddlingClock, io: FaultyIo) -> Meddler:
    return Meddler(clock, io if scheme == "file" else None)


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
def log(scheme: str, tmp_path: Path, clock: MeddlingClock, io: FaultyIo) -> Iterator[Log]:
    with opened(scheme, tmp_path / "log", clock, io) as log:
        yield filled(log)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_an_ack_that_another_one_overtakes_is_decided_again(log: Log, meddler: Meddler) -> None:
    meddler.plan(lambda: log.ack("orders", "billing", 0, 5))

    assert log.ack("orders", "billing", 0, 3) == 5
    assert log.cursor("orders", "billing", 0) == 5


@pytest.mark.parametrize("scheme", SCHEMES)
def test_acks_in_two_partitions_at_the_same_time_are_both_kept(log: Log, meddler: Meddler) -> None:
    meddler.plan(lambda: log.ack("orders", "billing", 1, 5))

    log.ack("orders", "billing", 0, 3)

    assert [log.cursor("orders", "billing", number) for number in range(2)] == [3, 5]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_consumer_that_is_deleted_during_an_ack_begins_again(log: Log, meddler: Meddler) -> None:
    log.ack("orders", "billing", 1, 7)
    meddler.plan(lambda: log.delete_consumer("orders", "billing"))

    assert log.ack("orders", "billing", 0, 3) == 3
    assert [log.cursor("orders", "billing", number) for number in range(2)] == [3, None]


@pytest.mark.parametrize(
    ("scheme", "bug"),
    [
        ("memory", Bug("memory", TopicTable, "put_key", "_ != expected", "False")),
        ("file", Bug("file", FileKeys, "change", "self._changing(...)", "suppress()")),
        ("sqlite", Bug("sqlite", SqliteStore, "put_key", "_ != expected", "False")),
    ],
    ids=str,
)
def test_a_store_that_replaces_whatever_is_there_is_noticed(
    scheme: str, clock: MeddlingClock, bug: Bug, tmp_path: Path
) -> None:
    # Opened with the bug: a store binds the methods of its parts.
    meddler = Meddler(clock)
    with bug.planted(), opened(scheme, tmp_path / "log", clock, SystemIo()) as log:
        filled(log)
        with pytest.raises(AssertionError):
            test_an_ack_that_another_one_overtakes_is_decided_again(log, meddler)
        with pytest.raises(AssertionError):
            test_acks_in_two_partitions_at_the_same_time_are_both_kept(log, meddler)
