"""How many writes a partition can recognise."""

import pytest

from strandline.log.identities import Identities, Original
from strandline.values import IDEMPOTENCY_KEYS_KEPT, Offset


@pytest.mark.slow
def test_the_latest_keys_are_recognised_and_no_older_ones() -> None:
    identities = Identities()
    for number in range(IDEMPOTENCY_KEYS_KEPT + 1):
        identities.add_key(None, str(number), Original(Offset(number), number))

    assert identities.find_key(None, "0", 1) is None
    assert identities.find_key(None, "1", 1) == Original(Offset(1), 1)
    assert identities.find_key(None, str(IDEMPOTENCY_KEYS_KEPT), 1) is not None
