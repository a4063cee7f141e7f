"""Which of several copies answers for an offset."""

import random
from itertools import pairwise
from typing import Any
from uuid import uuid4

import pytest

from strandline.tiering.partition_copies import PartitionCopies
from strandline.tiering.segment import CopiedSegment, SegmentState
from tests.tiering.test_catalogue import segment


def copies_of(*segments: CopiedSegment) -> PartitionCopies:
    copies = PartitionCopies()
    for each in segments:
        copies.put(each)
    return copies


STATES = SegmentState.COPY_FINISHED, SegmentState.COPY_STARTED, SegmentState.DELETE_STARTED
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


@pytest.mark.parametrize("seed", range(30))
def test_restored_copies_answer_as_those_that_were_put(seed: int) -> None:
    chosen = random.Random(seed)
    edges = sorted(chosen.sample(range(0, 1000, 10), 9))
    parts = [segment(a, b, state=chosen.choice(STATES)) for a, b in pairwise(edges)]
    finished = [each for each in parts[:5] if each.state is SegmentState.COPY_FINISHED]
    if len(finished) > 1:
        merges = tuple(each.id for each in finished)
        state = chosen.choice(STATES[:2])
        parts.append(segment(finished[0].start, finished[-1].end, merges=merges, state=state))
    parts += [segment(edges[3], edges[5], state=chosen.choice(STATES)) for _ in range(2)]
    chosen.shuffle(parts)
    put, restored = copies_of(*parts), PartitionCopies()

    restored.restore(list(put.segments.values()), put.finished)
    restored.copied = put.copied

    for copies in (put, restored):
        # Which makes what no reader needs.
        assert copies.live(0, 1) is None
        assert copies.successor(uuid4()) is None
    assert vars(restored) == vars(put)
