"""What folding the catalogue costs grows with the number of steps, and is paid once."""

import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import strandline as sl
from strandline.tiering import sweep
from strandline.tiering.catalogue import SNAPSHOT_NAME
from strandline.tiering.partition_copies import PartitionCopies
from strandline.tiering.segment import (
    CopiedSegment,
    PartitionEviction,
    SegmentChange,
    SegmentState,
    Step,
    step_of,
)
from strandline.tiering.segment_view import CatalogueState, SegmentView, take
from strandline.values.internal_topics import SEGMENTS_TOPIC
from strandline.views import load_snapshot
from tests.tiering.faulty_store import MemoryObjects
from tests.tiering.test_catalogue import PLACE, segment
from tests.tiering.tiered import filled, move, opened

TIMES = 4
"""How much more there is the second time."""
GROWTH_MAX = 5.0
"""Linear is TIMES; the search for a place among the copies adds a little."""


def steps_of(copies: int) -> Iterator[Step]:
    """Yield the steps of so many copies of one partition: copied, evicted, half of them deleted."""
    made: list[CopiedSegment] = []
    for number in range(copies):
        made.append(segment(number * 10, number * 10 + 10))
        yield made[-1]
        yield changed(made[-1], SegmentState.COPY_FINISHED)
        yield PartitionEviction(
            place=PLACE, start=number * 10, before=number * 10 + 10, changed_at_us=1
        )
        if number % 2:
            oldest = made.pop(0)
            yield changed(oldest, SegmentState.DELETE_STARTED, low=oldest.end)
            yield changed(oldest, SegmentState.DELETE_FINISHED)


def changed(made: CopiedSegment, state: SegmentState, low: int = 0) -> SegmentChange:
    return SegmentChange(id=made.id, place=PLACE, state=state, changed_at_us=1, low=low)


def lines_of(work: Callable[[], object]) -> int:
    """Return how many lines of Python the work executes."""
    count = 0

    def trace(_frame: FrameType, event: str, _arg: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def cost_of_folding(copies: int) -> int:
    steps, state = list(steps_of(copies)), CatalogueState()

    def fold() -> None:
        for step in steps:
            take(state, step)

    return lines_of(fold)


@pytest.mark.slow
def test_folding_four_times_the_copies_takes_about_four_times_the_work() -> None:
    small, large = cost_of_folding(100), cost_of_folding(100 * TIMES)

    assert large / small < GROWTH_MAX


@pytest.mark.slow
def test_a_search_through_all_copies_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = PartitionCopies.live

    def live(copies: Any, start: int, end: int) -> Any:
        for each in copies.segments.values():
            assert each.end
        return sound(copies, start, end)

    monkeypatch.setattr(PartitionCopies, "live", live)

    with pytest.raises(AssertionError):
        test_folding_four_times_the_copies_takes_about_four_times_the_work()


class Reads:
    """Counts the records of the catalogue that are read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        sound = step_of

        def counted(*given: Any) -> Step:
            self.count += 1
            return sound(*given)

        monkeypatch.setattr("strandline.tiering.segment_view.step_of", counted)
        monkeypatch.setattr("strandline.tiering.cold_segments.step_of", counted)

    def during(self, work: Callable[[], object]) -> int:
        before = self.count
        work()
        return self.count - before


@pytest.fixture
def moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, MemoryObjects, int]:
    """A log whose catalogue was saved, and how many steps it has."""
    monkeypatch.setattr("strandline.tiering.catalogue.SNAPSHOT_STEPS", 1)
    objects = MemoryObjects()
    with opened("file", tmp_path, objects) as log:
        filled(log)
        move(log, piece_records=1)
        steps = sum(log.marks(SEGMENTS_TOPIC, number).high for number in range(8))
    return tmp_path, objects, steps


def whole(folder: Path, objects: MemoryObjects) -> None:
    with opened("file", folder, objects) as log:
        assert [record.payload["n"] for record in log.read("t", 0, 0)] == list(range(20))


@pytest.mark.slow
def test_a_reader_continues_from_the_snapshot_that_a_run_of_tiering_saved(
    moved: tuple[Path, MemoryObjects, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, objects, steps = moved
    reads = Reads(monkeypatch)

    assert reads.during(lambda: whole(folder, objects)) == 0

    (folder / "log" / SNAPSHOT_NAME).unlink()
    assert reads.during(lambda: whole(folder, objects)) == steps


@pytest.mark.slow
def test_a_snapshot_that_is_damaged_or_of_another_log_is_not_used(
    moved: tuple[Path, MemoryObjects, int],
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder, objects, steps = moved
    path = folder / "log" / SNAPSHOT_NAME
    sound = path.read_bytes()
    reads = Reads(monkeypatch)
    other = tmp_path_factory.mktemp("other")
    with opened("file", other) as log:
        filled(log)
        move(log)

    flipped = bytearray(sound)
    flipped[len(sound) // 2] ^= 1
    foreign = (other / "log" / SNAPSHOT_NAME).read_bytes()
    for damaged in (bytes(flipped), sound[:-1], b"", foreign):
        path.write_bytes(damaged)

        assert reads.during(lambda: whole(folder, objects)) == steps

    with opened("file", folder, objects) as log:
        assert sweep(log, objects) == 0  # And the next run writes a sound one.
    assert reads.during(lambda: whole(folder, objects)) == 0


@pytest.mark.slow
def test_a_snapshot_of_steps_that_the_log_has_lost_is_not_used(
    moved: tuple[Path, MemoryObjects, int], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder, objects, _ = moved
    with opened("file", folder, objects) as log:
        log.append_many("t", [sl.Event("k", {"n": n}) for n in range(20, 30)])
        older = (folder / "log" / SNAPSHOT_NAME).read_bytes()
    backup = tmp_path / "backup"
    shutil.copytree(folder / "log", backup)
    with opened("file", folder, objects) as log:
        move(log, piece_records=1)
    newer = (folder / "log" / SNAPSHOT_NAME).read_bytes()
    assert newer != older

    shutil.copytree(backup, folder / "restored" / "log")
    (folder / "restored" / "log" / SNAPSHOT_NAME).write_bytes(newer)

    with opened("file", folder / "restored", objects) as log:
        assert [record.payload["n"] for record in log.read("t", 0, 0)] == list(range(30))


@pytest.mark.slow
def test_the_saved_catalogue_can_be_inspected(moved: tuple[Path, MemoryObjects, int]) -> None:
    folder, objects, _ = moved

    saved = load_snapshot(folder / "log" / SNAPSHOT_NAME, SegmentView())

    (number,) = saved.partitions
    state = saved.state(number)
    (copies,) = state.places.values()
    assert {each.name for each in copies.listed()} == set(objects.objects)
    with opened("file", folder, objects) as log:
        assert saved.log_id == log.id
        assert (
            log.resolve(saved.partitions[number].position) == saved.partitions[number].applied + 1
        )
