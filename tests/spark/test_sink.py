"""Exactly once for each (app, version): repeats, retries, aborts, other content, sweeping."""

import os
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import strandline as sl
from strandline.clock import SystemClock
from strandline.opening import staging_path
from strandline.spark.sink import intents, rolling
from strandline.spark.sink.committing import JOB_PREFIX, finish_all, sweep
from strandline.spark.sink.folder import AppFolder, app_folders
from strandline.spark.sink.intents import Intents
from strandline.values import (
    ConflictError,
    CorruptError,
    InvalidError,
    UnavailableError,
    partition_for_key,
)
from tests.processes.sinks import flawed
from tests.spark.as_sink import Sink, events, numbers_in


@pytest.fixture
def sink(log: sl.Log, url: str) -> Sink:
    log.create_topic("t", partitions=3)
    return Sink(log, url)


class LaterClock(SystemClock):
    """Eight days from now."""

    def now_us(self) -> int:
        return super().now_us() + 8 * 24 * 3600 * 1_000_000


class StopError(Exception):
    """Ends a commit where a process might die."""


def stop_after(monkeypatch: pytest.MonkeyPatch, steps: int) -> None:
    """Let the commits to come fail after so many chunks and one more are in the log."""
    left = [steps]
    put = rolling._Rolling.put  # noqa: SLF001 # Where a process may be killed.

    def stop(self: Any, index: int) -> int:
        end = put(self, index)
        if left[0] == 0:
            raise StopError
        left[0] -= 1
        return end

    monkeypatch.setattr(rolling._Rolling, "put", stop)  # noqa: SLF001


def own_staging(sink: Sink) -> str:
    """Return the directory beside the log in which rows are staged."""
    path = staging_path(sink.url)
    assert path is not None
    return path


def interrupt(monkeypatch: pytest.MonkeyPatch, steps: int, act: Callable[[], None]) -> None:
    """Do it, and be stopped after so many steps."""
    with monkeypatch.context() as patch:
        stop_after(patch, steps)
        with pytest.raises(StopError):
            act()


# --- once ---


def test_many_rows_of_a_block_are_stored_with_all_that_an_event_has(
    sink: Sink, log: sl.Log
) -> None:
    log.create_topic("whole")
    times = [None if n % 3 else n * 1_000_000 for n in range(200)]
    rows = pa.record_batch(
        {
            "kind": ["paid" if n % 2 else "made" for n in range(200)],
            "key": [None if n % 5 == 0 else f"ключ {n}" for n in range(200)],
            "payload": [None if n % 7 == 0 else f'{{"n":{n},"é":"ü"}}' for n in range(200)],
            "headers": pa.array(
                [None if n % 4 else [("h", str(n))] for n in range(200)],
                pa.map_(pa.string(), pa.string()),
            ),
            "occurred_at": pa.array(times, pa.timestamp("us", "UTC")),
        }
    )

    Sink(log, sink.url, "whole").write(0, rows.slice(0, 120), rows.slice(120))

    found = [record.event for record in log.read("whole", 0, 0)]
    assert [each.kind for each in found] == rows.column("kind").to_pylist()
    assert [each.key for each in found] == rows.column("key").to_pylist()
    assert [each.payload for each in found] == [
        None if n % 7 == 0 else {"n": n, "é": "ü"} for n in range(200)
    ]
    assert [dict(each.headers) for each in found] == [
        {} if n % 4 else {"h": str(n)} for n in range(200)
    ]
    assert [each.occurred_at_us for each in found] == times
    assert all(report.is_sound for report in log.verify("whole"))


def test_rows_of_all_tasks_are_records_in_the_partitions_of_their_keys(sink: Sink) -> None:
    sink.write(0, events(range(100)), events(range(100, 150)))

    assert numbers_in(sink.log) == [*range(150)]
    for partition in range(3):
        for record in sink.log.read("t", partition, 0):
            assert record.key == f"key {record.payload['n'] % 7}"
            assert partition_for_key(record.key, 3) == partition


def test_rows_of_one_key_keep_their_order(sink: Sink) -> None:
    sink.write(0, events([7 * n for n in range(50)]))

    found = [record.payload["n"] for p in range(3) for record in sink.log.read("t", p, 0)]
    assert found == [7 * n for n in range(50)]


def test_a_batch_that_is_run_again_adds_nothing_whatever_its_order_and_split(sink: Sink) -> None:
    sink.write(0, events(range(60)), events(range(60, 90)))
    sink.write(0, events([*reversed(range(45, 90))]), events(range(45)), events([]))

    assert numbers_in(sink.log) == [*range(90)]


def test_a_commit_that_is_repeated_adds_nothing(sink: Sink) -> None:
    staged = [sink.task(0, events(range(30)))]
    for _ in range(3):
        sink.commit(0, staged)

    assert numbers_in(sink.log) == [*range(30)]


def test_retried_tasks_and_speculative_twins_count_once_and_leave_nothing(sink: Sink) -> None:
    attempts = [sink.task(0, events(range(30))) for _ in range(3)]
    sink.commit(0, [attempts[1], sink.task(0, events(range(30, 50)), 1)])

    assert numbers_in(sink.log) == [*range(50)]
    assert sink.files() == ["batch-0.done"]


def test_every_batch_of_a_query_is_written(sink: Sink) -> None:
    for version in range(5):
        sink.write(version, events(range(10 * version, 10 * version + 10)))

    assert numbers_in(sink.log) == [*range(50)]


def test_queries_do_not_affect_each_other(sink: Sink, log: sl.Log, url: str) -> None:
    sink.write(0, events(range(10)))
    Sink(log, url, app="another").write(0, events(range(10, 20)))

    assert numbers_in(log) == [*range(20)]


def test_an_empty_batch_is_nothing_and_may_have_rows_when_it_is_planned_again(sink: Sink) -> None:
    sink.write(0, events([]))
    assert sink.files() == []

    sink.write(0, events(range(5)))

    assert numbers_in(sink.log) == [*range(5)]


# --- interrupted ---


@pytest.mark.parametrize("steps", [0, 1, 2])
def test_an_interrupted_commit_is_finished_from_the_files_it_named(
    sink: Sink, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    interrupt(monkeypatch, steps, lambda: sink.write(0, events(range(90))))

    sink.write(0, events([*reversed(range(90))]))

    assert numbers_in(sink.log) == [*range(90)]
    assert sink.files() == ["batch-0.done"]


def test_the_next_batch_finishes_the_one_before_it(
    sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupt(monkeypatch, 1, lambda: sink.write(0, events(range(90))))

    sink.write(1, events(range(90, 100)))

    assert numbers_in(sink.log) == [*range(100)]


def test_abort_never_undoes_a_recorded_batch(sink: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    staged = [sink.task(0, events(range(90)))]
    interrupt(monkeypatch, 1, lambda: sink.commit(0, staged))
    sink.abort(staged)

    sink.write(0, events(range(90)))
    sink.abort(staged)

    assert numbers_in(sink.log) == [*range(90)]


def test_an_aborted_attempt_leaves_nothing(sink: Sink) -> None:
    staged = [sink.task(0, events(range(90))), sink.task(0, events(range(5)), 1)]
    sink.abort(staged)

    assert numbers_in(sink.log) == []
    assert sink.files() == []


def test_a_task_that_fails_leaves_nothing(sink: Sink) -> None:
    good = events(range(20_000)).to_pydict()
    good["payload"][-1] = "{no json"
    with pytest.raises(InvalidError, match="no JSON"):
        sink.task(0, pa.record_batch(good))

    assert sink.files() == []


def test_an_unfinished_batch_can_be_finished_without_its_query(
    sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupt(monkeypatch, 1, lambda: sink.write(0, events(range(90))))

    assert finish_all(sink.log, sink.folders()) == 1
    assert finish_all(sink.log, sink.folders()) == 0
    assert numbers_in(sink.log) == [*range(90)]


def test_a_damaged_staged_file_is_never_appended(
    sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    staged = sink.task(0, events(range(90)))
    path = Path(sink.folder.path_of(staged.names[0]))
    content = bytearray(path.read_bytes())
    interrupt(monkeypatch, 0, lambda: sink.commit(0, [staged]))
    content[staged.blocks[1].offset + 200] ^= 1
    path.write_bytes(content)

    with pytest.raises(CorruptError, match="staged rows"):
        sink.commit(0, [staged])
    content[staged.blocks[1].offset + 200] ^= 1
    path.write_bytes(content)
    sink.commit(0, [staged])

    assert numbers_in(sink.log) == [*range(90)]


def test_nothing_is_recorded_of_files_that_are_not_there(sink: Sink) -> None:
    staged = sink.task(0, events(range(9)))
    Path(sink.folder.path_of(staged.names[0])).unlink()

    with pytest.raises(InvalidError, match="run the batch again"):
        sink.commit(0, [staged])
    sink.write(0, events(range(9)))

    assert numbers_in(sink.log) == [*range(9)]


# --- other content ---


def test_other_content_raises_once_the_recorded_batch_is_there(
    sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupt(monkeypatch, 1, lambda: sink.write(7, events(range(90))))

    with pytest.raises(ConflictError, match="new checkpoint") as caught:
        sink.write(7, events(range(95)))

    assert numbers_in(sink.log) == [*range(90)]
    assert caught.value.fields["rows_written"] == 90
    assert caught.value.fields["rows_now"] == 95
    with pytest.raises(ConflictError):
        sink.write(7, events(range(95)))
    sink.write(7, events(range(90)))
    assert numbers_in(sink.log) == [*range(90)]


def test_one_changed_row_is_other_content(sink: Sink) -> None:
    sink.write(0, events(range(90)))

    with pytest.raises(ConflictError):
        sink.write(0, events([*range(89), 90]))
    with pytest.raises(ConflictError):
        sink.write(0, events([*range(89), 88]))
    with pytest.raises(ConflictError):
        sink.write(0, events(range(0)))


def test_the_same_rows_to_another_topic_are_other_content(sink: Sink) -> None:
    sink.log.create_topic("u")
    sink.write(0, events(range(9)))
    sink.topic = "u"

    with pytest.raises(ConflictError, match="a txnAppId for each topic"):
        sink.write(0, events(range(9)))


# --- sweeping and forgetting ---


def sweep_beside_an_unfinished_batch(sink: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    left = sink.task(0, events(range(90)))
    interrupt(monkeypatch, 1, lambda: sink.write(0, events(range(90))))
    running = sink.task(1, events(range(90, 99)))

    sweep(sink.folders())

    names = sink.files()
    assert left.names[0] not in names
    assert running.names[0] in names
    sink.commit(1, [running])
    assert numbers_in(sink.log) == [*range(99)]


def test_a_sweep_removes_what_failed_attempts_left_and_nothing_that_is_named(
    sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep_beside_an_unfinished_batch(sink, monkeypatch)


def test_a_sweep_that_removes_what_is_named_is_caught(
    sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    with flawed("a sweep removes what is named"), pytest.raises(AssertionError):
        sweep_beside_an_unfinished_batch(sink, monkeypatch)


def test_rows_that_were_not_recorded_are_swept_after_a_week(sink: Sink) -> None:
    sink.task(0, events(range(9)))
    Sink(sink.log, sink.url, app=f"{JOB_PREFIX}1").task(0, events(range(9)))
    sweep(sink.folders())
    assert len(sink.files()) == 1

    later = LaterClock()
    sweep(app_folders(own_staging(sink), clock=later))
    sweep(app_folders(own_staging(sink), clock=later))

    assert sink.files() == []
    assert len(os.listdir(own_staging(sink))) == 1


@pytest.mark.slow
def test_old_batches_are_dropped_and_never_taken_for_new(
    sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intents, "BATCHES_KEPT", 3)
    for version in range(10):
        sink.write(version, events([version]))

    assert len(sink.files()) <= 7
    with pytest.raises(InvalidError, match="older than those that are kept"):
        sink.write(0, events([0]))
    sink.write(9, events([9]))
    assert numbers_in(sink.log) == [*range(10)]


def test_a_write_without_a_name_leaves_nothing_behind(sink: Sink) -> None:
    sink.app = f"{JOB_PREFIX}1"
    sink.write(0, events(range(9)))

    assert not sink.folder.exists()


def test_a_write_without_a_name_that_another_finished_leaves_nothing_either(
    sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink.app = f"{JOB_PREFIX}1"
    interrupt(monkeypatch, 1, lambda: sink.write(0, events(range(90))))
    sweep(app_folders(own_staging(sink), clock=LaterClock()))

    assert finish_all(sink.log, sink.folders()) == 1
    assert numbers_in(sink.log) == [*range(90)]
    assert not sink.folder.exists()


def test_one_process_at_a_time_commits_for_an_app(sink: Sink) -> None:
    sink.write(0, events(range(9)))
    folder = sink.folder
    with folder.locked(), pytest.raises(UnavailableError), sink.folder.locked(0.01):
        pass


def test_a_damaged_record_of_a_batch_is_named(sink: Sink) -> None:
    sink.write(0, events(range(9)))
    path = Path(sink.folder.path_of("batch-0.done"))
    path.write_bytes(path.read_bytes()[:-3])

    with pytest.raises(CorruptError, match="damaged"):
        sink.write(0, events(range(9)))


def test_ids_of_any_kind_have_folders_of_their_own(tmp_path: Path) -> None:
    root = str(tmp_path)
    made = [AppFolder(root, app) for app in ("a", "A", "../a", "/", "é", "e\u0301", "a" * 5000)]
    for folder in made:
        folder.make()

    assert len({folder.path for folder in made}) == 7
    assert {os.path.dirname(folder.path) for folder in made} == {root}
    assert {each.app for each in app_folders(root)} == {folder.app for folder in made}
    assert Intents(made[0]).is_empty()


def test_a_progress_line_that_was_torn_does_not_count(tmp_path: Path) -> None:
    folder = AppFolder(str(tmp_path), "a")
    folder.make()
    progress = intents.Progress(folder, 0)
    progress.add([5, 9])
    path = Path(folder.path_of("batch-0.progress"))
    path.write_bytes(path.read_bytes()[:-4])

    again = intents.Progress(folder, 0)
    assert [step.end for step in again.steps] == [5]
    again.add([7])
    assert [step.end for step in intents.Progress(folder, 0).steps] == [5, 7]


# --- beside others ---


OTHER = """
import select, sys
import strandline as sl

with sl.open(sys.argv[1]) as log:
    print("ready", flush=True)
    n = 1000
    while not select.select([sys.stdin], [], [], 0)[0]:
        log.append("t", sl.Event("n", {"n": n}, key=f"k{n}"))
        n += 1
        print(n, flush=True)
"""


@pytest.mark.slow
def test_other_processes_write_between_and_nothing_is_lost(sink: Sink, url: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", OTHER, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdin is not None
        assert other.stdout.readline() == "ready\n"
        for version in range(10):
            sink.write(version, events(range(version * 20, version * 20 + 20)))
            # It has appended since.
            assert int(other.stdout.readline()) > 1000
        other.stdin.close()
        written = int(other.stdout.read().split()[-1])
    assert other.returncode == 0

    assert numbers_in(sink.log) == [*range(200), *range(1000, written)]
    offsets = [r.payload["n"] for p in range(3) for r in sink.log.read("t", p, 0)]
    firsts = [at for at, n in enumerate(offsets) if n < 1000]
    assert any(later - one > 1 for one, later in pairwise(firsts)), "they took turns"
