"""A Delta table of delta-rs: each append is a commit, of a Parquet file and an entry in its log."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from benchmarks.columns import SCHEMA, batch_of
from benchmarks.events import Sample
from strandline.values import Durability


class DeltaLog:
    """Commits of one writer. Their files are in the page cache, and not synced."""

    def __init__(self, path: Path, durability: Durability) -> None:
        assert durability is Durability.WRITTEN
        self._table = DeltaTable.create(str(path), pa.schema(SCHEMA))

    def append(self, sample: Sample) -> None:
        self.append_encoded(self.encoded([sample]))

    def encoded(self, samples: Sequence[Sample]) -> "list[pa.RecordBatch]":
        return [batch_of(samples)]

    def append_encoded(self, events: "list[pa.RecordBatch]") -> None:
        write_deltalake(self._table, pa.Table.from_batches(events), mode="append")

    def close(self) -> None:
        """Nothing is open."""
