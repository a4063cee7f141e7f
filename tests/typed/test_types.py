"""Every type that a typed topic takes comes back exactly, and has its place in Spark."""

import datetime as dt
import io
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import strandline as sl
from strandline.typed import spark_batch, spark_ddl, spark_schema, spark_type
from strandline.typed.spark_types import mapping_table

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "typed-topics.md"

UTC = dt.UTC
DAY = dt.date(1999, 12, 31)
INSTANT = dt.datetime(2024, 2, 29, 12, 30, 0, 123456, UTC)
WHOLE = dt.datetime(2024, 2, 29, 12, 30)

EXAMPLES: list[tuple[pa.DataType, list[Any], str]] = [
    (pa.bool_(), [True, False], "boolean"),
    (pa.int8(), [-(2**7), 2**7 - 1], "tinyint"),
    (pa.int16(), [-(2**15), 2**15 - 1], "smallint"),
    (pa.int32(), [-(2**31), 2**31 - 1], "int"),
    (pa.int64(), [-(2**63), 2**63 - 1], "bigint"),
    (pa.uint8(), [0, 2**8 - 1], "smallint"),
    (pa.uint16(), [0, 2**16 - 1], "int"),
    (pa.uint32(), [0, 2**32 - 1], "bigint"),
    (pa.uint64(), [0, 2**63, 2**64 - 1], "decimal(20,0)"),
    (pa.float16(), [1.5, -0.0, float("inf")], "float"),
    (pa.float32(), [1.5, -0.0, float("-inf")], "float"),
    (pa.float64(), [0.1, -0.0, 5e-324], "double"),
    (pa.decimal32(9, 2), [Decimal("9999999.99")], "decimal(9,2)"),
    (pa.decimal64(18, 0), [Decimal(10**18 - 1)], "decimal(18,0)"),
    (
        pa.decimal128(38, 10),
        [Decimal("-1" + "0" * 27 + ".0123456789")],
        "decimal(38,10)",
    ),
    (pa.decimal256(38, 38), [Decimal("0." + "9" * 38)], "decimal(38,38)"),
    (pa.string(), ["", "äöü", "\x00", "🙂"], "string"),
    (pa.large_string(), ["", "long"], "string"),
    (pa.binary(), [b"", b"\x00\xff\xfe"], "binary"),
    (pa.large_binary(), [b"\xff"], "binary"),
    (pa.binary(3), [b"\x00\x01\x02"], "binary"),
    (pa.date32(), [DAY], "date"),
    (pa.date64(), [DAY], "date"),
    (pa.timestamp("s"), [WHOLE], "timestamp_ntz"),
    (pa.timestamp("ms"), [WHOLE], "timestamp_ntz"),
    (pa.timestamp("us"), [INSTANT.replace(tzinfo=None)], "timestamp_ntz"),
    (pa.timestamp("us", "UTC"), [INSTANT], "timestamp"),
    (pa.timestamp("ms", "+02:00"), [WHOLE.replace(tzinfo=UTC)], "timestamp"),
    (pa.timestamp("us", "Europe/Berlin"), [INSTANT], "timestamp"),
    (pa.list_(pa.int16()), [[1, None, 3], []], "array<smallint>"),
    (pa.large_list(pa.uint64()), [[2**64 - 1]], "array<decimal(20,0)>"),
    (pa.list_(pa.float32(), 2), [[1.0, 2.0]], "array<float>"),
    (
        pa.struct([pa.field("a", pa.uint8(), nullable=False), pa.field("b c", pa.string())]),
        [{"a": 255, "b c": None}],
        "struct<`a`:smallint,`b c`:string>",
    ),
    (pa.map_(pa.string(), pa.uint32()), [[("x", 2**32 - 1), ("y", None)]], "map<string,bigint>"),
    (
        pa.map_(pa.int32(), pa.list_(pa.struct([pa.field("z", pa.large_string())]))),
        [[(1, [{"z": "deep"}])]],
        "map<int,array<struct<`z`:string>>>",
    ),
]
NAMES = [str(example[0]) for example in EXAMPLES]


@pytest.mark.parametrize(("arrow", "values", "ddl"), EXAMPLES, ids=NAMES)
def test_a_type_comes_back_exactly(
    log: sl.Log, arrow: pa.DataType, values: list[Any], ddl: str
) -> None:
    """WC7: binary as binary, and integers above 2^63 as what they are."""
    batch = pa.RecordBatch.from_arrays(
        [pa.array([*values, None], arrow), pa.array(range(len(values) + 1))],
        schema=pa.schema([pa.field("x", arrow), pa.field("n", pa.int64(), nullable=False)]),
    )
    scope = log.scope()
    made = scope.register("things", batch.schema)
    scope.publish("things", batch)

    [delivered] = scope.replay("things", 0)

    assert isinstance(delivered, sl.DeliveredBatch)
    assert delivered.batch.schema == batch.schema == made.schema
    assert delivered.batch.equals(batch)
    assert delivered.batch.column("x").to_pylist() == batch.column("x").to_pylist()


@pytest.mark.parametrize(("arrow", "values", "ddl"), EXAMPLES, ids=NAMES)
def test_a_type_has_one_place_in_spark_that_keeps_every_value(
    arrow: pa.DataType, values: list[Any], ddl: str
) -> None:
    schema = pa.schema([pa.field("x", arrow, nullable=False)])
    batch = pa.RecordBatch.from_arrays([pa.array(values, arrow)], schema=schema)

    shown = spark_batch(batch)

    assert spark_type(arrow).ddl == ddl
    assert spark_ddl(schema) == f"`x` {ddl}"
    assert shown.schema == spark_schema(schema)
    assert shown.schema.field("x").nullable
    # Spark is given only what it takes as it is.
    assert spark_type(shown.schema.field("x").type).arrow == shown.schema.field("x").type
    assert plain(shown.column(0)) == plain(batch.column(0))


@pytest.mark.parametrize(("arrow", "values", "ddl"), EXAMPLES, ids=NAMES)
def test_parquet_carries_every_type(arrow: pa.DataType, values: list[Any], ddl: str) -> None:
    table = pa.table({"x": pa.array(values, arrow)})
    file = io.BytesIO()
    pq.write_table(table, file)

    read = pq.read_table(io.BytesIO(file.getvalue()))

    assert read.cast(table.schema).equals(table)


REFUSED = [
    pa.null(),
    pa.time32("s"),
    pa.time64("us"),
    pa.duration("us"),
    pa.month_day_nano_interval(),
    pa.timestamp("ns"),
    pa.timestamp("ns", "UTC"),
    pa.decimal128(5, -2),
    pa.decimal128(5, 6),
    pa.decimal256(39, 0),
    pa.string_view(),
    pa.binary_view(),
    pa.list_view(pa.int8()),
    pa.struct([]),
    pa.struct([pa.field("a", pa.int8()), pa.field("A", pa.int8())]),
    pa.struct([pa.field("", pa.int8())]),
    pa.run_end_encoded(pa.int32(), pa.int8()),
    pa.dense_union([pa.field("a", pa.int8())]),
    pa.uuid(),
    pa.list_(pa.time32("s")),
    pa.map_(pa.string(), pa.timestamp("ns")),
    pa.struct([pa.field("a", pa.duration("s"))]),
]


@pytest.mark.parametrize("arrow", REFUSED, ids=str)
def test_what_has_no_place_is_refused_with_the_column_and_the_reason(
    log: sl.Log, arrow: pa.DataType
) -> None:
    scope = log.scope()

    with pytest.raises(sl.UnsupportedTypeError) as caught:
        scope.register("things", pa.schema([pa.field("good", pa.int8()), pa.field("bad", arrow)]))

    assert caught.value.column.split(".")[0] == "bad"
    assert caught.value.reason
    assert scope.topics() == []


def test_names_that_spark_takes_for_one_are_refused(log: sl.Log) -> None:
    schema = pa.schema([pa.field("Total", pa.int8()), pa.field("total", pa.int8())])

    with pytest.raises(sl.UnsupportedTypeError, match="case") as caught:
        log.scope().register("things", schema)

    assert caught.value.column == "total"


@pytest.mark.parametrize(
    ("arrow", "number"),
    [
        (pa.timestamp("s"), 2**60),
        (pa.timestamp("ms", "UTC"), 2**62),
        (pa.list_(pa.timestamp("s")), [2**60]),
        (pa.date64(), 1),
    ],
    ids=str,
)
def test_a_value_that_spark_cannot_hold_is_refused(
    log: sl.Log, arrow: pa.DataType, number: Any
) -> None:
    plain = pa.list_(pa.int64()) if pa.types.is_list(arrow) else pa.int64()
    column = pa.array([number], plain).view(arrow) if plain == pa.int64() else _list_of(number)
    scope = log.scope()
    scope.register("things", pa.schema([pa.field("x", arrow)]))

    with pytest.raises(sl.InvalidError, match="Spark cannot hold"):
        scope.publish("things", pa.RecordBatch.from_arrays([column], ["x"]))


def test_a_name_is_quoted_for_spark() -> None:
    schema = pa.schema([pa.field("a b", pa.int8()), pa.field("tick`s", pa.uint64())])

    assert spark_ddl(schema) == "`a b` tinyint, `tick``s` decimal(20,0)"


def test_the_table_of_the_page_is_that_of_the_code() -> None:
    assert mapping_table() in PAGE.read_text(encoding="utf-8"), (
        "write typed.spark_types.mapping_table() into the page"
    )


def _list_of(numbers: list[int]) -> pa.Array:
    inner = pa.array(numbers, pa.int64()).view(pa.timestamp("s"))
    return pa.ListArray.from_arrays([0, len(numbers)], inner)


def plain(column: Any) -> list[Any]:
    """Return the values as plain Python ones, where 1 is 1 whatever its width."""
    return [_value(value) for value in column.to_pylist()]


def _value(value: Any) -> Any:
    if isinstance(value, list):
        return [_value(each) for each in value]
    if isinstance(value, tuple):
        return tuple(_value(each) for each in value)
    if isinstance(value, dict):
        return {key: _value(each) for key, each in value.items()}
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        return value.astimezone(UTC)
    return value
