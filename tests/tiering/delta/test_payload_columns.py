"""Declared fields of payloads are columns of the tier, that every program reads alike."""

import json
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest
from deltalake import DeltaTable

import strandline as sl
from strandline.tiering import compact
from strandline.tiering.parquet import FIELDS
from tests.tiering.delta.tables import by_each_reader, log_over, table_of, tabled
from tests.tiering.tiered import LogOver, rows

pytestmark = pytest.mark.slow

DECLARED = pa.schema(
    {
        "amount": pa.int64(),
        "rate": pa.float64(),
        "paid": pa.bool_(),
        "day": pa.date32(),
        "price": pa.decimal128(10, 2),
        "customer": pa.struct({"country": pa.string(), "age": pa.int32()}),
        "tags": pa.list_(pa.string()),
        "a b": pa.int64(),
        "Amount": pa.int64(),
    }
)
PAYLOADS: list[Any] = [
    {"amount": 1, "rate": 0.5, "paid": True, "customer": {"country": "DE", "age": 30}},
    {"amount": "many", "day": "2026-11-16", "price": 12.5, "a b": 1},
    {"amount": 9007199254740993, "customer": {"age": "old"}, "tags": ["x"]},
    {"customer": None},
    7,
    None,
]


def typed(log: LogOver, folder: Path, payloads: list[Any], **options: Any) -> dict[str, list[Any]]:
    """Append and tier these, and return the typed columns that each program reads."""
    log.append_many("t", [sl.Event("k", each) for each in payloads])
    tabled(log, **options)
    found = by_each_reader(table_of(log, folder))
    return {name: [row.get(FIELDS) for row in each] for name, each in found.items()}


def test_declared_fields_are_columns_and_null_where_they_do_not_fit(tmp_path: Path) -> None:
    with log_over(tmp_path) as log:
        log.create_topic("t", payload_schema=DECLARED)

        found = typed(log, tmp_path, PAYLOADS)

        first = found["delta-rs"]
        assert found["DuckDB"] == found["polars"] == first
        assert [row["amount"] for row in first] == [1, None, 9007199254740993, None, None, None]
        assert [row["customer"]["country"] for row in first] == ["DE", None, None, None, None, None]
        assert [row["customer"]["age"] for row in first] == [30, None, None, None, None, None]
        assert str(first[1]["day"]) == "2026-11-16"
        assert str(first[1]["price"]) == "12.50"
        assert (first[0]["rate"], first[0]["paid"]) == (0.5, True)
        assert {*first[0]} == {"amount", "rate", "paid", "day", "price", "customer"}


def test_the_log_hands_out_what_it_did_without_them(tmp_path: Path) -> None:
    with log_over(tmp_path) as log:
        log.create_topic("t", payload_schema=DECLARED)
        log.append_many("t", [sl.Event("k", each) for each in PAYLOADS])
        before, records = rows(log), list(log.read("t", 0, 0))

        tabled(log)

        assert rows(log) == before
        assert list(log.read("t", 0, 0)) == records
        assert log.scan("t").to_table().to_pylist() == before
        assert log.verify("t")[0].is_sound


def test_files_are_skipped_by_the_bounds_of_fields(tmp_path: Path) -> None:
    with log_over(tmp_path) as log:
        log.create_topic("t", payload_schema=DECLARED)
        typed(log, tmp_path, [{"amount": n, "customer": {"age": n}} for n in range(21)])

        adds = pa.table(table_of(log, tmp_path).get_add_actions(flatten=True)).to_pylist()

        bounds = [(each[f"min.{FIELDS}.amount"], each[f"max.{FIELDS}.amount"]) for each in adds]
        assert sorted(bounds) == [(0, 6), (7, 13), (14, 20)]
        ages = [each[f"max.{FIELDS}.customer.age"] for each in adds]
        assert sorted(ages) == [6, 13, 20]
        table = pl.scan_delta(table_of(log, tmp_path))
        wanted = table.filter(pl.col(FIELDS).struct.field("amount") == 10)
        assert wanted.select("_offset").collect()["_offset"].to_list() == [10]
        seen = duckdb.from_arrow(table_of(log, tmp_path).to_pyarrow_dataset())
        found = seen.filter(f"{FIELDS}.customer.age = 20").select("_offset").fetchall()
        assert found == [(20,)]


def test_a_field_that_is_declared_later_is_null_before(tmp_path: Path) -> None:
    with log_over(tmp_path) as log:
        log.create_topic("t")
        assert typed(log, tmp_path, [{"amount": 1}])["delta-rs"] == [None]
        log.declare_payload("t", pa.schema({"amount": pa.int32()}))
        typed(log, tmp_path, [{"amount": 2}])
        log.declare_payload("t", pa.schema({"amount": pa.int64(), "more": pa.string()}))

        found = typed(log, tmp_path, [{"amount": 1 << 40, "more": "x"}])

        expected = [(None, None), (2, None), (1 << 40, "x")]
        for each in found.values():
            pairs = [row or {"amount": None, "more": None} for row in each]
            assert [(row["amount"], row["more"]) for row in pairs] == expected


def test_a_field_that_is_declared_with_another_type_leaves_the_table_for_good(
    tmp_path: Path,
) -> None:
    with log_over(tmp_path) as log:
        log.create_topic("t", payload_schema=pa.schema({"a": pa.int64(), "b": pa.int64()}))
        typed(log, tmp_path, [{"a": 1, "b": 1}])
        log.declare_payload("t", pa.schema({"a": pa.string(), "b": pa.int64()}))
        found = typed(log, tmp_path, [{"a": "x", "b": 2}])
        for each in found.values():
            assert each == [{"b": 1}, {"b": 2}]

        found = typed(log, tmp_path, [{"a": "y", "b": 3}])
        for each in found.values():
            assert each == [{"b": 1}, {"b": 2}, {"b": 3}]
        assert _columns(table_of(log, tmp_path)) == ["b"]


def test_merged_objects_have_the_columns_that_are_declared_now(tmp_path: Path) -> None:
    with log_over(tmp_path) as log:
        log.create_topic("t")
        typed(log, tmp_path, [{"amount": n} for n in range(14)])
        log.declare_payload("t", pa.schema({"amount": pa.int64()}))

        compact(log, "t", log.objects, grace_s=0)

        for each in by_each_reader(table_of(log, tmp_path)).values():
            assert [row[FIELDS]["amount"] for row in each] == list(range(14))


def test_what_is_erased_is_gone_from_the_columns(tmp_path: Path) -> None:
    with log_over(tmp_path, "sqlite") as log:
        log.create_topic("t", payload_schema=pa.schema({"name": pa.string()}))
        values = [sl.Event("k", {"name": f"n{n}"}, key=f"k{n % 2}") for n in range(4)]
        log.append_many("t", values)
        tabled(log)

        log.erase("t", key="k1")

        for each in by_each_reader(table_of(log, tmp_path)).values():
            names = [(row[FIELDS] or {"name": None})["name"] for row in each]
            assert names == ["n0", None, "n2", None]


def _columns(table: DeltaTable) -> list[str]:
    schema = json.loads(table.schema().to_json())
    (fields,) = [each for each in schema["fields"] if each["name"] == FIELDS]
    return [each["name"] for each in fields["type"]["fields"]]
