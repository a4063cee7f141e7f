"""Which rows have one fingerprint, and which do not."""

from decimal import Decimal

import pyarrow as pa
import pytest

from strandline.spark.sink.fingerprint import Fingerprint, fingerprint

ROWS = pa.record_batch(
    {
        "n": pa.array([1, 2, 3, None], pa.int64()),
        "s": ["", "a", "12345678", None],
        "long": ["x" * 2000, "x" * 1999 + "y", "x" * 1024, "x" * 1025],
        "l": pa.array([[1, 2], [2, 1], [], None], pa.list_(pa.int64())),
        "m": pa.array([[("a", "1"), ("b", "2")], [], None, []], pa.map_(pa.string(), pa.string())),
        "d": pa.array([Decimal(1), Decimal(2**80), None, Decimal(0)], pa.decimal128(30, 0)),
        "t": pa.array([True, False, None, True]),
        "st": pa.array([{"a": 1}, {"a": None}, None, {"a": 2}], pa.struct([("a", pa.int32())])),
    }
)


def test_the_order_and_split_of_rows_do_not_matter() -> None:
    turned = ROWS.take(pa.array([2, 0, 3, 1]))
    parts = [fingerprint(turned.slice(n, 1)) for n in range(4)]

    assert sum(parts, Fingerprint()) == fingerprint(ROWS) == fingerprint(turned)


def test_the_order_of_columns_and_of_entries_in_a_map_and_nulls_do_not_matter() -> None:
    turned = ROWS.select(list(reversed(ROWS.schema.names)))
    pairs = pa.array([[("b", "2"), ("a", "1")], [], None, []], pa.map_(pa.string(), pa.string()))
    other = ROWS.set_column(4, "m", pairs).append_column("new", pa.nulls(4, pa.string()))

    assert fingerprint(turned) == fingerprint(ROWS) == fingerprint(other)


@pytest.mark.parametrize("column", ROWS.schema.names)
def test_every_value_matters_and_so_does_its_row(column: str) -> None:
    index = ROWS.schema.names.index(column)
    moved = ROWS.set_column(index, column, ROWS.column(index).take(pa.array([1, 0, 2, 3])))
    gone = ROWS.set_column(index, column, ROWS.column(index).take(pa.array([0, 0, 2, 3])))

    assert len({fingerprint(each) for each in (ROWS, moved, gone)}) == 3


def test_texts_that_share_their_beginning_differ() -> None:
    texts = ["x" * n for n in range(40)] + ["x" * 8 + "\0" * n for n in range(1, 20)]
    found = {fingerprint(pa.record_batch({"s": [text]})) for text in texts}

    assert len(found) == len(texts)
