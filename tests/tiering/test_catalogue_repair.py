"""The catalogue before it exists, after a step that it cannot read, and rebuilt."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import strandline as sl
from strandline.log import Log
from strandline.tiering import DeletionState, PendingCatalogue, SegmentCatalogue, SegmentState
from strandline.tiering.segment import SegmentChange
from strandline.tiering.segment_view import CatalogueState, SegmentView, take
from strandline.values import CorruptError, NotReadyError
from strandline.values.internal_topics import SEGMENTS_TOPIC
from tests.logs import memory_log
from tests.tiering.test_catalogue import PATIENCE_S, PLACE, finished, full_state, ready, segment


@pytest.fixture
def log() -> Iterator[Log]:
    with memory_log() as log:
        yield log


def test_a_step_of_a_later_version_may_be_quarantined_and_is_tried_again_by_a_rebuild(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """WB7"""
    with ready(log, poison="quarantine") as catalogue:
        number = catalogue.partition_of(PLACE)
        finished(catalogue, segment(0, 100))
        log.append(SEGMENTS_TOPIC, sl.Event("segment.moved", {}), partition=number)
        finished(catalogue, segment(100, 200))

        assert list(catalogue.health().partitions[number].quarantined) == [2]
        assert catalogue.highest_readable_offset(PLACE, 0) == 199
        with pytest.raises(CorruptError, match="nothing may be deleted"):
            catalogue.check_whole()  # What it passed over may have told of a copy.

        sound = SegmentView.apply

        def apply(view: SegmentView, state: CatalogueState, record: sl.Record) -> None:
            if record.kind != "segment.moved":
                sound(view, state, record)

        monkeypatch.setattr(SegmentView, "apply", apply)
        catalogue.rebuild()
        catalogue.follow_all(PATIENCE_S)

        assert not catalogue.health().partitions[number].quarantined
        catalogue.check_whole()
        assert catalogue.highest_readable_offset(PLACE, 0) == 199


def test_a_rebuild_starts_a_stopped_partition_again_and_leaves_no_snapshot_behind(
    log: Log, tmp_path: Path
) -> None:
    """WB2 and WB8"""
    path = tmp_path / "snapshot"
    with ready(log, snapshot=path) as catalogue:
        number = catalogue.partition_of(PLACE)
        finished(catalogue, segment(0, 100))
        catalogue.save()
        assert catalogue.committed(number) == 1

        catalogue.rebuild([number])

        assert catalogue.committed(number) == -1
        catalogue.follow_all(PATIENCE_S)
        assert [each.end for each in catalogue.segments(PLACE)] == [100]


def test_a_note_comes_back_as_it_went_in(log: Log) -> None:
    """TB1"""
    notes: tuple[str | bytes, ...] = (b"\x07", b"", "seven", "Bw==", "")
    for number, note in enumerate(notes):
        with ready(log) as catalogue:
            finished(catalogue, segment(number * 100, number * 100 + 100), note=note)
        with ready(log) as again:
            found = again.find(PLACE, 0, number * 100 + 42)
        assert found is not None
        assert (found.note, type(found.note)) == (note, type(note))

    view = SegmentView()
    state = full_state()
    made = segment(500, 600, note_bytes=b"\xff\x00")
    take(state, made)
    assert view.decode(view.encode(state)).places[PLACE].segments[made.id].note == b"\xff\x00"


def test_a_later_step_without_a_note_keeps_the_note() -> None:
    """B5"""
    state, made = CatalogueState(), segment(0, 100, note_bytes=b"\x07")
    take(state, made)
    step = SegmentChange(id=made.id, place=PLACE, state=SegmentState.COPY_FINISHED, changed_at_us=1)

    take(state, step)

    assert state.places[PLACE].segments[made.id].note == b"\x07"


def test_a_catalogue_that_is_still_to_come_is_not_ready_for_anything(log: Log) -> None:
    """B32: nothing is taken and lost during a start."""
    pending = PendingCatalogue()
    made = segment(0, 100)
    calls: list[Callable[[], object]] = [
        lambda: pending.find(PLACE, 0, 5),
        lambda: pending.segments(PLACE),
        lambda: pending.highest_readable_offset(PLACE, 0),
        lambda: pending.highest_copied_offset(PLACE, 0),
        lambda: pending.deletion(PLACE),
        pending.places,
        lambda: pending.add(made),
        lambda: pending.change(made, SegmentState.COPY_FINISHED),
        lambda: pending.evict(PLACE, 0, 1),
        lambda: pending.delete_partition(PLACE, DeletionState.MARKED),
        lambda: pending.reconcile([0]),
        pending.rebuild,
        pending.refresh,
        pending.health,
    ]
    for call in calls:
        with pytest.raises(NotReadyError):
            call()

    with ready(log) as catalogue:
        assert pending.become(catalogue) is None
        pending.add(made)
        pending.change(made, SegmentState.COPY_FINISHED, note=b"\x07")
        found = pending.find(PLACE, 0, 42)
        assert found is not None
        assert found.note == b"\x07"
        assert pending.become(catalogue) is catalogue


def test_a_placeholder_has_every_call_of_a_catalogue() -> None:
    """B32"""
    calls = {name for name in vars(SegmentCatalogue) if not name.startswith("_")}

    # A placeholder holds nothing to be saved or closed.
    assert calls - {"save", "close"} == set(vars(PendingCatalogue)) & calls
