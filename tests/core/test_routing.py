"""Events by key over several partitions: routed by the core as plain Python routes them."""

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import strandline as sl
from strandline.values import Durability, partition_for_key
from tests.core.plain import TEXT, needs_core

pytestmark = needs_core


@given(st.lists(TEXT, min_size=1, max_size=50), st.integers(1, 1000))
def test_the_core_routes_keys_as_plain_python_does(keys: list[str], partitions: int) -> None:
    events = [sl.Event("k", n, key=key) for n, key in enumerate(keys)]
    expected: dict[int, list[int]] = {}
    for index, key in enumerate(keys):
        expected.setdefault(partition_for_key(key, partitions), []).append(index)

    routed: Any = import_module("strandline._core.core").route(events, partitions, 10**9)

    assert {number: indices for number, (indices, _) in routed.items()} == expected
    assert list(routed) == list(expected)
    assert [each for _, part in routed.values() for each in part] == [
        events[index] for indices in expected.values() for index in indices
    ]


@pytest.mark.parametrize("event", [sl.Event("k"), sl.Event("k", "x" * 200, key="a"), b"raw"])
def test_events_without_a_key_and_large_ones_are_routed_by_python(event: Any) -> None:
    route = import_module("strandline._core.core").route

    assert route([sl.Event("k", key="a"), event], 16, 100) is NotImplemented


@pytest.mark.parametrize("durability", [Durability.WRITTEN, Durability.DURABLE])
def test_keyed_batches_keep_their_order_in_each_partition(
    tmp_path: Path, durability: Durability
) -> None:
    with sl.open(f"file:{tmp_path}/log") as log:
        log.create_topic("t", partitions=4)
        receipts: list[sl.Receipt] = []
        for batch in range(5):
            events = [sl.Event("k", [batch, n], key=f"k{n % 7}") for n in range(100)]
            receipts += log.append_many("t", events, durability=durability)
        found = {
            (number, each.offset): each.payload
            for number in range(4)
            for each in log.read("t", number, 0)
        }

        assert len(found) == 500
        assert [found[each.partition, each.offset] for each in receipts] == [
            [batch, n] for batch in range(5) for n in range(100)
        ]
        assert {each.level for each in receipts} >= {durability}


def test_a_batch_with_an_event_that_is_too_large_is_refused_whole(tmp_path: Path) -> None:
    with sl.open(f"file:{tmp_path}/log", record_bytes_max=100) as log:
        log.create_topic("t", partitions=4)
        log.append_many("t", [sl.Event("k", n, key=str(n)) for n in range(20)])
        before = [log.marks("t", number).high for number in range(4)]

        with pytest.raises(sl.InvalidError, match="too large"):
            log.append_many("t", [sl.Event("k", "x" * n * 30, key=str(n)) for n in range(9)])

        assert [log.marks("t", number).high for number in range(4)] == before
