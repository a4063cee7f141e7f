"""A read that continues between a log's store and its tier, wherever the records are."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from strandline.log import LogReader
from strandline.log.columns import RecordBatches, shared_columns
from strandline.log.draft import size_of
from strandline.tiering.cold_rows import batches_of, records_of
from strandline.tiering.cold_segments import ColdSegments
from strandline.tiering.segment import UserPartition
from strandline.values import Epoch, Record, TrimmedError, ValueKind
from strandline.values.widening import fitted_batch, united


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to read: [start, stop), within `bytes_max`."""

    place: UserPartition
    kind: ValueKind
    start: int
    stop: int
    bytes_max: int | None
    durable_only: bool


class TieredReading:
    """One read of a partition."""

    def __init__(
        self, hot: LogReader, cold: ColdSegments, wanted: Wanted, epochs: Sequence[Epoch]
    ) -> None:
        self._hot = hot
        self._cold = cold
        self._wanted = wanted
        self._epochs = epochs

    # --- records ---

    def records(self) -> Iterator[Record]:
        """Yield the records, from the store or the tier."""
        wanted = self._wanted
        left = wanted.bytes_max
        if left == 0:
            return
        for record in self._all_records():
            if left is not None:
                left -= size_of(record)
                if left < 0 and record.offset != wanted.start:
                    return
            yield record

    def _all_records(self) -> Iterator[Record]:
        wanted = self._wanted
        place, at = wanted.place, wanted.start
        while at < wanted.stop:
            try:
                found = self._hot.read(
                    place.named(),
                    place.partition,
                    at,
                    wanted.stop,
                    durable_only=wanted.durable_only,
                )
                for record in found:
                    yield record
                    at = record.offset + 1
            except TrimmedError:
                segment, rows = self._cold.fetched(place, self._epochs, at)
            else:
                return
            upto = min(wanted.stop, segment.end)
            for batch in rows.batches(at, upto):
                self._cold.check_kept(place, at)
                for record in records_of(rows, batch, place):
                    yield record
                    at = record.offset + 1

    # --- batches ---

    def batches(self) -> RecordBatches:
        """Return the records as record batches."""
        stop = self._stop()
        schema = self._schema(stop)
        return RecordBatches(schema, lambda: self.columns(schema, self._wanted.start, stop))

    def _stop(self) -> int:
        """Return one past the last record, converting the limit of bytes to an offset."""
        stop = self._wanted.stop
        if self._wanted.bytes_max is not None:
            stop = self._wanted.start
            for record in self.records():
                stop = record.offset + 1
        return stop

    def _schema(self, stop: int) -> pa.Schema:
        """Return the schema of all the record batches, which must be known before the first."""
        wanted, place = self._wanted, self._wanted.place
        end = self._hot.marks(place.named(), place.partition).high
        plain = self._hot.read_batches(place.named(), place.partition, end).schema
        if wanted.kind is not ValueKind.BATCH:
            return plain
        schemas, at = [plain], wanted.start
        while at < stop:
            try:
                found = self._hot.read_batches(
                    place.named(), place.partition, at, stop, durable_only=wanted.durable_only
                )
                schemas.append(found.schema)
                break
            except TrimmedError:
                segment, rows = self._cold.fetched(place, self._epochs, at)
                schemas += rows.value_schemas(at, min(stop, segment.end))
                at = segment.end
        return _united(schemas)

    def columns(
        self, schema: pa.Schema, at: int, stop: int | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the record batches from offset `at` on, with only the columns of `schema`."""
        wanted, place = self._wanted, self._wanted.place
        stop, names = self._stop() if stop is None else stop, set(schema.names)
        while at < stop:
            try:
                found = self._hot.read_batches(
                    place.named(), place.partition, at, stop, durable_only=wanted.durable_only
                )
                for batch in shared_columns(found, schema):
                    yield fitted_batch(batch, schema)
                    at = _following(batch)
            except TrimmedError:
                segment, rows = self._cold.fetched(place, self._epochs, at)
            else:
                return
            for batch in batches_of(rows, at, min(stop, segment.end), names):
                self._cold.check_kept(place, at)
                yield fitted_batch(batch, schema)
                at = _following(batch)


def _following(batch: pa.RecordBatch) -> int:
    offset: int = batch.column("_offset")[batch.num_rows - 1].as_py()
    return offset + 1


def _united(schemas: list[pa.Schema]) -> pa.Schema:
    own = len(schemas[0])
    # Records of one schema may lack a column of another.
    fields = [
        field if index < own else field.with_nullable(True)
        for index, field in enumerate(united(schemas))
    ]
    return pa.schema(fields)
