"""What Spark makes when it meets `format("strandline")`."""

from collections.abc import MutableMapping

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from strandline.spark.sink.settings import batch_settings, check_append, stream_settings
from strandline.spark.sink.writers import BatchWriter, StreamWriter
from strandline.spark.source.batch import BatchReader, PushingReader
from strandline.spark.source.reading import reading_of
from strandline.spark.source.stream import StreamReader


class StrandlineSource(DataSource):
    """What Spark makes for each read, in a process of its own."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(dict(options))

    @classmethod
    def name(cls) -> str:
        return "strandline"

    def schema(self) -> StructType:
        return reading_of(self.options).spark_schema()

    def reader(self, schema: StructType) -> DataSourceReader:
        reading = reading_of(self.options).narrowed(schema)
        reading.options.check_batch()
        return PushingReader(reading) if reading.options.pushdown else BatchReader(reading)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 # Spark's.
        reading = reading_of(self.options).narrowed(schema)
        reading.options.check_stream()
        return StreamReader(reading)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:  # Spark's.
        check_append(overwrite=overwrite)
        return BatchWriter(batch_settings(self.options), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: ARG002, N802
        check_append(overwrite=overwrite)
        return StreamWriter(stream_settings(self.options))
