"""Encodes a run of records as one Parquet object, and decodes it."""

import base64
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from typing import Any, Final, Literal
from uuid import UUID

import msgspec
import pyarrow as pa

from strandline.tiering.arrow_parts import compute, parquet
from strandline.tiering.field_statistics import DeclaredFields, FieldBounds
from strandline.values import CorruptError, InvalidError, ValueKind
from strandline.values.batches import decode_batch
from strandline.values.row_selection import filtered
from strandline.values.widening import fitted

METADATA_KEY: Final = b"strandline"
GROUP_ROWS: Final = 64 * 1024
#: The columns of every record batch of a log, before those of the value.
OWN_COLUMNS: Final = ("_partition", "_offset", "_row", "_timestamp", "_key", "_tenant")
#: The topic's name, which distinguishes objects of several topics.
TOPIC: Final = "_topic"
#: The record's digest, in a topic with a proof; see design 0022.
DIGEST: Final = "_digest"
#: In a typed topic: the version of the schema with which a batch was published; negative
#: for a schema that is not a version, in an object with several.
SCHEMA_ID: Final = "_schema_id"
#: Columns that only copies have, and that a log does not return.
TIER_COLUMNS: Final = (TOPIC, DIGEST, SCHEMA_ID)
#: The declared fields of an event's payload, for other programs; see design 0119.
FIELDS: Final = "payload_fields"
#: Holds a batch as an Arrow IPC stream, if Parquet does not support one of its types.
PACKED: Final = "packed"


class About(msgspec.Struct, frozen=True, kw_only=True):
    """An object's description of itself, in the metadata of the file.

    Format 1 has no column `_topic` and one schema.
    """

    format: Literal[1, 2] = 2
    log_id: UUID
    topic_id: UUID
    topic: str
    partition: int
    start: int
    end: int
    epochs: tuple[tuple[int, int], ...]
    value_kind: ValueKind
    rows: int
    #: For batches: their schema, as Arrow serializes it.
    schema: str | None = None
    #: For batches of a typed topic: the version of that schema.
    schema_id: int | None = None
    #: For batches of several schemas: each of them, by its value in the column `_schema_id`.
    #: The columns are then united, as wide as the widest; see `united`.
    schemas: dict[int, str] | None = None
    #: In a topic with a proof: the stored values of the chain before the first record and
    #: after the last one.
    chain: tuple[str, str] | None = None
    #: In a topic of events with a declared payload: for each row group the bounds of its
    #: fields, by the names that predicates use.
    fields: dict[str, list[FieldBounds]] | None = None
    #: SHA-256 of the file up to its footer (which holds this): enough to verify a copy.
    digest: str | None = None


def packed_schema(schema: pa.Schema) -> str:
    """Return a schema as text."""
    return base64.b64encode(schema.serialize().to_pybytes()).decode()


def unpacked_schema(text: str) -> pa.Schema:
    """Return the schema that was packed."""
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))


def digest_of(content: bytes) -> str:
    """Return the digest that identifies an object's content."""
    return hashlib.sha256(content).hexdigest()


def encode(batches: Iterable[pa.RecordBatch], about: About) -> bytes:
    """Encode these rows, which are in offset order.

    Row groups end at record boundaries, so that no record is in two of them.
    """
    table = pa.Table.from_batches(batches)
    sink = BytesIO()
    with parquet().ParquetWriter(
        sink,
        table.schema,
        compression="zstd",
        write_statistics=_with_statistics(table),
        write_page_checksum=True,
        use_dictionary=_repetitive(table.schema),
        sorting_columns=[parquet().SortingColumn(1), parquet().SortingColumn(2)],
    ) as writer:
        for start, stop in _groups(table):
            writer.write_table(table.slice(start, stop - start), row_group_size=stop - start)
        with sink.getbuffer() as written:
            about = msgspec.structs.replace(about, digest=hashlib.sha256(written).hexdigest())
        writer.add_key_value_metadata({METADATA_KEY: msgspec.json.encode(about)})
    return sink.getvalue()


def with_fields(table: pa.Table, about: About, declared: pa.Schema) -> tuple[pa.Table, About]:
    """Return events with their declared fields as a column, and with the fields' bounds."""
    fields = DeclaredFields(declared, table.column("payload").combine_chunks())
    about = msgspec.structs.replace(about, fields=fields.bounds(_groups(table)))
    if fields.column is not None:
        table = table.append_column(FIELDS, fields.column)
    return table, about


def _with_statistics(table: pa.Table) -> bool | list[str]:
    """Return the columns that get statistics: all, or else those without NaN.

    Parquet's bounds ignore NaN, and most readers skip rows with NaN by them.
    """
    with_nan = {".".join(path) for path in float_paths(table.schema) if _has_nan(table, path)}
    if not with_nan:
        return True
    names = (".".join(path) for path, _ in _leaves_of(table.schema, ()))
    return [name for name in names if name not in with_nan]


def _has_nan(table: pa.Table, path: tuple[str, ...]) -> bool:
    values = table.column(path[0])
    if path[1:]:
        values = compute().struct_field(values, path[1:])
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    return bool(compute().any(compute().is_nan(values)).as_py())


def float_paths(fields: Iterable[pa.Field]) -> list[tuple[str, ...]]:
    """Return the path of each field of floats, also inside structs."""
    return [path for path, arrow in _leaves_of(fields, ()) if pa.types.is_floating(arrow)]


def _leaves_of(
    fields: Iterable[pa.Field], within: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], pa.DataType]]:
    """Yield path and type of each value, also inside structs, but not inside lists and maps."""
    for field in fields:
        path, arrow = (*within, field.name), field.type
        if pa.types.is_struct(arrow):
            yield from _leaves_of(arrow.fields, path)
        elif not pa.types.is_nested(arrow):
            yield path, arrow.value_type if pa.types.is_dictionary(arrow) else arrow


def _repetitive(schema: pa.Schema) -> list[str]:
    """Return the columns for dictionary encoding; offsets and payloads rarely repeat."""
    plain = {"_offset", "_timestamp", DIGEST, "payload", "value", PACKED}
    return [name for name in schema.names if name not in plain]


def _groups(table: pa.Table) -> Iterator[tuple[int, int]]:
    rows = table.num_rows
    numbers = table.column("_row")
    start = 0
    while start < rows:
        stop = min(rows, start + GROUP_ROWS)
        while stop < rows and numbers[stop].as_py() != 0:
            stop += 1
        yield start, stop
        start = stop


@dataclass(frozen=True, slots=True)
class _Group:
    index: int
    start: int
    end: int


class CopiedRows:
    """A fetched object that matches its digest. Any thread may read it."""

    def __init__(self, content: bytes, location: str) -> None:
        self._location = location
        self._content = content
        self.size_bytes: Final = len(content)
        try:
            file = parquet().ParquetFile(pa.BufferReader(content))
            self._metadata = file.metadata
            self._schema = file.schema_arrow
            kept = self._metadata.metadata or {}
            self.about: Final = msgspec.json.decode(kept[METADATA_KEY], type=About)
            self._groups = [self._group(index) for index in range(self._metadata.num_row_groups)]
        except (pa.ArrowException, KeyError, msgspec.MsgspecError, OSError) as error:
            raise self._corrupt("this object is not one of our copies", str(error)) from error
        self.rows: Final = self._metadata.num_rows
        #: Which of TIER_COLUMNS it has; a value's column may have one of these names.
        self.added: Final = self._added()
        self.schema: Final = self._plain_schema()

    def _group(self, index: int) -> _Group:
        found = self._metadata.row_group(index).column(1).statistics
        return _Group(index, found.min, found.max + 1)

    def _added(self) -> tuple[str, ...]:
        about = self.about
        has = {
            TOPIC: about.format > 1,
            DIGEST: about.chain is not None,
            SCHEMA_ID: about.schema_id is not None or about.schemas is not None,
        }
        found = tuple(name for name in TIER_COLUMNS if has[name])
        is_typed = about.value_kind is ValueKind.EVENT and FIELDS in self._schema.names
        return (*found, FIELDS) if is_typed else found

    def _plain_schema(self) -> pa.Schema:
        schema = self._schema
        metadata = {k: v for k, v in (schema.metadata or {}).items() if k != METADATA_KEY}
        return schema.with_metadata(metadata or None)

    @cached_property
    def _value_schemas(self) -> Mapping[int, pa.Schema]:
        """The schemas of the batches of a batch topic; a single one has the number 0."""
        if self.about.schemas is not None:
            return {number: unpacked_schema(text) for number, text in self.about.schemas.items()}
        assert self.about.schema is not None
        return {0: unpacked_schema(self.about.schema)}

    @cached_property
    def _schema_ids(self) -> pa.Array:
        """The schema id of each record, if there are several schemas."""
        found = [pa.array([], pa.int32())]
        for group in self._groups:
            columns = self._table(group, ["_row", SCHEMA_ID])
            firsts = columns.filter(compute().equal(columns.column("_row"), 0))
            found.append(firsts.column(SCHEMA_ID).combine_chunks())
        return pa.concat_arrays(found)

    def value_schemas(self, start: int, stop: int) -> Sequence[pa.Schema]:
        """Return the different schemas of the batches in [start, stop), in order of appearance."""
        if self.about.schemas is None:
            return list(self._value_schemas.values())
        first, last = max(start, self.about.start), min(stop, self.about.end)
        ids = self._schema_ids.slice(first - self.about.start, max(0, last - first)).unique()
        return [self._value_schemas[number] for number in ids.to_pylist()]

    @property
    def is_packed(self) -> bool:
        """Whether each row is a whole batch."""
        return self.about.value_kind is ValueKind.BATCH and PACKED in self.schema.names

    def check(self, start: int, end: int) -> None:
        """Raise CorruptError unless it holds each record of [start, end), in order."""
        expected = start
        for group in self._groups:
            columns = self._table(group, ["_offset", "_row"])
            offsets = columns.column("_offset").combine_chunks()
            firsts = offsets.filter(compute().equal(columns.column("_row").combine_chunks(), 0))
            wanted = pa.arange(expected, expected + len(firsts))
            if not firsts.equals(wanted) or not _rises(offsets):
                raise self._corrupt("records are missing in this copy", f"from {expected} on")
            expected += len(firsts)
        if (expected, self.about.start, self.about.end) != (end, start, end):
            raise self._corrupt("this copy holds another run of records", f"up to {expected}")

    def batches(
        self, start: int, stop: int, columns: list[str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the records in [start, stop), with the log's columns."""
        for group in self._groups:
            if group.end <= start or group.start >= stop:
                continue
            for batch in self._table(group, columns).combine_chunks().to_batches():
                yield _cut(batch, start, stop) if group.start < start or group.end > stop else batch

    def digests(self) -> list[bytes]:
        """Return the digest of each record; CorruptError if there are none."""
        if self.about.chain is None or DIGEST not in self.schema.names:
            raise self._corrupt("this copy has no digests", f"the column {DIGEST} is missing")
        found: list[bytes] = []
        for group in self._groups:
            columns = self._table(group, ["_row", DIGEST])
            firsts = columns.filter(compute().equal(columns.column("_row"), 0))
            found += firsts.column(DIGEST).to_pylist()
        return found

    def values(self, batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield the values in one of `batches` of a batch topic, each with its first row."""
        begins = compute().indices_nonzero(compute().equal(batch.column("_row"), 0)).to_pylist()
        if self.is_packed:
            for at in begins:
                stored = batch.column(PACKED)[at].as_buffer()
                try:
                    yield at, decode_batch(stored)
                except InvalidError as error:
                    raise self._corrupt("a record of this copy is invalid", str(error)) from error
            return
        if self.about.schemas is None:
            whole = as_published(batch, self._value_schemas[0])
            for at, upto in zip(begins, [*begins[1:], batch.num_rows], strict=True):
                yield at, whole.slice(at, upto - at)
            return
        records = compute().subtract(batch.column("_offset"), self.about.start)
        numbers = self._schema_ids.take(records)
        # All rows of one schema at once: only these have to fit its types.
        parts = {
            number: as_published(filtered(batch, compute().equal(numbers, number)), schema)
            for number, schema in self._value_schemas.items()
        }
        taken = dict.fromkeys(parts, 0)
        for at, upto in zip(begins, [*begins[1:], batch.num_rows], strict=True):
            number = numbers[at].as_py()
            yield at, parts[number].slice(taken[number], upto - at)
            taken[number] += upto - at

    def _table(self, group: _Group, columns: list[str] | None) -> pa.Table:
        # A new reader for each call: concurrent use of one by two threads crashes the process.
        source = pa.BufferReader(self._content)
        try:
            file = parquet().ParquetFile(source, metadata=self._metadata, pre_buffer=False)
            found = file.read_row_group(group.index, columns=columns)
            return found.drop_columns(list(self.added)) if self.added and not columns else found
        except (pa.ArrowException, KeyError, OSError) as error:
            raise self._corrupt("this copy cannot be decoded", str(error)) from error

    def _corrupt(self, message: str, reason: str) -> CorruptError:
        return CorruptError(message, file=self._location, position=0, reason=reason)


def as_published(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return only the columns of `schema`, with its types, as they were before copying.

    Raises pyarrow's ArrowInvalid if a value does not fit, and so cannot have been of that type.
    """
    columns = [fitted(batch.column(field.name), field.type) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _rises(offsets: pa.Array) -> bool:
    steps = compute().subtract(offsets.slice(1), offsets.slice(0, max(0, len(offsets) - 1)))
    return compute().min(steps).as_py() in (None, 0, 1) and compute().max(steps).as_py() in (
        None,
        0,
        1,
    )


def _cut(batch: pa.RecordBatch, start: int, stop: int) -> pa.RecordBatch:
    offsets = batch.column("_offset")
    first = compute().sum(compute().less(offsets, start)).as_py() or 0
    last = compute().sum(compute().less(offsets, stop)).as_py() or 0
    return batch.slice(first, last - first)


def record_sizes(batch: pa.RecordBatch, kind: ValueKind) -> pa.Array:
    """Return the size of each record of an event or bytes topic, as counted against limits."""
    names = ("_key", "kind", "payload", "headers") if kind is ValueKind.EVENT else ("_key", "value")
    total: Any = None
    for name in names:
        sizes = compute().fill_null(compute().binary_length(batch.column(name)), 0).cast(pa.int64())
        total = sizes if total is None else compute().add(total, sizes)
    return total
