"""The columns of Spark's rows, and their conversion from the log's record batches.

All values are Arrow arrays with exactly the types that Spark accepts from a Python source:
Spark refuses other types instead of casting them.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa

from strandline.scans.header_maps import decode_headers, header_maps
from strandline.spark.options import Shape
from strandline.typed import spark_schema
from strandline.typed.schemas import conformed
from strandline.values import InvalidError, Record, ValueKind

_TIME: Final = pa.timestamp("us", "UTC")
_MAP: Final = pa.map_(pa.string(), pa.string())
_KAFKA_HEADERS: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
#: Kafka's number for "the log's clock, when it was appended".
_LOG_APPEND_TIME: Final = 1

METADATA: Final = pa.schema(
    [
        ("_topic", pa.string()),
        ("_partition", pa.int32()),
        ("_offset", pa.int64()),
        ("_row", pa.int32()),
        ("_timestamp", _TIME),
        ("_key", pa.string()),
        ("_tenant", pa.string()),
    ]
)
EVENT_COLUMNS: Final = pa.schema(
    [
        ("kind", pa.string()),
        ("key", pa.string()),
        ("payload", pa.string()),
        ("headers", _MAP),
        ("occurred_at", _TIME),
    ]
)
#: The columns of these that a log stores with the same value.
_STORED_EVENT: Final = pa.schema(
    [EVENT_COLUMNS.field(name) for name in ("kind", "payload", "occurred_at")]
)
BYTES_COLUMNS: Final = pa.schema([("key", pa.string()), ("value", pa.binary())])
KAFKA_COLUMNS: Final = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", _TIME),
        ("timestampType", pa.int32()),
    ]
)
#: Column of Kafka → the log's columns that it is computed from, where the name differs.
_MADE_OF: Final = {
    "value": ("payload", "value"),
    "headers": ("kind", "headers"),
    "topic": (),
    "timestampType": (),
}


@dataclass(frozen=True, slots=True)
class RowFormat:
    """The rows of one read."""

    kind: ValueKind
    shape: Shape
    #: For a topic of batches: its own columns, as they are stored.
    values: pa.Schema | None = None
    #: The selected columns, in order; None until Spark has selected them.
    names: tuple[str, ...] | None = None

    @property
    def available(self) -> pa.Schema:
        """All available columns, in Spark's types."""
        if self.shape.is_kafka:
            extra = [pa.field("headers", _KAFKA_HEADERS)] if self.shape.include_headers else []
            return pa.schema([*KAFKA_COLUMNS, *extra])
        return pa.schema([*self._value_columns(), *METADATA])

    def _value_columns(self) -> pa.Schema:
        if self.kind is ValueKind.EVENT:
            return EVENT_COLUMNS
        if self.kind is ValueKind.BYTES:
            return BYTES_COLUMNS
        assert self.values is not None
        return spark_schema(self.values)

    def schema(self) -> pa.Schema:
        """Return the columns that the options select."""
        found = self.available
        if self.shape.is_kafka:
            return found
        if self.shape.columns is not None:
            return _picked(found, self.shape.columns)
        count = len(found) if self.shape.include_metadata else len(self._value_columns())
        return pa.schema(list(found)[:count])

    def stored(self, name: str) -> pa.Field | None:
        """Return the log's column that is shown unchanged under this name, if any."""
        if self.shape.is_kafka:
            name = f"_{name}" if name in ("offset", "timestamp") else ""
        elif self.kind is ValueKind.BATCH:
            assert self.values is not None
            if name in self.values.names:
                return self.values.field(name)
        elif name == "key":
            name = "_key"
        elif name in _STORED_EVENT.names and self.kind is ValueKind.EVENT:
            return _STORED_EVENT.field(name)
        return METADATA.field(name) if name in METADATA.names and name != "_topic" else None

    def stored_names(self) -> set[str]:
        """Return the columns that the rows are computed from; the log may lack some of them."""
        assert self.names is not None
        if self.shape.is_kafka:
            return {each for name in self.names for each in _MADE_OF.get(name, (f"_{name}",))}
        return {"_key" if name == "key" else name for name in self.names}

    def narrowed(self, wanted: pa.Schema) -> "RowFormat":
        """Return the format with the columns of the schema that Spark was given."""
        found = _picked(self.available, wanted.names)
        for field in wanted:
            if not field.type.equals(found.field(field.name).type):
                raise InvalidError(
                    "the schema gives this column another type than the topic has",
                    column=field.name,
                    given=str(field.type),
                    found=str(found.field(field.name).type),
                )
        return replace(self, names=tuple(wanted.names))

    def batches(self, raw: Iterable[pa.RecordBatch], topic: str) -> Iterator[pa.RecordBatch]:
        """Yield rows for Spark from record batches of the log."""
        assert self.names is not None
        schema = _picked(self.available, self.names)
        fields = list(schema)
        for each in raw:
            columns = [self._column(each, field, topic) for field in fields]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)

    def _column(self, raw: pa.RecordBatch, field: pa.Field, topic: str) -> pa.Array:
        name = field.name
        if self.shape.is_kafka:
            return _kafka_column(raw, name, topic)
        if name == "_topic":
            return pa.repeat(pa.scalar(topic, pa.string()), raw.num_rows)
        if self.kind is not ValueKind.BATCH:
            if name == "key":
                return raw.column("_key")
            if name == "headers":
                return header_maps(raw.column("headers"))
        column = raw.column(name)
        return column if column.type.equals(field.type) else column.cast(field.type)

    def check_known(self, found: pa.Schema) -> None:
        """Raise InvalidError if a batch has columns that are not in the schema."""
        assert self.values is not None
        new = [name for name in found.names if name not in self.values.names]
        if new and self.shape.is_strict:
            raise InvalidError(
                "records have columns that the topic did not have when this read began, "
                "start it again to have them, or leave them out with schemaMode=drop",
                columns=new,
            )


def _picked(schema: pa.Schema, names: Sequence[str]) -> pa.Schema:
    missing = [name for name in names if name not in schema.names]
    if missing:
        raise InvalidError("there are no such columns", columns=missing, known=schema.names)
    return pa.schema([schema.field(name) for name in names])


def _kafka_column(raw: pa.RecordBatch, name: str, topic: str) -> pa.Array:
    rows = raw.num_rows
    if name == "headers":
        return kafka_headers(raw)
    if name == "value":
        stored = "payload" if "payload" in raw.schema.names else "value"
        return raw.column(stored).cast(pa.binary())
    if name == "key":
        return raw.column("_key").cast(pa.binary())
    if name == "topic":
        return pa.repeat(pa.scalar(topic, pa.string()), rows)
    if name == "timestampType":
        return pa.repeat(pa.scalar(_LOG_APPEND_TIME, pa.int32()), rows)
    return raw.column(f"_{name}")


def kafka_headers(raw: pa.RecordBatch) -> pa.Array:
    """Return headers in Kafka's form, the kind of an event first; null if there are none."""
    if "headers" in raw.schema.names and raw.schema.field("headers").type == _KAFKA_HEADERS:
        # Of a topic that other programs write.
        return raw.column("headers")
    if "kind" not in raw.schema.names:
        return pa.nulls(raw.num_rows, _KAFKA_HEADERS)
    kinds, headers = raw.column("kind").to_pylist(), raw.column("headers").to_pylist()
    made: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for pair in zip(kinds, headers, strict=True):
        if pair not in made:
            named = [("kind", pair[0]), *decode_headers(pair[1]).items()]
            made[pair] = [{"key": name, "value": text.encode()} for name, text in named]
    lists = [made[pair] for pair in zip(kinds, headers, strict=True)]
    return pa.array(lists, _KAFKA_HEADERS)


def batch_rows(record: Record, values: pa.Schema) -> pa.RecordBatch:
    """Return the rows of a record of a batch topic, in the form of `read_batches`.

    Conformed to `values`: null where a column was added since, numbers widened.
    """
    value = record.value
    assert isinstance(value, pa.RecordBatch)
    rows = value if value.schema.equals(values) else conformed(value, values)
    count = rows.num_rows
    own = {
        "_partition": pa.repeat(pa.scalar(record.partition, pa.int32()), count),
        "_offset": pa.repeat(pa.scalar(record.offset, pa.int64()), count),
        "_row": pa.arange(0, count).cast(pa.int32()),
        "_timestamp": pa.repeat(pa.scalar(record.timestamp_us, _TIME), count),
        "_key": pa.repeat(pa.scalar(record.key, pa.string()), count),
        "_tenant": pa.repeat(pa.scalar(record.tenant, pa.string()), count),
    }
    names = [*own, *values.names]
    return pa.RecordBatch.from_arrays([*own.values(), *rows.columns], names=names)


def merged(batches: Iterator[pa.RecordBatch], rows_min: int) -> Iterator[pa.RecordBatch]:
    """Yield the same rows in record batches of at least `rows_min` rows, except the last.

    Small batches are copied while they are held. So the memory of their frame is freed at once
    and reused for the next frame; allocating new memory costs more than the copy.
    """
    held: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        if not held and batch.num_rows >= rows_min:
            yield batch
        elif batch.num_rows:
            held.append(_copied(batch))
            rows += batch.num_rows
        del batch
        if rows >= rows_min:
            yield pa.concat_batches(held)
            held, rows = [], 0
    if held:
        yield pa.concat_batches(held)


def _copied(batch: pa.RecordBatch) -> pa.RecordBatch:
    # Arrow returns the one column of a single batch as it is.
    return pa.concat_batches([batch, batch[:0]])
