"""Shared by batch and stream readers: the topics, the rows, and reading a split."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from strandline.log import Log
from strandline.log.columns import narrowed
from strandline.opening import open_log
from strandline.predicates import Predicate
from strandline.predicates.bounds import Bound
from strandline.scans.sieve import STORED_AS, Sieve, predicate_columns, sieve
from strandline.scans.skipping import Skipping
from strandline.spark.garbage_collection import freeze_imports
from strandline.spark.log_urls import spark_url
from strandline.spark.options import ReadOptions, read_options
from strandline.spark.source.places import SourcePartition, chosen_places, chosen_topics, kept_range
from strandline.spark.source.rows import METADATA, RowFormat, batch_rows, merged
from strandline.spark.source.splits import Split
from strandline.values import InvalidError, Mode, Topic, TrimmedError, ValueKind

#: Smaller record batches are joined: each costs Spark about as much as thousands of rows.
_ROWS_MIN = 16 * 1024


@dataclass(frozen=True, slots=True)
class SourceRead:
    """The description of one read, which is sent to Spark's workers."""

    url: str
    options: ReadOptions
    format: RowFormat
    sieve: Sieve
    skipping: Skipping = field(default_factory=Skipping)

    def opened(self, mode: Mode = Mode.READ) -> Log:
        """Return the log, for the caller to close."""
        return open_log(self.url, mode=mode)

    def spark_schema(self) -> StructType:
        """Return the columns in Spark's types."""
        return from_arrow_schema(self.format.schema(), prefer_timestamp_ntz=True)

    def narrowed(self, schema: StructType) -> "SourceRead":
        """Return the read with the columns that Spark selects."""
        wanted = to_arrow_schema(schema, timezone="UTC")
        return replace(self, format=self.format.narrowed(wanted))

    def bounded(self, bounds: Iterable[Bound]) -> "SourceRead":
        """Return a read that skips what, by its statistics, has no row within these bounds."""
        return replace(self, skipping=self.skipping.and_also(bounds, self.format.stored))

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a split."""
        with self.opened() as log:
            found = self.format.batches(self._sifted(log, split), split.place.topic.name)
            yield from merged(found, _ROWS_MIN)
        freeze_imports()

    def _sifted(self, log: Log, split: Split) -> Iterator[pa.RecordBatch]:
        for start, end in self.skipping.kept(log, split.place, split.start, split.end):
            for raw in self._raw(log, split.place, start, end):
                seen = self.sieve.sifted(raw)
                if seen.num_rows:
                    yield seen

    def _raw(
        self, log: Log, place: SourcePartition, start: int, end: int
    ) -> Iterator[pa.RecordBatch]:
        """Yield the log's record batches; records trimmed meanwhile count as data loss."""
        fails = self.options.fail_on_data_loss
        at, end = kept_range(place, start, end, log.marks(*place), fail_on_data_loss=fails)
        while at < end:
            try:
                for raw, following in self._stored(log, place, at, end):
                    yield raw
                    at = following
            except TrimmedError as error:
                if fails:
                    raise
                at = max(at, error.oldest)
            else:
                return

    def _stored(
        self, log: Log, place: SourcePartition, start: int, end: int
    ) -> Iterator[tuple[pa.RecordBatch, int]]:
        """Yield record batches, with the offset that follows each."""
        if self.format.kind is not ValueKind.BATCH:
            found = log.read_batches(*place, start, end)
            for raw in narrowed(found, self._stored_names(found.schema)):
                yield raw, raw.column("_offset")[raw.num_rows - 1].as_py() + 1
            return
        # Record by record: in one read the log would unite schemas that typed topics allow.
        values = self.format.values
        assert values is not None
        for record in log.read(*place, start, end):
            assert isinstance(record.value, pa.RecordBatch)
            self.format.check_known(record.value.schema)
            yield batch_rows(record, values), record.offset + 1

    def _stored_names(self, stored: pa.Schema) -> list[str]:
        """Return the columns of the log that the rows, the sieve and this reading need."""
        needed = {"_offset", *self.format.stored_names(), *self.sieve.stored_names()}
        return [name for name in stored.names if name in needed]


def reading_of(given: Mapping[str, str]) -> SourceRead:
    """Return the read that the options describe; opens the log to find the topics' columns."""
    options = read_options(given)
    url = spark_url(options.url)
    with open_log(url, mode=Mode.READ) as log:
        topics = chosen_topics(log, options.selection)
        if not topics:
            raise InvalidError(
                "no topic has such a name yet, so its columns are unknown",
                pattern=options.selection.pattern,
            )
        chosen_places(log, options.selection, topics)
        settings = [log.describe_topic(topic).settings for topic in topics]
        kinds = {each.value_kind for each in settings}
        if len(kinds) > 1:
            raise InvalidError(
                "these topics hold different kinds of values, read them separately",
                kinds=sorted(kinds),
            )
        (kind,) = kinds
        if kind is ValueKind.BATCH and options.shape.is_kafka:
            raise InvalidError(
                "a topic of batches has columns of its own, read it without valueFormat=kafka"
            )
        is_one = kind is ValueKind.BATCH or len({each.schema for each in settings}) == 1
        if options.shape.predicate is not None and not is_one:
            raise InvalidError(
                "a predicate reads one payload_schema, and these topics declare several, "
                "read them separately"
            )
        values = _value_schema(log, topics) if kind is ValueKind.BATCH else None
    rows = RowFormat(kind, options.shape, values)
    rows.schema()
    offered = predicate_columns(settings[0], values)
    picked = sieve(kind, options.selection.tenant, options.shape.predicate, offered)
    reading = SourceRead(url, options, rows, picked)
    return reading if picked.predicate is None else _skipping(reading, picked.predicate)


def _skipping(reading: SourceRead, predicate: Predicate) -> SourceRead:
    """Return a read that skips what, by its statistics, the predicate excludes."""
    if reading.format.kind is not ValueKind.EVENT:
        return reading.bounded(predicate.bounds)
    native = replace(reading.format, shape=replace(reading.format.shape, is_kafka=False))
    bounds = [
        replace(each, column=STORED_AS.get(each.column, each.column)) for each in predicate.bounds
    ]
    return replace(reading, skipping=reading.skipping.and_also(bounds, native.stored))


def _value_schema(log: Log, topics: Sequence[Topic]) -> pa.Schema:
    """Return the registered columns of typed topics; for others, those of their batches.

    For these, only the oldest and the newest batch of each partition are read.
    """
    found: list[pa.Schema] = []
    for topic in topics:
        known = log.scope(topic.tenant).topic(topic)
        if known.is_typed:
            found.append(known.schema)
            continue
        for number in range(log.describe_topic(topic).settings.partitions):
            marks = log.marks(topic, number)
            if marks.low < marks.high:
                for offset in {int(marks.low), int(marks.high) - 1}:
                    batches = log.read_batches(topic, number, offset, offset + 1)
                    found.append(batches.schema)
    if not found:
        raise InvalidError(
            "these topics hold no batch yet, so their columns are unknown",
            topics=[topic.name for topic in topics],
        )
    try:
        united = pa.unify_schemas(found)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise InvalidError(
            "one column has two types in these batches, read them separately", reason=str(error)
        ) from error
    return pa.schema([field for field in united if field.name not in METADATA.names])


def places_of(log: Log, options: ReadOptions) -> Sequence[SourcePartition]:
    """Return the current partitions to read."""
    return chosen_places(log, options.selection, chosen_topics(log, options.selection))
