"""Who should hold what: fair, sticky, and the same for all."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strandline.groups.balance import fair_shares, targets

MEMBERS = st.sets(st.text("abcdefgh", min_size=1, max_size=3), min_size=1, max_size=16)


def settled(members: set[str], holders: dict[int, str | None]) -> dict[int, str]:
    """Return the holders after all moves."""
    return dict(targets(members, holders))


@settings(max_examples=25, deadline=None)
@given(MEMBERS, st.integers(0, 20))
def test_every_partition_is_held_and_shares_differ_by_one_at_most(
    members: set[str], partitions: int
) -> None:
    found = settled(members, dict.fromkeys(range(partitions)))

    counts = [[*found.values()].count(each) for each in members]
    assert sorted(found) == list(range(partitions))
    assert max(counts) - min(counts) <= 1


@settings(max_examples=25, deadline=None)
@given(MEMBERS, st.integers(1, 20), st.data())
def test_a_member_that_joins_moves_its_share_at_most_and_nothing_between_others(
    members: set[str], partitions: int, data: st.DataObject
) -> None:
    before = settled(members, dict.fromkeys(range(partitions)))
    joining = data.draw(st.text("xyz", min_size=1).filter(lambda each: each not in members))

    after = settled({*members, joining}, {**before})

    moved = {number for number in before if before[number] != after[number]}
    assert {after[number] for number in moved} <= {joining}
    assert len(moved) <= -(-partitions // (len(members) + 1))


@settings(max_examples=25, deadline=None)
@given(MEMBERS, st.integers(1, 20), st.data())
def test_of_a_member_that_leaves_only_its_own_partitions_move(
    members: set[str], partitions: int, data: st.DataObject
) -> None:
    before = settled(members, dict.fromkeys(range(partitions)))
    leaving = data.draw(st.sampled_from(sorted(members)))
    rest = members - {leaving}

    after = settled(rest, {**before})

    if rest:
        moved = {number for number in before if before[number] != after[number]}
        assert moved == {number for number in before if before[number] == leaving}
    else:
        assert not after


@settings(max_examples=25, deadline=None)
@given(MEMBERS, st.integers(0, 20), st.data())
def test_no_partition_moves_twice_until_all_shares_are_fair(
    members: set[str], partitions: int, data: st.DataObject
) -> None:
    each = st.one_of(st.none(), st.sampled_from(sorted(members)))
    holders = data.draw(st.lists(each, min_size=partitions, max_size=partitions))
    held: dict[int, str | None] = dict(enumerate(holders))
    moved: set[int] = set()

    while moves := [n for n, each in settled(members, held).items() if held[n] != each]:
        number = data.draw(st.sampled_from(moves))
        assert number not in moved
        moved.add(number)
        held[number] = None
        held[number] = settled(members, held)[number]

    counts = [[*held.values()].count(each) for each in members]
    assert max(counts) - min(counts) <= 1


@pytest.mark.parametrize(
    ("held", "partitions", "shares"),
    [
        ({"a": 5, "b": 0}, 5, {"a": 3, "b": 2}),
        ({"a": 3, "b": 2, "c": 0}, 5, {"a": 2, "b": 2, "c": 1}),
        ({"a": 0, "b": 0, "c": 0}, 2, {"a": 1, "b": 1, "c": 0}),
        ({}, 3, {}),
    ],
)
def test_those_that_hold_most_keep_one_more(
    held: dict[str, int], partitions: int, shares: dict[str, int]
) -> None:
    assert fair_shares(held, partitions) == shares
