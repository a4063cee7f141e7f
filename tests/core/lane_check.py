"""One checked run of everything that the core does with files; for cores with planted bugs.

python -m tests.core.lane_check LIBRARY FOLDER [--stored-only]
"""

import asyncio
import importlib.util
import logging.handlers
import os
import sys
from pathlib import Path
from typing import Any


def use(library: str) -> None:
    """Have this process use the core in a file."""
    name = "strandline._core.core"
    spec = importlib.util.spec_from_file_location(name, library)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)


def check(folder: Path, *, is_stored_only: bool) -> None:
    """Raise AssertionError, or an error of the log, if anything is not as it should be.

    Ends that are only stored, and not written, wake no watcher of the file.
    """
    import strandline as sl  # noqa: PLC0415 - After the core was chosen.
    from strandline.log import topic_lane  # noqa: PLC0415
    from strandline.testing import FakeClock  # noqa: PLC0415
    from tests.core.test_lane import events, fast  # noqa: PLC0415
    from tests.logs import file_log  # noqa: PLC0415

    _values(sl)
    _routes(sl, f"{folder}/routed")
    _lists(sl, f"{folder}/lists")
    _owns(sl, folder / "owned")
    # However slow this is, Python has no look at the topic.
    topic_lane.ROUTE_CHECK_S = 3600.0  # type: ignore[misc]
    url = f"file:{folder}/shared"
    with sl.open(url) as log, sl.open(url) as other:
        log.create_topic("t")
        fast(log)
        # Two writers that share a partition: each has to see what the other wrote.
        given = [sl.Event("first"), *events(5), *events(70), *events(20), *events(100)]
        for part in (slice(1, 6), slice(6, 76), slice(76, 96), slice(96, None)):
            for log_in_turn, each in zip((log, other) * 100, given[part], strict=False):
                if part.start in (1, 76):
                    log_in_turn.append("t", each)
            if part.start in (6, 96):
                log.append_many("t", given[part])
        _agrees(log, given)
        _receipts(sl, log, len(given))
    _recovers(sl, folder / "shared", [*given, sl.Event("watched"), sl.Event("last")])
    clock = FakeClock()
    with file_log(f"{folder}/back", clock=clock) as log:
        log.create_topic("t")
        fast(log)
        first = log.append("t", sl.Event("k")).timestamp_us
        clock.set_now_us(first - 5_000_000)
        assert log.append("t", sl.Event("k")).timestamp_us >= first
    if not is_stored_only:
        _notices(sl, folder / "noticed")
        _follows(sl, f"{folder}/followed")
    _gives_way(sl, folder / "truncated")
    _looks(sl, folder / "unlocked")
    _leases(sl, folder / "leased")
    _fences(sl, f"{folder}/fenced", FakeClock())
    _fences(sl, f"{folder}/fenced-in-memory", None)
    _fails(sl, f"{folder}/failed")
    _commits(sl, f"{folder}/synced")
    _loses_syncs(sl, f"{folder}/lost")
    _damage(sl, folder / "shared")


def _values(sl: Any) -> None:
    event = sl.Event("k", {'a"\n': [1.5, "é\\"]}, headers={"b": "1", "a": "2"})
    assert event.payload_json == '{"a\\"\\n":[1.5,"é\\\\"]}'.encode()
    assert event.headers_json == b'{"a":"2","b":"1"}'
    assert event.payload == {'a"\n': [1.5, "é\\"]}


def _agrees(log: Any, given: list[Any]) -> None:
    found = list(log.read("t", 0, 0))
    assert [each.offset for each in found] == list(range(len(given)))
    assert [each.event.parts() for each in found] == [each.parts() for each in given]
    stamps = [each.timestamp_us for each in found]
    assert stamps == sorted(stamps)
    assert sum(len(batch) for batch in log.read_batches("t", 0, 0)) == len(given)
    for bytes_max in (1, 500, 5_000):
        page = list(log.read("t", 0, 0, bytes_max=bytes_max))
        # The first in any case, and then as many as there is room for.
        sizes = [_size(each) for each in found]
        fitting = sum(sum(sizes[: n + 1]) <= bytes_max for n in range(len(sizes)))
        assert len(page) == max(1, fitting)
    assert all(report.is_sound for report in log.verify("t"))


def _size(record: Any) -> int:
    kind, payload, key, headers, _ = record.event.parts()
    return sum(len(each) for each in (kind.encode(), payload, (key or "").encode(), headers))


def _receipts(sl: Any, log: Any, end: int) -> None:
    from strandline.stores.files.watching import FileWatches  # noqa: PLC0415 - As above.

    before = log.metrics()
    notified: list[int] = []
    notify = FileWatches.__call__
    # A subscription follows, and comes upon the record by itself.
    FileWatches.__call__ = lambda *given, **_: notified.append(given[2])  # type: ignore[method-assign]
    watch = log.watch()
    watch.add("t", 0, end)
    with log.subscribe("t", start=sl.LATEST) as subscription:
        assert subscription.next(timeout_s=0) is None
        receipt = log.append("t", sl.Event("watched"))
        assert subscription.next(timeout_s=60).offset == receipt.offset == end
    watch.close()
    FileWatches.__call__ = notify  # type: ignore[method-assign]
    assert end + 1 in notified
    after = log.metrics()
    assert (after.appends, after.records) == (before.appends + 1, before.records + 1)
    assert after.writes.applied == before.writes.applied + 1
    assert after.bytes > before.bytes
    assert receipt.level is sl.Durability.WRITTEN
    log.sync("t", 0)
    assert receipt.level is sl.Durability.DURABLE
    last = log.append("t", sl.Event("last"))
    assert last.level is sl.Durability.WRITTEN
    assert last.wait("durable").offset == end + 1
    assert log.marks("t", 0).durable == end + 2


def _recovers(sl: Any, path: Path, given: list[Any]) -> None:
    """Have the end found by the frames alone, as after a loss of power."""
    for tail in path.rglob("*.tail"):
        tail.write_bytes(bytes(tail.stat().st_size))
    handler = logging.handlers.BufferingHandler(1_000)
    logging.getLogger("strandline").addHandler(handler)
    with sl.open(f"file:{path}") as log:
        _agrees(log, given)
        log.append("t", sl.Event("after"))
    logging.getLogger("strandline").removeHandler(handler)
    # Frames that do not follow each other are reported as damage.
    assert not handler.buffer


def _routes(sl: Any, path: str) -> None:
    from strandline.log.topic_changes import ROUTE_DELAY_S  # noqa: PLC0415 - As above.
    from strandline.testing import FakeClock  # noqa: PLC0415
    from strandline.values import partition_for_key  # noqa: PLC0415
    from tests.core.test_lane import fast  # noqa: PLC0415
    from tests.logs import file_log  # noqa: PLC0415

    clock = FakeClock()
    with file_log(path, clock=clock) as log, file_log(path, clock=clock) as other:
        log.create_topic("t")
        fast(log)
        other.add_partitions("t", 64)
        clock.advance(ROUTE_DELAY_S)
        partitions = {log.append("t", sl.Event("k", key=f"{n}")).partition for n in range(9)}
        assert len(partitions) > 1
        log.append("t", sl.Event("k"), partition=0)
        # From now on by the core.
        for number in range(9):
            event = sl.Event("k", key=f"{number}")
            assert log.append("t", event).partition == partition_for_key(f"{number}", 64)
        receipts = log.append_many("t", [sl.Event("k", key=f"{n}") for n in range(9)])
        assert {each.partition for each in receipts} == partitions


def _lists(sl: Any, path: str) -> None:
    """Have lists appended to files, and to a database, where Python verifies what is stored."""
    from tests.core.test_lane import fast  # noqa: PLC0415 - As above.

    events = [sl.Event("k", n, key="a", headers={"n": str(n)} if n % 2 else {}) for n in range(9)]
    for url in (f"file:{path}", f"sqlite:{path}.db"):
        with sl.open(url) as log:
            log.create_topic("t")
            if url.startswith("file:"):
                fast(log)
            before = log.marks("t", 0).high, log.metrics().records
            receipts = log.append_many("t", events)
            assert [each.offset - before[0] for each in receipts] == [*range(9)]
            assert log.metrics().records == before[1] + 9
            found = [each.event.parts() for each in log.read("t", 0, before[0])]
            assert found == [each.parts() for each in events]


def _owns(sl: Any, path: Path) -> None:
    """Have an owner's lock file removed: a while later the core stops appending."""
    from strandline.clock import SystemClock  # noqa: PLC0415 - As above.
    from tests.core.test_lane import fast, lane_of  # noqa: PLC0415

    with sl.open(f"file:{path}", exclusive=True) as log:
        log.create_topic("t")
        fast(log)
        for is_removed in (False, True):
            for lock in path.rglob("0/lock") if is_removed else ():
                lock.unlink()
            rested_at = SystemClock().monotonic() + 0.02
            while SystemClock().monotonic() < rested_at:
                pass
            placed = lane_of(log).append(sl.Event("k"), 1_000)
            assert (placed is NotImplemented) == is_removed


def _notices(sl: Any, path: Path) -> None:
    """Have the file watched, which is notified of writes alone."""
    from strandline.clock import SystemClock  # noqa: PLC0415 - As above.
    from strandline.io import FileWatcher  # noqa: PLC0415
    from tests.core.test_lane import fast  # noqa: PLC0415

    with sl.open(f"file:{path}") as log:
        log.create_topic("t")
        fast(log)
        (tail,) = path.rglob("*.tail")
        watcher = FileWatcher()
        watcher.add(str(tail.parent))
        for _ in range(3):
            rested_at = SystemClock().monotonic() + 0.001
            while SystemClock().monotonic() < rested_at:
                pass
            while watcher.wait(0):
                pass
            log.append("t", sl.Event("k"))
            # The writer has returned: a notice is there by now, or there is none.
            assert watcher.wait(0)
        watcher.close()


def _follows(sl: Any, path: str) -> None:
    """Of two events in a row, the end of the second is most likely not written, but stored."""
    from strandline.log.parts import follower_of  # noqa: PLC0415
    from strandline.stores.files.tail import FENCE_AT  # noqa: PLC0415
    from tests.core.test_lane import fast  # noqa: PLC0415

    with sl.open(f"file:{path}") as log, sl.open(f"file:{path}", mode="read") as reader:
        log.create_topic("t")
        fast(log)
        at = log.marks("t", 0).high
        follower: Any = follower_of(reader, reader.topic("t"), 0, at)
        for _ in range(100):
            for kind in ("noticed", "stored"):
                log.append("t", sl.Event(kind))
                found = follower.wait(at, 10, 5.0)
                assert found, "a wake-up was lost"
                assert [(each.offset, each.value.kind) for each in found] == [(at, kind)]
                at += 1
        with next(Path(path).rglob("*.tail")).open("r+b") as tail:
            tail.seek(FENCE_AT)
            tail.write(b"fence")
        assert follower.wait(at, 10, 5.0) is NotImplemented


def _gives_way(sl: Any, path: Path) -> None:
    """Have the tail truncated again and again, until an end is stored in what is no file."""
    from tests.core.test_lane import fast, lane_of  # noqa: PLC0415 - As above.

    never_looked()
    with sl.open(f"file:{path}", exclusive=True) as log:
        log.create_topic("t")
        fast(log)
        (tail,), lane, event = path.rglob("*.tail"), lane_of(log), sl.Event("k")
        for _ in range(1_000):
            os.truncate(tail, 0)
            try:
                lane.append(event, 1_000)
            except OSError:
                return
    raise AssertionError("an end was stored nowhere")


def _looks(sl: Any, path: Path) -> None:
    """Have the lock file removed: a while later the core stops appending."""
    from strandline.clock import SystemClock  # noqa: PLC0415 - As above.
    from tests.core.test_lane import fast, lane_of  # noqa: PLC0415

    with sl.open(f"file:{path}") as log:
        log.create_topic("t")
        fast(log)
        log.append("t", sl.Event("k"))
        for lock in path.rglob("0/lock"):
            lock.unlink()
        rested_at = SystemClock().monotonic() + 0.02
        while SystemClock().monotonic() < rested_at:
            pass
        assert lane_of(log).append(sl.Event("k"), 1_000) is NotImplemented
        assert log.append("t", sl.Event("k")).offset == 2
        assert len(log.epochs("t", 0)) == 2


def never_looked() -> None:
    """Have Python never look at a partition that is its own."""
    from strandline.stores.files import partition_writer  # noqa: PLC0415 - As above.

    partition_writer._OWN_CHECK_S = 3600.0  # noqa: SLF001


def _leases(sl: Any, path: Path) -> None:
    """Have a kept lock asked for, fenced, entered by Python and left idle."""
    from tests.core import leases  # noqa: PLC0415 - As above.
    from tests.core.test_lane import fast, lane_of  # noqa: PLC0415

    with sl.open(f"file:{path}") as log:
        log.create_topic("t")
        fast(log)
        (tail,), (lock,) = path.rglob("*.tail"), path.rglob("0/lock")
        for number in range(20):
            leases.keep_lock(log)
            leases.ask(tail)
            log.append("t", sl.Event("k"))
            assert leases.is_free(lock)
            leases.keep_lock(log)
            log.append("t", sl.Event("k"), producer="p", sequence=number)
            assert not lane_of(log).is_leased
        leases.keep_lock(log)
        leases.await_free(lock)
        leases.keep_lock(log)
        leases.fence(log, tail)
        # It continues in the next epoch, as it has written nothing.
        log.append("t", sl.Event("k"))
        assert all(report.is_sound for report in log.verify("t"))


def _fences(sl: Any, path: str, clock: Any) -> None:
    from tests.core.test_lane import fast  # noqa: PLC0415 - After the core was chosen.
    from tests.logs import file_log  # noqa: PLC0415

    # However slow this is, Python never looks, and only the core can see the fence.
    never_looked()
    with file_log(path, exclusive=True, clock=clock) as old:
        old.create_topic("t")
        fast(old)
        with file_log(path, exclusive=True, take_over=True, lock_timeout_s=0.01) as new:
            new.append("t", sl.Event("new"))
            try:
                old.append("t", sl.Event("old"))
            except (sl.ClosedError, sl.UnknownError):
                pass
            else:
                raise AssertionError("a fenced writer was not refused")
            assert [each.kind for each in new.read("t", 0, 0)] == ["first", "new"]


def _fails(sl: Any, path: str) -> None:
    from strandline.io import SystemIo  # noqa: PLC0415 - After the core was chosen.
    from strandline.testing import FakeClock, FaultyIo  # noqa: PLC0415
    from tests.core.test_lane import fast  # noqa: PLC0415
    from tests.logs import file_log  # noqa: PLC0415

    io = FaultyIo(SystemIo())
    with file_log(path, io=io, clock=FakeClock(), exclusive=True) as log:
        log.create_topic("t")
        fast(log)
        receipt = log.append("t", sl.Event("k"))
        io.fail(1, 5, kinds={"sync"})
        calls: list[Any] = [
            lambda: receipt.wait("durable"),
            lambda: log.append("t", sl.Event("k")),
        ]
        for call in calls:
            try:
                call()
            except (sl.FailedError, sl.UnknownError):
                continue
            raise AssertionError("a log that has failed continues")


def _commits(sl: Any, path: str) -> None:
    from tests.core.test_group_commit import commit_of, warm  # noqa: PLC0415 - As above.
    from tests.logs import file_log  # noqa: PLC0415

    log: Any
    with file_log(path) as log, file_log(path) as other:
        log.create_topic("t")
        warm(log)
        # Written by Python: its epoch is one more that a round of the core makes durable.
        log.append("t", sl.Event("k"), producer="p", sequence=0)
        receipt = log.append("t", sl.Event("k"), durability="durable")
        assert receipt.level is sl.Durability.DURABLE
        assert log.marks("t", 0).durable == other.marks("t", 0).durable == 4
        with log.subscribe("t", start=sl.LATEST, durable_only=True) as subscription:
            assert subscription.next(timeout_s=0) is None
            log.append("t", sl.Event("k"), durability="durable")
            assert subscription.next(timeout_s=60).offset == 4
        for end in range(6, 16):
            # By whichever of the two syncs: others read of it in the tail.
            log.append("t", sl.Event("k"), durability="durable")
            assert other.marks("t", 0).durable == end
        asyncio.run(_awaits(sl, log))
        written = log.append("t", sl.Event("k"))
        # Another segment: the sync of the one before covers nothing that is written now.
        other.seal("t")
        assert other.append("t", sl.Event("k")).offset == written.offset + 1
        assert commit_of(log).acquire(False)
        try:
            assert commit_of(log).sync() is None
        finally:
            commit_of(log).release()
        log.sync("t", 0)
        assert other.marks("t", 0).durable == written.offset + 2


async def _awaits(sl: Any, log: Any) -> None:
    from tests.core.test_group_commit import commit_of  # noqa: PLC0415 - As above.

    assert commit_of(log).acquire(False)
    receipt = sl.AsyncLog(log).append("t", sl.Event("k"), durability="durable")
    waiting = asyncio.ensure_future(receipt.wait())
    task = asyncio.ensure_future(_awaited(receipt))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    is_done = task.done()
    commit_of(log).release()
    assert not is_done
    assert (await waiting).level is (await task).level is sl.Durability.DURABLE


async def _awaited(receipt: Any) -> Any:
    return await receipt


def _loses_syncs(sl: Any, path: str) -> None:
    from tests.core.test_group_commit import fail_syncs, warm  # noqa: PLC0415 - As above.
    from tests.logs import file_log  # noqa: PLC0415

    with file_log(path) as log:
        log.create_topic("t")
        warm(log)
        close = fail_syncs(log)
        for _ in range(2):
            try:
                log.append("t", sl.Event("k"), durability="durable")
            except (sl.FailedError, sl.UnknownError):
                continue
            raise AssertionError("what was not synced is called durable")
        assert log.marks("t", 0).durable == 2
    close()


def _damage(sl: Any, path: Path) -> None:
    for segment in path.rglob("segments/*"):
        content = bytearray(segment.read_bytes())
        if b"order.created" in content:
            content[content.index(b"order.created")] ^= 2
        segment.write_bytes(content)
    with sl.open(f"file:{path}", mode="read") as log:
        try:
            list(log.read("t", 0, 0))
        except sl.CorruptError:
            return
    raise AssertionError("damage was read")


if __name__ == "__main__":
    use(sys.argv[1])
    check(Path(sys.argv[2]), is_stored_only="--stored-only" in sys.argv)
