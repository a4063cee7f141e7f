"""Records of several versions of a schema in one object, and what comes back of them."""

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import strandline as sl
from strandline.log import Log
from strandline.tiering import copying, parquet, tier
from strandline.tiering.parquet import CopiedRows
from strandline.values import InvalidError, ValueKind
from strandline.values.widening import fitted, relaxed, united
from tests.tiering.faulty_store import MemoryObjects
from tests.tiering.tiered import BACKENDS, opened

FIRST = pa.schema(
    [
        pa.field("a", pa.int32(), nullable=False, metadata={b"unit": b"pieces"}),
        pa.field("d", pa.decimal128(5, 2)),
        pa.field("f", pa.float32()),
    ],
    metadata={b"made": b"by us"},
)
SECOND = pa.schema(
    [
        pa.field("a", pa.int64(), nullable=False),
        pa.field("d", pa.decimal128(9, 4)),
        pa.field("f", pa.float64()),
        pa.field("x", pa.large_string()),
    ]
)
THIRD = SECOND.append(pa.field("l", pa.list_(pa.int8())))
VERSIONS = (FIRST, SECOND, THIRD)
WIDE = {"a": 2**40, "d": None, "f": 1e300, "x": "q", "l": [1, None]}
NARROW = {"a": 7, "d": None, "f": float("nan"), "x": None, "l": None}


def made(number: int) -> pa.RecordBatch:
    """Return a batch of the first, second or third version, in turns, of one or two rows."""
    schema = VERSIONS[number % 3]
    row = {**(NARROW if schema is FIRST else WIDE), "a": number if schema is FIRST else 2**40}
    return pa.RecordBatch.from_pylist([row] * (1 + number % 2), schema=schema)


def typed(log: Any, count: int, **options: Any) -> list[pa.RecordBatch]:
    """Register the versions, publish batches of all in turns, and return them."""
    if options:
        log.create_topic(
            "t", value_kind=ValueKind.BATCH, schema=FIRST.serialize().to_pybytes(), **options
        )
    else:
        log.scope().register("t", FIRST)
    for later in VERSIONS[1:]:
        log.scope().evolve("t", later)
    batches = [made(number) for number in range(count)]
    for batch in batches:
        log.scope().publish("t", batch)
    log.flush()
    return batches


def values(log: sl.Log, start: int = 0) -> list[Any]:
    return [record.value for record in log.read("t", 0, start)]


def check_same(found: list[Any], published: list[pa.RecordBatch]) -> None:
    """Exactly what was published: schemas with their metadata, and values."""
    assert len(found) == len(published)
    for one, other in zip(found, published, strict=True):
        assert one.schema.equals(other.schema, check_metadata=True)
        assert str(one.to_pydict()) == str(other.to_pydict())


def table_of(log: sl.Log, start: int = 0, end: int | None = None) -> pa.Table:
    found = log.read_batches("t", 0, start, end)
    table = pa.Table.from_batches(list(found), schema=found.schema)
    assert pa.table(log.read_batches("t", 0, start, end)).schema == table.schema
    return table


def objects_of(objects: MemoryObjects) -> Iterator[pa.Table]:
    for name in sorted(objects.objects):
        yield pq.read_table(pa.BufferReader(objects.objects[name]))


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_versions_in_turns_are_one_object_and_come_back_as_they_were(
    backend: str, tmp_path: Path
) -> None:
    objects = MemoryObjects()
    with opened(backend, tmp_path, objects) as log:
        published = typed(log, 12)
        hot = {(s, e): table_of(log, s, e) for s in range(3) for e in range(s, 13, 2)}
        before = [each.batch.to_pylist() for each in delivered(log)]

        runs = len(log.segments("t", 0))  # A file: log has small ones here, the others one.
        report = tier(log, "t", objects, include_open=True, local_bytes=0)

        assert (report.copied, report.evicted_records) == (runs, 12)
        table = pa.concat_tables(objects_of(objects), promote_options="permissive")
        numbers = [row["_schema_id"] for row in table.to_pylist() if row["_row"] == 0]
        assert numbers == [1, 2, 3] * 4
        assert table.schema.field("a").type == pa.int64()
        assert table.schema.names[-5:] == ["a", "d", "f", "x", "l"]
        check_same(values(log), published)
        check_same(values(log, 5), published[5:])
        after = [each.batch.to_pylist() for each in delivered(log)]
        assert str(after) == str(before)
        for (start, end), wanted in hot.items():
            found = table_of(log, start, end)
            assert found.schema == wanted.schema
            assert str(found.to_pydict()) == str(wanted.to_pydict())
        assert [each.offset for each in log.scope().replay("t", 0, where="x = 'q'")] == [
            *(1, 2, 4, 5, 7, 8, 10, 11)
        ]
        assert [each.offset for each in log.scope().replay("t", 0, where="a < 7")] == [0, 3, 6]


def delivered(log: Log) -> Iterator[sl.DeliveredBatch]:
    for each in log.scope().replay("t", 0):
        assert isinstance(each, sl.DeliveredBatch)
        yield each


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_widened_topic_is_read_as_the_newest_version_in_the_range(
    backend: str, tmp_path: Path
) -> None:
    with opened(backend, tmp_path) as log:
        typed(log, 6)

        assert table_of(log, 0, 1).schema.field("a").type == pa.int32()
        assert table_of(log, 0, 2).schema.names[6:] == ["a", "d", "f", "x"]
        assert table_of(log, 0, 2).schema.field("a").type == pa.int64()
        whole = table_of(log)
        assert whole.schema.names[6:] == THIRD.names
        assert [whole.schema.field(each.name).type for each in THIRD] == THIRD.types
        assert whole.column("x").to_pylist() == [None, "q", "q", "q", None, None, "q", "q", "q"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_proof_holds_over_versions_in_one_object(backend: str, tmp_path: Path) -> None:
    objects = MemoryObjects()
    with opened(backend, tmp_path, objects) as log:
        published = typed(log, 9, proof=True)
        head = log.proof_head("t", 0)

        tier(log, "t", objects, include_open=True, local_bytes=0)

        tables = list(objects_of(objects))
        assert tables[0].schema.names[6:9] == ["_topic", "_digest", "_schema_id"]
        assert "packed" not in {name for table in tables for name in table.schema.names}
        assert len({each for table in tables for each in table["_digest"].to_pylist()}) == 9
        (report,) = log.verify("t", expected=[head])
        assert (report.records, report.findings, report.head) == (9, (), head)
        check_same(values(log), published)


def test_what_other_engines_read_of_an_object_with_versions(tmp_path: Path) -> None:
    with sl.open(f"file:{tmp_path / 'log'}") as log:
        typed(log, 6)
        tier(log, "t", f"file://{tmp_path / 'cold'}", include_open=True, local_bytes=0)

    found = duckdb.sql(
        "SELECT _offset, a, x FROM "  # noqa: S608
        f"read_parquet('{tmp_path}/cold/**/*.parquet') WHERE _row = 0 ORDER BY 1"
    ).fetchall()

    wide = (2**40, "q")
    assert found == [(0, 0, None), (1, *wide), (2, *wide), (3, 3, None), (4, *wide), (5, *wide)]


def test_batches_without_a_registered_schema_share_an_object_where_one_holds_the_other(
    tmp_path: Path,
) -> None:
    objects = MemoryObjects()
    small = pa.record_batch({"a": pa.array([1], pa.int32())})
    large = pa.record_batch({"a": pa.array([2**40]), "x": ["q"]})
    other = pa.record_batch({"b": [True]})
    clash = pa.record_batch({"a": ["text"]})
    published = [small, large, small, other, large, clash]
    with opened("memory", tmp_path, objects) as log:
        log.create_topic("t", value_kind=ValueKind.BATCH)
        for batch in published:
            log.append("t", batch)
        hot = table_of(log, 0, 5)

        tier(log, "t", objects, include_open=True, local_bytes=0)

        assert [table.num_rows for table in objects_of(objects)] == [3, 1, 1, 1]
        check_same(values(log), published)
        assert table_of(log, 0, 5) == hot
        with pytest.raises(InvalidError, match="two types"):
            log.read_batches("t", 0, 0)


def test_an_object_has_a_bounded_number_of_schemas(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copying, "SCHEMAS_MAX", 3)
    objects = MemoryObjects()
    published = [
        pa.record_batch({f"c{each}": [each] for each in range(1, count)}) for count in range(2, 9)
    ]
    with opened("memory", tmp_path, objects) as log:
        log.create_topic("t", value_kind=ValueKind.BATCH)
        for batch in published:
            log.append("t", batch)

        tier(log, "t", objects, include_open=True, local_bytes=0)

        assert [table.num_rows for table in objects_of(objects)] == [3, 3, 1]
        check_same(values(log), published)


# --- records that break their own schema, stored before any check ---

CHILD = pa.field("c", pa.int32(), nullable=False)
ITEM = pa.field("item", pa.int32(), nullable=False)
NESTED: dict[str, tuple[pa.DataType, pa.Array, Any]] = {
    "struct": (
        pa.struct([CHILD]),
        pa.StructArray.from_arrays([pa.array([1, None], pa.int32())], fields=[CHILD]),
        {"c": 5},
    ),
    "list": (
        pa.list_(ITEM),
        pa.ListArray.from_arrays(
            pa.array([0, 1, 2], pa.int32()), pa.array([None, 2], pa.int32()), type=pa.list_(ITEM)
        ),
        [5],
    ),
    "map": (
        pa.map_(pa.string(), ITEM.with_name("value")),
        pa.MapArray.from_arrays(
            pa.array([0, 1, 2], pa.int32()),
            pa.array(["a", "b"]),
            pa.array([None, 2], pa.int32()),
            type=pa.map_(pa.string(), ITEM.with_name("value")),
        ),
        [("k", 5)],
    ),
}


# --- the parts ---


def test_schemas_unite_to_the_widest() -> None:
    assert united([FIRST, THIRD, SECOND]).names == THIRD.names
    assert united([THIRD, FIRST]).types == THIRD.types
    assert united([FIRST]).types == FIRST.types
    signed, unsigned = pa.schema([("n", pa.int32())]), pa.schema([("n", pa.uint32())])
    with pytest.raises(InvalidError, match="two types"):
        united([signed, unsigned])
    whole = pa.schema([("n", pa.int64())])
    assert united([signed, unsigned, whole]).field("n").type == pa.int64()


def test_a_column_is_fitted_without_a_look_for_nulls() -> None:
    for arrow, bad, _ in NESTED.values():
        loose = fitted(bad, relaxed(arrow))

        assert loose.type == relaxed(arrow) != arrow
        assert fitted(loose, arrow).type == arrow
        assert fitted(loose, arrow).to_pylist() == bad.to_pylist()
        assert fitted(bad.slice(1), relaxed(arrow)).to_pylist() == bad.slice(1).to_pylist()


# --- the checks are worth what they find ---


def test_a_copy_that_drops_versions_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def as_newest(batch: pa.RecordBatch, _: pa.Schema) -> pa.RecordBatch:
        return batch.select(THIRD.names).cast(THIRD)

    monkeypatch.setattr(parquet, "as_published", as_newest)
    monkeypatch.setattr(copying, "_comes_back", lambda *_: True)

    with pytest.raises(AssertionError):
        test_versions_in_turns_are_one_object_and_come_back_as_they_were("memory", tmp_path)


def test_without_the_look_whether_it_comes_back_a_wrong_copy_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With it, a wrong reconstruction is packed instead, and reads right."""
    sound = CopiedRows.values

    def swapped(rows: CopiedRows, batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
        for at, value in sound(rows, batch):
            first = value.schema.field(0).with_metadata({"id": uuid.uuid4().hex})
            yield at, value if rows.is_packed else value.cast(value.schema.set(0, first))

    monkeypatch.setattr(CopiedRows, "values", swapped)
    objects = MemoryObjects()
    with opened("memory", tmp_path, objects) as log:
        published = typed(log, 6)
        tier(log, "t", objects, include_open=True, local_bytes=0)

        (table,) = objects_of(objects)
        assert table.schema.names[-1] == "packed"
        check_same(values(log), published)
        assert table_of(log).num_rows == 9
