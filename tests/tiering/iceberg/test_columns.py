"""The columns of an Iceberg table: their types, how they change, and those it cannot have."""

import contextlib
import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.types import UUIDType

import strandline as sl
from strandline.tiering import compact
from strandline.values import InvalidError
from tests.tiering.delta.tables import log_over, stored_rows
from tests.tiering.iceberg.tables import (
    by_each_reader,
    catalogue_of,
    offsets_of,
    table_of,
    tabled,
)

pytestmark = pytest.mark.slow


TYPES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "small": (pa.int8(), [1, None, -3]),
    "counted": (pa.uint16(), [65535, None, 0]),
    "price": (pa.decimal128(12, 2), [Decimal("1.50"), None, Decimal("-2.25")]),
    "day": (pa.date32(), [dt.date(2026, 1, 1), None, dt.date(1999, 12, 31)]),
    "at": (pa.timestamp("ms", "UTC"), [dt.datetime(2026, 1, 1, tzinfo=dt.UTC), None, None]),
    "local": (pa.timestamp("us"), [dt.datetime(2026, 1, 1), None, None]),
    "clock": (pa.time64("us"), [dt.time(1, 2, 3, 4), None, None]),
    "ok": (pa.bool_(), [True, None, False]),
    "ratio": (pa.float64(), [0.5, None, -1.0]),
    "raw": (pa.binary(), [b"\x00\xff", None, b""]),
    "four": (pa.binary(4), [b"abcd", None, b"\x00\x00\x00\x00"]),
    "coded": (pa.dictionary(pa.int8(), pa.string()), ["x", None, "y"]),
    "tags": (pa.list_(pa.string()), [["a", None], None, []]),
    "map": (pa.map_(pa.string(), pa.int16()), [[("a", 1)], None, []]),
    "place": (pa.struct([("lat", pa.float64()), ("name", pa.string())]), [{"lat": 1.0}, None, {}]),
}


def test_typed_columns_keep_their_values(tmp_path: Path) -> None:
    schema = pa.schema([(name, kind) for name, (kind, _) in TYPES.items()])
    with log_over(tmp_path) as log:
        log.create_topic("t", value_kind="batch")
        columns = [pa.array(values, kind) for kind, values in TYPES.values()]
        log.append("t", pa.RecordBatch.from_arrays(columns, schema=schema))
        tabled(log)

        expected = stored_rows(log)
        rows = by_each_reader(table_of())["pyiceberg"]
        for row, wanted in zip(rows, expected, strict=True):
            for column in schema.names:
                assert row[column] == wanted[column], column


def test_columns_that_are_added_and_widened_are_in_the_table(tmp_path: Path) -> None:
    first = pa.schema([("n", pa.int32()), ("x", pa.float32())])
    second = pa.schema([("n", pa.int64()), ("x", pa.float64()), ("late", pa.string())])
    with log_over(tmp_path) as log:
        log.scope().register("t", first)
        log.append("t", pa.record_batch([[1, 2], [0.5, 1.5]], schema=first))
        tabled(log)
        log.scope().evolve("t", second)
        log.append("t", pa.record_batch([[2**40], [0.1], ["x"]], schema=second))
        tabled(log)

        for rows in by_each_reader(table_of()).values():
            assert [(row["n"], row["x"], row["late"]) for row in rows] == [
                (1, 0.5, None),
                (2, 1.5, None),
                (2**40, 0.1, "x"),
            ]


@pytest.mark.parametrize("arrow", [pa.uint32(), pa.uint64(), pa.float16(), pa.timestamp("ns")])
def test_a_type_that_readers_would_take_for_another_has_no_table(
    tmp_path: Path, arrow: pa.DataType
) -> None:
    schema = pa.schema([("n", pa.struct([("inner", arrow)]))])
    with log_over(tmp_path) as log:
        log.create_topic("t", value_kind="batch")
        inner = pa.StructArray.from_arrays([pa.array([1], pa.int64()).cast(arrow)], ["inner"])
        log.append("t", pa.record_batch([inner], schema=schema))

        for _ in range(2):
            with pytest.raises(InvalidError, match=r"are tiered.*no column of this type.*'n'"):
                tabled(log)

            assert log.evict("t", 0, 0) == 1
            assert len(list(log.read("t", 0, 0))) == 1
            with pytest.raises(NoSuchTableError):
                table_of()


def test_the_table_ends_before_a_column_of_an_incompatible_type(tmp_path: Path) -> None:
    with log_over(tmp_path) as log:
        log.create_topic("t", value_kind="batch")
        log.append("t", pa.record_batch({"a": [1]}))
        tabled(log)
        log.append("t", pa.record_batch({"a": ["x"]}))

        with pytest.raises(InvalidError, match=r"are tiered.*these two are incompatible"):
            tabled(log)

        assert log.evict("t", 0, 0) == 2
        assert offsets_of(table_of()) == [0]
        catalogue_of().drop_table("events.t")
        assert tabled(log, iceberg=None).copied == 0


@pytest.mark.parametrize(
    ("first", "second", "value"),
    [
        (pa.int64(), pa.float64(), 1),
        (pa.float64(), pa.int64(), 1),
        (pa.int32(), pa.decimal128(20, 2), 1),
        (pa.string(), pa.binary(), "x"),
        (pa.binary(4), pa.binary(), None),
        (pa.decimal128(9, 2), pa.decimal128(20, 4), None),
        (pa.decimal128(20, 4), pa.decimal128(9, 2), Decimal("1.25")),
        (pa.list_(pa.int32()), pa.list_(pa.float64()), [1]),
        (pa.struct([("in", pa.int32())]), pa.struct([("in", pa.float64())]), {"in": 1}),
        (pa.map_(pa.string(), pa.int32()), pa.map_(pa.string(), pa.string()), None),
    ],
    ids=str,
)
def test_a_change_that_iceberg_does_not_allow_ends_the_table(
    tmp_path: Path, first: pa.DataType, second: pa.DataType, value: Any
) -> None:
    with log_over(tmp_path) as log:
        log.create_topic("t", value_kind="batch")
        log.append("t", pa.record_batch([pa.array([value], first)], ["a"]))
        tabled(log)
        log.append("t", pa.record_batch([pa.array([value], first).cast(second)], ["a"]))

        with pytest.raises(InvalidError, match=r"are tiered.*these two are incompatible"):
            tabled(log)

        assert log.evict("t", 0, 0) == 2
        for rows in by_each_reader(table_of()).values():
            assert [row["_offset"] for row in rows] == [0]


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        (pa.int64(), pa.int16()),
        (pa.decimal128(20, 2), pa.decimal128(9, 2)),
        (pa.list_(pa.float64()), pa.list_(pa.float32())),
        (pa.struct([("in", pa.int64())]), pa.struct([("in", pa.int32()), ("b", pa.string())])),
        (pa.map_(pa.string(), pa.int64()), pa.map_(pa.string(), pa.int32())),
    ],
    ids=str,
)
def test_narrower_and_wider_types_are_one_column(
    tmp_path: Path, wide: pa.DataType, narrow: pa.DataType
) -> None:
    value = {"list": [1.5], "struct": {"in": 1}, "map": [("x", 1)]}
    with log_over(tmp_path) as log:
        log.create_topic("t", value_kind="batch")
        for arrow in (wide, narrow, wide):
            column = pa.array([value.get(str(arrow).partition("<")[0], 1)], arrow)
            log.append("t", pa.record_batch([column], ["a"]))
            tabled(log)

        for rows in by_each_reader(table_of()).values():
            assert [row["_offset"] for row in rows] == [0, 1, 2]


def test_columns_whose_names_meet_have_no_table(tmp_path: Path) -> None:
    with log_over(tmp_path) as log:
        log.create_topic("t", value_kind="batch")
        log.append("t", pa.record_batch({"a": [{"b": 1}], "a.b": [1]}))

        with pytest.raises(InvalidError, match=r"are tiered.*rename one of them.*column='a\.b'"):
            tabled(log)

        assert log.evict("t", 0, 0) == 1


def test_a_table_has_what_a_merge_has_made_of_incompatible_columns(tmp_path: Path) -> None:
    with log_over(tmp_path) as log:
        log.create_topic("t", payload_schema=pa.schema({"n": pa.int64(), "city": pa.string()}))
        log.append("t", sl.Event("sold", {"n": 7, "city": "Bonn"}))
        tabled(log)
        log.declare_payload("t", pa.schema({"n": pa.string(), "city": pa.string()}))
        log.append("t", sl.Event("sold", {"n": "x", "city": "Köln"}))
        with pytest.raises(InvalidError, match="these two are incompatible"):
            tabled(log)
        assert offsets_of(table_of()) == [0]

        compact(log, "t", log.objects)

        for rows in by_each_reader(table_of()).values():
            assert [row["payload_fields"] for row in rows] == [
                {"n": "7", "city": "Bonn"},
                {"n": "x", "city": "Köln"},
            ]


def test_a_table_goes_on_when_incompatible_columns_have_left_the_log(tmp_path: Path) -> None:
    with log_over(tmp_path) as log:
        log.create_topic("t", value_kind="batch")
        for column in ([1], [2], ["x"], ["y"]):
            log.append("t", pa.record_batch({"a": column}))
            with contextlib.suppress(InvalidError):
                tabled(log)
        assert offsets_of(table_of()) == [0, 1]

        log.trim("t", 0, 2, force=True)

        for rows in by_each_reader(table_of()).values():
            assert [(row["_offset"], row["a"]) for row in rows] == [(2, "x"), (3, "y")]


def test_a_column_that_another_program_has_added_does_not_end_the_table(tmp_path: Path) -> None:
    with log_over(tmp_path) as log:
        log.create_topic("t", value_kind="batch")
        log.append("t", pa.record_batch({"a": [1]}))
        tabled(log)
        with table_of().update_schema() as schema:
            schema.add_column("theirs", UUIDType())
        log.append("t", pa.record_batch({"a": [2]}))

        tabled(log)
        log.append("t", pa.record_batch({"a": [3]}))
        tabled(log)

        assert offsets_of(table_of()) == [0, 1, 2]


def test_payload_fields_are_columns(tmp_path: Path) -> None:
    with log_over(tmp_path) as log:
        log.create_topic("t", payload_schema=pa.schema({"total": pa.int64()}))
        log.append_many("t", [sl.Event("sold", {"total": 7}), sl.Event("sold", {})])
        tabled(log)

        column = table_of().scan().to_arrow().column("payload_fields").to_pylist()
        assert column == [{"total": 7}, {"total": None}]
        found = table_of().scan(row_filter="payload_fields.total > 5").to_arrow()
        assert found.num_rows == 1


def test_the_first_and_the_last_moment_are_kept(tmp_path: Path) -> None:
    moments = [dt.datetime(1, 1, 1, tzinfo=dt.UTC), dt.datetime.max.replace(tzinfo=dt.UTC)]
    with log_over(tmp_path) as log:
        log.create_topic("t")
        log.append_many("t", [sl.Event("k", {}, occurred_at=each) for each in moments])
        tabled(log)

        assert table_of().scan().to_arrow().column("occurred_at").to_pylist() == moments
