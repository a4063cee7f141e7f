"""Statistics of objects leave out NaN; filters that are pushed into a scan do not."""

from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import strandline as sl
from strandline.tiering import tier
from strandline.tiering.footer import Footer
from strandline.tiering.parquet import METADATA_KEY
from strandline.values import ValueKind
from tests.tiering.faulty_store import FaultyObjects
from tests.tiering.tiered import move, opened

NAN = float("nan")
ROWS = {"n": [1, 2], "x": [0.0, NAN], "y": [NAN, NAN], "s": [{"x": 0.0}, {"x": NAN}]}
CONDITIONS = [
    ds.field("x") != 0.0,
    ~(ds.field("x") <= 9.0),
    ds.field("x").is_null(nan_is_null=True),
    pc.is_nan(ds.field("x")) & (ds.field("y") != 0.0),
    ds.field("s", "x") != 0.0,
    ds.field("y") > 5.0,
]


def as_before(content: bytes) -> bytes:
    """Return an object as it was written when columns with NaN had statistics."""
    sink, source = pa.BufferOutputStream(), pa.BufferReader(content)
    about = {METADATA_KEY: pq.read_metadata(source).metadata[METADATA_KEY]}
    pq.write_table(pq.read_table(source).replace_schema_metadata(about), sink)
    return bytes(sink.getvalue())


@pytest.mark.parametrize("condition", CONDITIONS, ids=str)
def test_an_expression_selects_rows_with_nan(tmp_path: Path, condition: pc.Expression) -> None:
    with opened("memory", tmp_path, FaultyObjects()) as log:
        log.create_topic("t", value_kind=ValueKind.BATCH)
        log.append("t", pa.record_batch(ROWS))
        move(log)
        floats = log.scan("t")
        expected = ds.dataset(floats.to_table()).to_table(filter=condition)

        found = floats.to_table(filter=condition)

        assert found.column("n").to_pylist() == expected.column("n").to_pylist()


@pytest.mark.parametrize("condition", CONDITIONS, ids=str)
def test_statistics_that_ignore_nan_exclude_no_row_with_nan(
    tmp_path: Path, condition: pc.Expression
) -> None:
    objects = FaultyObjects()
    with opened("memory", tmp_path, objects) as log:
        log.create_topic("t", value_kind=ValueKind.BATCH)
        log.append("t", pa.record_batch(ROWS))
        move(log)
        rows = log.scan("t").to_table()
        selected = ds.dataset(rows).to_table(filter=condition).num_rows
    (name,) = objects.objects

    groups = Footer(as_before(objects.objects[name])).groups_meeting(condition, rows.schema)

    assert groups is not None
    assert bool(groups) >= bool(selected)


@pytest.mark.parametrize("condition", ["x > 5", "x <> 0", "isnan(x)", "s.x > 5", "payload_x > 5"])
def test_other_programs_select_rows_with_nan(tmp_path: Path, condition: str) -> None:
    with sl.open("memory:") as log:
        if condition == "payload_x > 5":
            condition = "payload_fields.x > 5"
            log.create_topic("t", payload_schema=pa.schema({"x": pa.float64()}))
            log.append_many("t", [sl.Event("k", {"x": each}) for each in (0, "NaN")])
        else:
            log.create_topic("t", value_kind=ValueKind.BATCH)
            log.append("t", pa.record_batch(ROWS))
        tier(log, "t", f"file://{tmp_path}", include_open=True)

    found = duckdb.sql(f"from read_parquet('{tmp_path}/**/*.parquet')").filter(condition)

    assert len(found.fetchall()) == 1
