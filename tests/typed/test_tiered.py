"""A typed topic whose records moved to an object store reads as it did."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import strandline as sl
from strandline.tiering import tier
from tests.tiering.faulty_store import MemoryObjects
from tests.tiering.tiered import BACKENDS, opened
from tests.typed.rows import batches, ids, offsets

FIRST = pa.schema(
    [
        pa.field("id", pa.uint64(), nullable=False, metadata={b"unit": b"pieces"}),
        pa.field("at", pa.timestamp("s")),
    ]
)
SECOND = FIRST.append(pa.field("note", pa.large_string()))


def schema_ids(objects: MemoryObjects) -> list[int]:
    """Return the versions that the rows in the store say they are of, in offset order."""
    tables = [pq.read_table(pa.BufferReader(each)) for each in objects.objects.values()]
    rows = [row for table in tables for row in table.select(["_offset", "_schema_id"]).to_pylist()]
    return [row["_schema_id"] for row in sorted(rows, key=lambda row: row["_offset"])]


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_each_record_has_its_version_in_a_tier_as_well(backend: str, tmp_path: Path) -> None:
    objects = MemoryObjects()
    with opened(backend, tmp_path, objects) as log:
        scope = log.scope("alice")
        topic = scope.register("orders", FIRST).topic
        for number in range(6):
            schema = FIRST if number < 3 else SECOND
            row = {"id": 2**63 + number, "at": None, "note": "new"}
            scope.publish(topic, pa.RecordBatch.from_pylist([row], schema=schema))
            if number == 2:
                scope.evolve(topic, SECOND)
        before = list(scope.replay(topic, 0))
        log.flush()

        report = tier(log, topic, objects, piece_records=4, include_open=True, local_bytes=0)
        assert report.evicted_records
        assert schema_ids(objects) == [1, 1, 1, 2, 2, 2]

        after = list(scope.replay(topic, 0))
        assert offsets(after) == offsets(before) == list(range(6))
        assert ids(after) == [2**63 + number for number in range(6)]
        assert [batch.schema for batch in batches(after)] == [SECOND] * 6
        stored = [record.value for record in log.read(topic, 0, 0)]
        assert [each.schema for each in stored if isinstance(each, pa.RecordBatch)] == [
            FIRST
        ] * 3 + [SECOND] * 3
        notes = [note for batch in batches(after) for note in batch["note"].to_pylist()]
        assert notes == [None] * 3 + ["new"] * 3
        assert isinstance(after[0], sl.DeliveredBatch)
        assert [each.tenant for each in after] == ["alice"] * 6
