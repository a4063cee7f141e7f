"""The core under faults: each of its system calls fails once, and planted bugs are caught."""

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import strandline as sl
from strandline.io import SystemIo
from strandline.log import Log
from strandline.stores.files.tail import FENCE_AT
from strandline.testing import FakeClock, FaultyIo
from strandline.values import StrandlineError
from tests.core.plain import needs_core
from tests.core.test_lane import events, fast, lane_of
from tests.logs import file_log

pytestmark = needs_core

APPENDS: list[Callable[[Log], Any]] = [
    lambda log: log.append("t", sl.Event("new", 1)),
    lambda log: log.append_many("t", [sl.Event("new", n) for n in range(70)]),
    lambda log: log.append("t", sl.Event("new", 1), durability="durable"),
]
CALLS_MAX = 40


def opened(path: Path, io: FaultyIo, *, exclusive: bool) -> Log:
    log = file_log(str(path), io=io, clock=FakeClock(), exclusive=exclusive)
    log.create_topic("t")
    fast(log)
    # From here on the core syncs as well.
    log.append("t", sl.Event("first"), durability="durable")
    return log


def stored(path: Path) -> list[str]:
    """Return what a process that comes next reads; it also appends."""
    with sl.open(f"file:{path}") as log:
        log.append("t", sl.Event("after"))
        found = list(log.read("t", 0, 0))
        assert [each.offset for each in found] == list(range(len(found)))
        assert all(report.is_sound for report in log.verify("t"))
        return [each.kind for each in found]


def failing(
    tmp_path: Path, append: Callable[[Log], Any], error: Any, *, exclusive: bool, after: bool
) -> Iterator[int]:
    """Let each call of an append fail in turn; yield how often it was stored in each case."""
    for nth in range(1, CALLS_MAX):
        path, io = tmp_path / str(nth), FaultyIo(SystemIo())
        log = opened(path, io, exclusive=exclusive)
        fault = io.fail(nth, error, after=after)
        outcome: BaseException | None = None
        try:
            append(log)
        except (StrandlineError, KeyboardInterrupt) as caught:
            outcome = caught
        io.clear_faults()
        # Whatever the outcome, nothing is left locked, in this process or for others.
        log.close()
        kinds = stored(path)
        assert kinds[0] == "first"
        assert kinds[-1] == "after"
        if isinstance(outcome, sl.UnavailableError) or (outcome is None and not fault.fired):
            assert ("new" in kinds) == (outcome is None), (nth, outcome)
        if outcome is None:
            assert "new" in kinds, nth
        if not fault.fired:
            return
        yield kinds.count("new")
    pytest.fail("an append makes fewer calls")


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("append", APPENDS, ids=["one", "many", "durable"])
@pytest.mark.parametrize("error", [errno.EIO, KeyboardInterrupt()], ids=["error", "interrupt"])
def test_an_append_is_stored_whole_or_not_at_all_whichever_call_fails(
    tmp_path: Path, append: Callable[[Log], Any], error: Any, exclusive: bool
) -> None:
    for after in (False, True):
        folder = tmp_path / str(after)
        folder.mkdir()
        for count in failing(folder, append, error, exclusive=exclusive, after=after):
            assert count in (0, 1, 70)


def test_a_torn_frame_is_not_read(tmp_path: Path) -> None:
    io = FaultyIo(SystemIo())
    log = opened(tmp_path / "log", io, exclusive=True)
    io.write_short(1, errno.ENOSPC, keep_bytes=30)

    with pytest.raises(sl.UnknownError):
        log.append("t", sl.Event("torn"))
    with pytest.raises(sl.FailedError):
        log.append("t", sl.Event("later"))
    log.close()

    assert stored(tmp_path / "log") == ["first", "first", "after"]


def test_the_calls_are_those_of_plain_python_in_the_same_order(tmp_path: Path) -> None:
    made = {}
    for name in ("core", "plain"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("strandline.stores.files.compiled_lane.IS_COMPILED", name == "core")
            io = FaultyIo(SystemIo())
            log = file_log(str(tmp_path / name), io=io, clock=FakeClock())
            log.create_topic("t")
            log.append("t", sl.Event("first"))
            before = len(io.operations)
            log.append("t", sl.Event("k", 1))
            log.append_many("t", events(10))
            # The second one syncs where the first one did.
            for _ in range(3):
                log.append("t", sl.Event("k", 1), durability="durable")
            made[name] = [
                (each.kind, Path(each.path).name, each.offset, each.length)
                for each in io.operations[before:]
                if each.kind != "boot_id"
            ]
            log.close()

    assert made["core"] == made["plain"]


class _Planted:
    """A lane with a bug: what the checks above are worth."""

    def __init__(self, lane: Any, bug: str) -> None:
        self._lane = lane
        self._bug = bug

    def __getattr__(self, name: str) -> Any:
        return getattr(self._lane, name)

    def append(self, event: Any, bytes_max: int) -> Any:
        placed = self._lane.append(event, bytes_max)
        if placed is NotImplemented:
            return placed
        if self._bug == "offset":
            return (placed[0] + 1, *placed[1:])
        return placed

    def disarm(self) -> Any:
        taken = self._lane.disarm()
        if taken is None or self._bug != "stale head":
            return taken
        # As if the core had not stored its end.
        return (taken[0] - 1, *taken[1:])


@pytest.mark.parametrize("bug", ["offset", "stale head"])
def test_planted_bugs_of_the_hand_over_are_caught(tmp_path: Path, bug: str) -> None:
    log = sl.open(f"file:{tmp_path}/log")
    log.create_topic("t")
    fast(log)
    topics: Any = log._store.topics()  # noqa: SLF001 - A bug is planted below the surface.
    compiled = topics[0].lanes[0].store.compiled
    compiled.lane = _Planted(compiled.lane, bug)
    compiled.append = compiled.lane.append
    log._appenders = log._appends.appenders = None  # noqa: SLF001 - These are all in C.

    receipts = [log.append("t", sl.Event("k", n)) for n in range(3)]
    receipts.append(log.append("t", sl.Event("k"), idempotency_key="python"))
    found = [each.offset for each in log.read("t", 0, 0, 3)]

    is_right = [each.offset for each in receipts] == [1, 2, 3, 4] and found == [0, 1, 2]
    assert not is_right
    assert lane_of(log) is not None


@pytest.mark.parametrize("is_compiled", [False, True], ids=["plain", "core"])
def test_an_append_whose_fence_cannot_be_read_is_not_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_compiled: bool
) -> None:
    """A tail that was cut before its fence may have been fenced."""
    monkeypatch.setattr("strandline.stores.files.compiled_lane.IS_COMPILED", is_compiled)
    io = FaultyIo(SystemIo())
    with file_log(str(tmp_path / "log"), io=io, clock=FakeClock(), exclusive=True) as log:
        log.create_topic("t")
        fast(log, core=is_compiled)
        (tail,) = tmp_path.rglob("*.tail")
        os.truncate(tail, FENCE_AT)

        with pytest.raises(sl.UnknownError):
            log.append("t", sl.Event("new"))

    assert stored(tmp_path / "log") == ["first", "new", "after"]


def test_a_sync_whose_fence_cannot_be_read_is_left_to_python(tmp_path: Path) -> None:
    io = FaultyIo(SystemIo())
    log = opened(tmp_path / "log", io, exclusive=True)
    log.append("t", sl.Event("new"))
    topics: Any = log._store.topics()  # noqa: SLF001 - For what syncs.
    commit = topics[0].lanes[0].store.compiled.commit
    (tail,) = tmp_path.rglob("*.tail")
    os.truncate(tail, FENCE_AT)

    assert commit.sync() is None
    log.close()
