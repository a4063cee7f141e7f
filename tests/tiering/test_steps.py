"""Whatever happens between two steps, nothing is lost and the next run continues."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import strandline as sl
from strandline.tiering import CopiedSegment, SegmentCatalogue, sweep, tier
from strandline.tiering.segment import SegmentState, partition_of
from strandline.values import UnavailableError
from tests.tiering.faulty_store import CrashError, FaultyObjects, MemoryObjects
from tests.tiering.tiered import filled, move, opened


def check_whole(log: Any, records: list[sl.Record]) -> None:
    """Everything reads as before, and the catalogue, the store and the log agree."""
    assert list(log.read("t", 0, 0)) == records
    place = partition_of(log.topic("t"), 0)
    with SegmentCatalogue(log) as catalogue:
        catalogue.follow_all()
        listed = catalogue.segments(place)
    assert [each.state for each in listed] == [SegmentState.COPY_FINISHED] * len(listed)
    assert {each.name for each in listed} == set(log.objects.objects)
    edges = [(each.start, each.end) for each in listed]
    assert [start for start, _ in edges[1:]] == [end for _, end in edges[:-1]]
    assert (edges[0][0], edges[-1][1]) == (0, len(records))


def calls_of_a_run(tmp_path: Path) -> int:
    objects = FaultyObjects()
    with opened("memory", tmp_path, objects) as log:
        filled(log)
        move(log)
    return len(objects.calls)


@pytest.mark.slow
@pytest.mark.parametrize("is_after", [False, True])
@pytest.mark.parametrize("error", [lambda: UnavailableError("away"), CrashError])
def test_a_fault_at_any_call_of_the_store_is_made_good_by_the_next_run(
    tmp_path: Path, error: Callable[[], Exception], *, is_after: bool
) -> None:
    calls = calls_of_a_run(tmp_path)
    # A look at the store, a put and a get for each of three objects, a look for a table.
    assert calls == 9
    for number in range(1, calls + 1):
        objects = FaultyObjects()
        with opened("memory", tmp_path, objects) as log:
            records = filled(log)
            objects.fail_at, objects.is_after, objects.error = number, is_after, error

            with pytest.raises((UnavailableError, CrashError)):
                move(log)
            assert list(log.read("t", 0, 0)) == records
            report = move(log)

            assert report.evicted_records == 20
            check_whole(log, records)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["memory", "file"])
def test_a_crash_after_any_step_is_made_good_by_the_next_run(tmp_path: Path, backend: str) -> None:
    for number in range(6):
        folder = tmp_path / str(number)
        folder.mkdir()
        objects = MemoryObjects()
        with opened(backend, folder, objects) as log:
            records = filled(log)
            steps: list[Any] = []

            def crash(step: Any, steps: list[Any] = steps, number: int = number) -> None:
                steps.append(step)
                if len(steps) > number:
                    raise CrashError

            with pytest.raises(CrashError):
                move(log, progress=crash)
            assert list(log.read("t", 0, 0)) == records
            move(log)

            check_whole(log, records)


@pytest.mark.slow
def test_a_crash_between_an_announced_eviction_and_the_eviction_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened("file", tmp_path) as log:
        records = filled(log)

        def crash(*_: object) -> int:
            raise CrashError

        with monkeypatch.context() as patched:
            told = SegmentCatalogue.evict

            def evict(*args: Any, **options: Any) -> None:
                told(*args, **options)
                raise CrashError

            patched.setattr(SegmentCatalogue, "evict", evict)
            with pytest.raises(CrashError):
                move(log)
        assert log.evict("t", 0, 0) == 0
        move(log)

        assert log.evict("t", 0, 0) == 20
        check_whole(log, records)


@pytest.mark.parametrize("number", [1, 2, 3])
@pytest.mark.parametrize("is_after", [False, True])
def test_a_fault_while_copies_of_what_was_trimmed_are_deleted_is_made_good(
    tmp_path: Path, number: int, *, is_after: bool
) -> None:
    objects = FaultyObjects()
    with opened("memory", tmp_path, objects) as log:
        records = filled(log, 30)
        move(log)
        objects.calls.clear()
        objects.fail_at, objects.is_after = number, is_after

        assert log.trim("t", 0, 21).removed == 21  # The mark moves, whatever the store says.
        objects.fail_at = None
        move(log)

        assert list(log.read("t", 0, 21)) == records[21:]
        assert len(objects.objects) == 2


def test_a_torn_upload_is_found_and_made_good(tmp_path: Path) -> None:
    objects = FaultyObjects()
    with opened("file", tmp_path, objects) as log:
        records = filled(log)
        objects.torn = 100

        with pytest.raises(UnavailableError) as caught:
            move(log)
        assert "digest" in str(caught.value)
        assert log.evict("t", 0, 0) == 0
        objects.torn = None
        move(log)

        check_whole(log, records)


def test_orphans_are_found_and_removed_and_nothing_else(tmp_path: Path) -> None:
    objects = FaultyObjects()
    with opened("sqlite", tmp_path, objects) as log:
        records = filled(log)
        move(log)
        objects.objects[f"{log.id}/left/0/behind.parquet"] = b"?"
        objects.objects["another-log/0/object.parquet"] = b"?"

        assert sweep(log, objects) == 1
        assert "another-log/0/object.parquet" in objects.objects
        del objects.objects["another-log/0/object.parquet"]

        check_whole(log, records)


def test_a_stale_list_does_no_harm(tmp_path: Path) -> None:
    objects = FaultyObjects()
    with opened("sqlite", tmp_path, objects) as log:
        records = filled(log)
        objects.stale = []
        move(log)
        assert sweep(log, objects) == 0
        objects.stale = [*objects.objects, f"{log.id}/gone/long/ago.parquet"]
        sweep(log, objects)

        check_whole(log, records)


def test_sweeping_finishes_what_a_dropped_topic_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects = FaultyObjects()
    with opened("sqlite", tmp_path, objects) as log:
        filled(log)
        move(log)
        objects.calls.clear()
        objects.fail_at = 2
        log.drop_topic("t")
        assert objects.objects
        objects.fail_at = None

        sweep(log, objects)

        assert objects.objects == {}


def test_a_copy_that_another_version_began_is_begun_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects = FaultyObjects()
    objects.fail_at = 2  # The put.
    with opened("file", tmp_path, objects) as log:
        records = filled(log)
        with pytest.raises(UnavailableError):
            move(log)
        objects.fail_at = None
        monkeypatch.setattr("strandline.tiering.parquet.GROUP_ROWS", 3)

        report = move(log)

        assert report.deleted == 1
        check_whole(log, records)


def test_what_was_uploaded_is_finished_even_if_the_log_can_no_longer_make_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects = FaultyObjects()
    objects.fail_at = 3  # Uploaded, and not yet read back.
    with opened("file", tmp_path, objects) as log:
        records = filled(log)
        with pytest.raises(UnavailableError):
            move(log)
        objects.fail_at = None
        first = set(objects.objects)
        monkeypatch.setattr("strandline.tiering.parquet.GROUP_ROWS", 3)

        report = move(log)

        assert report.deleted == 0
        assert first < set(objects.objects)
        check_whole(log, records)


WRONG_URL = "http://127.0.0.1:9/wrong"


def test_a_store_that_does_not_answer_gets_no_step(tmp_path: Path) -> None:
    with opened("file", tmp_path) as log:
        records = filled(log)

        with pytest.raises(UnavailableError, match="check its URL"):
            tier(log, "t", WRONG_URL, include_open=True)

        assert segments_of(log) == []
        move(log)
        check_whole(log, records)


def test_a_copy_begun_in_a_store_that_is_gone_blocks_no_other_store(tmp_path: Path) -> None:
    gone = FaultyObjects(WRONG_URL)
    gone.fail_at, gone.is_after = 2, True  # Uploaded, and not yet read back.
    with opened("file", tmp_path) as log:
        filled(log)
        with pytest.raises(UnavailableError):
            tier(log, "t", gone, piece_records=7, include_open=True)

        report = move(log)

        assert (report.copied_records, report.evicted_records) == (20, 20)
        assert log.evict("t", 0, 0) == 20
        begun = [each for each in segments_of(log) if each.store == WRONG_URL]
        assert [each.state for each in begun] == [SegmentState.DELETE_STARTED]
        assert move(log).copied == 0
        log.erase("t", key="k1")

        # The store answers again.
        assert tier(log, "t", gone).deleted == 1
        assert gone.objects == {}
        check_whole(log, list(log.read("t", 0, 0)))


def test_trimmed_copies_in_a_store_that_is_gone_block_no_other_store(tmp_path: Path) -> None:
    gone = FaultyObjects(WRONG_URL)
    with sl.open(f"file:{tmp_path / 'log'}") as log:
        filled(log)
        tier(log, "t", gone, piece_records=7, include_open=True)
        log.trim("t", 0, 20, force=True)
        log.append("t", sl.Event("k", {"n": 20}))

        report = tier(log, "t", (tmp_path / "cold").as_uri(), include_open=True, local_bytes=0)

        assert report.evicted_records == 1
        assert tier(log, "t", gone).deleted == 3
        assert gone.objects == {}


def test_a_dropped_topic_in_a_store_that_is_gone_blocks_no_sweep(tmp_path: Path) -> None:
    gone, objects = FaultyObjects(WRONG_URL), MemoryObjects()
    with sl.open(f"file:{tmp_path / 'log'}") as log:
        filled(log, topic="gone")
        tier(log, "gone", gone, piece_records=7, include_open=True)
        log.drop_topic("gone")
        filled(log)
        tier(log, "t", objects, include_open=True)
        (name,) = objects.objects
        objects.put(f"{name[:-12]}0000.parquet", b"torn")

        assert sweep(log, objects) == 1

        assert list(objects.objects) == [name]
        sweep(log, gone)
        assert gone.objects == {}


def segments_of(log: sl.Log) -> list[CopiedSegment]:
    with SegmentCatalogue(log) as catalogue:
        catalogue.follow_all()
        return [each for place in catalogue.places() for each in catalogue.segments(place)]
