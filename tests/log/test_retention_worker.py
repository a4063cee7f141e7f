"""Automatic retention: in one writing process at a time, one step at a time."""

import gc
import shutil
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import strandline as sl
from strandline.log import parts_of, retention_worker
from strandline.log.retention_worker import (
    FIRST_DELAY_S,
    INTERVAL_S,
    LEASE_S,
    REPORT_S,
    RETENTION_KEY,
    RETRY_MAX_S,
)
from strandline.testing import FakeClock
from strandline.values import Offset

EVENT = sl.Event("tick", {"text": "x" * 80})
Open = Callable[..., sl.Log]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(params=["file", "sqlite"])
def open_log(request: pytest.FixtureRequest, clock: FakeClock, tmp_path: Path) -> Iterator[Open]:
    logs: list[sl.Log] = []

    def opened(**options: Any) -> sl.Log:
        logs.append(sl.open(f"{request.param}:{tmp_path / 'log'}", clock=clock, **options))
        return logs[-1]

    yield opened
    for log in logs:
        log.close()


def fill(log: sl.Log, count: int) -> None:
    log.append_many("ticks", [EVENT] * count)


def test_what_is_too_old_is_removed_without_a_call(open_log: Open, clock: FakeClock) -> None:
    log = open_log()
    log.create_topic("ticks", retention_age_s=30)
    log.create_topic("kept")
    fill(log, 10)
    log.append("kept", EVENT)

    clock.advance(FIRST_DELAY_S)
    assert log.marks("ticks", 0).low == 0
    clock.advance(INTERVAL_S + 1)

    assert log.marks("ticks", 0).low == 10
    assert log.marks("kept", 0).low == 0
    status = log.describe_topic("ticks").retention
    assert status is not None
    assert (status.removed, status.held) == (10, ())
    assert log.describe_topic("kept").retention is None


def test_a_worker_that_had_nothing_to_do_begins_with_the_first_limit(
    open_log: Open, clock: FakeClock
) -> None:
    log = open_log()
    log.create_topic("kept")
    log.append("kept", EVENT)
    clock.advance(FIRST_DELAY_S + INTERVAL_S)

    log.create_topic("ticks", retention_age_s=30)
    fill(log, 10)
    clock.advance(FIRST_DELAY_S + INTERVAL_S + 31)

    assert log.marks("ticks", 0).low == 10


def test_a_run_that_removed_nothing_is_reported_now_and_then(
    open_log: Open, clock: FakeClock
) -> None:
    log = open_log()
    log.create_topic("ticks", retention_age_s=10**6)
    fill(log, 1)
    ran_at = []
    for delay_s in (FIRST_DELAY_S + 1, INTERVAL_S, REPORT_S + INTERVAL_S):
        clock.advance(delay_s)
        status = log.describe_topic("ticks").retention
        assert status is not None
        ran_at.append(status.ran_at_us)

    assert ran_at[0] is not None
    assert ran_at[0] == ran_at[1] != ran_at[2]


def test_one_process_at_a_time_has_the_lease(open_log: Open, clock: FakeClock) -> None:
    one, other = open_log(), open_log()
    one.create_topic("ticks", retention_age_s=1)
    for log in (one, other):
        fill(log, 1)
    clock.advance(FIRST_DELAY_S + INTERVAL_S)
    first = one.describe_topic("ticks").retention
    assert first is not None
    clock.advance(REPORT_S + INTERVAL_S)
    later = one.describe_topic("ticks").retention
    assert later is not None
    assert later.holder == first.holder
    assert later.ran_at_us is not None
    assert first.ran_at_us is not None
    assert later.ran_at_us > first.ran_at_us

    one.close()
    clock.advance(LEASE_S + INTERVAL_S)

    taken = other.describe_topic("ticks").retention
    assert taken is not None
    assert taken.holder != first.holder, "what a process leaves is taken over"


def test_what_holds_retention_back_is_named(open_log: Open, clock: FakeClock) -> None:
    log = open_log()
    log.create_topic("ticks", retention_age_s=1, partitions=2)
    log.append_many("ticks", [EVENT] * 6, partition=1)
    log.register("ticks", "slow", {1: 2})
    log.register("ticks", "fast", {1: 5})

    clock.advance(FIRST_DELAY_S + INTERVAL_S)

    status = log.describe_topic("ticks").retention
    assert status is not None
    assert [(each.partition, each.offset, each.consumers) for each in status.held] == [
        (1, Offset(2), ("slow",))
    ]
    assert log.marks("ticks", 1).low == 2


def test_much_is_removed_in_steps_with_rests_between(
    open_log: Open, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention_worker, "STEP_RECORDS", 10)
    log = open_log()
    log.create_topic("ticks", retention_age_s=1)
    fill(log, 25)
    lows = []

    clock.advance(FIRST_DELAY_S)
    for _ in range(4):
        lows.append(int(log.marks("ticks", 0).low))
        clock.advance(retention_worker.REST_MIN_S)

    assert lows == [10, 20, 25, 25]


def test_it_is_off_on_request_and_for_readers(open_log: Open, clock: FakeClock) -> None:
    writer = open_log(retention=False)
    writer.create_topic("ticks", retention_age_s=1)
    fill(writer, 5)
    open_log(mode="read").describe_topic("ticks")
    open_log(mode="consume").consumer("ticks", "c").close()

    clock.advance(3 * INTERVAL_S)

    assert writer.marks("ticks", 0).low == 0
    assert writer.describe_topic("ticks").retention is None
    with pytest.raises(sl.InvalidError):
        open_log(retention="no")


def test_a_dropped_topic_and_a_damaged_report_stop_nothing(
    open_log: Open, clock: FakeClock
) -> None:
    log = open_log()
    log.create_topic("gone", retention_age_s=1)
    log.create_topic("ticks", retention_age_s=1)
    fill(log, 5)
    store = parts_of(log).store
    found = store.find_topic(None, "ticks")
    assert found is not None
    store.put_key(found, RETENTION_KEY, b"nonsense", None)
    log.drop_topic("gone")

    clock.advance(FIRST_DELAY_S + 2 * INTERVAL_S)

    assert log.marks("ticks", 0).low == 5


def test_the_worker_ends_with_its_log_and_keeps_none_open(clock: FakeClock, tmp_path: Path) -> None:
    log = sl.open(f"file:{tmp_path / 'log'}", clock=clock)
    log.create_topic("ticks", retention_age_s=1)
    fill(log, 1)
    before = clock.pending_timers
    log.close()
    assert clock.pending_timers == before - 1

    forgotten = sl.open(f"file:{tmp_path / 'log'}", clock=clock)
    fill(forgotten, 1)
    seen = weakref.ref(forgotten)
    del forgotten
    gc.collect()
    assert seen() is None
    clock.advance(3 * INTERVAL_S)


def test_a_worker_without_its_lease_is_noticed(
    open_log: Open, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: each process takes the lease as its own, so that two work at a time."""
    monkeypatch.setattr(retention_worker.RetentionWorker, "_is_mine", lambda *_: True)

    with pytest.raises(AssertionError):
        test_one_process_at_a_time_has_the_lease(open_log, clock)


def failures(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.message for each in caplog.records if "retention failed" in each.message]


@pytest.mark.parametrize("scheme", ["file", "sqlite"])
def test_a_log_whose_folder_was_removed_is_reported_once(
    scheme: str, clock: FakeClock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    log = sl.open(f"{scheme}:{folder / 'log'}", clock=clock)
    for name in ("ticks", "more", "others"):
        log.create_topic(name, retention_age_s=1)
        log.append(name, EVENT)
    clock.advance(FIRST_DELAY_S)

    shutil.rmtree(folder)
    clock.advance(24 * 3600)

    assert len(failures(caplog)) == 1
    log.close()


def test_a_step_that_fails_because_its_log_was_closed_is_not_reported(
    open_log: Open,
    clock: FakeClock,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """As a step that takes longer than `close` waits for it."""
    monkeypatch.setattr(retention_worker, "STOP_TIMEOUT_S", 0.0)
    log = open_log()
    log.create_topic("ticks", retention_age_s=1)
    fill(log, 5)

    def closed_meanwhile() -> None:
        log.close()
        raise sl.UnavailableError("the folder was removed")

    monkeypatch.setattr(parts_of(log).store, "topics", closed_meanwhile)
    clock.advance(FIRST_DELAY_S + 10 * RETRY_MAX_S)

    assert failures(caplog) == []


def test_a_log_that_is_back_is_trimmed_again_and_a_new_failure_is_reported(
    clock: FakeClock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder, away = tmp_path / "folder", tmp_path / "away"
    folder.mkdir()
    log = sl.open(f"file:{folder / 'log'}", clock=clock)
    log.create_topic("ticks", retention_age_s=1)
    for lost in (1, 2):
        fill(log, 5)
        folder.rename(away)
        clock.advance(10 * RETRY_MAX_S)
        assert len(failures(caplog)) == lost

        away.rename(folder)
        clock.advance(RETRY_MAX_S + INTERVAL_S)
        assert log.marks("ticks", 0).low == 5 * lost
    log.close()


def test_a_topic_that_fails_is_reported_once_and_delays_no_other(
    clock: FakeClock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = sl.open(f"file:{tmp_path / 'log'}", clock=clock)
    log.create_topic("broken", retention_age_s=1)
    log.create_topic("ticks", retention_age_s=1)
    log.append("broken", EVENT)
    fill(log, 5)
    broken = log.describe_topic("broken").topic.id
    keys = tmp_path / "log" / "topics" / str(broken) / "keys"
    shutil.rmtree(keys, ignore_errors=True)
    keys.write_bytes(b"no folder")

    for removed in (5, 10):
        clock.advance(FIRST_DELAY_S + 2 * INTERVAL_S)
        assert log.marks("ticks", 0).low == removed
        fill(log, 5)

    assert len(failures(caplog)) == 1
    log.close()
