"""The answer to an append over HTTP is the same by the core as by msgspec."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline._core import IS_COMPILED
from strandline.server.appending import AppendAnswer, AppendedRecord
from strandline.values.json_forms import moment
from tests.core.plain import needs_core

if IS_COMPILED:
    from strandline._core.core import answer_of_append

pytestmark = needs_core

# From the year 1000, which has four digits, to 9999, where the times of Python end.
TIMES_US = st.integers(-30_610_224_000_000_000, 253_402_300_799_999_999)
OFFSETS = st.integers(0, (1 << 63) - 512)


@given(st.integers(0, 1 << 31), OFFSETS, TIMES_US, st.integers(1, 300))
def test_an_answer_is_what_msgspec_encodes(
    partition: int, offset: int, timestamp_us: int, count: int
) -> None:
    when = moment(timestamp_us)
    assert when is not None
    placed = [AppendedRecord(partition, offset + n, when, False) for n in range(count)]

    answer = answer_of_append("durable", partition, offset, timestamp_us, count)

    assert answer == msgspec.json.encode(AppendAnswer("durable", placed))


def test_each_answer_has_its_own_second() -> None:
    first, second, again = (
        answer_of_append("written", 0, 7, at_us, 1) for at_us in (0, 1_000_001, 0)
    )

    assert b'"1970-01-01T00:00:00.000000Z"' in first
    assert b'"1970-01-01T00:00:01.000001Z"' in second
    assert again == first


@pytest.mark.parametrize("wrong", [("written", -1, 0, 0, 1), ("written", 0, 0, 0, 0)])
def test_an_answer_without_records_is_refused(wrong: tuple[str, int, int, int, int]) -> None:
    with pytest.raises(ValueError, match="records"):
        answer_of_append(*wrong)
