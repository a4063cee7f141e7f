"""The segment catalogue: its life cycle, its answers, and the reference tests of chapter B."""

import itertools
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import strandline as sl
from strandline.log import Log
from strandline.stores.memory import MemoryStore
from strandline.tiering.catalogue import SegmentCatalogue
from strandline.tiering.routing import catalogue_partition, catalogue_partitions
from strandline.tiering.segment import (
    CopiedSegment,
    DeletionState,
    SegmentState,
    UserPartition,
    may_become,
    payload_of,
)
from strandline.tiering.segment_view import CatalogueState, SegmentView, take
from strandline.values import InvalidError, Marks, NotReadyError, UnavailableError
from strandline.values.internal_topics import SEGMENTS_TOPIC
from strandline.views import RefusedError
from tests.logs import memory_log

PATIENCE_S = 20.0
_ids = itertools.count(1)
TOPIC_ID = uuid.UUID(int=0xFEED)
PLACE = UserPartition(TOPIC_ID, 0, "orders")
OTHER = UserPartition(TOPIC_ID, 1, "orders")


def segment(start: int, end: int, place: UserPartition = PLACE, **fields: Any) -> CopiedSegment:
    number = next(_ids)
    made: dict[str, Any] = {
        "id": uuid.UUID(int=number),
        "place": place,
        "start": start,
        "end": end,
        "epochs": ((0, start),),
        "first_us": 1,
        "last_us": 2,
        "record_bytes": 10,
        "size_bytes": 10,
        "digest": "d",
        "store": "memory:///x",
        "name": f"n{number}",
        "changed_at_us": 3,
    }
    return CopiedSegment(**{**made, **fields})


@pytest.fixture
def log() -> Iterator[Log]:
    with memory_log() as log:
        yield log


def opened(log: Any, partitions: int = 2, **options: Any) -> SegmentCatalogue:
    return SegmentCatalogue(log, partitions=partitions, **options)


def ready(log: Any, **options: Any) -> SegmentCatalogue:
    catalogue = opened(log, **options)
    catalogue.follow_all(PATIENCE_S)
    return catalogue


def shortened(log: Any, partition: int, before: int) -> None:
    """Trim the catalogue, as versions without the refusal could."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("strandline.log.topic_changes.check_may_shorten", lambda _: None)
        log.trim(SEGMENTS_TOPIC, partition, before, force=True)


def finished(
    catalogue: SegmentCatalogue, made: CopiedSegment, note: str | bytes | None = None
) -> None:
    catalogue.add(made)
    catalogue.change(made, SegmentState.COPY_FINISHED, note=note)


# --- the reference tests ---


def test_a_segment_that_was_added_and_finished_is_found(log: Log) -> None:
    """TB1"""
    with ready(log) as catalogue:
        made = segment(0, 100)
        finished(catalogue, made, note="seven")

        found = catalogue.find(PLACE, 0, 42)

        assert found is not None
        assert (found.id, found.note) == (made.id, "seven")
        assert catalogue.highest_readable_offset(PLACE, 0) == 99


def test_adding_in_a_wrong_state_is_refused_before_anything_is_stored(log: Log) -> None:
    """TB2"""
    with ready(log) as catalogue:
        with pytest.raises(RefusedError):
            catalogue.add(segment(0, 100, state=SegmentState.COPY_FINISHED))

        assert [log.marks(SEGMENTS_TOPIC, p).high for p in (0, 1)] == [0, 0]


def test_two_catalogues_over_one_log_converge(log: Log) -> None:
    """TB3"""
    with ready(log) as one, ready(log) as other:
        made = segment(0, 100)
        finished(one, made)
        other.refresh(PATIENCE_S)

        found = other.find(PLACE, 0, 50)

        assert other.highest_readable_offset(PLACE, 0) == 99
        assert found is not None
        assert found.id == made.id


def test_a_restart_knows_what_the_log_holds(log: Log) -> None:
    """TB4"""
    with ready(log) as catalogue:
        for start in (0, 100, 200):
            finished(catalogue, segment(start, start + 100))

    with ready(log) as again:
        listed = again.segments(PLACE)

        assert len(listed) == 3
        assert (listed[0].start, listed[-1].end) == (0, 300)
        assert again.highest_readable_offset(PLACE, 0) == 299


def test_a_partition_is_deleted_in_three_steps(log: Log) -> None:
    """TB5"""
    with ready(log) as catalogue:
        finished(catalogue, segment(0, 100))
        for state in DeletionState:
            catalogue.delete_partition(PLACE, state)

        assert catalogue.deletion(PLACE) is DeletionState.FINISHED
        assert catalogue.segments(PLACE) == []
        assert catalogue.find(PLACE, 0, 5) is None
        with pytest.raises(RefusedError):
            catalogue.add(segment(0, 100))


def test_closing_writes_a_snapshot_of_what_was_applied(log: Log, tmp_path: Path) -> None:
    """TB6"""
    path = tmp_path / "snapshot"
    with ready(log, snapshot=path, snapshot_interval_s=3600) as catalogue:
        finished(catalogue, segment(0, 100))
        number = catalogue.partition_of(PLACE)
    with opened(log, snapshot=path) as again:
        assert again.committed(number) == 1
    assert path.exists()


def test_a_restart_continues_after_the_snapshot(log: Log, tmp_path: Path) -> None:
    """TB7"""
    path = tmp_path / "snapshot"
    with ready(log, snapshot=path) as catalogue:
        for start in (0, 100, 200):
            finished(catalogue, segment(start, start + 100))
        before = catalogue.segments(PLACE)
        number = catalogue.partition_of(PLACE)
    shortened(log, number, 6)  # What the snapshot covers is not asked for again.

    with opened(log, snapshot=path) as again:
        assert again.committed(number) == 5
        again.follow_all(PATIENCE_S)

        assert again.segments(PLACE) == before
        assert again.highest_readable_offset(PLACE, 0) == 299
        assert again.highest_copied_offset(PLACE, 0) == 299


def test_assignment_decides_between_nothing_and_an_answer(log: Log) -> None:
    """TB8"""
    with ready(log) as writer:
        finished(writer, segment(0, 100))
    with opened(log) as catalogue:
        number = catalogue.partition_of(PLACE)
        assert catalogue.find(PLACE, 0, 5) is None

        catalogue.reconcile([number])
        assert list(catalogue.assigned()) == [number]
        catalogue.follow([PLACE], PATIENCE_S)
        assert catalogue.find(PLACE, 0, 5) is not None
        catalogue.reconcile([])

        assert list(catalogue.assigned()) == []
        assert catalogue.find(PLACE, 0, 5) is None


def test_an_unknown_partition_is_a_definite_nothing(log: Log) -> None:
    """TB9"""
    with opened(log) as catalogue:
        assert catalogue.find(PLACE, 0, 0) is None
        assert catalogue.highest_readable_offset(PLACE, 0) is None
        assert list(catalogue.segments(PLACE)) == []


def test_two_processes_share_the_catalogue_between_them(log: Log) -> None:
    """TB10"""
    with ready(log, partitions=16) as writer:
        finished(writer, segment(0, 100))
        finished(writer, segment(0, 50, OTHER))
    with opened(log, 16) as one, opened(log, 16) as other:
        one.follow([PLACE], PATIENCE_S)
        other.follow([OTHER], PATIENCE_S)

        assert list(one.assigned()) == [3]
        assert list(other.assigned()) == [15]
        assert one.find(PLACE, 0, 5) is not None
        assert other.find(OTHER, 0, 5) is not None
        assert one.find(OTHER, 0, 5) is None
        assert other.find(PLACE, 0, 5) is None


def test_assigning_again_applies_nothing_twice(log: Log) -> None:
    """TB11"""
    with ready(log) as catalogue:
        made = segment(0, 100)
        finished(catalogue, made)

        catalogue.reconcile([])
        catalogue.follow_all(PATIENCE_S)

        assert [each.id for each in catalogue.segments(PLACE)] == [made.id]
        assert catalogue.highest_readable_offset(PLACE, 0) == 99


class WithoutMarks(Log):
    """Cannot tell where partitions end while `is_broken`."""

    is_broken = False

    def marks(self, topic: Any, partition: int) -> Marks:
        if self.is_broken:
            raise UnavailableError("the marks cannot be fetched")
        return super().marks(topic, partition)


def test_marks_that_cannot_be_fetched_mean_not_ready_until_they_can() -> None:
    """TB12"""
    log = WithoutMarks(MemoryStore())
    with ready(log) as writer:
        finished(writer, segment(0, 100))
    with opened(log) as catalogue:
        log.is_broken = True
        number = catalogue.partition_of(PLACE)
        catalogue.reconcile([number])
        with pytest.raises(NotReadyError) as caught:
            catalogue.find(PLACE, 0, 5)
        assert caught.value.partition == number
        with pytest.raises(NotReadyError):
            catalogue.segments(PLACE)

        log.is_broken = False
        catalogue.follow([PLACE], PATIENCE_S)

        assert catalogue.find(PLACE, 0, 5) is not None
        assert len(catalogue.segments(PLACE)) == 1
        assert catalogue.highest_readable_offset(PLACE, 0) == 99


# --- routing ---


def test_routing_is_kafkas_in_every_process() -> None:
    """WB10"""
    feed, one = uuid.UUID(int=0xFEED), uuid.UUID(int=1)

    assert [catalogue_partition(feed, p, 16) for p in (0, 1)] == [3, 15]
    assert [catalogue_partition(one, 0, count) for count in (2, 4, 50)] == [1, 3, 35]
    assert len({catalogue_partition(uuid.UUID(int=0), p, 50) for p in range(200)}) == 49
    assert {catalogue_partition(one, p, 1) for p in range(9)} == {0}
    with pytest.raises(InvalidError):
        catalogue_partition(one, 0, 0)


def test_a_renamed_topic_is_the_same_place() -> None:
    renamed = UserPartition(TOPIC_ID, 0, "renamed")

    assert renamed == PLACE
    assert catalogue_partitions([PLACE, renamed, OTHER], 16) == [3, 15]
    assert catalogue_partitions([], 16) == []


# --- the life of a segment ---


def test_only_the_steps_in_order_are_legal() -> None:
    legal = {
        (now.name, wanted.name)
        for now in SegmentState
        for wanted in SegmentState
        if now != wanted and may_become(now, wanted)
    }

    assert legal == {
        ("COPY_STARTED", "COPY_FINISHED"),
        ("COPY_STARTED", "DELETE_STARTED"),
        ("COPY_FINISHED", "DELETE_STARTED"),
        ("DELETE_STARTED", "DELETE_FINISHED"),
    }
    assert all(may_become(state, state) for state in SegmentState)


@pytest.mark.parametrize(
    "fields",
    [
        {"end": 0},
        {"epochs": ()},
        {"size_bytes": -1},
        {"epochs": ((0, 1),)},
        {"epochs": ((0, 0), (1, 100))},
        {"epochs": ((1, 0), (0, 50))},
        {"epochs": ((0, 0), (1, 0))},
    ],
)
def test_a_segment_that_cannot_be_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidError):
        segment(0, **{"end": 100, **fields})


def test_a_refused_step_raises_where_it_is_taken(log: Log) -> None:
    """WB4"""
    with ready(log) as catalogue:
        made = segment(0, 100)
        with pytest.raises(RefusedError):
            catalogue.change(made, SegmentState.COPY_FINISHED)
        catalogue.add(made)
        with pytest.raises(RefusedError):
            catalogue.add(made)
        with pytest.raises(RefusedError):
            catalogue.change(made, SegmentState.DELETE_FINISHED)
        with pytest.raises(RefusedError):
            catalogue.delete_partition(PLACE, DeletionState.STARTED)
        catalogue.change(made, SegmentState.COPY_FINISHED)
        catalogue.change(made, SegmentState.COPY_FINISHED)

        assert len(catalogue.segments(PLACE)) == 1


def test_the_same_run_is_copied_by_one_copy_at_a_time(log: Log) -> None:
    with ready(log) as catalogue:
        first = segment(0, 100)
        catalogue.add(first)
        with pytest.raises(RefusedError):
            catalogue.add(segment(0, 100))
        catalogue.change(first, SegmentState.DELETE_STARTED)

        catalogue.add(segment(0, 100))


def test_what_is_being_deleted_is_listed_and_answers_no_more(log: Log) -> None:
    with ready(log) as catalogue:
        made = segment(0, 100)
        catalogue.add(made)
        assert catalogue.find(PLACE, 0, 5) is None
        catalogue.change(made, SegmentState.COPY_FINISHED)

        catalogue.change(made, SegmentState.DELETE_STARTED)

        assert catalogue.find(PLACE, 0, 5) is None
        assert catalogue.highest_readable_offset(PLACE, 0) is None
        assert catalogue.highest_copied_offset(PLACE, 0) == 99
        assert len(catalogue.segments(PLACE)) == len(catalogue.segments(PLACE, 0)) == 1
        catalogue.change(made, SegmentState.DELETE_FINISHED)
        assert list(catalogue.segments(PLACE)) == []


def test_the_only_copy_of_what_was_evicted_is_not_deleted_before_it_is_trimmed(
    log: Log,
) -> None:
    with ready(log) as catalogue:
        made, other = segment(0, 100), segment(0, 60)
        catalogue.add(made)
        with pytest.raises(RefusedError):
            catalogue.evict(PLACE, 0, 50)
        catalogue.change(made, SegmentState.COPY_FINISHED)
        with pytest.raises(RefusedError):
            catalogue.evict(PLACE, 0, 101)
        catalogue.evict(PLACE, 0, 50)

        with pytest.raises(RefusedError):
            catalogue.change(made, SegmentState.DELETE_STARTED, low=49)
        finished(catalogue, other)
        catalogue.change(other, SegmentState.DELETE_STARTED)
        with pytest.raises(RefusedError):
            catalogue.change(made, SegmentState.DELETE_STARTED)
        catalogue.change(made, SegmentState.DELETE_STARTED, low=50)


# --- snapshots ---


def full_state() -> CatalogueState:
    state = CatalogueState()
    made, gone = segment(0, 100), segment(100, 200)
    log = memory_log()
    with ready(log) as catalogue:
        finished(catalogue, made)
        finished(catalogue, gone)
        catalogue.change(gone, SegmentState.DELETE_STARTED)
        catalogue.change(gone, SegmentState.DELETE_FINISHED)
        catalogue.delete_partition(OTHER, DeletionState.MARKED)
        catalogue.evict(PLACE, 0, 50)
        for number in (0, 1):
            for record in log.read(SEGMENTS_TOPIC, number, 0):
                SegmentView().apply(state, record)
    return state


def test_a_snapshot_keeps_what_was_copied_deleted_and_evicted() -> None:
    """WB13"""
    view, state = SegmentView(), full_state()

    again = view.decode(view.encode(state))

    assert view.encode(again) == view.encode(state)
    assert again.places[PLACE].copied == {0: 200}
    assert again.places[PLACE].evicted == 50
    assert again.places[OTHER].deletion is DeletionState.MARKED
    assert again.places[PLACE].find(0, 5) == state.places[PLACE].find(0, 5)


def test_catalogues_that_share_a_snapshot_and_are_reconciled_at_once_do_no_harm(
    log: Log, tmp_path: Path
) -> None:
    """WB12"""
    path = tmp_path / "snapshot"
    with ready(log, snapshot=path) as one, ready(log, snapshot=path) as other:

        def work(catalogue: SegmentCatalogue, first: int) -> None:
            for start in range(first, first + 500, 100):
                finished(catalogue, segment(start, start + 100))
                catalogue.save()
                catalogue.follow([PLACE], PATIENCE_S)

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(work, [one, other, one, other], [0, 500, 1000, 1500]))

    assert [each.name for each in tmp_path.iterdir()] == ["snapshot"]
    with ready(log, snapshot=path) as again:
        assert len(again.segments(PLACE)) == 20


def test_a_step_of_a_later_version_stops_the_partition(log: Log) -> None:
    """WB7"""
    with ready(log) as catalogue:
        number = catalogue.partition_of(PLACE)
        log.append(SEGMENTS_TOPIC, sl.Event("segment.moved", {}), partition=number)

        with pytest.raises(sl.StoppedError):
            catalogue.refresh(PATIENCE_S)
        with pytest.raises(sl.StoppedError):
            catalogue.find(PLACE, 0, 5)


def test_a_step_is_stored_as_plain_json() -> None:
    made = segment(0, 100)

    payload = payload_of(made)

    assert payload["place"]["topic"] == "orders"
    assert payload["state"] == 0
    state = CatalogueState()
    take(state, made)
    assert state.places[PLACE].segments[made.id] == made
