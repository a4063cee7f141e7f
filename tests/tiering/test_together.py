"""Tierers, readers, writers and trims at once."""

import itertools
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import strandline as sl
from strandline.clock import SystemClock
from strandline.log import Log
from strandline.testing import FakeClock
from strandline.tiering import SegmentCatalogue, TieringWorker, sweep, tier
from strandline.tiering.removal import retire
from strandline.tiering.segment import CopiedSegment, SegmentState, partition_of
from strandline.tiering.tiering_run import TieringRun
from strandline.values import InvalidError, TrimmedError, UnavailableError
from strandline.views import RefusedError
from tests.tiering.faulty_store import FaultyObjects, MemoryObjects
from tests.tiering.test_steps import check_whole
from tests.tiering.tiered import BACKENDS, filled, move, opened


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_several_tierers_make_one_copy_of_each_run(tmp_path: Path, backend: str) -> None:
    objects = MemoryObjects()
    with opened(backend, tmp_path, objects) as log:
        records = filled(log, 60)

        with ThreadPoolExecutor(4) as pool:
            reports = list(pool.map(lambda _: move(log), range(4)))

        assert sum(report.evicted_records for report in reports) >= 60
        check_whole(log, records)


def test_a_run_that_grew_between_two_tierers_is_copied_once(tmp_path: Path) -> None:
    objects = MemoryObjects()
    with opened("file", tmp_path, objects) as log, SegmentCatalogue(log) as catalogue:
        filled(log, 3)
        place = partition_of(log.topic("t"), 0)
        catalogue.follow([place])
        one, other = (TieringRun(log, objects, catalogue, None, SystemClock()) for _ in range(2))
        (few,) = one.runs(place, 100, include_open=True)
        log.append_many("t", [sl.Event("k", number) for number in (3, 4)])
        (more,) = other.runs(place, 100, include_open=True)

        one.copy_run(place, few)
        other.copy_run(place, more)

        catalogue.refresh()
        assert [(each.start, each.end) for each in catalogue.current(place)] == [(0, 3)]
        other.copy(place, 100, include_open=True)
        catalogue.refresh()
        assert [(each.start, each.end) for each in catalogue.current(place)] == [(0, 3), (3, 5)]


class InterruptedCatalogue(SegmentCatalogue):
    """Calls back before a copy is said to be finished, and after that was refused."""

    before: Callable[[], object] = staticmethod(lambda: None)
    refused: Callable[[], object] = staticmethod(lambda: None)

    def change(self, segment: CopiedSegment, state: SegmentState, **options: Any) -> None:
        if state is SegmentState.COPY_FINISHED:
            self.before()
        try:
            super().change(segment, state, **options)
        except RefusedError:
            if state is SegmentState.COPY_FINISHED:
                self.refused()
            raise


class InterruptedObjects(MemoryObjects):
    """Calls back once an object was put."""

    after_put: Callable[[], object] = staticmethod(lambda: None)

    def put(self, name: str, content: bytes) -> str | None:
        note = super().put(name, content)
        self.after_put()
        return note


@contextmanager
def two_tierers(folder: Path) -> Iterator["TwoTierers"]:
    objects = InterruptedObjects()
    with (
        opened("file", folder, objects) as log,
        InterruptedCatalogue(log) as late,
        SegmentCatalogue(log) as catalogue,
    ):
        yield TwoTierers(log, late, catalogue, objects)


class TwoTierers:
    """One has planned to copy five records, another the first three of them."""

    def __init__(
        self, log: Log, late: InterruptedCatalogue, catalogue: SegmentCatalogue, objects: Any
    ) -> None:
        self.log, self.late, self.catalogue, self.objects = log, late, catalogue, objects
        filled(log, 3)
        self.place = partition_of(log.topic("t"), 0)
        self.slow, self.quick = (
            TieringRun(log, objects, each, None, SystemClock()) for each in (late, catalogue)
        )
        for each in (late, catalogue):
            each.follow([self.place])
        (self.few,) = self.quick.runs(self.place, 100, include_open=True)
        log.append_many("t", [sl.Event("k", number) for number in (3, 4)])
        (self.more,) = self.slow.runs(self.place, 100, include_open=True)

    def copied(self) -> list[tuple[int, int]]:
        self.catalogue.refresh()
        return [(each.start, each.end) for each in self.catalogue.current(self.place)]

    def delete_begun(self) -> None:
        """Delete the copy that was begun, as of records that are trimmed."""
        self.catalogue.refresh()
        begun = self.catalogue.segments(self.place)
        retire(self.log, self.catalogue, begun, {self.place: 0}, lambda _: self.objects)

    def finish_and_evict(self) -> None:
        """Delete the one finished copy, as if it were damaged; then finish the other."""
        damaged = self.catalogue.current(self.place)
        retire(self.log, self.catalogue, damaged, {self.place: 0}, lambda _: self.objects)
        self.quick.settle([self.place])
        self.quick.evict(self.place, None, 0)


def test_a_copy_is_not_finished_after_one_that_was_finished_a_moment_ago(tmp_path: Path) -> None:
    with two_tierers(tmp_path) as both:
        both.late.before = lambda: both.quick.copy_run(both.place, both.few)

        both.slow.copy_run(both.place, both.more)

        assert both.copied() == [(0, 3)]
        assert len(both.catalogue.segments(both.place)) == 1


def test_a_refused_copy_that_another_process_finishes_is_kept(tmp_path: Path) -> None:
    with two_tierers(tmp_path) as both:
        records = list(both.log.read("t", 0, 0))
        both.quick.copy_run(both.place, both.few)
        both.late.refused = both.finish_and_evict

        both.slow.copy_run(both.place, both.more)

        assert both.copied() == [(0, 5)]
        assert list(both.log.read("t", 0, 0)) == records


def test_a_copy_that_is_deleted_as_it_is_put_is_left_alone(tmp_path: Path) -> None:
    with two_tierers(tmp_path) as both:
        records = list(both.log.read("t", 0, 0))
        both.objects.after_put = both.delete_begun

        both.slow.copy_run(both.place, both.more)

        assert both.copied() == []
        assert both.objects.list("") == []
        assert list(both.log.read("t", 0, 0)) == records


def test_a_copy_that_the_store_did_not_keep_is_an_error(tmp_path: Path) -> None:
    with two_tierers(tmp_path) as both:
        both.objects.after_put = both.objects.objects.clear

        with pytest.raises(UnavailableError, match="did not keep"):
            both.slow.copy_run(both.place, both.more)


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_readers_see_every_record_while_they_are_moved(tmp_path: Path, backend: str) -> None:
    with opened(backend, tmp_path) as log:
        log.create_topic("t")
        total, page = 2000, 50
        done = threading.Event()

        def write() -> None:
            for at in range(0, total, page):
                log.append_many("t", [sl.Event("k", n) for n in range(at, at + page)])

        def shift() -> None:
            while not done.is_set():
                move(log, piece_records=300)
            move(log, piece_records=300)

        def follow() -> list[Any]:
            with log.subscribe("t") as subscription:
                records = itertools.islice(subscription, total)
                return [(record.offset, record.payload) for record in records]

        def replay() -> None:
            while not done.is_set():
                offsets = [record.offset for record in log.read("t", 0, 0)]
                assert offsets == list(range(len(offsets)))
                rows = [n for b in log.read_batches("t", 0, 0) for n in b["_offset"].to_pylist()]
                assert rows == list(range(len(rows)))

        with ThreadPoolExecutor(6) as pool:
            following = [pool.submit(follow) for _ in range(2)]
            others = [pool.submit(work) for work in (shift, replay)]
            writing = pool.submit(write)
            writing.result(60)
            seen = [each.result(60) for each in following]
            done.set()
            for each in others:
                each.result(60)

        assert seen == [[(n, n) for n in range(total)]] * 2
        assert log.evict("t", 0, 0) == total


def test_threads_that_read_one_object_at_once_read_the_same(tmp_path: Path) -> None:
    with opened("sqlite", tmp_path) as log:
        records = filled(log, 60)
        move(log, piece_records=60)

        def read(_: int) -> None:
            for _ in range(500):
                found = log.read_batches("t", 0, 0)
                assert sum(batch.num_rows for batch in found) == len(records)

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(read, range(4)))


@pytest.mark.slow
def test_trims_beside_tiering_leave_exactly_what_is_kept(tmp_path: Path) -> None:
    objects = MemoryObjects()
    with opened("file", tmp_path, objects) as log:
        records = filled(log, 200)

        def trim() -> None:
            for before in range(10, 150, 20):
                log.trim("t", 0, before)

        def shift() -> None:
            for _ in range(4):
                move(log)

        def read() -> None:
            for _ in range(30):
                low = log.marks("t", 0).low
                try:
                    found = list(log.read("t", 0, low))
                except TrimmedError:
                    continue
                assert found == records[low:]

        with ThreadPoolExecutor(3) as pool:
            for running in [pool.submit(work) for work in (trim, shift, read)]:
                running.result(60)
        move(log)
        sweep(log, objects)

        assert list(log.read("t", 0, 130)) == records[130:]
        assert all(int(name.split("/")[-1].split("-")[1]) > 130 for name in objects.objects)


# --- the worker ---


def test_a_worker_moves_topics_until_it_is_closed(tmp_path: Path) -> None:
    with opened("sqlite", tmp_path) as log:
        records = filled(log)
        objects: Any = log.objects

        with TieringWorker(
            log, ["t"], objects, interval_s=0.01, include_open=True, local_bytes=0
        ) as worker:
            await_condition(lambda: log.evict("t", 0, 0) == 20)
            log.append("t", sl.Event("k", {"n": 20}))
            await_condition(lambda: log.evict("t", 0, 0) == 21)
            await_condition(lambda: worker.report.evicted_records == 21)

        assert list(log.read("t", 0, 0))[:20] == records
        assert worker.fault is None


def test_a_worker_continues_after_a_fault_of_the_store(tmp_path: Path) -> None:
    objects = FaultyObjects()
    objects.fail_at = 1
    with opened("sqlite", tmp_path, objects) as log:
        filled(log)
        with TieringWorker(
            log, ["t"], objects, interval_s=0.01, include_open=True, local_bytes=0
        ) as worker:
            await_condition(lambda: log.evict("t", 0, 0) == 20)
            await_condition(lambda: worker.fault is None)


def test_a_fault_of_one_topic_is_not_hidden_by_the_success_of_another(tmp_path: Path) -> None:
    with opened("memory", tmp_path) as log:
        filled(log)
        objects: Any = log.objects
        with TieringWorker(
            log, ["gone", "t"], objects, interval_s=0.01, include_open=True, local_bytes=0
        ) as worker:
            await_condition(lambda: worker.report.evicted_records == 20)
            assert isinstance(worker.fault, InvalidError)
            log.create_topic("gone")
            await_condition(lambda: worker.fault is None)


def _has_evicted(worker: TieringWorker, count: int) -> bool:
    return worker.report.evicted_records == count


def test_a_fault_that_stays_is_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with opened("memory", tmp_path) as log:
        filled(log)
        objects: Any = log.objects
        with TieringWorker(
            log, ["gone", "t"], objects, interval_s=0.01, include_open=True, local_bytes=0
        ) as worker:
            for count in (20, 21, 22):
                await_condition(partial(_has_evicted, worker, count))
                log.append("t", sl.Event("later"))

    assert [each.message.partition(":")[0] for each in caplog.records] == [
        "tiering of gone failed and is tried again"
    ]


def test_a_worker_waits_as_its_rate_wants(tmp_path: Path) -> None:
    clock = FakeClock()
    objects = MemoryObjects()
    with opened("memory", tmp_path, objects) as log:
        filled(log)
        with TieringWorker(
            log, ["t"], objects, piece_records=5, bytes_per_s=100, clock=clock
        ) as worker:
            await_condition(lambda: len(objects.objects) == 1)
            size = len(next(iter(objects.objects.values())))
            passed_s = itertools.count()

            def is_next_there() -> bool:
                clock.advance(1)
                next(passed_s)
                return len(objects.objects) > 1

            # Others wait on this clock, too: nothing tells when the worker has begun to.
            await_condition(is_next_there, 60.0)
            assert next(passed_s) >= size / 100
            worker.close()


@pytest.mark.parametrize("options", [{"interval_s": 0}, {"bytes_per_s": 0}])
def test_a_worker_refuses_what_makes_no_sense(tmp_path: Path, options: dict[str, Any]) -> None:
    with opened("memory", tmp_path) as log, pytest.raises(InvalidError):
        TieringWorker(log, [], MemoryObjects(), **options)


def test_local_limits_keep_what_they_say(tmp_path: Path) -> None:
    with opened("memory", tmp_path) as log:
        filled(log, 20)
        objects: Any = log.objects
        kept: dict[str, Any] = {"piece_records": 5, "include_open": True}
        assert tier(log, "t", objects, **kept).evicted_records == 0
        half = log.describe_topic("t").size_bytes // 2 + 10

        assert tier(log, "t", objects, local_bytes=half, **kept).evicted_records == 10
        assert tier(log, "t", objects, local_age_s=3600, **kept).evicted_records == 0
        later = FakeClock(now_us=log.segments("t", 0)[-1].last_timestamp_us + 3_601_000_000)
        assert tier(log, "t", objects, local_age_s=3600, clock=later, **kept).evicted_records == 10


def await_condition(condition: Callable[[], bool], busy_timeout_s: float = 30.0) -> None:
    ended = threading.Event()
    for _ in range(int(busy_timeout_s * 200)):
        if condition():
            return
        ended.wait(0.005)
    raise AssertionError("it did not come to that")
