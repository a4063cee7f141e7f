"""Which of several copies answers for an offset."""

from typing import Any

from strandline.tiering.partition_copies import PartitionCopies
from strandline.tiering.segment import CopiedSegment, SegmentState
from tests.tiering.test_catalogue import segment


def copies_of(*segments: CopiedSegment) -> PartitionCopies:
    copies = PartitionCopies()
    for each in segments:
        copies.put(each)
    return copies


FINISHED: dict[str, Any] = {"state": SegmentState.COPY_FINISHED}


def test_lookups_end_where_segments_do() -> None:
    copies = copies_of(segment(0, 100, **FINISHED), segment(100, 200, **FINISHED))

    found = [copies.find(0, offset) for offset in (0, 99, 100, 199, 200)]

    assert [each and each.start for each in found] == [0, 0, 100, 100, None]


def test_an_offset_is_found_in_its_own_epoch_only() -> None:
    copies = copies_of(segment(0, 100, epochs=((0, 0), (1, 50)), **FINISHED))

    assert copies.find(0, 49) is not None
    assert copies.find(0, 60) is None
    assert copies.find(1, 60) is not None
    assert copies.find(1, 49) is None
    assert (copies.readable(0), copies.readable(1)) == (49, 99)


def test_overlapping_copies_hide_nothing() -> None:
    """WB11"""
    large, small = segment(0, 200, **FINISHED), segment(50, 100, **FINISHED)
    copies = copies_of(large, small)

    def answers(offset: int) -> CopiedSegment | None:
        return copies.find(0, offset)

    assert answers(60) == small
    assert answers(150) == large
    assert answers(10) == large
    later = segment(0, 120, **FINISHED)
    copies.put(later)
    assert answers(10) == later
    assert answers(150) == large
    take_away: dict[str, Any] = {"state": SegmentState.DELETE_STARTED}
    copies.put(segment(0, 120, id=later.id, **take_away))
    assert answers(10) == large
    copies.put(segment(50, 100, id=small.id, **take_away))
    assert answers(60) == large


def test_kafkas_examples_of_shadowing_hold() -> None:
    first, second = segment(0, 101, **FINISHED), segment(0, 201, **FINISHED)
    assert copies_of(first, second).find(0, 50) == second

    first, second = segment(10, 91, **FINISHED), segment(5, 101, **FINISHED)
    copies = copies_of(first, second)
    assert copies.find(0, 95) == second
    assert copies.find(0, 7) == second
