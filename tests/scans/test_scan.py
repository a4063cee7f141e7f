"""The rows of a scan are those that `read_batches` gives, by every way out of it."""

import asyncio
import pickle
import re
import sys
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

import strandline as sl
from strandline.predicates import PredicateError
from strandline.values import InvalidError, TrimmedError, ValueKind
from tests.scans.scanned import fetched, numbers_of, read_rows, topic_of
from tests.tiering.tiered import BACKENDS, move

# DuckDB and polars take a second to load.
pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("backend", "moved"),
    [*((each, "half") for each in BACKENDS), ("file", "none"), ("file", "all")],
)
@pytest.mark.parametrize("kind", list(ValueKind))
def test_a_scan_has_the_rows_of_a_read(
    tmp_path: Path, backend: str, kind: ValueKind, moved: str
) -> None:
    with topic_of(backend, tmp_path, kind, moved) as log:
        expected = _unordered(read_rows(log))
        found = log.scan("t")

        assert _unordered(found.to_table().to_pylist()) == expected
        assert _unordered(pa.Table.from_batches(list(found), found.schema).to_pylist()) == expected
        assert _unordered(found.to_reader().read_all().to_pylist()) == expected
        assert _unordered(pa.table(found).to_pylist()) == expected
        assert found.count_rows() == len(expected)


@pytest.mark.parametrize(
    ("kind", "moved"),
    [(ValueKind.EVENT, "half"), (ValueKind.BYTES, "none"), (ValueKind.EVENT, "all")],
)
def test_duckdb_and_polars_have_the_rows_of_a_read(
    tmp_path: Path, kind: ValueKind, moved: str
) -> None:
    with topic_of("file", tmp_path, kind, moved) as log:
        expected = read_rows(log)
        orders = log.scan("t")

        from_sql = duckdb.sql("select * from orders order by _partition, _offset")
        from_relation = orders.to_duckdb(duckdb.connect()).to_arrow_table()

        assert from_sql.to_arrow_table().to_pylist() == expected
        assert sorted(from_relation.to_pylist(), key=_place) == expected
        assert orders.to_polars().collect().to_dicts() == expected
        assert pl.DataFrame(orders).to_dicts() == expected


def test_rows_come_in_the_order_of_partition_and_offset(tmp_path: Path) -> None:
    with topic_of("memory", tmp_path, ValueKind.EVENT, "half") as log:
        places = [_place(row) for row in log.scan("t").to_table().to_pylist()]

        assert places == sorted(places)
        assert len(places) == 40


@pytest.mark.parametrize("moved", ["none", "half"])
def test_where_selects_what_a_subscription_selects(tmp_path: Path, moved: str) -> None:
    where = "kind = 'k1' AND payload.n >= 5 AND headers['h'] IS NOT NULL AND key <> 'key-3'"
    with topic_of("file", tmp_path, ValueKind.EVENT, moved) as log:
        with log.subscribe("t", where=where, start="earliest", markers=True) as subscription:
            selected = []
            for each in subscription:
                if isinstance(each, sl.CaughtUp):
                    break
                selected.append((each.partition, each.offset))  # type: ignore[union-attr]
        found = log.scan("t", where=where, columns=["_partition", "_offset"]).to_table()

        assert [_place(row) for row in found.to_pylist()] == sorted(selected)
        assert 0 < found.num_rows < 40


def test_where_may_name_the_columns_of_the_log(tmp_path: Path) -> None:
    with topic_of("file", tmp_path, ValueKind.BYTES, "half") as log:
        found = log.scan("t", where="_partition = 1 AND _offset BETWEEN 3 AND 5")

        assert [_place(row) for row in found.to_table().to_pylist()] == [(1, 3), (1, 4), (1, 5)]


@pytest.mark.parametrize(
    "where",
    [
        *("_offset > 7", "_offset >= 7", "_offset < 7", "_offset <= 7", "_offset = 7"),
        *("_offset in (2, 15)", "7 < _offset", "_offset > 9223372036854775806", "_offset = -1"),
        *("_partition = 1", "_partition <> 1", "_partition in (0, 5)", "_partition > 5"),
        *("_offset between 3 and 8 and _partition = 0", "_offset = 3 or _offset = 9"),
        *("_timestamp >= {at}", "_timestamp > {at}", "_timestamp < {at}", "_timestamp <= {at}"),
        *("_timestamp = {at}", "timestamp >= {at} and kind = 'k1'", "not (_timestamp > {at})"),
        *("_timestamp > TIMESTAMP '1960-01-01 00:00:00Z'", "_offset is null"),
    ],
)
def test_offsets_that_are_not_read_hold_no_row_that_matches(tmp_path: Path, where: str) -> None:
    with topic_of("memory", tmp_path, ValueKind.EVENT, "half") as log:
        whole = log.scan("t").to_table().to_pylist()
        at = whole[25]["_timestamp"]
        text = f"TIMESTAMP '{at:%Y-%m-%d %H:%M:%S.%f}Z'"

        found = log.scan("t", where=where.format(at=text)).to_table().to_pylist()

        meets = eval(f"lambda row: {_as_python(where)}", {"at": at})  # noqa: S307 - Ours, above.
        assert found == [row for row in whole if meets(row)]


def test_what_a_filter_excludes_is_not_fetched(tmp_path: Path) -> None:
    with topic_of("memory", tmp_path, ValueKind.EVENT, "all", count=56) as log:
        last = 24
        orders = log.scan("t", columns=["_offset", "kind"])
        fetched(log)

        ways: list[list[Any]] = [
            orders.to_table(filter=ds.field("_offset") >= last).to_pylist(),
            duckdb.sql("select * from orders where _offset >= 24").to_arrow_table().to_pylist(),
            orders.to_polars().filter(pl.col("_offset") >= last).collect().to_dicts(),
            log.scan("t", where=f"_offset >= {last}", columns=["_offset", "kind"])
            .to_table()
            .to_pylist(),
        ]

        assert fetched(log) <= 2 * len(ways)
        assert all(sorted(way, key=str) == sorted(ways[0], key=str) for way in ways)
        assert {row["_offset"] for row in ways[0]} == {24, 25, 26, 27}
        assert orders.count_rows() == 56
        assert fetched(log) >= 6


def test_what_statistics_of_another_column_exclude_is_not_fetched(tmp_path: Path) -> None:
    with topic_of("memory", tmp_path, ValueKind.EVENT, "all", count=56) as log:
        orders = log.scan("t")
        rows = orders.to_table(columns=["_offset", "_timestamp"]).to_pylist()
        late = max(row["_timestamp"] for row in rows)
        expected = [row for row in rows if row["_timestamp"] >= late]
        fetched(log)

        found = orders.to_table(["_offset", "_timestamp"], ds.field("_timestamp") >= late)

        assert found.to_pylist() == expected
        assert fetched(log) <= 2


def test_of_an_object_only_the_wanted_columns_are_decoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from strandline.tiering.parquet import CopiedRows  # noqa: PLC0415 - The seam alone.

    decoded: list[list[str] | None] = []
    plain = CopiedRows._table  # noqa: SLF001

    def noted(rows: Any, group: Any, columns: list[str] | None) -> Any:
        decoded.append(columns)
        return plain(rows, group, columns)

    with topic_of("memory", tmp_path, ValueKind.EVENT, "all") as log:
        orders = log.scan("t")
        monkeypatch.setattr(CopiedRows, "_table", noted)

        duckdb.sql("select max(_key) from orders where kind = 'k1'").fetchall()
        by_duckdb, decoded[:] = decoded[:], []
        orders.to_polars().select("payload").collect()
        by_polars, decoded[:] = decoded[:], []
        log.scan("t", columns=["kind"], where="key = 'key-1'").to_table()

        assert {tuple(each or ()) for each in by_duckdb} == {("_offset", "_row", "_key", "kind")}
        assert {tuple(each or ()) for each in by_polars} == {("_offset", "_row", "payload")}
        assert {tuple(each or ()) for each in decoded} == {("_offset", "_row", "_key", "kind")}


FILTERS = (
    "n > 40",
    "n <= 3",
    "n = 31",
    "n in (1, 5, -7)",
    "n is null",
    "n is not null and x < 10",
    "x > 20",
    "x = 'nan'::double",
    "x >= 0 and text = 't1'",
    "text = '' and n > -5",
    "text is null",
    "text >= 't3'",
    "n = 1 or text = 't2'",
    "not (n > 5)",
)


@pytest.mark.parametrize("condition", FILTERS)
def test_a_pushed_filter_selects_what_it_selects_without_push_down(
    tmp_path: Path, condition: str
) -> None:
    with numbers_of(tmp_path) as log:
        orders = log.scan("t")
        loaded = orders.to_table()  # noqa: F841 - DuckDB finds it by its name.

        pushed = _places(duckdb.sql("from orders").filter(condition))

        assert pushed == _places(duckdb.sql("from loaded").filter(condition))
        assert pushed


@pytest.mark.parametrize(
    "condition",
    [
        pl.col("n") > 40,
        pl.col("x") > 20,
        pl.col("x").is_nan(),
        pl.col("text").is_in(["t1", ""]) & (pl.col("n") < 10),
        pl.col("n").is_null() | (pl.col("text") == "t3"),
        pl.col("text").str.contains("3"),
    ],
    ids=str,
)
def test_a_filter_of_polars_selects_what_it_selects_of_a_frame(
    tmp_path: Path, condition: pl.Expr
) -> None:
    with numbers_of(tmp_path) as log:
        orders = log.scan("t")
        expected = pl.DataFrame(orders).filter(condition).select("_offset", "_row")

        found = orders.to_polars().filter(condition).select("_offset", "_row").collect()

        assert found.equals(expected)
        assert found.height


def test_the_first_rows_are_taken_before_they_are_filtered(tmp_path: Path) -> None:
    with numbers_of(tmp_path) as log:
        frame = log.scan("t").to_polars()

        assert frame.head(4).filter(pl.col("n") >= 30).collect().height == 0
        assert frame.filter(pl.col("n") > 40).head(4).select("n").collect()["n"].to_list() == [
            *(41, 42, 43, 44),
        ]


def test_an_expression_may_read_columns_that_are_not_selected(tmp_path: Path) -> None:
    with numbers_of(tmp_path) as log:
        orders = log.scan("t")

        found = orders.to_table(columns=["_offset"], filter=ds.field("n") == 31)
        computed = orders.to_table(columns={"twice": ds.field("n") + ds.field("n")})

        assert found.to_pylist() == [{"_offset": 31}]
        assert computed.column("twice")[0].as_py() == 0
        assert computed.num_rows == orders.count_rows()


def test_each_read_ends_where_the_topic_ended_when_the_scan_was_made(tmp_path: Path) -> None:
    with topic_of("file", tmp_path, ValueKind.EVENT, "half") as log:
        orders = log.scan("t")
        before = orders.to_table()
        log.append("t", sl.Event("later"))
        move(log)

        assert orders.to_table().equals(before)
        assert log.scan("t").count_rows() == before.num_rows + 1


def test_a_scan_that_an_eviction_overtakes_continues(tmp_path: Path) -> None:
    with topic_of("file", tmp_path, ValueKind.EVENT, "none", count=2400) as log:
        expected = read_rows(log)
        batches = iter(log.scan("t"))
        found = next(batches).to_pylist()

        move(log, piece_records=600)
        for batch in batches:
            found += batch.to_pylist()

        assert found == expected


def test_a_scan_that_a_trim_overtakes_reports_it(tmp_path: Path) -> None:
    with topic_of("memory", tmp_path, ValueKind.EVENT, "half") as log:
        orders = log.scan("t")
        log.trim("t", 0, 5)

        with pytest.raises(TrimmedError):
            orders.to_table()
        assert log.scan("t").count_rows() == 35


def test_versions_of_a_schema_are_one_table(tmp_path: Path) -> None:
    with numbers_of(tmp_path, 20) as log:
        before = log.scan("t").to_table()
        wider = pa.schema([*before.schema.remove_metadata()][6:])
        wider = wider.append(pa.field("late", pa.int32()))
        log.scope().evolve("t", wider)
        rows = [[1], [1.0], ["x"], [7]]
        log.append("t", pa.record_batch(rows, schema=wider))

        orders = log.scan("t")
        found = duckdb.sql("select count(*), count(late), sum(late) from orders").fetchall()

        assert found == [(before.num_rows + 1, 1, 7)]
        assert duckdb.sql("select n from orders where late = 7").fetchall() == [(1,)]
        assert orders.count_rows(filter=ds.field("late").is_null()) == before.num_rows


def test_columns_that_only_cold_records_have_are_there(tmp_path: Path) -> None:
    with topic_of("memory", tmp_path, ValueKind.BATCH, "none", count=0) as log:
        log.append("t", pa.record_batch({"old": [1, 2]}), partition=0)
        move(log)
        log.append("t", pa.record_batch({"new": ["x"]}), partition=0)

        found = log.scan("t", columns=["old", "new"]).to_table().to_pylist()

        assert [tuple(row.values()) for row in found] == [(1, None), (2, None), (None, "x")]


@pytest.mark.parametrize("arrow", [pa.string_view(), pa.binary_view(), pa.list_(pa.string_view())])
def test_a_predicate_selects_among_values_that_arrow_cannot_filter(
    tmp_path: Path, arrow: pa.DataType
) -> None:
    texts = pa.array(["a", "b", None])
    plain = pa.ListArray.from_arrays([0, 1, 2, 3], texts) if pa.types.is_list(arrow) else texts
    with topic_of("memory", tmp_path, ValueKind.BATCH, "none", count=0) as log:
        log.append("t", pa.record_batch({"n": [1, 2, 3], "a": plain.cast(arrow)}), partition=0)

        found = log.scan("t", where="n >= 2", columns=["n", "a"]).to_table()

    assert found.column("n").to_pylist() == [2, 3]
    assert found.column("a").to_pylist() == plain.cast(arrow).to_pylist()[1:]


def test_a_tenant_sees_its_rows_and_those_of_all(tmp_path: Path) -> None:
    with topic_of("memory", tmp_path, ValueKind.EVENT, "none", count=4) as log:
        log.append("t", sl.Event("ours"), tenant="acme")
        log.append("t", sl.Event("theirs"), tenant="globex")
        move(log)
        log.append("t", sl.Event("ours"), tenant="acme")
        log.create_topic("own", tenant="acme")
        log.append(log.topic("own", tenant="acme"), sl.Event("hidden"))

        seen = log.scan("t", tenant="acme", columns=["kind"]).to_table().column("kind").to_pylist()

        assert len(seen) == 6
        assert "theirs" not in seen
        assert log.scan("own", tenant="acme").count_rows() == 1
        with pytest.raises(InvalidError, match="no such topic"):
            log.scan("own", tenant="globex")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"columns": ["nope"]}, "unknown=\\['nope'\\]"),
        ({"columns": []}, "at least one"),
        ({"columns": ["kind", "kind"]}, "each once"),
        ({"columns": "kind"}, "columns"),
        ({"where": 5}, "predicate"),
        ({"were": ""}, "near=\\['where'\\]"),
        ({"tenant": ""}, "tenant"),
    ],
)
def test_what_cannot_be_scanned_is_refused(
    tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    with topic_of("memory", tmp_path, ValueKind.EVENT, "none", count=1) as log:
        with pytest.raises(InvalidError, match=message):
            log.scan("t", **options)
        with pytest.raises(PredicateError):
            log.scan("t", where="total > 5")
        with pytest.raises(InvalidError, match="no such topic"):
            log.scan("orders")


@pytest.mark.parametrize(("library", "way"), [("polars", "to_polars"), ("duckdb", "to_duckdb")])
def test_a_library_that_is_missing_is_named_with_its_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, library: str, way: str
) -> None:
    with topic_of("memory", tmp_path, ValueKind.EVENT, "none", count=1) as log:
        monkeypatch.delitem(sys.modules, "strandline.scans.lazy_frame", raising=False)
        monkeypatch.setitem(sys.modules, library, None)

        with pytest.raises(InvalidError, match=r"extra scan"):
            getattr(log.scan("t"), way)()


DATASET_CALLS: dict[str, Any] = {
    "count_rows": lambda each: each.count_rows(filter=ds.field("n") > 3),
    "filter": lambda each: each.filter(ds.field("n") > 3).to_table(),
    "get_fragments": lambda each: pa.concat_tables(f.to_table() for f in each.get_fragments()),
    "head": lambda each: each.head(3),
    "join": lambda each: (
        each.join(ds.dataset(pa.table({"n": [1, 2]})), "n", join_type="inner", use_threads=False)
        .sort_by("_offset")
        .to_table()
    ),
    "join_asof": lambda each: each.join_asof(
        ds.dataset(pa.table({"_offset": [3], "found": [1]})), "_offset", [], 0, "_offset", []
    ).to_table(),
    "partition_expression": lambda each: str(each.partition_expression),
    "replace_schema": lambda each: each.replace_schema(each.schema).to_table(),
    "scanner": lambda each: each.scanner(columns=["n"]).to_table(),
    "schema": lambda each: each.schema,
    "sort_by": lambda each: each.sort_by([("n", "ascending"), ("_offset", "ascending")]).to_table(),
    "take": lambda each: each.take([5, 1]),
    "to_batches": lambda each: pa.Table.from_batches(each.to_batches(), each.schema),
    "to_table": lambda each: each.to_table(columns=["text", "n"]),
}


@pytest.mark.parametrize("name", sorted(DATASET_CALLS))
def test_every_call_of_a_dataset_gives_what_it_gives_of_a_table(tmp_path: Path, name: str) -> None:
    with numbers_of(tmp_path, 12) as log:
        orders = log.scan("t")
        loaded = ds.dataset(orders.to_table())

        assert _plain(DATASET_CALLS[name](orders)) == _plain(DATASET_CALLS[name](loaded))


def test_no_call_of_a_dataset_is_left_to_arrow_unseen() -> None:
    public = {name for name in dir(ds.Dataset) if not name.startswith("_")}

    assert public == DATASET_CALLS.keys()


def test_a_scan_stays_in_its_process(tmp_path: Path) -> None:
    with (
        topic_of("memory", tmp_path, ValueKind.EVENT, "none", count=1) as log,
        pytest.raises(InvalidError, match="cannot be pickled"),
    ):
        pickle.dumps(log.scan("t"))


def test_a_scan_says_what_it_is(tmp_path: Path) -> None:
    with topic_of("memory", tmp_path, ValueKind.BYTES, "none", count=1) as log:
        assert repr(log.scan("t", columns=["value", "_key"])) == "Scan('t', ['value', '_key'])"


def test_a_scan_is_read_on_an_event_loop(tmp_path: Path) -> None:
    async def scanned(log: sl.Log) -> list[Any]:
        found = await sl.AsyncLog(log).scan("t", where="kind = 'k1'")
        return [row async for batch in found for row in batch.to_pylist()]

    with topic_of("file", tmp_path, ValueKind.EVENT, "half") as log:
        expected = log.scan("t", where="kind = 'k1'").to_table().to_pylist()

        assert asyncio.run(scanned(log)) == expected


def _as_python(where: str) -> str:
    text = where.replace("{at}", "at").replace("TIMESTAMP '1960-01-01 00:00:00Z'", "EPOCH")
    text = text.replace("_offset between 3 and 8", "3 <= _offset <= 8").replace("<>", "!=")
    text = re.sub(r"(?<![<>!=])=(?!=)", "==", text).replace("is null", "is None")
    text = re.sub(r"\b(_offset|_partition|_timestamp|kind)\b", r"row['\1']", text)
    text = re.sub(r"\btimestamp\b", "row['_timestamp']", text)
    return text.replace("row['_timestamp'] > EPOCH", "True")


def _places(found: duckdb.DuckDBPyRelation) -> list[Any]:
    return found.project("_offset, _row").order("_offset, _row").fetchall()


def _place(row: Any) -> tuple[int, int]:
    return row["_partition"], row["_offset"]


def _unordered(rows: list[Any]) -> list[str]:
    known = [{name: value for name, value in row.items() if value is not None} for row in rows]
    return sorted(str(sorted(row.items())) for row in known)


def _plain(value: Any) -> Any:
    if isinstance(value, pa.Table) and "found" in value.schema.names:
        value = value.sort_by([("_offset", "ascending"), ("_row", "ascending")])
    return repr(value.to_pylist()) if isinstance(value, pa.Table) else value
