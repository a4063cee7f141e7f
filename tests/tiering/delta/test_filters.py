"""Other programs select the same rows of a Delta table by its statistics as without them."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest

from tests.tiering.delta.tables import log_over, table_of, tabled
from tests.tiering.tiered import LogOver

COLUMNS = pa.schema(
    [
        *(("n", pa.int64()), ("x", pa.float64()), ("yes", pa.bool_()), ("text", pa.string())),
        *(("cents", pa.decimal128(9, 2)), ("at", pa.timestamp("us")), ("some", pa.int32())),
        pa.field("s", pa.struct([("i", pa.int32()), ("x", pa.float32())])),
    ]
)
OLD = pa.schema([each for each in COLUMNS if each.name not in ("some", "s")])
LONG = "x" * 100
NAN = float("nan")
FILTERS = [
    ds.field("n") > 2,
    ds.field("x") > 1.0,
    ~(ds.field("x") > 1.0),
    ds.field("yes") == pa.scalar(value=True),
    ds.field("text") >= "x",
    ds.field("cents") != Decimal("2.00"),
    ds.field("at") > pa.scalar(1, pa.timestamp("us")),
    ds.field("some") == 3,
    ~(ds.field("some") == 3),
    ds.field("some").is_null(),
    ds.field("s", "i") == 3,
    ds.field("_key").is_null() & (ds.field("_offset") > 0),
]


def published(log: LogOver, schema: pa.Schema, *numbers: int) -> None:
    rows = [
        {
            "n": n,
            "x": NAN if n == 4 else float(n),
            "yes": n > 2,
            "text": f"{LONG}{n}",
            "cents": Decimal(n),
            "at": n,
            "some": n,
            "s": {"i": n, "x": n},
        }
        for n in numbers
    ]
    log.scope().publish("t", pa.RecordBatch.from_pylist(rows, schema))
    tabled(log)


def evolved(log: LogOver) -> None:
    """Store four objects in a table: two of them without later columns, one with only nulls."""
    log.scope().register("t", OLD)
    published(log, OLD, 0, 1)
    log.scope().evolve("t", pa.schema([*OLD, COLUMNS.field("some"), COLUMNS.field("s")]))
    published(log, log.scope().topic("t").schema, 2, 3)
    published(log, log.scope().topic("t").schema, 4, 5)
    log.scope().publish("t", pa.RecordBatch.from_pylist([{"n": 6}], log.scope().topic("t").schema))
    tabled(log)


@pytest.mark.parametrize("condition", FILTERS, ids=str)
def test_a_filter_of_delta_rs_selects_what_it_selects_in_memory(
    tmp_path: Path, condition: pc.Expression
) -> None:
    with log_over(tmp_path) as log:
        evolved(log)
        table = table_of(log, tmp_path)
        rows = ds.dataset(table.to_pyarrow_table())

        found = table.to_pyarrow_dataset().to_table(filter=condition)

        expected = rows.to_table(filter=condition).column("_offset").to_pylist()
        assert sorted(found.column("_offset").to_pylist()) == sorted(expected)
        assert expected


def test_a_table_of_before_gets_its_property_with_the_next_run(tmp_path: Path) -> None:
    def without(action: Any) -> Any:
        if "metaData" in action:
            action["metaData"]["configuration"] = {}
        return action

    with log_over(tmp_path) as log:
        evolved(log)
        expected = table_of(log, tmp_path).metadata().configuration
        for path in (tmp_path / "cold").rglob("*.json"):
            actions = [without(msgspec.json.decode(line)) for line in path.read_text().splitlines()]
            path.write_text("".join(f"{msgspec.json.encode(each).decode()}\n" for each in actions))

        tabled(log)
        tabled(log)

        table = table_of(log, tmp_path)
        assert table.metadata().configuration == expected
        assert set(expected["delta.dataSkippingStatsColumns"].split(",")) == {
            *("_partition", "_offset", "_row", "_timestamp", "_topic", "n"),
        }
        assert table.version() == 4


def test_a_filter_on_an_offset_skips_files(tmp_path: Path) -> None:
    with log_over(tmp_path) as log:
        evolved(log)
        dataset = table_of(log, tmp_path).to_pyarrow_dataset()

        assert len(list(dataset.get_fragments())) == 4
        assert len(list(dataset.get_fragments(ds.field("_offset") == 3))) == 1
