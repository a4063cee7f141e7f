"""Calls the source as Spark does, in this process: fast, and with every step visible.

Spark itself runs the same calls in `test_read.py` and `test_stream.py`.
"""

import json
import pickle
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import Filter
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import StructType

import strandline as sl
from strandline.spark.source import StrandlineSource
from strandline.spark.source.splits import Split
from strandline.spark.source.stream import StreamReader

Offsets = dict[str, Any]


def source(url: str, **options: Any) -> StrandlineSource:
    """Return the source of these options; their names arrive in small letters."""
    given = {name.lower(): str(value) for name, value in options.items()}
    return StrandlineSource({"path": url, **given})


def splits(url: str, **options: Any) -> list[Split]:
    """Return what a batch is divided into."""
    made = source(url, **options)
    return [_sent(each) for each in made.reader(made.schema()).partitions()]


def table(url: str, schema: StructType | None = None, **options: Any) -> pa.Table:
    """Return the rows of a batch."""
    made = source(url, **options)
    wanted = schema or made.schema()
    reader = _sent(made.reader(wanted))
    return _table(wanted, reader, reader.partitions())


def rows(url: str, **options: Any) -> list[dict[str, Any]]:
    """Return the rows of a batch, as they come."""
    found: list[dict[str, Any]] = table(url, **options).to_pylist()
    return found


def pushed(url: str, filters: list[Filter], **options: Any) -> list[dict[str, Any]]:
    """Return the rows of a batch before Spark looks at its filters, all of which come back."""
    made = source(url, **options)
    wanted = made.schema()
    planner = made.reader(wanted)
    assert list(planner.pushFilters(filters)) == filters
    reader = _sent(planner)
    found: list[dict[str, Any]] = _table(wanted, reader, reader.partitions()).to_pylist()
    return found


class Query:
    """A streaming query that stops after each micro-batch, for the test to look at.

    `offset` is what its checkpoint holds.
    """

    def __init__(self, url: str, *, offset: Offsets | None = None, **options: Any) -> None:
        made = source(url, **options)
        self.schema = made.schema()
        reader = made.streamReader(self.schema)
        assert isinstance(reader, StreamReader)
        self.reader = reader
        self.offset = _stored(reader.initialOffset()) if offset is None else offset

    def next(self, *, unlimited: bool = False) -> list[dict[str, Any]]:
        """Run a micro-batch with what there is, and return its rows."""
        limit = ReadAllAvailable() if unlimited else self.reader.getDefaultReadLimit()
        end = _stored(self.reader.latestOffset(self.offset, limit))
        found = self.between(self.offset, end)
        self.offset = end
        return found

    def between(self, start: Offsets, end: Offsets) -> list[dict[str, Any]]:
        """Return the rows of a micro-batch, as one that is run again after a crash."""
        if start == end:
            return []
        worker: StreamReader = _sent(self.reader)
        parts = [_sent(each) for each in self.reader.partitions(start, end)]
        found: list[dict[str, Any]] = _table(self.schema, worker, parts).to_pylist()
        return found

    def rest(self) -> list[list[dict[str, Any]]]:
        """Run all that there is, as AvailableNow does, and return the rows of each batch."""
        self.reader.prepareForTriggerAvailableNow()
        batches: list[list[dict[str, Any]]] = []
        while True:
            before = self.offset
            found = self.next()
            if self.offset == before:
                return batches
            batches.append(found)

    def stop(self) -> None:
        self.reader.stop()


def numbers(found: Iterable[dict[str, Any]]) -> list[int]:
    """Return the `n` of each event's payload, sorted."""
    return sorted(json.loads(row["payload"])["n"] for row in found)


def fill(log: sl.Log, count: int, topic: str = "t", *, first: int = 0, partition: int = 0) -> None:
    """Append events that carry a number each."""
    values = [
        sl.Event("even" if n % 2 == 0 else "odd", {"n": n}) for n in range(first, first + count)
    ]
    for at in range(0, count, 10):
        log.append_many(topic, values[at : at + 10], partition=partition)


def _table(schema: StructType, reader: Any, parts: Sequence[Any]) -> pa.Table:
    arrow = to_arrow_schema(schema, timezone="UTC")
    batches = [batch for part in parts for batch in reader.read(_sent(part))]
    # Spark refuses anything that is not exactly this.
    assert all(batch.schema.equals(arrow) for batch in batches)
    return pa.Table.from_batches(batches, schema=arrow)


def _sent(value: Any) -> Any:
    """Return what another process gets."""
    return pickle.loads(pickle.dumps(value))


def _stored(offset: Offsets) -> Offsets:
    """Return an offset as it comes back from a checkpoint."""
    found: Offsets = json.loads(json.dumps(offset))
    return found
