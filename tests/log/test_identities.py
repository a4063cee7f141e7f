"""How many identities a partition recognises."""

import pytest

from strandline.log.identities import Identities, Original
from strandline.values import IDEMPOTENCY_KEYS_KEPT, Offset


def test_where_the_records_of_a_write_went_is_a_sequence() -> None:
    each = Original(Offset(5), 7, 4).each()

    assert list(each) == [Original(Offset(offset), 7) for offset in (5, 6, 7, 8)]
    assert (each[-1], len(each)) == (Original(Offset(8), 7), 4)
    assert each[1:3] == [Original(Offset(6), 7), Original(Offset(7), 7)]
    with pytest.raises(IndexError):
        _ = each[4]


@pytest.mark.slow
def test_the_latest_keys_are_recognised_and_no_older_ones() -> None:
    identities = Identities()
    for number in range(IDEMPOTENCY_KEYS_KEPT + 1):
        identities.add_key(None, str(number), Original(Offset(number), number))

    assert identities.find_key(None, "0", 1) is None
    assert identities.find_key(None, "1", 1) == Original(Offset(1), 1)
    assert identities.find_key(None, str(IDEMPOTENCY_KEYS_KEPT), 1) is not None
