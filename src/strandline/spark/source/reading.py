"""What batch and stream readers have in common: the topics, the rows, and reading a split."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from strandline.log.protocol import Log
from strandline.opening import open_log
from strandline.spark.log_url import absolute_url
from strandline.spark.options import ReadOptions, read_options
from strandline.spark.source.places import Place, chosen_places, chosen_topics, kept_range
from strandline.spark.source.rows import METADATA, RowFormat, merged, of_tenant
from strandline.spark.source.splits import Split
from strandline.values import InvalidError, Mode, Topic, TrimmedError, ValueKind

#: Smaller record batches are joined: each costs Spark about as much as thousands of rows.
_ROWS_MIN = 16 * 1024


@dataclass(frozen=True, slots=True)
class Reading:
    """One read, as every process needs to know it; it is sent to Spark's workers."""

    url: str
    options: ReadOptions
    format: RowFormat

    def opened(self, mode: Mode = Mode.READ) -> Log:
        """Return the log, for the caller to close."""
        return open_log(self.url, mode=mode)

    def spark_schema(self) -> StructType:
        """Return the columns, as Spark has them."""
        return from_arrow_schema(self.format.schema(), prefer_timestamp_ntz=True)

    def narrowed(self, schema: StructType) -> "Reading":
        """Return the read with the columns that Spark wants."""
        wanted = to_arrow_schema(schema, timezone="UTC")
        return replace(self, format=self.format.narrowed(wanted))

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a split."""
        with self.opened() as log:
            yield from merged(self._converted(log, split), _ROWS_MIN)

    def _converted(self, log: Log, split: Split) -> Iterator[pa.RecordBatch]:
        tenant = self.options.selection.tenant
        for raw in self._raw(log, split):
            seen = raw if tenant is None else of_tenant(raw, tenant)
            if seen.num_rows:
                yield self.format.batch(seen, split.place.topic.name)

    def _raw(self, log: Log, split: Split) -> Iterator[pa.RecordBatch]:
        """Yield the log's record batches; what was trimmed meanwhile is a loss of data."""
        fails = self.options.fail_on_data_loss
        at, end = kept_range(
            split.place,
            split.start,
            split.end,
            log.marks(*split.place),
            fail_on_data_loss=fails,
        )
        while at < end:
            try:
                batches = log.read_batches(*split.place, at, end)
                self.format.check_known(batches.schema)
                for raw in batches:
                    yield raw
                    if raw.num_rows:
                        at = raw.column("_offset")[raw.num_rows - 1].as_py() + 1
            except TrimmedError as error:
                if fails:
                    raise
                at = max(at, error.oldest)
            else:
                return


def reading_of(given: Mapping[str, str]) -> Reading:
    """Return the read that the options ask for; opens the log to see what the topics hold."""
    options = read_options(given)
    url = absolute_url(options.url)
    with open_log(url, mode=Mode.READ) as log:
        topics = chosen_topics(log, options.selection)
        if not topics:
            raise InvalidError(
                "no topic has such a name yet, so nobody knows its columns",
                pattern=options.selection.pattern,
            )
        chosen_places(log, options.selection, topics)
        kinds = {log.describe_topic(topic).settings.value_kind for topic in topics}
        if len(kinds) > 1:
            raise InvalidError(
                "these topics hold different kinds of values, read them apart",
                kinds=sorted(kinds),
            )
        (kind,) = kinds
        if kind is ValueKind.BATCH and options.shape.is_kafka:
            raise InvalidError(
                "a topic of batches has columns of its own, read it without valueFormat=kafka"
            )
        values = _value_schema(log, topics) if kind is ValueKind.BATCH else None
    format_ = RowFormat(kind, options.shape, values)
    format_.schema()
    return Reading(url, options, format_)


def _value_schema(log: Log, topics: Sequence[Topic]) -> pa.Schema:
    """Return the columns of the oldest and the newest batch of each partition, united."""
    found: list[pa.Schema] = []
    for topic in topics:
        for number in range(log.describe_topic(topic).settings.partitions):
            marks = log.marks(topic, number)
            if marks.low < marks.high:
                for offset in {int(marks.low), int(marks.high) - 1}:
                    batches = log.read_batches(topic, number, offset, offset + 1)
                    found.append(batches.schema)
    if not found:
        raise InvalidError(
            "these topics hold no batch yet, so nobody knows their columns",
            topics=[topic.name for topic in topics],
        )
    try:
        united = pa.unify_schemas(found)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise InvalidError(
            "one column has two types in these batches, read them apart", reason=str(error)
        ) from error
    return pa.schema([field for field in united if field.name not in METADATA.names])


def places_of(log: Log, options: ReadOptions) -> Sequence[Place]:
    """Return the partitions to read, as they are now."""
    return chosen_places(log, options.selection, chosen_topics(log, options.selection))
