"""Small objects are merged into larger ones, and readers see the same records throughout."""

import itertools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

import strandline as sl
from strandline.log import Log
from strandline.stores.sqlite import SqliteStore
from strandline.testing import FakeClock
from strandline.tiering import SegmentCatalogue, TieringWorker, compact, sweep
from strandline.tiering.copying import read_piece
from strandline.tiering.segment import CopiedSegment, SegmentState, partition_of
from strandline.values import CorruptError, InvalidError, UnavailableError
from strandline.views import RefusedError
from tests.tiering.faulty_store import CrashError, FaultyObjects, MemoryObjects
from tests.tiering.test_catalogue import segment
from tests.tiering.test_together import await_condition
from tests.tiering.tiered import BACKENDS, LogOver, filled, move, opened, rows

MUCH = 1 << 30


def merged(log: LogOver, **options: Any) -> Any:
    """Merge everything into one object, and delete what was merged."""
    settings = {"compact_bytes": MUCH, "grace_s": 0, **options}
    return compact(log, "t", log.objects, **settings)


def listed(log: Log) -> list[CopiedSegment]:
    place = partition_of(log.topic("t"), 0)
    with SegmentCatalogue(log) as catalogue:
        catalogue.follow_all()
        return list(catalogue.segments(place))


def check_merged(log: LogOver, records: list[sl.Record]) -> None:
    """One object holds everything, the catalogue and the store agree, and reads are as before."""
    assert list(log.read("t", 0, 0)) == records
    (only,) = listed(log)
    assert (only.start, only.end, only.state) == (0, len(records), SegmentState.COPY_FINISHED)
    assert [only.name] == [*log.objects.list("")]


# --- merging ---


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("is_evicted", [True, False])
def test_merged_objects_read_as_before(tmp_path: Path, backend: str, *, is_evicted: bool) -> None:
    with opened(backend, tmp_path) as log:
        records = filled(log)
        move(log, local_bytes=0 if is_evicted else None)
        before, parts = rows(log), rows(log, 5, 16)

        report = merged(log)

        assert (report.merged, report.deleted, report.copied) == (3, 3, 0)
        check_merged(log, records)
        assert rows(log) == before
        assert rows(log, 5, 16) == parts
        assert move(log).copied == 0
        assert merged(log).merged == 0


def test_the_proof_continues_through_merged_objects(tmp_path: Path) -> None:
    with opened("file", tmp_path) as log:
        log.create_topic("t", proof=True)
        log.append_many("t", [sl.Event("k", {"n": n}) for n in range(20)])
        records = list(log.read("t", 0, 0))
        move(log)

        merged(log)

        check_merged(log, records)
        assert log.verify("t")[0].is_sound


def test_batches_are_merged_as_far_as_one_object_has_columns_for_them(tmp_path: Path) -> None:
    narrow = pa.record_batch({"a": pa.array([1, 2], pa.int64())})
    wide = pa.record_batch({"a": pa.array([3], pa.int64()), "b": ["x"]})
    other = pa.record_batch({"z": [1.5]})
    with opened("sqlite", tmp_path) as log:
        log.create_topic("t", value_kind="batch")
        for value in (narrow, narrow, wide, wide, other, other, other):
            log.append("t", value)
        before = [record.value for record in log.read("t", 0, 0)]
        move(log, piece_records=1)
        assert len(listed(log)) == 7

        merged(log)

        assert [(each.start, each.end) for each in listed(log)] == [(0, 4), (4, 7)]
        assert [record.value for record in log.read("t", 0, 0)] == before


def test_batches_that_are_packed_are_not_merged_with_others(tmp_path: Path) -> None:
    plain = pa.record_batch({"a": pa.array([1, 2], pa.int64())})
    packed = pa.record_batch({"a": pa.array([1], pa.int64()), "packed": ["x"]})
    with opened("sqlite", tmp_path) as log:
        log.create_topic("t", value_kind="batch")
        for value in (plain, plain, packed, packed):
            log.append("t", value)
        before = [record.value for record in log.read("t", 0, 0)]
        move(log, piece_records=1)

        merged(log)

        assert [(each.start, each.end) for each in listed(log)] == [(0, 2), (2, 4)]
        assert [record.value for record in log.read("t", 0, 0)] == before


def test_what_was_merged_is_deleted_after_the_grace_and_not_before(tmp_path: Path) -> None:
    clock = FakeClock()
    with opened("memory", tmp_path) as log:
        records = filled(log)
        move(log, clock=clock)
        held = {each.name: log.objects.get(each.name) for each in listed(log)}

        merged(log, grace_s=600, clock=clock)
        clock.advance(599)
        assert move(log, grace_s=600, clock=clock).deleted == 0
        assert {name: log.objects.get(name) for name in held} == held
        assert len(log.segments("t", 0)) == 1  # New readers have the merged one.
        clock.advance(2)
        assert move(log, grace_s=600, clock=clock).deleted == 3

        check_merged(log, records)


def test_a_reader_that_holds_a_merged_object_continues(tmp_path: Path) -> None:
    with opened("memory", tmp_path) as log:
        records = filled(log)
        move(log, piece_records=2)  # More objects than a reader keeps.
        reading, batches = log.read("t", 0, 0), iter(log.read_batches("t", 0, 0))
        seen = list(itertools.islice(reading, 3))
        first = next(batches)

        merged(log)

        assert seen + list(reading) == records
        offsets = [*first["_offset"].to_pylist()]
        offsets += [n for batch in batches for n in batch["_offset"].to_pylist()]
        assert offsets == list(range(20))


def test_what_was_trimmed_goes_with_its_merged_object(tmp_path: Path) -> None:
    with opened("memory", tmp_path) as log:
        records = filled(log)
        move(log)
        log.trim("t", 0, 7)

        merged(log)

        assert [(each.start, each.end) for each in listed(log)] == [(7, 20)]
        assert list(log.read("t", 0, 7)) == records[7:]
        log.trim("t", 0, 20)
        assert listed(log) == []
        assert [*log.objects.list("")] == []


def test_a_log_that_reads_no_tier_refuses_to_merge(tmp_path: Path) -> None:
    with opened("sqlite", tmp_path) as log:
        filled(log)
        move(log)
        with Log(SqliteStore(str(tmp_path / "log.db"))) as bare, pytest.raises(InvalidError):
            compact(bare, "t", log.objects)


@pytest.mark.parametrize("options", [{"compact_bytes": 0}, {"grace_s": -1}])
def test_merging_refuses_what_makes_no_sense(tmp_path: Path, options: dict[str, Any]) -> None:
    with opened("memory", tmp_path) as log:
        filled(log)
        with pytest.raises(InvalidError):
            merged(log, **options)


def _is_evicted(log: Log, end: int) -> bool:
    return log.evict("t", 0, 0) == end


def test_a_worker_merges_what_it_copies(tmp_path: Path) -> None:
    with opened("sqlite", tmp_path) as log:
        filled(log)
        kept: dict[str, Any] = {
            "include_open": True,
            "local_bytes": 0,
            "compact_bytes": MUCH,
            "grace_s": 0,
        }
        with TieringWorker(log, ["t"], log.objects, interval_s=0.01, **kept) as worker:
            for end in range(21, 30):
                log.append("t", sl.Event("k", {"n": end}))
                await_condition(partial(_is_evicted, log, end))
            await_condition(lambda: worker.report.merged > 4)

        assert len(list(log.read("t", 0, 0))) == 29
        assert len(listed(log)) < 6
        assert worker.fault is None


# --- faults ---


def calls_of_a_merge(folder: Path) -> int:
    objects = FaultyObjects()
    with opened("memory", folder, objects) as log:
        filled(log)
        move(log)
        objects.calls.clear()
        merged(log)
    return len(objects.calls)


@pytest.mark.slow
@pytest.mark.parametrize("is_after", [False, True])
@pytest.mark.parametrize("error", [lambda: UnavailableError("away"), CrashError])
def test_a_fault_at_any_call_of_a_merge_is_made_good_by_the_next(
    tmp_path: Path, error: Callable[[], Exception], *, is_after: bool
) -> None:
    calls = calls_of_a_merge(tmp_path)
    assert calls > 8
    for number in range(1, calls + 1):
        objects = FaultyObjects()
        with opened("memory", tmp_path, objects) as log:
            records = filled(log)
            move(log)
            objects.calls.clear()
            objects.fail_at, objects.is_after, objects.error = number, is_after, error

            with pytest.raises((UnavailableError, CrashError)):
                merged(log)
            objects.fail_at = None
            assert list(log.read("t", 0, 0)) == records
            merged(log)

            check_merged(log, records)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["memory", "file"])
def test_a_crash_after_any_step_of_a_merge_is_made_good(tmp_path: Path, backend: str) -> None:
    for number in itertools.count():
        folder = tmp_path / str(number)
        folder.mkdir()
        with opened(backend, folder) as log:
            records = filled(log)
            move(log)
            steps: list[Any] = []

            def crash(step: Any, steps: list[Any] = steps, number: int = number) -> None:
                steps.append(step)
                if len(steps) > number:
                    raise CrashError

            try:
                merged(log, progress=crash)
            except CrashError:
                assert list(log.read("t", 0, 0)) == records
            else:
                break
            merged(log)
            check_merged(log, records)
    assert number == 5  # Two steps of the copy, and three deletions.


def test_a_torn_merged_object_replaces_nothing(tmp_path: Path) -> None:
    objects = FaultyObjects()
    with opened("file", tmp_path, objects) as log:
        records = filled(log)
        move(log)
        objects.torn = 100

        with pytest.raises(UnavailableError, match="digest"):
            merged(log)
        assert list(log.read("t", 0, 0)) == records
        objects.torn = None
        merged(log)

        check_merged(log, records)


def test_nothing_is_merged_from_an_object_that_is_damaged(tmp_path: Path) -> None:
    objects = MemoryObjects()
    with opened("memory", tmp_path, objects) as log:
        filled(log)
        move(log)
        name = listed(log)[1].name
        objects.objects[name] = objects.objects[name][:-20] + bytes(20)

        with pytest.raises(CorruptError):
            merged(log)

        assert len(listed(log)) == 3


def test_a_merged_object_that_is_lost_within_the_grace_gives_way_to_what_it_was_made_of(
    tmp_path: Path,
) -> None:
    objects = MemoryObjects()
    with opened("memory", tmp_path, objects) as log:
        records = filled(log)
        move(log)
        merged(log, grace_s=600)
        (large,) = [each for each in listed(log) if each.merges]
        del objects.objects[large.name]

        with SegmentCatalogue(log) as catalogue:
            catalogue.follow_all()
            catalogue.change(large, SegmentState.DELETE_STARTED)

        assert list(log.read("t", 0, 0)) == records
        merged(log)
        check_merged(log, records)


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_several_that_merge_at_once_merge_each_object_once(tmp_path: Path, backend: str) -> None:
    with opened(backend, tmp_path) as log:
        records = filled(log, 60)

        def work(number: int) -> None:
            for _ in range(3):
                move(log, compact_bytes=(10_000, MUCH)[number % 2], grace_s=0)

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(work, range(4)))
        merged(log)
        sweep(log, log.objects)

        check_merged(log, records)


# --- erasing ---


def keys_of(log: Log) -> set[str | None]:
    return {record.key for record in log.read("t", 0, 0)}


def test_what_is_erased_during_a_merge_does_not_come_back(tmp_path: Path) -> None:
    objects = FaultyObjects()
    with opened("sqlite", tmp_path, objects) as log:
        filled(log)
        move(log)

        def erase(step: Any) -> None:
            if step.state is SegmentState.COPY_STARTED:
                log.erase("t", key="k1")

        merged(log, progress=erase)
        assert keys_of(log) == {"k0", "k2", None}
        merged(log)

        assert keys_of(log) == {"k0", "k2", None}
        assert not any(b"k1" in content for content in _decoded(objects))


def test_erasing_does_not_wait_for_the_grace(tmp_path: Path) -> None:
    objects = MemoryObjects()
    with opened("sqlite", tmp_path, objects) as log:
        filled(log)
        move(log)
        merged(log, grace_s=600)
        assert len(objects.objects) == 4

        log.erase("t", key="k1")

        assert len(objects.objects) == 1
        assert keys_of(log) == {"k0", "k2", None}
        assert not any(b"k1" in content for content in _decoded(objects))


def _decoded(objects: MemoryObjects) -> list[bytes]:
    import pyarrow.parquet as pq  # noqa: PLC0415 - Takes long to import.

    return [
        repr(pq.read_table(pa.BufferReader(content)).column("_key").to_pylist()).encode()
        for content in objects.objects.values()
    ]


# --- the catalogue's rules ---


def test_only_finished_copies_that_follow_each_other_are_merged(tmp_path: Path) -> None:
    with opened("memory", tmp_path) as log:
        filled(log)
        move(log)
        first, second, third = listed(log)
        with SegmentCatalogue(log) as catalogue:
            catalogue.follow_all()

            def begun(start: int, end: int, *merges: CopiedSegment) -> CopiedSegment:
                copy = segment(
                    start, end, place=first.place, merges=tuple(each.id for each in merges)
                )
                catalogue.add(copy)
                return copy

            for start, end, merges in (
                (0, 20, (first, third)),
                (0, 20, (second, first, third)),
                (0, 19, (first, second, third)),
                (0, 20, (first, second)),
                (0, 20, (first, second, segment(14, 20))),
            ):
                with pytest.raises(RefusedError):
                    begun(start, end, *merges)
            large = begun(0, 14, first, second)
            with pytest.raises(RefusedError):
                begun(7, 20, second, third)
            catalogue.change(second, SegmentState.DELETE_STARTED, low=14)
            with pytest.raises(RefusedError):
                catalogue.change(large, SegmentState.COPY_FINISHED)


def test_a_process_that_knows_nothing_of_a_merge_copies_nothing_again(tmp_path: Path) -> None:
    with opened("memory", tmp_path) as log:
        records = filled(log)
        move(log)
        first, second, _ = listed(log)
        merged(log)

        with SegmentCatalogue(log) as catalogue:
            catalogue.follow_all()
            for start, end in ((0, 7), (7, 14), (3, 20)):
                with pytest.raises(RefusedError):
                    catalogue.add(segment(start, end, place=first.place))
            catalogue.add(segment(14, 30, place=second.place))
            assert list(log.read("t", 0, 0)) == records


def test_the_saved_catalogue_knows_what_was_merged(tmp_path: Path) -> None:
    with opened("file", tmp_path) as log:
        records = filled(log)
        move(log)
        merged(log, grace_s=600)
        path = tmp_path / "catalogue"
        with SegmentCatalogue(log, snapshot=path) as catalogue:
            catalogue.follow_all()
            place = catalogue.places()[0]
            before = catalogue.current(place), catalogue.merged(place)

        with SegmentCatalogue(log, snapshot=path) as again:
            again.follow_all()
            after = again.current(place), again.merged(place)

        assert before == after
        assert [len(each) for each in after] == [1, 3]
        assert list(log.read("t", 0, 0)) == records


def test_copies_that_overlap_are_merged_whatever_their_size(tmp_path: Path) -> None:
    with opened("memory", tmp_path) as log:
        records = filled(log)
        move(log, local_bytes=None)
        first = listed(log)[0]
        piece = read_piece(log, first.place, 12, 17)
        with SegmentCatalogue(log) as catalogue:
            catalogue.follow_all()
            between = segment(12, 17, place=first.place, digest=piece.digest)
            between = msgspec.structs.replace(
                between, store=first.store, name=f"{first.name}-between"
            )
            catalogue.add(between)
            log.objects.put(between.name, piece.content)
            catalogue.change(between, SegmentState.COPY_FINISHED)

        merged(log)

        check_merged(log, records)


def test_merged_objects_are_merged_again(tmp_path: Path) -> None:
    with opened("memory", tmp_path) as log:
        log.create_topic("t")
        for number in range(40):
            log.append("t", sl.Event("k", {"n": number}))
            move(log, compact_bytes=MUCH, grace_s=600)

        records = list(log.read("t", 0, 0))
        assert [record.payload["n"] for record in records] == list(range(40))
        assert len(log.segments("t", 0)) <= 6
        merged(log, compact_bytes=1)
        assert len(listed(log)) == len(log.segments("t", 0))
        assert list(log.read("t", 0, 0)) == records
