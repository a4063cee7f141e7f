"""Batches of a scope in a transaction of the log."""

from pathlib import Path

import pyarrow as pa

import strandline as sl
from tests.log.shop import ChangedMindError

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False)])


def batch(number: int) -> pa.RecordBatch:
    return pa.record_batch([[number]], schema=SCHEMA)


def test_what_a_scope_publishes_in_a_block_is_committed_with_the_rows(tmp_path: Path) -> None:
    with sl.open(f"sqlite:{tmp_path / 'shop.sqlite'}") as log:
        scope = log.scope("acme")
        scope.register("orders", SCHEMA)
        with log.transaction() as connection:
            connection.execute("CREATE TABLE orders (id INTEGER)")
            connection.execute("INSERT INTO orders VALUES (1)")
            receipt = scope.publish("orders", batch(1))
            seen_inside = list(scope.replay("orders", 0))
        try:
            with log.transaction() as connection:
                connection.execute("INSERT INTO orders VALUES (2)")
                scope.publish("orders", batch(2))
                raise ChangedMindError
        except ChangedMindError:
            pass

        seen = [
            each.batch.to_pylist()
            for each in scope.replay("orders", 0)
            if isinstance(each, sl.DeliveredBatch)
        ]
        with log.transaction() as connection:
            stored = connection.execute("SELECT id FROM orders").fetchall()

    assert seen_inside == []
    assert receipt.offset == 0
    assert seen == [[{"id": 1}]]
    assert stored == [(1,)]
