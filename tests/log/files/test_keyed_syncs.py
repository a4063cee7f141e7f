"""Keys that several processes change at once: syncs run without the lock."""

import random
from collections.abc import Iterator
from typing import Any

import pytest

import strandline as sl
from strandline.log import Log, parts_of
from strandline.stores.files.keys import FileKeys
from strandline.stores.files.topics import KEYS, TopicEntry
from strandline.testing import FakeClock, FaultyIo
from strandline.testing.faulty_io import Operation, OperationKind
from tests.logs import file_log
from tests.model.crash_images import crash_points
from tests.model.disk import Disk

PATH = "/log"
IMAGES = 8
SYNCS: tuple[OperationKind, ...] = ("sync_directory",)


def opened(io: object, *, seed: int) -> Log:
    clock = FakeClock(seed=seed)
    return file_log(PATH, io=io, clock=clock, lock_timeout_s=0.001)


class TwoProcesses:
    """Two openings of one log with a consumer each, of which one acks while the other does."""

    def __init__(self) -> None:
        self.disk = Disk()
        self.io = FaultyIo(self.disk)
        self.one, self.other = opened(self.io, seed=1), opened(self.disk, seed=2)
        self.one.create_topic("t")
        self.one.append_many("t", [sl.Event("e", {"n": n}) for n in range(10)])
        self.one.sync("t", 0)
        # Once more, so that they are known to be listed.
        for _ in range(2):
            self.one.ack("t", "slow", 0, 1)
            self.other.ack("t", "quick", 0, 1)

    def run(self) -> None:
        """Let the other ack once the value of the first is in its place, and not yet durable."""

        def meanwhile(operation: Operation) -> None:
            if operation.path.endswith(f"/{KEYS}"):
                self.io.clear_faults()
                self.act()

        self.io.before(1, meanwhile, kinds=SYNCS, forever=True)
        self.one.ack("t", "slow", 0, 5)
        assert self.io.count("sync_directory")
        self.disk.note("slow")

    def act(self) -> None:
        assert self.other.cursor("t", "slow", 0) == 5
        self.other.ack("t", "quick", 0, 7)
        self.disk.note("quick")

    def after_crashes(self, start: int) -> Iterator[tuple[set[object], Log]]:
        """Yield what had returned by each moment, and the log as a power loss then leaves it."""
        chance = random.Random(7)
        for point in crash_points(self.disk, start=start):
            for image in point.state.images(IMAGES, chance):
                with opened(image.disk(), seed=3) as log:
                    yield set(point.facts), log


def test_the_lock_is_free_while_a_process_waits_for_its_disk() -> None:
    two = TwoProcesses()

    # Without patience for a lock, which would be UnavailableError.
    two.run()

    assert two.one.cursor("t", "slow", 0) == 5
    assert two.one.cursor("t", "quick", 0) == 7


def broken_rules(two: TwoProcesses) -> list[str]:
    start = len(two.disk.journal)
    two.run()
    broken = []
    for returned, log in two.after_crashes(start):
        slow, quick = log.cursor("t", "slow", 0), log.cursor("t", "quick", 0)
        if slow not in {1, 5} or quick not in {1, 7}:
            broken.append(f"a cursor is nowhere: {slow}, {quick}")
        if "slow" in returned and slow != 5:
            broken.append("an ack that has returned is lost")
        if "quick" in returned and quick != 7:
            broken.append("the other ack that has returned is lost")
        if "quick" in returned and slow != 5:
            broken.append("a value that was seen is lost, and one that came after it is not")
    return broken


@pytest.mark.slow
def test_what_a_process_saw_is_durable_once_what_it_put_after_it_is() -> None:
    assert broken_rules(TwoProcesses()) == []


@pytest.mark.slow
def test_a_directory_that_is_not_synced_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_sync(*_: object) -> None:
        pass

    two = TwoProcesses()
    monkeypatch.setattr(FileKeys, "sync", no_sync)
    two.other.ack("t", "quick", 0, 7)

    start = len(two.disk.journal)
    assert any(log.cursor("t", "quick", 0) != 7 for _, log in two.after_crashes(start))


class TrimmingProcesses(TwoProcesses):
    """The other removes what both have handled, as far as it sees."""

    def __init__(self) -> None:
        super().__init__()
        self.other.ack("t", "quick", 0, 7)

    def act(self) -> None:
        self.other.trim("t", 0, 5)
        assert self.other.marks("t", 0).low == 5


def orphans(two: TwoProcesses) -> int:
    """Return after how many crashes a consumer stands before what is kept."""
    start = len(two.disk.journal)
    two.run()
    return sum(
        (log.cursor("t", "slow", 0) or 0) < log.marks("t", 0).low
        for _, log in two.after_crashes(start)
    )


@pytest.mark.slow
def test_nothing_is_removed_before_the_cursor_behind_it_is_durable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert orphans(TrimmingProcesses()) == 0

    sync = FileKeys.sync
    two = TrimmingProcesses()
    store: Any = parts_of(two.other).store
    keys = store._keys  # noqa: SLF001 - To plant a bug in one process alone.

    def not_by_the_other(self: FileKeys, entry: TopicEntry) -> None:
        if self is not keys:
            sync(self, entry)

    monkeypatch.setattr(FileKeys, "sync", not_by_the_other)
    assert orphans(two) > 0
