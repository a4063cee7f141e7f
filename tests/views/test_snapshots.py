"""Snapshots: with the tail they make what a replay makes, or they are not used."""

import errno
import logging
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import strandline as sl
from strandline.io import SystemIo
from strandline.log import Log
from strandline.testing import FakeClock, FaultyIo
from strandline.testing.faulty_io import Fault
from tests.logs import OpenAgain, memory_log
from tests.threads import on_thread
from tests.views.accounts import (
    PATIENCE_S,
    Accounts,
    State,
    SteeredLog,
    catch_up,
    fill,
    folded,
    moved,
    opened,
    running,
    save_all,
    state_of,
)


def test_a_restart_without_a_snapshot_replays_the_log_tb4(open_again: OpenAgain) -> None:
    with running(open_again(), 0) as view:
        for name in ("ann", "bob", "eve"):
            view.publish(opened(name, 100), partition=0)

    with running(open_again(), 0) as view:
        assert state_of(view) == {"ann": 100, "bob": 100, "eve": 100}
        assert view.committed(0) == -1


def test_closing_writes_a_snapshot_of_what_was_applied_tb6(log: Log, path: Path) -> None:
    with running(log, 0, snapshot=path, snapshot_interval_s=3_600.0) as view:
        view.publish(opened("ann", 1), partition=0)
        view.publish(moved("ann", 1), partition=0)
        assert not path.exists()
        view.close()

    with sl.LiveView(log, "accounts", Accounts(), snapshot=path) as later:
        assert later.committed(0) == 1
        assert later.read(0, dict) is None, "committed, but not assigned"


def test_a_folder_is_no_place_for_a_snapshot(log: Log, tmp_path: Path) -> None:
    with pytest.raises(sl.InvalidError, match="this is a folder, name a file"):
        sl.LiveView(log, "accounts", Accounts(), snapshot=tmp_path)


def test_a_restart_continues_after_the_snapshot_tb7(open_again: OpenAgain, path: Path) -> None:
    """V1: the same state as a full rebuild, without reading from 0."""
    fill(open_again(), 6)
    save_all(open_again(), path)
    fill(open_again(), 4)

    steered = SteeredLog(open_again())
    with sl.LiveView(steered.as_log(), "accounts", Accounts(), snapshot=path) as view:
        assert view.committed(0) == 5
        view.reconcile([0])
        view.wait_ready(PATIENCE_S)
        resumed = view.read(0, Accounts().encode)
        assert min(steered.starts) == 6

        view.rebuild()
        view.wait_ready(PATIENCE_S)
        assert 0 in steered.starts
        assert view.read(0, Accounts().encode) == resumed
        assert state_of(view) == folded(open_again(), 0)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["file", "sqlite"])
def test_a_restart_of_many_records_reads_the_tail_alone_and_ends_as_a_rebuild_does(
    scheme: str, tmp_path: Path
) -> None:
    url, path = f"{scheme}:{tmp_path / 'log'}", tmp_path / "snapshot"
    page = [moved(f"a{n % 997}", n % 1009) for n in range(1_000)]
    with sl.open(url) as log:
        log.create_topic("accounts")
        for _ in range(200):
            log.append_many("accounts", page)
        with running(log, 0, snapshot=path) as view:
            view.close()
        log.append_many("accounts", page[:77])

    with sl.open(url) as log:
        steered = SteeredLog(log)
        with sl.LiveView(steered.as_log(), "accounts", Accounts(), snapshot=path) as view:
            view.reconcile([0])
            view.wait_ready(PATIENCE_S)
            resumed = view.read(0, Accounts().encode)
            assert steered.records_read == 77

            view.rebuild()
            view.wait_ready(6 * PATIENCE_S)
            assert steered.records_read == 77 + 200_077
            assert view.read(0, Accounts().encode) == resumed
        assert resumed == Accounts().encode(folded(log, 0))


def let_pass(clock: FakeClock, seconds: int) -> None:
    """Let time pass, second by second, each begun with the pump waiting."""
    for _ in range(seconds):
        clock.wait_for_waiters(1)
        clock.advance(1.0)
    clock.wait_for_waiters(1)


def timed_log(clock: FakeClock) -> Log:
    log = memory_log(clock=clock)
    log.create_topic("accounts", partitions=2)
    return log


def test_progress_of_any_partition_is_saved_wb1(path: Path) -> None:
    """WB1: also of one that is not the furthest."""
    clock = FakeClock()
    log = timed_log(clock)
    fill(log, 50, partition=0)
    with running(log, 0, 1, snapshot=path, snapshot_interval_s=10.0, clock=clock) as view:
        view.save()
        assert (view.committed(0), view.committed(1)) == (49, -1)
        fill(log, 3, partition=1)
        view.wait_applied(1, 2, PATIENCE_S)

        let_pass(clock, 11)

        assert (view.committed(0), view.committed(1)) == (49, 2)


def test_the_interval_alone_writes_a_snapshot_if_anything_has_advanced(path: Path) -> None:
    clock = FakeClock()
    log = timed_log(clock)
    io = FaultyIo(SystemIo())
    fill(log, 5)
    with running(log, 0, snapshot=path, snapshot_interval_s=10.0, clock=clock, io=io) as view:
        let_pass(clock, 9)
        assert not path.exists()

        let_pass(clock, 2)
        assert view.committed(0) == 4

        let_pass(clock, 25)
        assert io.count("replace") == 1, "nothing has advanced"


def test_partitions_that_are_not_assigned_keep_their_part(log: Log, path: Path) -> None:
    fill(log, 3, partition=0)
    fill(log, 4, partition=1)
    save_all(log, path)
    with running(log, 0, snapshot=path) as view:
        fill(log, 2, partition=0)
        catch_up(view, log)
        view.close()

    with running(log, 0, 1, snapshot=path) as view:
        assert (view.committed(0), view.committed(1)) == (4, 3)
        assert [state_of(view, p) for p in (0, 1)] == [folded(log, p) for p in (0, 1)]


def test_a_partition_that_comes_back_starts_from_its_snapshot(log: Log, path: Path) -> None:
    steered = SteeredLog(log)
    with running(steered.as_log(), 0, snapshot=path) as view:
        fill(log, 5)
        catch_up(view, log)
        view.save()
        fill(log, 2)
        view.reconcile([])
        steered.starts.clear()
        view.reconcile([0])
        view.wait_ready(PATIENCE_S)

        assert min(steered.starts) == 5
        assert state_of(view) == folded(log, 0)


# --- never ahead, never half ---


def test_a_snapshot_is_never_ahead_of_the_durable_mark_v2(tmp_path: Path, path: Path) -> None:
    with sl.open(f"sqlite:{tmp_path / 'events.db'}") as log:
        log.create_topic("accounts", partitions=2)
        durable: list[int] = []
        io = FaultyIo(SystemIo())
        io.before(
            1,
            lambda operation: durable.append(log.marks("accounts", 0).durable),
            kinds=["replace"],
            forever=True,
        )
        with running(log, 0, snapshot=path, io=io) as view:
            for number in range(1, 6):
                fill(log, number)
                catch_up(view, log)
                view.save()
                assert durable[-1] > view.committed(0)

        assert len(durable) == 5


def test_records_that_come_while_a_snapshot_is_made_are_not_in_it(log: Log, path: Path) -> None:
    """V2: state and offset are of one moment."""
    steered = SteeredLog(log)
    fill(log, 4)
    with running(steered.as_log(), 0, snapshot=path) as view:
        steered.before_position = lambda partition: fill(log, 3)
        view.save()
        view.close(save=False)

    with running(log, 0, snapshot=path) as view:
        assert view.committed(0) == 3
        assert state_of(view) == folded(log, 0)


@pytest.mark.slow
def test_a_failure_at_each_step_of_writing_leaves_the_old_snapshot_or_the_new(
    log: Log, path: Path
) -> None:
    """Fail the Nth: the view continues, reports it, and a later save repairs it."""
    fill(log, 4)
    save_all(log, path)
    nth, fired = 0, True
    while fired:
        nth += 1
        for plan in plans(nth):
            io = FaultyIo(SystemIo())
            with running(log, 0, snapshot=path, io=io) as view:
                before = view.committed(0)
                fill(log, 2)
                catch_up(view, log)
                fault = plan(io)
                fired = save_fails(view)
                assert fired == (fault.fired > 0)
                assert state_of(view) == folded(log, 0)
                check_restart(log, path, (before, view.applied(0)))

                io.clear_faults()
                view.save()
                assert view.committed(0) == view.applied(0)
                assert view.health().is_healthy
            assert not list(path.parent.glob("*.tmp")), "nothing is left behind"
    assert nth > 6


def plans(nth: int) -> list[Callable[[FaultyIo], Fault]]:
    return [
        lambda io: io.fail(nth, errno.EIO),
        lambda io: io.fail(nth, errno.ENOSPC, after=True),
    ]


def save_fails(view: "sl.LiveView[State]") -> bool:
    try:
        view.save()
    except sl.UnavailableError:
        return isinstance(view.health().snapshot_fault, OSError)
    return False


def check_restart(log: Log, path: Path, committed: tuple[int, int]) -> None:
    with running(log, 0, snapshot=path) as view:
        assert view.committed(0) in committed
        assert state_of(view) == folded(log, 0)


@pytest.mark.slow
def test_a_torn_write_of_any_length_leaves_the_old_snapshot(log: Log, path: Path) -> None:
    fill(log, 4)
    save_all(log, path)
    size = len(path.read_bytes())
    for keep_bytes in range(1, size, 17):
        io = FaultyIo(SystemIo())
        with running(log, 0, snapshot=path, io=io) as view:
            before = view.committed(0)
            fill(log, 1)
            catch_up(view, log)
            io.write_short(1, errno.ENOSPC, keep_bytes=keep_bytes)
            io.fail(1, errno.EIO, kinds=["unlink"])
            assert save_fails(view)
        with running(log, 0, snapshot=path) as view:
            assert view.committed(0) == before
            assert state_of(view) == folded(log, 0)
        assert not list(path.parent.glob("*.tmp")), "what was left is tidied by the next"


def test_calls_from_all_sides_at_once_keep_the_snapshot_whole_wb12(log: Log, path: Path) -> None:
    """WB12: reconciles and snapshots meet inside the view and not on one temporary file."""
    fill(log, 20, partition=0)
    fill(log, 20, partition=1)
    with running(log, 0, 1, snapshot=path, snapshot_interval_s=0.001) as view:

        def stir(partitions: tuple[int, ...]) -> None:
            for number in range(15):
                view.reconcile(partitions if number % 2 else (0, 1))
                fill(log, 1)
                view.save()

        threads = [threading.Thread(target=stir, args=(each,)) for each in ((0,), (1,), ())]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_S)
        view.reconcile([0, 1])
        view.wait_ready(PATIENCE_S)
        assert [state_of(view, p) for p in (0, 1)] == [folded(log, p) for p in (0, 1)]
        view.close()

    assert not list(path.parent.glob("*.tmp"))
    with running(log, 0, 1, snapshot=path) as view:
        assert [state_of(view, p) for p in (0, 1)] == [folded(log, p) for p in (0, 1)]


def test_readers_are_not_held_up_while_a_state_is_encoded(log: Log, path: Path) -> None:
    entered, leave = threading.Event(), threading.Event()

    class Long(Accounts):
        def encode(self, state: State) -> bytes:
            entered.set()
            assert leave.wait(PATIENCE_S)
            return super().encode(state)

    with running(log, 0, view=Long(), snapshot=path) as view:
        view.publish(opened("ann", 5), partition=0)
        saving = threading.Thread(target=view.save)
        saving.start()
        assert entered.wait(PATIENCE_S)

        assert state_of(view) == {"ann": 5}
        leave.set()
        saving.join(PATIENCE_S)


def test_rebuild_drops_the_snapshot_at_once(log: Log, path: Path) -> None:
    fill(log, 3, partition=0)
    fill(log, 3, partition=1)
    with running(log, 0, 1, snapshot=path) as view:
        view.save()

        view.rebuild([0])

        assert (view.committed(0), view.committed(1)) == (-1, 2)
        view.wait_ready(PATIENCE_S)
        assert state_of(view) == folded(log, 0)
        view.close(save=False)
    with sl.LiveView(log, "accounts", Accounts(), snapshot=path) as view:
        assert (view.committed(0), view.committed(1)) == (-1, 2)


def test_a_rebuild_that_cannot_drop_a_snapshot_reports_it_and_rebuilds(
    log: Log, path: Path
) -> None:
    io = FaultyIo(SystemIo())
    steered = SteeredLog(log)
    fill(log, 3)
    with running(steered.as_log(), 0, snapshot=path, io=io) as view:
        view.save()
        steered.starts.clear()
        io.fail(1, errno.EIO, kinds=["replace"])
        with pytest.raises(sl.UnavailableError):
            view.rebuild()
        view.wait_ready(PATIENCE_S)
        assert 0 in steered.starts
        assert state_of(view) == folded(log, 0)


@pytest.mark.slow
def test_a_log_that_cannot_be_read_yet_means_not_ready_and_recovers(log: Log, path: Path) -> None:
    fill(log, 6)
    save_all(log, path)
    steered = SteeredLog(log)
    steered.resolve_fails = True
    with sl.LiveView(steered.as_log(), "accounts", Accounts(), snapshot=path) as view:
        view.reconcile([0])
        with pytest.raises(sl.NotReadyError):
            view.wait_ready(0.2)
        steered.resolve_fails = False
        view.wait_ready(PATIENCE_S)
        assert state_of(view) == folded(log, 0)
        assert steered.starts == []


@pytest.mark.slow
def test_a_waiter_is_woken_by_what_the_snapshot_brings(log: Log, path: Path) -> None:
    fill(log, 6)
    save_all(log, path)
    steered = SteeredLog(log)
    steered.resolve_fails = steered.marks_fail = True
    with sl.LiveView(steered.as_log(), "accounts", Accounts(), snapshot=path) as view:
        view.reconcile([0])
        waiting = on_thread(lambda: view.wait_applied(0, 5))
        steered.resolve_fails = False

        waiting.result(PATIENCE_S)


def test_a_folder_that_is_not_there_is_refused(log: Log, tmp_path: Path) -> None:
    with pytest.raises(sl.InvalidError):
        sl.LiveView(log, "accounts", Accounts(), snapshot=tmp_path / "no" / "accounts")


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]


def test_a_last_snapshot_that_cannot_be_written_is_logged_and_loses_nothing(
    log: Log, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    io = FaultyIo(SystemIo())
    fill(log, 2)
    with running(log, 0, snapshot=path, io=io) as view:
        io.fail(1, errno.ENOSPC)

        view.close()

    fault = view.health().snapshot_fault
    assert warnings_of(caplog) == [
        f"view Accounts could not save its snapshot, what that lacks is replayed: {fault}"
    ]
    check_restart(log, path, (-1, -1))


def test_snapshots_that_fail_alike_are_logged_once_and_the_last_again(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock, io = FakeClock(), FaultyIo(SystemIo())
    log = timed_log(clock)
    fill(log, 5)
    with running(log, 0, snapshot=path, snapshot_interval_s=10.0, clock=clock, io=io) as view:
        fault = io.fail(1, errno.ENOSPC, forever=True)
        let_pass(clock, 35)
        assert fault.fired >= 3
        assert len(warnings_of(caplog)) == 1

        view.close()

    assert len(warnings_of(caplog)) == 2


def test_a_snapshot_that_was_asked_for_is_an_error_and_no_warning(
    log: Log, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    io = FaultyIo(SystemIo())
    fill(log, 2)
    with running(log, 0, snapshot=path, io=io) as view:
        io.fail(1, errno.ENOSPC)

        assert save_fails(view)

    assert not warnings_of(caplog)
