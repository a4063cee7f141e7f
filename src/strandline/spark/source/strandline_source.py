"""The data source that Spark creates for `format("strandline")`."""

from collections.abc import MutableMapping

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from strandline.spark.garbage_collection import freeze_imports
from strandline.spark.sink.settings import batch_settings, check_append, stream_settings
from strandline.spark.sink.writers import BatchWriter, StreamWriter
from strandline.spark.source.batch import BatchReader, PushingReader
from strandline.spark.source.reading import SourceRead, reading_of
from strandline.spark.source.stream import StreamReader
from strandline.spark.table_options import (
    is_of_table,
    options_of,
    own_options,
    plain_columns,
    with_options,
)


class StrandlineSource(DataSource):
    """The data source; Spark creates one for each read or write, in a separate process."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(dict(options))

    @classmethod
    def name(cls) -> str:
        return "strandline"

    def schema(self) -> StructType:
        is_table = is_of_table(self.options)
        options = own_options(self.options) if is_table else self.options
        reading = reading_of(options)
        freeze_imports()
        found = reading.spark_schema()
        return with_options(found, {**options, "path": reading.url}) if is_table else found

    def reader(self, schema: StructType) -> DataSourceReader:
        reading = self._reading(schema)
        reading.options.check_batch()
        return PushingReader(reading) if reading.options.pushdown else BatchReader(reading)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 # Spark's.
        reading = self._reading(schema)
        reading.options.check_stream()
        return StreamReader(reading)

    def _reading(self, schema: StructType) -> SourceRead:
        return reading_of(options_of(schema, self.options)).narrowed(plain_columns(schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:  # Spark's.
        check_append(overwrite=overwrite)
        settings = batch_settings(options_of(schema, self.options))
        return BatchWriter(settings, plain_columns(schema))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        # For a stream, `overwrite` means output mode complete.
        options, names = options_of(schema, self.options), schema.fieldNames()
        return StreamWriter(stream_settings(options, names, is_complete=overwrite))
