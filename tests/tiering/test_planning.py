"""Planning a read takes a time that is linear in the number of objects, however many epochs."""

import sys
from collections.abc import Callable
from types import FrameType
from uuid import UUID

import pytest

from strandline.tiering.compacting import merges_of
from strandline.tiering.partition_copies import PartitionCopies, epoch_at
from strandline.tiering.segment import CopiedSegment, SegmentState
from strandline.tiering.segment_view import CatalogueState, SegmentView
from strandline.values import Epoch, Offset
from tests.tiering.test_catalogue import segment

#: Objects of an epoch.
_REIGN = 10


def many(count: int) -> tuple[CatalogueState, list[Epoch]]:
    """Return what a catalogue has of so many small objects, and the log's epochs."""
    state, copies = CatalogueState(), PartitionCopies()
    for number in range(count):
        copies.put(
            segment(
                number * 5,
                number * 5 + 5,
                epochs=((number // _REIGN, number * 5),),
                size_bytes=100,
                state=SegmentState.COPY_FINISHED,
            )
        )
    state.places[copies.current()[0].place] = copies
    epochs = [
        Epoch(number, UUID(int=number), Offset(number * 5 * _REIGN))
        for number in range(count // _REIGN)
    ]
    return state, epochs


def operations(work: Callable[[], object]) -> int:
    """Return how many calls of functions, ours and others, some work takes."""
    count = 0

    def seen(_: FrameType, event: str, __: object) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    before = sys.getprofile()
    sys.setprofile(seen)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize("what", ["lookup", "saved", "merges"])
def test_planning_takes_as_many_operations_for_each_object(what: str) -> None:
    taken: list[float] = []
    for count in (200, 1600):
        state, epochs = many(count)
        (copies,) = state.places.values()
        stored = SegmentView().encode(state)
        work: dict[str, Callable[[], object]] = {
            "lookup": lambda: copies.following(epochs, 0),  # noqa: B023 - Called within.
            "saved": lambda: SegmentView().decode(stored),  # noqa: B023 - As above.
            "merges": lambda: merges_of(copies.current(), 10_000),  # noqa: B023 - As above.
        }
        taken.append(operations(work[what]) / count)

    assert taken[1] < 1.5 * taken[0]
    assert taken[1] < 45


def test_a_lookup_of_all_is_that_of_each() -> None:
    state, epochs = many(60)
    (copies,) = state.places.values()
    copies.put(segment(12, 33, epochs=((0, 12),), state=SegmentState.COPY_FINISHED))
    copies.put(segment(100, 150, epochs=((2, 100),), state=SegmentState.COPY_FINISHED))

    for start in range(0, 300, 7):
        expected: list[CopiedSegment] = []
        at = start
        while (found := copies.find(epoch_at(epochs, at), at)) is not None:
            expected.append(found)
            at = found.end
        assert copies.following(epochs, start) == expected
        assert copies.following(epochs, start, 180) == [
            each for each in expected if each.end <= 180 or each.start < 180
        ]
