"""The two halves of a topic: objects that Spark reads as Parquet, and the tail after them.

They are divided once, at one offset, when the frame is made: each record is in exactly one half.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from itertools import takewhile
from typing import Any, Final
from urllib.parse import quote, unquote, urlsplit

import msgspec
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.pandas.types import from_arrow_schema

from strandline.log import Log
from strandline.opening import open_log
from strandline.spark.file_paths import literal_path
from strandline.spark.file_systems import has_file_system
from strandline.spark.garbage_collection import collector_paused
from strandline.spark.source.places import SourcePartition
from strandline.spark.source.reading import SourceRead, places_of, reading_of
from strandline.spark.source.rows import METADATA
from strandline.tiering import CopiedSegment, open_store
from strandline.tiering.arrow_parts import parquet
from strandline.tiering.cold_segments import ColdSegments
from strandline.tiering.parquet import PACKED
from strandline.tiering.segment import partition_of
from strandline.typed import spark_schema
from strandline.values import Mode, ValueKind

#: URL scheme of a store → scheme in Spark's file systems.
_SCHEMES: Final = {"s3": "s3a"}
#: The columns of an object of events or of bytes, besides the metadata.
_STORED: Final = {
    ValueKind.EVENT: [
        pa.field("kind", pa.string()),
        pa.field("payload", pa.string()),
        pa.field("headers", pa.string()),
        pa.field("occurred_at", pa.timestamp("us", "UTC")),
    ],
    ValueKind.BYTES: [pa.field("value", pa.binary())],
}


def united(spark: SparkSession, options: dict[str, str]) -> DataFrame:
    """Return the rows of both halves of the topic in the options."""
    reading = reading_of(options)
    cut = _cut_now(reading, partial(has_file_system, spark))
    parts = [_cold(spark, reading, cut)] if cut.copies else []
    if cut.has_tail or not parts:
        parts.append(_hot(spark, {**options, "path": reading.url, **cut.options()}))
    return reduce(DataFrame.union, parts)


@dataclass(slots=True)
class _Cut:
    """The offset at which each partition is divided, and the objects before it."""

    topic: str
    starts: dict[int, int] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)
    #: Each with the range of its offsets that belongs to the cold half.
    copies: list[tuple[CopiedSegment, int, int]] = field(default_factory=list)

    @property
    def has_tail(self) -> bool:
        return any(start < self.ends[number] for number, start in self.starts.items())

    def options(self) -> dict[str, str]:
        """Return the options of the source for the tail."""
        return {
            "startingOffsets": _json({self.topic: self.starts}),
            "endingOffsets": _json({self.topic: self.ends}),
        }


@collector_paused()
def _cut_now(reading: SourceRead, reaches: Callable[[str], bool]) -> _Cut:
    with open_log(reading.url, mode=Mode.READ) as log:
        return _cut_of(log, reading, reaches)


def _cut_of(log: Log, reading: SourceRead, reaches: Callable[[str], bool]) -> _Cut:
    places = places_of(log, reading.options)
    cut = _Cut(places[0].topic.name)
    cold = ColdSegments(log, open_store)
    is_native = _is_native(log, places[0], reading.format.kind)
    for place in places:
        marks = log.marks(*place)
        at, high = int(marks.low), int(marks.high)
        found = _copies(cold, log, place, at, high) if is_native else ()
        # Up to the first object in a store that Spark cannot read: the source reads the rest.
        for copy in takewhile(lambda each: reaches(_scheme(each)), found):
            end = min(copy.end, high)
            cut.copies.append((copy, at, end))
            at = end
        cut.starts[place.partition], cut.ends[place.partition] = at, high
    return cut


def _copies(
    cold: ColdSegments, log: Log, place: SourcePartition, low: int, high: int
) -> Sequence[CopiedSegment]:
    """Return the copies from the low-water mark on, up to the first gap."""
    found = cold.reach(partition_of(*place), log.epochs(*place), low)
    return [copy for copy in found if copy.start < high]


def _is_native(log: Log, place: SourcePartition, kind: ValueKind) -> bool:
    """Whether Parquet has this topic's rows as columns, of types that Spark reads.

    False for batches without a schema: objects may have them packed.
    """
    if kind is not ValueKind.BATCH:
        return True
    versions = log.scope(place.topic.tenant).topic(place.topic).versions
    return bool(versions) and all(map(_survives_parquet, versions))


def _survives_parquet(schema: pa.Schema) -> bool:
    if any(_has_half(each.type) for each in schema):
        return False  # Spark cannot read such columns.
    sink = pa.BufferOutputStream()
    try:
        parquet().write_table(schema.empty_table(), sink)
        found = parquet().read_schema(pa.BufferReader(sink.getvalue()))
    except (pa.ArrowException, ValueError):
        return False
    return bool(found.equals(schema))


def _has_half(arrow: pa.DataType) -> bool:
    if pa.types.is_nested(arrow):
        return any(_has_half(arrow.field(n).type) for n in range(arrow.num_fields))
    return bool(pa.types.is_float16(arrow))


# --- the cold half ---


def _cold(spark: SparkSession, reading: SourceRead, cut: _Cut) -> DataFrame:
    whole = [copy for copy, start, end in cut.copies if (start, end) == (copy.start, copy.end)]
    frames = [_objects(spark, reading, whole)] if whole else []
    for copy, start, end in cut.copies:
        if (start, end) != (copy.start, copy.end):
            part = _objects(spark, reading, [copy])
            frames.append(part.where(sql.col("_offset").between(start, end - 1)))
    rows = reduce(DataFrame.union, frames)
    tenant = reading.options.selection.tenant
    if tenant is not None:
        owner = sql.col("_tenant")
        rows = rows.where(owner.isNull() | (owner == tenant))
    if reading.format.kind is ValueKind.BATCH:
        rows = rows.where(_is_unpacked())
    names = reading.format.schema().names
    return rows.select([_column(reading.format.kind, name, cut.topic) for name in names])


def _objects(
    spark: SparkSession, reading: SourceRead, copies: Sequence[CopiedSegment]
) -> DataFrame:
    schema = from_arrow_schema(_stored_schema(reading), prefer_timestamp_ntz=True)
    # Otherwise Spark would not detect a flipped bit in a page.
    reader = spark.read.schema(schema).option("parquet.page.verify-checksum.enabled", "true")
    return reader.parquet(*map(_path, copies))


def _stored_schema(reading: SourceRead) -> pa.Schema:
    own = [each for each in METADATA if each.name != "_topic"]
    values = reading.format.values
    if values is None:
        return pa.schema([*own, *_STORED[reading.format.kind]])
    return pa.schema([*own, *spark_schema(values), pa.field(PACKED, pa.binary())])


def _path(copy: CopiedSegment) -> str:
    parts = urlsplit(copy.store)
    place = f"{parts.netloc}{unquote(parts.path)}".rstrip("/")
    return literal_path(f"{_scheme(copy)}://{place}/{quote(copy.name)}")


def _scheme(copy: CopiedSegment) -> str:
    """Return the scheme of a copy's store in Spark's file systems."""
    scheme = urlsplit(copy.store).scheme
    return _SCHEMES.get(scheme, scheme)


def _is_unpacked() -> Column:
    """Fail if an object has whole batches instead of columns: they would be read as null."""
    packed = sql.raise_error(
        sql.lit("this topic's batches are packed, read it with format('strandline')")
    )
    return sql.when(sql.col(PACKED).isNull(), sql.lit(True)).otherwise(packed.cast("boolean"))


def _column(kind: ValueKind, name: str, topic: str) -> Column:
    if name == "_topic":
        return sql.lit(topic).alias(name)
    if kind is not ValueKind.BATCH and name == "key":
        return sql.col("_key").alias(name)
    if kind is ValueKind.EVENT and name == "headers":
        return sql.from_json("headers", "map<string,string>").alias(name)
    return sql.col(f"`{name.replace('`', '``')}`")


# --- the hot half ---


def _hot(spark: SparkSession, options: dict[str, str]) -> DataFrame:
    reader = spark.read.format("strandline")
    for name, value in options.items():
        reader = reader.option(name, value)
    return reader.load()


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
