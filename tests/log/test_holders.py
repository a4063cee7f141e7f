"""Who holds a log is shown as far as it can be read."""

import strandline as sl
from strandline.log import parts_of
from strandline.log.holders import holders_of
from strandline.log.stored_groups import GROUPS_PREFIX


def test_a_consumer_that_cannot_be_read_does_not_hide_others() -> None:
    with sl.open("memory:") as log:
        log.create_topic("orders")
        store = parts_of(log).store
        found = store.find_topic(None, "orders")
        assert found is not None
        store.put_key(found, f"{GROUPS_PREFIX}/accounts", b"nonsense", None)

        with log.consumer("orders", "billing"):
            assert {each.name for each in holders_of(log)} == {"billing"}
