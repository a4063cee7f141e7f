"""Watches over real files that other processes write: every reader is notified, at little cost."""

import asyncio
import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from strandline.clock import Clock, SystemClock
from strandline.io import SystemIo
from strandline.locks import Signal
from strandline.log.local_watch import LocalWatch
from strandline.log.watches import Watches
from strandline.stores.files.watching import FileChanges
from strandline.testing import FakeClock, FaultyIo
from strandline.testing.conformance_checks import started
from strandline.values import ClosedError, CorruptError, Topic, TopicSettings
from tests.threads import let_it_block

APPENDER = str(Path(__file__).with_name("tail_appender.py"))
PATIENCE_S = 20.0
TOPIC = Topic("orders", SystemClock().new_id())
KNOWN: Any = SimpleNamespace(topic=TOPIC, settings=TopicSettings(partitions=3))


class Tails:
    """The smallest log that other processes can write to: files with an end in each."""

    def __init__(self, folder: Path, io: FaultyIo, clock: Clock) -> None:
        self._folder = folder
        self._io = io
        self.looks = 0
        #: Called with each look, after it.
        self.on_look: Callable[[], None] = lambda: None
        self.watches: Watches[int, Any] = Watches(clock, self._place, self._end, self._open_changes)
        for number in range(3):
            self.path(number).write_bytes(bytes(8))

    def path(self, number: int) -> Path:
        return self._folder / f"tail-{number}"

    def write(self, number: int, end: int) -> None:
        """Append as another process would: only the file notifies."""
        fd = os.open(self.path(number), os.O_RDWR)
        os.pwrite(fd, end.to_bytes(8, "little"), 0)
        os.close(fd)

    def append(self, number: int, end: int) -> None:
        """Append as this process does."""
        self.write(number, end)
        self.watches.notify(number, end)

    def open(self) -> LocalWatch:
        return self.watches.open(lambda _topic: KNOWN)

    def _place(self, _topic: object, number: int, _durable_only: bool) -> int:
        return number

    def _end(self, number: int) -> int | None:
        self.looks += 1
        try:
            end = int.from_bytes(self.path(number).read_bytes(), "little")
        except FileNotFoundError:
            return None
        self.on_look()
        return end

    def _open_changes(self) -> FileChanges[int]:
        return FileChanges(self._io.file_watcher(), lambda number: str(self.path(number)))


@pytest.fixture(params=["notices", "polling"])
def io(request: pytest.FixtureRequest) -> FaultyIo:
    io = FaultyIo(SystemIo())
    if request.param == "polling":
        io.stop_notices()
    return io


@pytest.fixture
def tails(tmp_path: Path, io: FaultyIo) -> Iterator[Tails]:
    tails = Tails(tmp_path, io, SystemClock())
    yield tails
    tails.watches.close()


@pytest.fixture
def noticed(tmp_path: Path) -> Iterator[Tails]:
    tails = Tails(tmp_path, FaultyIo(SystemIo()), SystemClock())
    yield tails
    tails.watches.close()


@contextlib.contextmanager
def appender(tails: Tails, number: int) -> Iterator[Callable[[int], None]]:
    """Yield a function that appends in another process."""
    command = [sys.executable, APPENDER, str(tails.path(number))]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as process:
        stdin, stdout = process.stdin, process.stdout
        assert stdin is not None
        assert stdout is not None

        def append(end: int) -> None:
            stdin.write(f"{end}\n")
            assert stdout.readline() == f"{end}\n"

        yield append
        stdin.close()


def follow(watch: LocalWatch, end: int) -> list[int]:
    """Return the ends that were hinted at, up to `end`."""
    ends = [0]
    while ends[-1] < end:
        hints = watch.wait(PATIENCE_S)
        assert hints, "no hint came"
        ends.extend(hint.end for hint in hints)
    return ends[1:]


def listeners() -> list[str]:
    return [each.name for each in threading.enumerate() if each.name == "strandline-changes"]


def test_a_reader_that_is_alone_is_notified_and_needs_no_thread_we7(tails: Tails) -> None:
    """WE7."""
    watch = tails.open()
    watch.add("orders", 0, 0)
    with appender(tails, 0) as append:
        for end in range(1, 100):
            sleeping = started(lambda: watch.wait(PATIENCE_S))
            append(end)
            (hint,) = sleeping.result(PATIENCE_S)
            assert (hint.topic, hint.partition, hint.end) == (TOPIC, 0, end)

    assert not listeners()


def test_several_readers_are_notified_by_one_thread_that_ends_with_them(tails: Tails) -> None:
    watches = [tails.open() for _ in range(5)]
    for number, watch in enumerate(watches):
        watch.add("orders", number % 2, 0)
    sleeping = [started(partial(follow, watch, 50)) for watch in watches]
    with appender(tails, 0) as one, appender(tails, 1) as other:
        for end in range(1, 51):
            one(end)
            other(end)
        for each in sleeping:
            ends = each.result(PATIENCE_S)
            assert ends == sorted(set(ends))
    assert listeners() == ["strandline-changes"]
    (thread,) = (each for each in threading.enumerate() if each.name == "strandline-changes")

    for watch in watches:
        watch.close()
    thread.join(PATIENCE_S)

    assert not thread.is_alive()


def test_a_task_on_a_loop_is_notified(tails: Tails) -> None:
    watch = tails.open()
    watch.add("orders", 0, 0)

    async def following() -> int:
        end = 0
        with appender(tails, 0) as append:
            for wanted in range(1, 30):
                moved = asyncio.ensure_future(watch.wait_on_loop(PATIENCE_S))
                await asyncio.to_thread(append, wanted)
                while end < wanted:
                    (hint,) = await moved
                    end = hint.end
        return end

    assert asyncio.run(following()) == 29


def test_all_tasks_of_a_loop_are_woken_at_once_and_time_and_again(tails: Tails) -> None:
    async def main() -> list[list[int]]:
        watches = [tails.open() for _ in range(4)]
        for watch in watches:
            watch.add("orders", 0, 0)
        told: list[list[int]] = []
        for end in (1, 2):
            waiting = asyncio.gather(*(watch.wait_on_loop() for watch in watches))
            await asyncio.sleep(0)
            await asyncio.to_thread(tails.watches.notify, 0, end)
            async with asyncio.timeout(PATIENCE_S):
                told.append([hint.end for hints in await waiting for hint in hints])
        return told

    assert asyncio.run(main()) == [[1] * 4, [2] * 4]


def test_a_task_that_waited_before_there_was_anything_to_watch_is_notified(tails: Tails) -> None:
    watch = tails.open()

    async def following() -> int:
        moved = asyncio.ensure_future(watch.wait_on_loop(PATIENCE_S))
        await asyncio.sleep(0)
        watch.add("orders", 0, 0)
        tails.write(0, 7)
        (hint,) = await moved
        return hint.end

    assert asyncio.run(following()) == 7


def test_appends_of_this_process_wake_a_reader_in_either_way_to_wait(tails: Tails) -> None:
    watch = tails.open()
    watch.add("orders", 0, 0)
    for end in range(1, 100):
        sleeping = started(lambda: watch.wait(PATIENCE_S))
        tails.append(0, end)
        assert [hint.end for hint in sleeping.result(PATIENCE_S)] == [end]
        if end == 50:
            tails.open().add("orders", 1, 0)


def test_a_reader_that_listens_is_woken_by_whatever_is_not_a_file(tails: Tails) -> None:
    watch = tails.open()
    watch.add("orders", 0, 0)
    actions: list[Callable[[], None]] = [
        watch.wake,
        lambda: tails.watches.notify(0, 5),
        lambda: tails.watches.notify_dropped([0]),
    ]
    for action in actions:
        sleeping = started(watch.wait)
        let_it_block()
        assert not sleeping.done()
        action()
        sleeping.result(PATIENCE_S)

    watch.add("orders", 1, 0)
    sleeping = started(watch.wait)
    let_it_block()
    watch.close()
    assert isinstance(sleeping.exception(PATIENCE_S), ClosedError)


def test_a_reader_woken_just_before_it_listens_does_not_block(tmp_path: Path) -> None:
    class HookedClock(SystemClock):
        def wait(self, event: threading.Event | Signal, timeout_s: float | None) -> bool:
            watch.wake()
            return super().wait(event, timeout_s)

    tails = Tails(tmp_path, FaultyIo(SystemIo()), HookedClock())
    watch = tails.open()
    watch.add("orders", 0, 0)

    assert started(watch.wait).result(PATIENCE_S) == ()
    tails.watches.close()


def test_a_partition_added_while_the_reader_waits_is_listened_for(tails: Tails) -> None:
    watch = tails.open()
    sleeping = started(watch.wait)
    let_it_block()

    watch.add("orders", 0, 0)
    tails.write(0, 3)

    assert [hint.end for hint in sleeping.result(PATIENCE_S)] == [3]


def test_a_reader_that_listens_hands_over_to_the_thread(tails: Tails) -> None:
    first, second = tails.open(), tails.open()
    second.close()
    first.add("orders", 0, 0)
    sleeping = started(lambda: follow(first, 9))
    let_it_block()
    assert not listeners()

    second = tails.open()
    second.add("orders", 0, 0)
    assert listeners()
    tails.write(0, 9)

    assert sleeping.result(PATIENCE_S)[-1] == 9
    assert follow(second, 9)[-1] == 9
    tails.write(0, 10)
    assert follow(second, 10)[-1] == 10


def test_what_was_there_before_is_hinted_at_at_once(tails: Tails) -> None:
    tails.write(1, 5)
    watch = tails.open()
    watch.add("orders", 0, 0)
    watch.add("orders", 1, 3)

    assert [(hint.partition, hint.end) for hint in watch.wait(0)] == [(1, 5)]


def test_a_glance_collects_what_others_wrote(tails: Tails) -> None:
    watch = tails.open()
    watch.add("orders", 0, 0)
    tails.write(0, 5)

    assert [hint.end for hint in watch.wait(0)] == [5]
    assert watch.wait(0) == ()


def test_a_thousand_readers_of_one_partition_cost_one_look(noticed: Tails) -> None:
    watches = [noticed.open() for _ in range(1000)]
    for watch in watches:
        watch.add("orders", 0, 0)
    looks = noticed.looks

    noticed.write(0, 5)

    for watch in watches:
        assert [hint.end for hint in watch.wait(PATIENCE_S)] == [5]
    assert noticed.looks == looks + 1


def test_an_end_that_was_overtaken_does_not_come_last(noticed: Tails) -> None:
    watch, other = noticed.open(), noticed.open()
    watch.add("orders", 0, 0)
    other.add("orders", 1, 0)
    looked, told = threading.Event(), threading.Event()

    def be_overtaken() -> None:
        looked.set()
        assert told.wait(PATIENCE_S)

    noticed.on_look = be_overtaken
    noticed.write(0, 1)
    assert looked.wait(PATIENCE_S)
    noticed.watches.notify(0, 2)
    noticed.on_look = lambda: None
    told.set()
    noticed.write(1, 9)
    # The thread that was overtaken has notified the end it saw before it notifies this one.
    assert follow(other, 9) == [9]

    assert [hint.end for hint in watch.wait(PATIENCE_S)] == [2]


def test_an_end_read_while_adding_does_not_hide_a_later_one(noticed: Tails) -> None:
    watch = noticed.open()
    noticed.write(0, 1)
    noticed.on_look = lambda: noticed.append(0, 2) if noticed.looks == 1 else None

    watch.add("orders", 0, 0)

    assert [hint.end for hint in watch.wait(PATIENCE_S)] == [2]


def test_a_reader_interrupted_while_it_notified_others_makes_up_for_it(noticed: Tails) -> None:
    watch = noticed.open()
    watch.add("orders", 0, 0)
    watch.add("orders", 1, 0)
    noticed.write(0, 4)
    noticed.write(1, 5)

    def interrupt() -> None:
        raise KeyboardInterrupt

    noticed.on_look = interrupt
    with pytest.raises(KeyboardInterrupt):
        watch.wait(PATIENCE_S)
    noticed.on_look = lambda: None

    hints = {hint.partition: hint.end for hint in watch.wait(PATIENCE_S)}
    assert hints == {0: 4, 1: 5}


@pytest.mark.parametrize("readers", [1, 2])
def test_a_partition_that_is_gone_gives_a_last_hint(tails: Tails, readers: int) -> None:
    watches = [tails.open() for _ in range(readers)]
    for watch in watches:
        watch.add("orders", 0, 0)
        watch.add("orders", 1, 0)

    tails.path(0).unlink()

    for watch in watches:
        assert [hint.partition for hint in watch.wait(PATIENCE_S)] == [0]
        assert watch.wait(0) == ()
    tails.write(1, 6)
    for watch in watches:
        assert [hint.end for hint in watch.wait(PATIENCE_S)] == [6]


def test_dropping_a_topic_notifies_its_own_readers(tails: Tails) -> None:
    watch = tails.open()
    watch.add("orders", 0, 0)
    sleeping = started(lambda: watch.wait(PATIENCE_S))

    tails.watches.notify_dropped([0, 1])

    assert [hint.partition for hint in sleeping.result(PATIENCE_S)] == [0]


def test_a_partition_that_cannot_be_looked_at_is_left_to_its_reader(tails: Tails) -> None:
    watch = tails.open()
    watch.add("orders", 0, 0)

    def spoil() -> None:
        raise CorruptError("the tail is damaged", file="tail-0", position=0)

    tails.on_look = spoil
    tails.write(0, 5)
    assert [hint.partition for hint in watch.wait(PATIENCE_S)] == [0]
    tails.on_look = lambda: None
    tails.write(0, 6)

    assert follow(watch, 6)[-1] == 6


@pytest.mark.parametrize("readers", [1, 2])
def test_what_is_removed_is_notified_no_more_and_is_closed(tails: Tails, readers: int) -> None:
    before = set(os.listdir("/proc/self/fd"))
    watches = [tails.open() for _ in range(readers)]
    for watch in watches:
        watch.add("orders", 0, 0)
    threads = [each for each in threading.enumerate() if each.name == "strandline-changes"]

    for watch in watches:
        watch.remove("orders", 0)
    for thread in threads:
        thread.join(PATIENCE_S)
    tails.append(0, 5)

    assert all(watch.wait(0) == () for watch in watches)
    assert not listeners()
    assert set(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("readers", [1, 3])
def test_closing_ends_every_wait_and_gives_everything_back(tails: Tails, readers: int) -> None:
    before = set(os.listdir("/proc/self/fd"))
    watches = [tails.open() for _ in range(readers)]
    for watch in watches:
        watch.add("orders", 0, 0)
    sleeping = [started(watch.wait) for watch in watches]

    tails.watches.close()

    for each in sleeping:
        assert isinstance(each.exception(PATIENCE_S), ClosedError)
    assert not listeners()
    assert set(os.listdir("/proc/self/fd")) == before


def test_time_is_the_clocks_also_for_a_listener(tmp_path: Path) -> None:
    clock = FakeClock()
    tails = Tails(tmp_path, FaultyIo(SystemIo()), clock)
    watch = tails.open()
    watch.add("orders", 0, 0)
    sleeping = started(lambda: watch.wait(3600.0))
    clock.wait_for_waiters(1)

    clock.advance(3599.0)
    assert not sleeping.done()
    clock.advance(1.0)

    assert sleeping.result(PATIENCE_S) == ()
    tails.watches.close()


@pytest.mark.slow
def test_readers_that_come_and_go_miss_no_end(tails: Tails) -> None:
    rounds, is_over = 60, threading.Event()

    def come_and_go() -> None:
        while not is_over.is_set():
            watch = tails.open()
            watch.add("orders", 0, 0)
            watch.wait(0)
            watch.close()

    guests = [started(come_and_go) for _ in range(2)]
    watch = tails.open()
    watch.add("orders", 0, 0)
    try:
        with appender(tails, 0) as append:
            for end in range(1, rounds):
                append(end)
                assert follow(watch, end)[-1] == end
    finally:
        is_over.set()
    for guest in guests:
        guest.result(PATIENCE_S)
