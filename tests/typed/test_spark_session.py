"""The table of types is Spark's own: a session takes what it names, and gives back every value."""

import pyarrow as pa
from pyspark.sql import SparkSession

from strandline.typed import spark_batch, spark_ddl, spark_schema
from tests.typed.test_types import EXAMPLES, plain

ROWS = max(len(values) for _, values, _ in EXAMPLES)


def test_a_session_keeps_every_value_of_every_type(spark: SparkSession) -> None:
    columns = [
        pa.array([*values, *[None] * (ROWS - len(values))], arrow) for arrow, values, _ in EXAMPLES
    ]
    names = [f"c{number}" for number in range(len(EXAMPLES))]
    batch = pa.RecordBatch.from_arrays(columns, names)
    given = pa.Table.from_batches([spark_batch(batch)])

    frame = spark.createDataFrame(given, schema=spark_ddl(batch.schema))
    back = frame.toArrow()

    found = {field.name: field.dataType.simpleString() for field in frame.schema}
    wanted = {name: ddl.replace("`", "") for name, (_, _, ddl) in zip(names, EXAMPLES, strict=True)}
    assert found == wanted
    assert given.schema == spark_schema(batch.schema)
    for name in names:
        assert plain(back.column(name)) == plain(batch.column(name)), name
