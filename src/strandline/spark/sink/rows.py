"""Converts rows of Spark into what a topic stores, and assigns their partitions.

Everything is checked here, in the task: once a batch is recorded, the log has to accept its rows.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from strandline._core import IS_COMPILED
from strandline.log import Log, parts_of
from strandline.spark.sink import kafka_rows
from strandline.typed import SchemaMismatchError
from strandline.typed.schemas import check_zone, conformed, fields_within, with_schema
from strandline.values import (
    RECORD_BYTES_MAX,
    Event,
    InvalidError,
    Topic,
    ValueKind,
    partition_for_key,
)

if IS_COMPILED:
    from strandline._core.core import are_json

KEY: Final = "_key"
TOPIC: Final = "topic"

_TIME: Final = pa.timestamp("us", "UTC")
_MAP: Final = pa.map_(pa.string(), pa.string())
_COLUMNS: Final = {
    ValueKind.EVENT: pa.schema(
        [
            ("kind", pa.string()),
            ("key", pa.string()),
            ("payload", pa.string()),
            ("headers", _MAP),
            ("occurred_at", _TIME),
        ]
    ),
    ValueKind.BYTES: pa.schema([("key", pa.string()), ("value", pa.binary())]),
}
_NEEDED: Final = {ValueKind.EVENT: ("kind",), ValueKind.BYTES: ("value",)}
#: Columns that the source adds on request, and that a log assigns itself.
_METADATA: Final = ("_topic", "_partition", "_offset", "_row", "_timestamp", "_key", "_tenant")

_ADVICE: Final = "cast the column in the query, timestamp has one, timestamp_ntz and date have none"

#: A text with at most so many brackets cannot be nested too deeply.
_FLAT_MAX: Final = 128
_DEEP_BYTES_MIN: Final = 2 * _FLAT_MAX

_decode = msgspec.json.Decoder().decode
_decode_lines = msgspec.json.Decoder().decode_lines
_compute: Any = pc


@dataclass(frozen=True, slots=True)
class TopicRows:
    """The columns and types of the rows of one topic."""

    topic: Topic
    kind: ValueKind
    partitions: int
    #: The newest schema of a typed topic.
    schema: pa.Schema | None
    #: The kind of events that are given as key and value, without a kind.
    event_kind: str | None = None

    def check(self, names: Sequence[str]) -> None:
        """Raise InvalidError unless a frame with these columns can be written here."""
        if len(set(names)) < len(names):
            raise InvalidError("two columns have one name, rename one", columns=list(names))
        if self.kind is ValueKind.BATCH:
            self._check_batch(names)
            return
        if self._is_kafka(names):
            strange = [name for name in names if name not in (*kafka_rows.COLUMNS, TOPIC)]
            if strange:
                self._refuse(strange, [], [*kafka_rows.COLUMNS])
            return
        known = [*_COLUMNS[self.kind].names, TOPIC]
        strange = [name for name in names if name not in known]
        missing = [name for name in _NEEDED[self.kind] if name not in names]
        if strange or missing:
            self._refuse(strange, missing, known[:-1])

    def _is_kafka(self, names: Sequence[str]) -> bool:
        return self.kind is ValueKind.EVENT and kafka_rows.is_kafka(names)

    def _check_batch(self, names: Sequence[str]) -> None:
        own = [name for name in names if name in _METADATA and name != KEY]
        if self.schema is None:
            if own:
                self._refuse(own, [], ["any others"])
            return
        known = [*self.schema.names, KEY, TOPIC]
        strange = [name for name in names if name not in known]
        missing = [each.name for each in self.schema if not each.nullable]
        missing = [name for name in missing if name not in names]
        if strange or missing:
            self._refuse(strange, missing, known[:-1])

    def _refuse(self, strange: list[str], missing: list[str], known: list[str]) -> None:
        raise InvalidError(
            f"a topic of kind {self.kind} has no place for some of these columns, or needs others: "
            "select those that it has",
            topic=self.topic.name,
            unknown=strange,
            missing=missing,
            known=known,
        )

    def plain(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows with only the topic's columns, in Spark's types."""
        if self._is_kafka(batch.schema.names):
            batch = kafka_rows.event_rows(batch, self.event_kind)
        if self.kind is not ValueKind.BATCH:
            return _selected(batch, _COLUMNS[self.kind])
        names = [name for name in batch.schema.names if name != TOPIC or self._has_topic_column()]
        return batch.select(names)

    def _has_topic_column(self) -> bool:
        return self.schema is not None and TOPIC in self.schema.names

    def stored(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return plain rows as they are staged, `_key` first; InvalidError if they cannot be."""
        if self.kind is ValueKind.EVENT:
            return _event_rows(rows)
        if self.kind is ValueKind.BYTES:
            found = _without_nulls(rows.rename_columns([KEY, "value"]))
            _check_size(found)
            return found
        return self._batch_rows(rows)

    def _batch_rows(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        keys = pa.nulls(rows.num_rows, pa.string())
        if KEY in rows.schema.names:
            keys = _cast(rows.column(KEY), KEY, pa.string())
            rows = rows.drop_columns([KEY])
        rows = _in_utc(rows) if self.schema is None else self._conformed(rows, self.schema)
        return pa.RecordBatch.from_arrays(
            [keys, *rows.columns], schema=pa.schema([pa.field(KEY, pa.string()), *rows.schema])
        )

    def _conformed(self, rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
        fields = [*fields_within(pa.struct(rows.schema), pa.struct(schema))]
        # A cast would leave them out.
        strange = [name for name, _, wanted in fields if wanted is None]
        if strange:
            self._refuse(strange, [], schema.names)
        for name, given, wanted in fields:
            check_zone(name, given, wanted, _ADVICE)
        try:
            return with_schema(conformed(_fixed_width(rows, schema), schema), schema)
        except SchemaMismatchError as error:
            raise self._misfit("; ".join(error.differences)) from error
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise self._misfit(str(error)) from error

    def _misfit(self, reason: str) -> InvalidError:
        return InvalidError(
            "a column does not fit the topic's schema, cast it in the query",
            topic=self.topic.name,
            reason=reason,
        )

    def split(self, rows: pa.RecordBatch, turn: int) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield the rows of each partition; rows without a key go to the one of this `turn`."""
        keys = rows.column(KEY)
        if self.kind is ValueKind.BATCH and keys.null_count < len(keys):
            # The rows of a key become one record.
            rows = rows.take(_compute.sort_indices(keys))
            keys = rows.column(KEY)
        if self.partitions == 1:
            yield 0, rows
            return
        numbers = self._numbers(keys, turn)
        order = np.argsort(numbers, kind="stable")
        found, starts = np.unique(numbers[order], return_index=True)
        ends = [*starts[1:].tolist(), len(order)]
        for number, start, end in zip(found.tolist(), starts.tolist(), ends, strict=True):
            whole = len(found) == 1
            yield number, rows if whole else rows.take(pa.array(order[start:end]))

    def _numbers(self, keys: pa.Array, turn: int) -> npt.NDArray[np.int64]:
        known = keys.dictionary_encode()
        places = [partition_for_key(key, self.partitions) for key in known.dictionary.to_pylist()]
        by_key = np.array([*places, turn % self.partitions], np.int64)
        indices: Any = known.indices.fill_null(len(places))
        found: npt.NDArray[np.int64] = by_key[indices.to_numpy(zero_copy_only=False)]
        return found


def topic_rows(log: Log, name: str, tenant: str | None, event_kind: str | None = None) -> TopicRows:
    """Return the format of rows of this topic: the tenant's own, else the global one."""
    topic = _find(log, name, tenant)
    settings = log.describe_topic(topic).settings
    partitions = settings.routing_partitions(parts_of(log).clock.now_us())
    known = log.scope(topic.tenant).topic(topic)
    schema = known.schema if known.is_typed else None
    return TopicRows(topic, settings.value_kind, partitions, schema, event_kind)


def _without_nulls(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows of bytes whose null values, Kafka's tombstones of their keys, are empty."""
    values = rows.column("value")
    if not values.null_count:
        return rows
    if _compute.any(_compute.and_(values.is_null(), rows.column(KEY).is_null())).as_py():
        raise InvalidError("a value is null without a key whose tombstone it could be")
    return rows.set_column(1, "value", values.fill_null(b""))


def _find(log: Log, name: str, tenant: str | None) -> Topic:
    if tenant is not None:
        own = [topic for topic in log.topics(tenant=tenant) if topic.name == name]
        if own:
            return own[0]
    return log.topic(name)


def _selected(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    names = set(batch.schema.names)
    columns = [
        _cast(batch.column(each.name), each.name, each.type)
        if each.name in names
        else pa.nulls(batch.num_rows, each.type)
        for each in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _cast(column: pa.Array, name: str, arrow: pa.DataType) -> pa.Array:
    check_zone(name, column.type, arrow, _ADVICE)
    try:
        found = column.cast(arrow)
        if pa.types.is_string(arrow) or pa.types.is_map(arrow):
            found.validate(full=True)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidError(
            "this column has another type, or a text that is not UTF-8: cast it in the query",
            column=name,
            given=str(column.type),
            wanted=str(arrow),
            reason=str(error),
        ) from error
    return found


def _in_utc(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return the rows with Spark's `Etc/UTC` called `UTC`, as everywhere in a log."""
    fields = [
        each.with_type(_TIME) if pa.types.is_timestamp(each.type) and each.type.tz else each
        for each in rows.schema
    ]
    return rows.cast(pa.schema(fields))


def _fixed_width(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the rows with binary columns and lists cut to the fixed width of the schema."""
    for index, each in enumerate(rows.schema):
        wanted = schema.field(each.name).type if each.name in schema.names else None
        if wanted is None:
            continue
        column = rows.column(index)
        if pa.types.is_fixed_size_binary(wanted):
            column = pa.array(column.to_pylist(), wanted)
        else:
            column = _sized(column, wanted)
        rows = rows.set_column(index, pa.field(each.name, column.type), column)
    return rows


def _has_sizes(arrow: pa.DataType) -> bool:
    """Whether there are lists of a fixed size in a type."""
    if pa.types.is_fixed_size_list(arrow):
        return True
    inner = range(arrow.num_fields) if pa.types.is_nested(arrow) else ()
    return any(_has_sizes(arrow.field(number).type) for number in inner)


def _sized(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Return the column with lists of a fixed size where the wanted type has them.

    Arrow's cast refuses lists in a struct that is null, and if all lists are null, it crashes
    on the buffers that Spark sends.
    """
    given = column.type
    if not _has_sizes(wanted):
        return column
    if pa.types.is_struct(given) and pa.types.is_struct(wanted):
        inner = [
            _sized(each, wanted.field(field.name).type)
            for each, field in zip(column.flatten(), given, strict=True)
        ]
        names = [field.name for field in given]
        return pa.StructArray.from_arrays(inner, names, mask=column.is_null())
    if pa.types.is_map(given) and pa.types.is_map(wanted):
        items = _sized(column.items, wanted.item_type)
        return pa.MapArray.from_arrays(column.offsets, column.keys, items, mask=column.is_null())
    if not (pa.types.is_list(given) and hasattr(wanted, "value_type")):
        return column
    if _has_sizes(wanted.value_type):
        values = _sized(column.values, wanted.value_type)
        column = pa.ListArray.from_arrays(column.offsets, values, mask=column.is_null())
    if not pa.types.is_fixed_size_list(wanted):
        return column
    sized = pa.list_(column.type.value_type, wanted.list_size)
    return pa.nulls(len(column), sized) if column.null_count == len(column) else column.cast(sized)


# --- events ---


def _event_rows(rows: pa.RecordBatch) -> pa.RecordBatch:
    kinds = rows.column("kind")
    if kinds.null_count:
        raise InvalidError("an event has a kind, and some rows have none")
    for kind in kinds.unique().to_pylist():
        Event.load(kind, b"null", None, b"{}", None)
    payloads = rows.column("payload").fill_null("null")
    _check_json(payloads)
    found = pa.RecordBatch.from_arrays(
        [rows.column("key"), kinds, payloads, _header_texts(rows), rows.column("occurred_at")],
        [KEY, "kind", "payload", "headers", "occurred_at"],
    )
    _check_size(found)
    return found


def _check_json(payloads: pa.Array) -> None:
    if IS_COMPILED:
        texts = payloads.cast(pa.large_binary())
        _, offsets, content = texts.buffers()
        if are_json(offsets, texts.offset, len(texts), content or b""):
            return
    if not _are_lines(payloads):
        for text in payloads.cast(pa.binary()).to_pylist():
            _check_payload(text)
    is_long = _compute.greater(_compute.binary_length(payloads), _DEEP_BYTES_MIN)
    for text in payloads.filter(is_long).cast(pa.binary()).to_pylist():
        if text.count(b"[") + text.count(b"{") > _FLAT_MAX:
            _check_payload(text)


def _are_lines(payloads: pa.Array) -> bool:
    """Whether each is JSON on one line; to decode all at once is much faster."""
    count = len(payloads)
    together = pa.ListArray.from_arrays(pa.array([0, count], pa.int32()), payloads)
    lines = _compute.binary_join(together, "\n")[0].as_buffer().to_pybytes()
    try:
        # The decoder skips blank lines, so the values are counted.
        return lines.count(b"\n") == count - 1 and len(_decode_lines(lines)) == count
    except (ValueError, RecursionError, msgspec.MsgspecError):
        return False


def _check_payload(text: bytes) -> None:
    try:
        Event("row", _decode(text))
    except (ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise InvalidError(
            "a payload is no JSON; to_json makes some of a column", payload=text, reason=str(error)
        ) from error


def _header_texts(rows: pa.RecordBatch) -> pa.Array:
    headers = rows.column("headers")
    if headers.null_count == len(headers):
        return pa.repeat(pa.scalar("{}"), len(headers))
    texts = [_header_text(each) for each in headers.to_pylist()]
    return pa.array(texts, pa.string())


def _header_text(pairs: list[tuple[str, str | None]] | None) -> str:
    if not pairs:
        return "{}"
    if any(value is None for _, value in pairs):
        raise InvalidError("a header has no value", headers=pairs)
    return msgspec.json.encode(dict(pairs), order="sorted").decode()


def _check_size(rows: pa.RecordBatch) -> None:
    """Raise InvalidError if a record would be larger than a log accepts."""
    if rows.nbytes <= RECORD_BYTES_MAX:
        return
    total = np.zeros(rows.num_rows, np.int64)
    for column in rows.columns:
        if not pa.types.is_timestamp(column.type):
            lengths: Any = _compute.binary_length(column).fill_null(0)
            total += lengths.to_numpy(zero_copy_only=False)
    if len(total) and int(total.max()) > RECORD_BYTES_MAX:
        raise too_large(int(total.max()))


def too_large(size: int) -> InvalidError:
    """Return the error for a row that no record can hold."""
    return InvalidError("a row is too large for a record", bytes=size, bytes_max=RECORD_BYTES_MAX)
