"""CSV files, whose cells are text unless a topic's schema says otherwise."""

import csv
import itertools
from collections.abc import Iterator
from io import BufferedReader, RawIOBase
from typing import IO, Any, cast

import pyarrow as pa
from pyarrow import csv as arrow_csv

from strandline.cli.user_files import lines_of
from strandline.values import InvalidError


def batches_of(
    file: IO[bytes], schema: "pa.Schema | None", *, infers: bool
) -> "Iterator[pa.RecordBatch]":
    """Yield the rows of a CSV file: an empty cell is null, and `""` an empty text.

    A column has the type that the schema has for it, if CSV can hold that. Other columns are
    text; with `infers` the first rows decide. A cell that does not fit is a pa.ArrowException.
    """
    names = _header(file)
    types: dict[str, Any] = {} if infers else dict.fromkeys(names, pa.string())
    for field in () if schema is None else schema:
        if field.name in names and _is_readable(field.type):
            types[field.name] = field.type
    source = BufferedReader(cast("RawIOBase", file))
    if not source.peek(1):
        return
    yield from arrow_csv.open_csv(
        source,
        read_options=arrow_csv.ReadOptions(column_names=names),
        parse_options=arrow_csv.ParseOptions(newlines_in_values=True),
        convert_options=arrow_csv.ConvertOptions(
            column_types=types,
            # As Spark reads them for `backfill`, so that "NA" and "nan" stay what they are.
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )


def _header(file: IO[bytes]) -> list[str]:
    """Read the first row; InvalidError unless column names are unique."""
    lines = itertools.dropwhile(lambda line: not line.strip(), lines_of(file))
    begun = b""
    for line in lines:
        begun += line
        # A name in quotation marks may have line ends in it.
        if begun.count(b'"') % 2 == 0:
            break
    try:
        (names,) = csv.reader([begun.decode("utf-8-sig")])
    except UnicodeDecodeError as error:
        raise InvalidError(
            "the names of these columns are not UTF-8, convert the file first", reason=str(error)
        ) from error
    except (csv.Error, ValueError) as error:
        raise InvalidError("a CSV file begins with the names of its columns") from error
    if not names:
        raise InvalidError("this file is empty, a CSV file begins with the names of its columns")
    check_names(names)
    return names


def check_names(names: list[str]) -> None:
    """Raise InvalidError if two columns have one name: a payload could hold only one of them."""
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise InvalidError("several columns have one name, rename them", columns=repeated)


def _is_readable(kind: "pa.DataType") -> bool:
    """Whether CSV is read as this type; times are not, whose zone must not be assumed."""
    types = pa.types
    return any(
        is_one(kind)
        for is_one in (
            *(types.is_integer, types.is_float32, types.is_float64, types.is_boolean),
            *(types.is_decimal128, types.is_string, types.is_large_string, types.is_binary),
            *(types.is_large_binary, types.is_date),
        )
    )
