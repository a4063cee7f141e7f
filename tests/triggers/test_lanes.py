"""Lanes: one at a time, in the order in which they came, and none waits for ever."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.triggers.lanes import KeyLanes


def test_who_is_in_two_lanes_waits_for_both() -> None:
    lanes: KeyLanes[str] = KeyLanes()

    assert lanes.enter("first", ["a"])
    assert lanes.enter("second", ["b"])
    assert not lanes.enter("both", ["a", "b", "a"])
    assert not lanes.enter("behind", ["b"])
    assert lanes.enter("free", [])
    assert lanes.leave("second") == []
    assert lanes.leave("first") == ["both"]
    assert lanes.leave("both") == ["behind"]
    assert lanes.leave("behind") == lanes.leave("free") == []
    assert len(lanes) == 0


@pytest.mark.slow
@given(st.lists(st.sets(st.integers(0, 3), max_size=3), max_size=20), st.randoms())
def test_all_records_begin_once_and_in_order_within_each_lane(
    wanted: list[set[int]], chance: object
) -> None:
    lanes: KeyLanes[int] = KeyLanes()
    running = [number for number, each in enumerate(wanted) if lanes.enter(number, each)]
    begun = list(running)
    while running:
        chance.shuffle(running)  # type: ignore[attr-defined] # Hypothesis' own kind of Random.
        freed = lanes.leave(running.pop())
        running.extend(freed)
        begun.extend(freed)

    assert sorted(begun) == list(range(len(wanted)))
    for lane in range(4):
        of_lane = [number for number in begun if lane in wanted[number]]
        assert of_lane == sorted(of_lane)
