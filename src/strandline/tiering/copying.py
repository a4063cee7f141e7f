"""Reads a run of records from a log, and makes it into one object."""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
import pyarrow as pa

from strandline.log import Damage, EventBody, History, Kept, Log, Piece
from strandline.tiering.arrow_parts import compute
from strandline.tiering.cold_rows import entries_of, stream_of
from strandline.tiering.parquet import (
    DIGEST,
    OWN_COLUMNS,
    PACKED,
    SCHEMA_ID,
    TIER_COLUMNS,
    TOPIC,
    About,
    CopiedRows,
    digest_of,
    encode,
    packed_schema,
    record_sizes,
    with_fields,
)
from strandline.tiering.segment import UserPartition
from strandline.typed import TopicDefinition, definition_of
from strandline.values import CorruptError, Epoch, InvalidError, TrimmedError, ValueKind
from strandline.values.widening import fitted, relaxed, united

#: The limits of one object, for a run without an end.
PIECE_RECORDS: Final = 256 * 1024
PIECE_BYTES: Final = 128 * 1024 * 1024
#: The maximal number of different batch schemas in one object.
SCHEMAS_MAX: Final = 64


@dataclass(frozen=True, slots=True)
class CopyDraft:
    """An object to be stored: its content, and its entry in the catalogue."""

    start: int
    end: int
    epochs: tuple[tuple[int, int], ...]
    first_us: int
    last_us: int
    record_bytes: int
    digest: str
    content: bytes


def read_piece(
    log: Log, place: UserPartition, start: int, end: int, *, bytes_max: int | None = None
) -> CopyDraft:
    """Return [start, end), or as much of it as fits one object.

    Ends early at `bytes_max`, and in a batch topic before a schema that is neither a wider nor
    a narrower version of those before it.
    """
    topic = place.named()
    settings = log.describe_topic(topic).settings
    kind = settings.value_kind
    found = None
    sizes = 0
    if kind is ValueKind.BATCH:
        found = SchemaRun(definition_of(log, topic))
        end = found.read(log, place, start, end, bytes_max)
        sizes, bytes_max = found.size_bytes, None
    source = log.read_batches(topic, place.partition, start, end, bytes_max=bytes_max)
    table = pa.Table.from_batches(list(source), schema=source.schema)
    if kind is not ValueKind.BATCH:
        sizes = sum(compute().sum(record_sizes(b, kind)).as_py() for b in table.to_batches())
    stamps = table.column("_timestamp").cast(pa.int64())
    end = table.column("_offset")[table.num_rows - 1].as_py() + 1
    epochs = epochs_within(log.epochs(topic, place.partition), start, end)
    about = About(
        log_id=log.id,
        topic_id=place.topic_id,
        topic=place.topic,
        partition=place.partition,
        start=start,
        end=end,
        epochs=epochs,
        value_kind=kind,
        rows=table.num_rows,
    )
    if found is not None:
        about = found.described(about)
    proof = _read_proof(log, place, start, end)
    if proof is not None:
        about = msgspec.structs.replace(about, chain=proof.chain)
    if found is None:
        if settings.payload_schema is not None:
            table, about = with_fields(table, about, settings.payload_schema)
        content = encode(_completed(table, about, proof).to_batches(), about)
    else:
        content = _encoded_batches(log, place, table, about, proof=proof, ids=found.ids)
    return CopyDraft(
        start,
        end,
        epochs,
        stamps[0].as_py(),
        stamps[len(stamps) - 1].as_py(),
        sizes,
        digest_of(content),
        content,
    )


@dataclass(frozen=True, slots=True)
class _Proof:
    """The stored proof of a run of records, in a log with a proof."""

    #: The chain's values before and after the run.
    chain: tuple[str, str]
    digests: list[bytes]
    #: In a batch topic: the stored values.
    streams: list[bytes]


def _read_proof(log: Log, place: UserPartition, start: int, end: int) -> _Proof | None:
    history = log.history(place.named(), place.partition, start, end)
    if not history.is_proved:
        return None
    following = log.history(place.named(), place.partition, end, end)
    if history.low > start:
        raise TrimmedError(history.low, partition=place.partition, offset=start)
    if history.anchor is None or following.anchor is None:
        raise _unreadable(place, start, "the proof is missing, see verify")
    digests, streams = [], []
    for entry in _entries(history, place):
        digests.append(history.chain.digest_kept(entry))
        if not isinstance(entry.body, EventBody):
            streams.append(bytes(entry.body))
    return _Proof((history.anchor.hex(), following.anchor.hex()), digests, streams)


def _entries(history: History, place: UserPartition) -> Iterator[Kept]:
    for piece in history.pieces:
        if isinstance(piece, Damage):
            raise _unreadable(place, piece.offset, piece.reason)
        if isinstance(piece, Piece):
            yield from piece.entries


def _unreadable(place: UserPartition, offset: int, reason: str) -> CorruptError:
    return CorruptError(
        "these records cannot be copied",
        file=None,
        position=None,
        topic=place.topic,
        partition=place.partition,
        offset=offset,
        reason=reason,
    )


def _completed(
    table: pa.Table, about: About, proof: _Proof | None, ids: Sequence[int] = ()
) -> pa.Table:
    """Return the rows with the columns that only copies have, after the log's own."""
    records = compute().subtract(table.column("_offset"), about.start)

    def of_records(values: Sequence[object], arrow: pa.DataType) -> pa.ChunkedArray:
        return pa.chunked_array([pa.array(values, arrow)]).take(records)

    added = {TOPIC: pa.repeat(pa.scalar(about.topic, pa.string()), table.num_rows)}
    if proof is not None:
        added[DIGEST] = of_records(proof.digests, pa.binary())
    if about.schemas is not None or about.schema_id is not None:
        added[SCHEMA_ID] = of_records(ids, pa.int32())
    for at, (name, column) in enumerate(added.items(), len(OWN_COLUMNS)):
        table = table.add_column(at, pa.field(name, column.type, nullable=False), column)
    return table


def epochs_within(epochs: Sequence[Epoch], start: int, end: int) -> tuple[tuple[int, int], ...]:
    """Return number and first offset of each epoch that has records in [start, end)."""
    ends = [int(each.start) for each in epochs[1:]] + [end]
    return tuple(
        (each.number, max(start, each.start))
        for each, following in zip(epochs, ends, strict=True)
        if max(start, each.start) < min(end, following)
    )


class SchemaRun:
    """Batches whose schemas can be united, and the schema of each."""

    def __init__(self, definition: TopicDefinition) -> None:
        self._definition = definition
        #: The serialized schemas, with their `_schema_id`.
        self._numbers: dict[bytes, int] = {}
        self._schemas: dict[int, pa.Schema] = {}
        self._wide: pa.Schema | None = None
        #: The schema id of each record.
        self.ids: list[int] = []
        self.size_bytes: int = 0

    def read(
        self, log: Log, place: UserPartition, start: int, end: int, bytes_max: int | None
    ) -> int:
        """Read batches from `start` on, and return where they end."""
        for record in log.read(place.named(), place.partition, start, end, bytes_max=bytes_max):
            value = record.value
            assert isinstance(value, pa.RecordBatch)
            number = self._number_of(value.schema)
            if number is None:
                return record.offset
            self.ids.append(number)
            self.size_bytes += value.nbytes + len((record.key or "").encode())
        return start + len(self.ids)

    def takes(self, schemas: Sequence[pa.Schema]) -> bool:
        """Add these schemas; False if one of them cannot be in the same object."""
        return all(self._number_of(each) is not None for each in schemas)

    def _number_of(self, schema: pa.Schema) -> int | None:
        """Return the id of a schema; None if it cannot be in the same object."""
        serialized = schema.serialize().to_pybytes()
        number = self._numbers.get(serialized)
        if number is not None:
            return number
        if not self._widens_to(schema):
            return None
        number = self._definition.version_of(schema)
        if number is None or number in self._schemas:
            number = -1 - len(self._schemas)
        self._numbers[serialized] = number
        self._schemas[number] = schema
        return number

    def _widens_to(self, schema: pa.Schema) -> bool:
        """Widen the columns to hold this schema, if one of the two holds the other.

        Schemas with little in common would make a table of nulls.
        """
        if self._wide is not None:
            if len(self._schemas) == SCHEMAS_MAX:
                return False
            try:
                wide = united([self._wide, schema])
            except InvalidError:
                return False
            if len(wide.names) > max(len(self._wide.names), len(schema.names)):
                return False
            schema = wide
        self._wide = schema
        return True

    def described(self, about: About) -> About:
        """Return the metadata of an object with these batches."""
        newest = max(self._schemas)
        about = msgspec.structs.replace(
            about,
            schema=packed_schema(self._schemas[newest]),
            schema_id=newest if newest > 0 else None,
        )
        if len(self._schemas) == 1:
            return about
        schemas = {number: packed_schema(each) for number, each in sorted(self._schemas.items())}
        return msgspec.structs.replace(about, schemas=schemas)


def _encoded_batches(
    log: Log,
    place: UserPartition,
    table: pa.Table,
    about: About,
    *,
    proof: _Proof | None,
    ids: Sequence[int],
) -> bytes:
    """Encode batches as columns, or packed if Parquet would change them."""
    if not {PACKED, *TIER_COLUMNS}.intersection(table.schema.names):
        for columns in (table, _relaxed(table)):
            # These errors mean that Parquet has no place for one of the names or types.
            with contextlib.suppress(pa.ArrowException, CorruptError, ValueError):
                # Parquet accepts invalid UTF-8, on which other readers then fail.
                columns.validate(full=True)
                content = encode(_completed(columns, about, proof, ids).to_batches(), about)
                if _comes_back(log, place, CopiedRows(content, "a new object"), proof):
                    return content
    firsts = table.select(list(OWN_COLUMNS)).filter(compute().equal(table.column("_row"), 0))
    firsts = _completed(firsts, about, proof, ids)
    packed = (
        [stream_of(value) for value in _values(log, place, about)]
        if proof is None
        else proof.streams
    )
    table = firsts.append_column(
        pa.field(PACKED, pa.binary(), nullable=False), pa.array(packed, pa.binary())
    )
    return encode(table.to_batches(), msgspec.structs.replace(about, rows=len(packed)))


def _relaxed(table: pa.Table) -> pa.Table:
    """Return the table with nulls allowed in nested fields: there may be some in any case."""
    fields = [field.with_type(relaxed(field.type)) for field in table.schema]
    columns = [
        pa.chunked_array([fitted(chunk, field.type) for chunk in column.chunks], field.type)
        for column, field in zip(table.columns, fields, strict=True)
    ]
    return pa.table(columns, schema=pa.schema(fields))


def _comes_back(log: Log, place: UserPartition, rows: CopiedRows, proof: _Proof | None) -> bool:
    """Whether the batches in an object equal the log's; with a proof, byte for byte."""
    about = rows.about
    batches = rows.batches(about.start, about.end)
    if proof is not None:
        streams = (entry.body for batch in batches for entry in entries_of(rows, batch))
        return list(streams) == proof.streams
    found = (value for batch in batches for _, value in rows.values(batch))
    values = _values(log, place, about)
    return all(_is_same(one, other) for one, other in zip(found, values, strict=True))


def _values(log: Log, place: UserPartition, about: About) -> Iterator[pa.RecordBatch]:
    for record in log.read(place.named(), place.partition, about.start, about.end):
        assert isinstance(record.value, pa.RecordBatch)
        yield record.value


def _is_same(one: pa.RecordBatch, other: pa.RecordBatch) -> bool:
    if not one.schema.equals(other.schema, check_metadata=True):
        return False
    return bool(one.equals(other)) or all(map(_is_same_column, one.columns, other.columns))


def _is_same_column(one: pa.Array, other: pa.Array) -> bool:
    """Whether two columns have the same values, where NaN equals NaN."""
    if one.equals(other):
        return True
    if pa.types.is_floating(one.type):
        # Compare bits, except those below a null, which have no meaning.
        return bool(one.is_null().equals(other.is_null())) and _bits(one).equals(_bits(other))
    return pa.types.is_nested(one.type) and repr(one.to_pylist()) == repr(other.to_pylist())


def _bits(column: pa.Array) -> pa.Array:
    numbers = {16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[column.type.bit_width]
    zero = pa.array([0], numbers).view(column.type)[0]
    return column.fill_null(zero).view(numbers)
