"""Records of a partition in memory, compared with a plain list."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import strandline as sl
from strandline._core import IS_COMPILED
from strandline.log.draft import draft
from strandline.log.draft_columns import EventDrafts
from strandline.log.stored_records import PlacedDrafts, StoredRecord, StoredRecords
from strandline.values import Partition, Tenant, ValueKind

LISTS = [False, True] if IS_COMPILED else [False]
steps = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.sampled_from(LISTS), st.integers(1, 40)),
        st.tuples(st.just("remove"), st.just(False), st.integers(0, 60)),
        st.tuples(st.just("replace"), st.just(False), st.integers(0, 60)),
    ),
    max_size=12,
)


def placed(start: int, count: int, *, is_list: bool) -> PlacedDrafts:
    events = [sl.Event("sale", {"n": start + each}, key=f"k{each % 3}") for each in range(count)]
    each = [draft(event, None, ValueKind.EVENT, 1 << 20) for event in events]
    drafts: Any = EventDrafts(events, [one.size_bytes for one in each]) if is_list else each
    return PlacedDrafts(start, 1_000 + start, Tenant(f"tenant-{start % 2}"), drafts, None)


@given(steps)
def test_they_are_what_a_list_of_them_would_be(
    done: Sequence[tuple[str, bool, int]],
) -> None:
    stored, expected = StoredRecords(7), list[StoredRecord]()
    start = 7
    for name, is_list, number in done:
        if name == "add":
            end = start + len(expected)
            stored.add(placed(end, number, is_list=is_list))
            expected += placed(end, number, is_list=False).records()
        elif name == "remove":
            count = min(number, len(expected))
            stored.remove(count)
            del expected[:count]
            start += count
        elif number < len(expected):
            other = expected[number]._replace(key=None, size_bytes=1)
            stored.replace(number, other)
            expected[number] = other

    assert list(stored) == expected
    assert [stored[index] for index in range(-len(expected), 0)] == expected
    assert list(stored.sizes()) == [each.size_bytes for each in expected]
    assert list(stored.keys()) == [each.key for each in expected]
    assert (stored.start, len(stored)) == (start, len(expected))
    for part in (slice(3), slice(2, 50), slice(-5, None), slice(4, 4)):
        assert list(stored[part]) == expected[part]
    loaded = stored.load("t", Partition(3), ValueKind.EVENT)
    assert [(each.offset, each.timestamp_us, each.key, each.tenant) for each in loaded] == [
        (each.offset, each.timestamp_us, each.key, each.tenant) for each in expected
    ]
    with pytest.raises(IndexError):
        _ = stored[len(expected)]


@pytest.mark.parametrize("count", [1, 100])
def test_a_payload_that_a_caller_changes_stays_as_it_was_stored(count: int) -> None:
    events = [sl.Event("sale", {"n": [n]}) for n in range(count)]
    with sl.open("memory:") as log:
        log.create_topic("t")
        log.append_many("t", events)
        for event in events:
            event.payload["n"].append("appended")
        for record in log.read("t", 0, 0):
            record.payload["n"].append("read")

        assert [record.payload for record in log.read("t", 0, 0)] == [
            {"n": [n]} for n in range(count)
        ]
