"""What is stored beside records: samples of a lag, identities that move, and groups."""

from typing import Any

import pytest

from strandline.log.gaps import Gaps
from strandline.log.identities import IdentityState
from strandline.log.lags import LagSample, sampled
from strandline.log.moved import identities_before
from strandline.log.ranges import ReadRange
from strandline.log.stored_groups import StoredGroup, decode_group, encode_group
from strandline.log.terms import Terms
from strandline.values import CorruptError, InvalidError, Offset


def test_two_samples_of_a_lag_are_kept_however_many_there_were() -> None:
    samples: tuple[LagSample, ...] = ()
    for hour in range(5):
        samples = sampled(samples, hour * 3_600_000_000, hour)

    assert [each.lag for each in samples] == [3, 4]
    assert sampled(samples, 4 * 3_600_000_000 + 1, 9) == samples


def test_identities_go_as_far_as_the_records_that_are_moved() -> None:
    sequences = [(1, 4, 10), (2, 5, 11)]
    keys: list[tuple[str | None, str, int, int, int]] = [
        (None, "pay-1", 4, 10, 1),
        (None, "pay-2", 5, 11, 1),
    ]

    moved = identities_before(IdentityState([(None, "till", 11, sequences)], keys), 5)

    assert moved == IdentityState([(None, "till", 11, sequences[:1])], keys[:1])
    assert identities_before(moved, 4) == IdentityState([], [])


def test_a_group_that_is_damaged_or_of_another_consumer_is_an_error() -> None:
    raw = encode_group(StoredGroup(None, "billing"))

    assert decode_group(raw, None, "billing") == StoredGroup(None, "billing")
    assert decode_group(None, None, "billing") == StoredGroup(None, "billing")
    with pytest.raises(CorruptError, match="cannot be read"):
        decode_group(raw[:-1], None, "billing")
    with pytest.raises(CorruptError, match="another consumer"):
        decode_group(raw, None, "shipping")


def test_gaps_before_a_cursor_are_none() -> None:
    gaps = Gaps(((1, 5), (7, 9)), ((5, 100), (6, 200)))

    assert gaps.after(5) == Gaps(((7, 9),), ((5, 100), (6, 200)))
    assert gaps.after(8) == Gaps(((8, 9),), ())


@pytest.mark.parametrize("given", [{"end": -1}, {"records_max": "5"}, {"bytes_max": 1.5}])
def test_each_limit_of_a_read_is_checked(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidError, match=next(iter(given))):
        ReadRange(0, **given).checked()


def test_a_key_says_which_partition_an_expected_offset_is_of() -> None:
    terms = Terms(expected_offset=Offset(3))

    routed = terms.route(["a", "a"], 4, lambda: 0)

    assert [*routed.values()] == [[0, 1]]
    with pytest.raises(InvalidError, match="append to each apart"):
        terms.route(["a", "b", "c", "d"], 4, lambda: 0)
