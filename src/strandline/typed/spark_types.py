"""Maps the Arrow types of typed topics to Spark types, without losing a value.

Imports only pyarrow; the spark package uses it. The table is in docs/howto/typed-topics.md.
"""

from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

import pyarrow as pa

from strandline.typed.errors import UnsupportedTypeError
from strandline.values import InvalidError
from strandline.values.arguments import check_instance
from strandline.values.batches import check_content, check_schema, check_structure
from strandline.values.names import check_text

Refusal: TypeAlias = Callable[[str], UnsupportedTypeError]
"""Makes the error for the current column, given a reason."""

DECIMAL_DIGITS_MAX: Final = 38
"""The maximum for Spark's decimals."""

_TIMESTAMP: Final = pa.timestamp("us", "UTC")


class SparkType(NamedTuple):
    """A type in Arrow, as Spark accepts it, and in Spark's DDL."""

    arrow: pa.DataType
    ddl: str


class _Row(NamedTuple):
    arrow: str
    spark: str
    note: str


# Types without parameters. The types on the right-hand side are those that Spark uses.
_PLAIN: Final[dict[pa.DataType, SparkType]] = {
    pa.bool_(): SparkType(pa.bool_(), "boolean"),
    pa.int8(): SparkType(pa.int8(), "tinyint"),
    pa.int16(): SparkType(pa.int16(), "smallint"),
    pa.int32(): SparkType(pa.int32(), "int"),
    pa.int64(): SparkType(pa.int64(), "bigint"),
    pa.uint8(): SparkType(pa.int16(), "smallint"),
    pa.uint16(): SparkType(pa.int32(), "int"),
    pa.uint32(): SparkType(pa.int64(), "bigint"),
    pa.uint64(): SparkType(pa.decimal128(20, 0), "decimal(20,0)"),
    pa.float16(): SparkType(pa.float32(), "float"),
    pa.float32(): SparkType(pa.float32(), "float"),
    pa.float64(): SparkType(pa.float64(), "double"),
    pa.string(): SparkType(pa.string(), "string"),
    pa.large_string(): SparkType(pa.string(), "string"),
    pa.binary(): SparkType(pa.binary(), "binary"),
    pa.large_binary(): SparkType(pa.binary(), "binary"),
    pa.date32(): SparkType(pa.date32(), "date"),
    pa.date64(): SparkType(pa.date32(), "date"),
}
#: The ids of types whose every value Spark can hold.
_ALWAYS_HELD: Final = frozenset(arrow.id for arrow in _PLAIN if arrow != pa.date64())

_NOTES: Final[dict[pa.DataType, str]] = {
    pa.uint8(): "the next wider signed integer",
    pa.uint16(): "the next wider signed integer",
    pa.uint32(): "the next wider signed integer",
    pa.uint64(): "Spark has no wider integer",
    pa.float16(): "every half is a float",
    pa.date64(): "whole days only, checked when published",
}

_REFUSED: Final[tuple[tuple[Callable[[pa.DataType], bool], str, str], ...]] = (
    (pa.types.is_null, "null", "a column that can hold nothing has no use, give it a type"),
    (pa.types.is_time, "time32, time64", "Spark reads no times of day, use an integer or text"),
    (pa.types.is_duration, "duration", "Spark reads no durations, use an integer"),
    (pa.types.is_interval, "interval", "Parquet carries no intervals, use integers"),
    (pa.types.is_union, "union", "Parquet carries no unions, use a struct"),
    (
        lambda given: pa.types.is_string_view(given) or pa.types.is_binary_view(given),
        "string_view, binary_view",
        "Spark takes no views, use string or binary",
    ),
    (
        lambda given: pa.types.is_list_view(given) or pa.types.is_large_list_view(given),
        "list_view",
        "Spark takes no views, use list",
    ),
    (
        pa.types.is_run_end_encoded,
        "run_end_encoded",
        "Parquet carries no run-end encoding, use the type of its values",
    ),
    (
        lambda given: isinstance(given, pa.BaseExtensionType),
        "extension",
        "Spark knows no extension types, use the type that it is stored as",
    ),
)


def spark_type(arrow: pa.DataType, column: str = "") -> SparkType:
    """Return `arrow` in Spark; UnsupportedTypeError, for `column`, if there is no such type."""
    check_schema(pa.schema([("", check_instance("arrow", arrow, pa.DataType))]))
    return _spark_type(arrow, check_text(column, "column"))


def _spark_type(arrow: pa.DataType, column: str) -> SparkType:
    def refusal(reason: str) -> UnsupportedTypeError:
        return UnsupportedTypeError(column, reason, type=str(arrow))

    if isinstance(arrow, pa.BaseExtensionType):
        raise refusal(_reason(arrow))
    if plain := _PLAIN.get(arrow):
        return plain
    if pa.types.is_fixed_size_binary(arrow):
        return SparkType(pa.binary(), "binary")
    if pa.types.is_decimal(arrow):
        return _decimal(arrow, refusal)
    if pa.types.is_timestamp(arrow):
        return _timestamp(arrow, refusal)
    if pa.types.is_dictionary(arrow):
        return _spark_type(arrow.value_type, column)
    if pa.types.is_nested(arrow):
        return _nested(arrow, column, refusal)
    raise refusal(_reason(arrow))


def spark_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema of the batches given to Spark, in which every field is nullable."""
    check_schema(check_instance("schema", schema, pa.Schema))
    return pa.schema(
        pa.field(field.name, spark_type(field.type, field.name).arrow) for field in schema
    )


def spark_ddl(schema: pa.Schema) -> str:
    """Return the schema in Spark's DDL."""
    check_schema(check_instance("schema", schema, pa.Schema))
    return ", ".join(
        f"{_quoted(field.name)} {spark_type(field.type, field.name).ddl}" for field in schema
    )


def spark_batch(batch: pa.RecordBatch, schema: pa.Schema | None = None) -> pa.RecordBatch:
    """Return the rows in the form that Spark accepts; `schema` is `spark_schema(batch.schema)`.

    InvalidError for a value that Spark cannot hold, which `publish` accepts in no typed
    topic, and for a schema that is not this batch's.
    """
    check_structure(check_instance("batch", batch, pa.RecordBatch))
    wanted = spark_schema(batch.schema) if schema is None else schema
    check_schema(check_instance("schema", wanted, pa.Schema))
    check_content(batch)
    try:
        columns = [
            column if column.type.equals(field.type) else column.cast(field.type)
            for column, field in zip(batch.columns, wanted, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=wanted)
    except (pa.ArrowException, ValueError) as error:
        raise InvalidError("this batch does not fit Spark's types", reason=str(error)) from error


def may_exceed_spark(arrow: pa.DataType) -> bool:
    """Whether a column of this type can hold a value that Spark cannot."""
    if arrow.id in _ALWAYS_HELD:
        return False
    if pa.types.is_timestamp(arrow):
        return arrow.unit in ("s", "ms")
    if pa.types.is_nested(arrow):
        return any(may_exceed_spark(arrow.field(n).type) for n in range(arrow.num_fields))
    return bool(pa.types.is_date64(arrow))


def mapping_table() -> str:
    """Return the table for the documentation."""
    rows = [
        _Row(f"`{arrow}`", f"`{spark.ddl}`", _NOTES.get(arrow, ""))
        for arrow, spark in _PLAIN.items()
    ]
    rows += [
        _Row("`fixed_size_binary[n]`", "`binary`", ""),
        _Row("`decimal32`, `64`, `128`, `256` `(p, s)`", "`decimal(p,s)`", "0 ≤ s ≤ p ≤ 38"),
        _Row("`timestamp[us, tz]`", "`timestamp`", "the instant; the zone stays in the schema"),
        _Row("`timestamp[us]`", "`timestamp_ntz`", ""),
        _Row("`timestamp[s]`, `[ms]`", "the same", "Spark's range, checked when published"),
        _Row("`list`, `large_list`, `fixed_size_list`", "`array<…>`", ""),
        _Row("`struct`", "`struct<…>`", "at least one field"),
        _Row("`map`", "`map<…,…>`", ""),
        _Row("`dictionary`", "that of its values", "decoded when registered and published"),
        _Row("`timestamp[ns]`", "refused", _NANOSECONDS),
    ]
    rows += [_Row(f"`{name}`", "refused", reason) for _, name, reason in _REFUSED]
    lines = [f"| {row.arrow} | {row.spark} | {row.note} |" for row in rows]
    return "\n".join(["| Arrow | Spark | |", "|---|---|---|", *lines])


_NANOSECONDS: Final = "Spark keeps microseconds, use timestamp[us] or an integer"


def _reason(arrow: pa.DataType) -> str:
    for matches, _, reason in _REFUSED:
        if matches(arrow):
            return reason
    return "it has no counterpart in Spark"


def _decimal(arrow: pa.DataType, refusal: Refusal) -> SparkType:
    digits, scale = arrow.precision, arrow.scale
    if digits > DECIMAL_DIGITS_MAX:
        raise refusal(f"Spark's decimals have {DECIMAL_DIGITS_MAX} digits at most")
    if not 0 <= scale <= digits:
        raise refusal("Spark's decimals have a scale from 0 to their number of digits")
    return SparkType(pa.decimal128(digits, scale), f"decimal({digits},{scale})")


def _timestamp(arrow: pa.DataType, refusal: Refusal) -> SparkType:
    if arrow.unit == "ns":
        raise refusal(_NANOSECONDS)
    if arrow.tz is None:
        return SparkType(pa.timestamp("us"), "timestamp_ntz")
    try:
        pa.lib.string_to_tzinfo(arrow.tz)
    except (KeyError, ValueError, OSError) as error:
        raise refusal("there is no such time zone, use UTC or a name of the tz database") from error
    return SparkType(_TIMESTAMP, "timestamp")


def _nested(arrow: pa.DataType, column: str, refusal: Refusal) -> SparkType:
    if pa.types.is_map(arrow):
        key = _spark_type(arrow.key_type, f"{column}.key")
        item = _spark_type(arrow.item_type, f"{column}.value")
        return SparkType(pa.map_(key.arrow, item.arrow), f"map<{key.ddl},{item.ddl}>")
    if pa.types.is_struct(arrow):
        return _struct(arrow, column, refusal)
    if any(is_one(arrow) for is_one in _LISTS):
        element = _spark_type(arrow.value_type, f"{column}.element")
        return SparkType(pa.list_(element.arrow), f"array<{element.ddl}>")
    raise refusal(_reason(arrow))


_LISTS: Final = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)


def _struct(arrow: pa.DataType, column: str, refusal: Refusal) -> SparkType:
    fields = [arrow.field(n) for n in range(arrow.num_fields)]
    if not fields:
        raise refusal("Parquet carries no struct without fields")
    check_names([field.name for field in fields], f"{column}.")
    parts = [(field.name, _spark_type(field.type, f"{column}.{field.name}")) for field in fields]
    return SparkType(
        pa.struct([pa.field(name, part.arrow) for name, part in parts]),
        f"struct<{','.join(f'{_quoted(name)}:{part.ddl}' for name, part in parts)}>",
    )


def check_names(names: list[str], prefix: str = "") -> None:
    """Raise UnsupportedTypeError if Spark could not distinguish these fields."""
    seen: dict[str, str] = {}
    for name in names:
        if not name:
            raise UnsupportedTypeError(prefix, "a column has a name")
        if other := seen.get(name.casefold()):
            reason = "Spark does not distinguish names that differ only by case"
            raise UnsupportedTypeError(f"{prefix}{name}", reason, other=f"{prefix}{other}")
        seen[name.casefold()] = name


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
