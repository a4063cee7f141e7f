"""Objects of the tier that cannot hold a wanted row are not read, and no wanted row is lost."""

import math
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

import strandline as sl
from strandline.predicates import parse_predicate
from strandline.spark.source.places import SourcePartition
from strandline.tiering import tier
from strandline.tiering.footer import FOOTER_BYTES
from tests.spark.as_spark import Query, fill, numbers, pushed, rows, source

NAN = float("nan")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
PIECE = 5


def moved(log: sl.Log, store: Path, topic: str = "t", piece_records: int = PIECE) -> None:
    url = f"file://{store}"
    tier(log, topic, url, include_open=True, local_bytes=0, piece_records=piece_records)


def spoilt(store: Path) -> Callable[[int], None]:
    """Return what makes the rows of the n-th object unreadable; its footer stays."""
    paths = sorted(store.rglob("*.parquet"), key=lambda path: int(path.name.split("-")[0]))

    def spoil(index: int) -> None:
        content = bytearray(paths[index].read_bytes())
        content[8] ^= 1
        paths[index].write_bytes(content)

    return spoil


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "cold"


# --- what is skipped is not read ---


@pytest.mark.slow
def test_pushed_filters_leave_objects_alone(log: sl.Log, url: str, store: Path) -> None:
    log.create_topic("t")
    for number in range(3):
        kinds = ["even", "odd"] if number == 1 else ["even"]
        log.append_many("t", [sl.Event(kinds[n % len(kinds)], {"n": n}) for n in range(PIECE)])
    moved(log, store)
    fill(log, 4)
    spoil = spoilt(store)
    spoil(0)
    spoil(2)

    found = pushed(url, [EqualTo(("kind",), "odd")], subscribe="t", pushdown="true")

    # Filters are handed back: of what is read nothing is left out.
    assert numbers(found) == [0, 0, 1, 1, 2, 2, 3, 3, 4]
    with pytest.raises(sl.CorruptError):
        rows(url, subscribe="t")
    with pytest.raises(sl.CorruptError):
        pushed(url, [EqualTo(("kind",), "even")], subscribe="t", pushdown="true")


@pytest.mark.slow
def test_a_predicate_leaves_objects_alone_in_batch_and_stream(
    log: sl.Log, url: str, store: Path
) -> None:
    log.create_topic("t")
    for kind in ("a", "b", "c"):
        log.append_many("t", [sl.Event(kind, {"n": n}, key=f"{kind}{n}") for n in range(PIECE)])
    moved(log, store)
    log.append("t", sl.Event("b", {"n": 9}, key="b9"))
    spoil = spoilt(store)
    spoil(0)
    spoil(2)

    for predicate in ("kind = 'b'", "key IN ('b1', 'b9')", "startswith(key, 'b') AND kind <> 'x'"):
        wanted = [1, 9] if "IN" in predicate else [0, 1, 2, 3, 4, 9]
        assert numbers(rows(url, subscribe="t", predicate=predicate)) == wanted
        query = Query(url, subscribe="t", startingOffsets="earliest", predicate=predicate)
        assert numbers(query.next()) == wanted
        query.stop()
    with pytest.raises(sl.CorruptError):
        rows(url, subscribe="t", predicate="kind < 'b'")


@pytest.mark.slow
def test_row_groups_are_left_out_inside_an_object(
    log: sl.Log, url: str, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("strandline.tiering.parquet.GROUP_ROWS", 4)
    log.create_topic("t")
    fill(log, 20)
    moved(log, store, piece_records=100)

    found = pushed(url, [EqualTo(("payload",), '{"n":9}')], subscribe="t", pushdown="true")

    assert numbers(found) == [8, 9, 10, 11]


@pytest.mark.slow
def test_a_part_of_an_object_and_of_a_split_is_read(log: sl.Log, url: str, store: Path) -> None:
    log.create_topic("t")
    fill(log, 20)
    moved(log, store)
    log.trim("t", 0, 7)

    given = {"subscribe": "t", "pushdown": "true", "maxRecordsPerPartition": "3"}
    found = pushed(url, [LessThan(("payload",), '{"n":8}')], **given)

    assert 7 in numbers(found)
    assert numbers(pushed(url, [IsNotNull(("payload",))], **given)) == [*range(7, 20)]
    assert numbers(pushed(url, [IsNull(("payload",))], **given)) == []


@pytest.mark.slow
def test_a_footer_of_many_columns_is_read_whole(log: sl.Log, url: str, store: Path) -> None:
    names = [f"column_with_a_rather_long_name_{n:04}" for n in range(700)]
    schema = pa.schema([(name, pa.int64()) for name in names])
    log.scope().register("wide", schema)
    for value in (1, 2):
        columns = {name: [value] for name in names}
        log.scope().publish("wide", pa.RecordBatch.from_pydict(columns, schema=schema))
    moved(log, store, "wide", piece_records=1)
    assert all(path.stat().st_size > FOOTER_BYTES for path in store.rglob("*.parquet"))
    spoilt(store)(0)

    given = {"subscribe": "wide", "columns": names[-1], "pushdown": "true"}
    assert pushed(url, [EqualTo((names[-1],), 2)], **given) == [{names[-1]: 2}]


@pytest.mark.slow
def test_what_is_packed_is_known_by_the_logs_own_columns_alone(
    log: sl.Log, url: str, store: Path
) -> None:
    log.create_topic("b", value_kind=sl.ValueKind.BATCH)
    batch = pa.RecordBatch.from_pydict({"packed": [1, 2], "n": [1, 2]})  # No place for the name.
    for key in ("a", "b"):
        log.append("b", batch, key=key)
    moved(log, store, "b", piece_records=1)
    given = {"subscribe": "b", "columns": "n,_key", "pushdown": "true"}

    assert len(pushed(url, [EqualTo(("n",), 9)], **given)) == 4
    assert len(pushed(url, [EqualTo(("_key",), "b")], **given)) == 2


# --- no wanted row is skipped ---

SCHEMA = pa.schema(
    [
        ("i", pa.int32()),
        ("u", pa.uint64()),
        ("f", pa.float64()),
        ("g", pa.float32()),
        ("d", pa.decimal128(10, 2)),
        ("at", pa.timestamp("us", "UTC")),
        ("ms", pa.timestamp("ms", "UTC")),
        ("local", pa.timestamp("us")),
        ("day", pa.date32()),
        ("s", pa.string()),
        ("b", pa.bool_()),
        ("st", pa.struct([("x", pa.int64()), ("s", pa.string())])),
        ("li", pa.list_(pa.int64())),
        ("last", pa.int64()),
    ]
)
LONG = "m" * 5000
#: For each column values that are near one another in some way, and one that lies apart.
VALUES: dict[str, list[Any]] = {
    "i": [-5, 0, 7, -(2**31), 2**31 - 1, None],
    "u": [0, 1, 2**63, 2**64 - 1, 5, None],
    "f": [-0.0, NAN, 0.0, -1.5, math.inf, -math.inf, 2.5, None],
    "g": [0.10000000149011612, NAN, -2.0, 0.0, None],
    "d": [Decimal("-1.50"), Decimal("1.05"), Decimal("0.00"), Decimal("99999999.99"), None],
    "at": [EPOCH + timedelta(microseconds=n) for n in (-1, 0, 1, 10**12)] + [None],
    "ms": [EPOCH + timedelta(milliseconds=n) for n in (-1, 0, 1, 10**12)] + [None],
    "local": [datetime(1969, 12, 31, 23, 59), datetime(2026, 1, 1), datetime(1, 1, 1), None],
    "day": [date(1969, 12, 31), date(1, 1, 1), date(9999, 12, 31), None],
    "s": ["", "m", LONG, LONG + "\x00", "\uffff", "\U00010000", "é", "e\u0301", None],
    "b": [True, False, None],
    "last": [1, 2, None],
}


def _rank(value: Any) -> Any:
    """Return what compares as Spark does: a NaN above all numbers and equal to itself."""
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value)
    return value.encode() if isinstance(value, str) else value


COMPARISONS: dict[type[Filter], Callable[[Any, Any], bool]] = {
    EqualTo: lambda a, b: _rank(a) == _rank(b),
    LessThan: lambda a, b: _rank(a) < _rank(b),
    LessThanOrEqual: lambda a, b: _rank(a) <= _rank(b),
    GreaterThan: lambda a, b: _rank(a) > _rank(b),
    GreaterThanOrEqual: lambda a, b: _rank(a) >= _rank(b),
}


def _filters(name: str) -> Iterator[tuple[Filter, Callable[[Any], bool]]]:
    """Yield filters on a column, each with whether a value that is not null meets it."""
    given = [value for value in VALUES[name] if value is not None]
    for value in given:
        for kind, holds in COMPARISONS.items():
            yield kind((name,), value), partial(_swapped, holds, value)  # type: ignore[call-arg]
        yield Not(EqualTo((name,), value)), partial(_differs, value)
        if isinstance(value, str):
            yield StringStartsWith((name,), value[:4999]), partial(_begins, value[:4999])
    yield In((name,), (given[0], given[-1], None)), partial(_is_any, (given[0], given[-1]))


def _swapped(holds: Callable[[Any, Any], bool], value: Any, found: Any) -> bool:
    return holds(found, value)


def _if_any(holds: Callable[[Any], bool], found: Any) -> bool:
    return found is not None and holds(found)


def _differs(value: Any, found: Any) -> bool:
    return bool(_rank(found) != _rank(value))


def _begins(prefix: str, found: str) -> bool:
    return found.startswith(prefix)


def _is_any(values: tuple[Any, ...], found: Any) -> bool:
    return any(_rank(found) == _rank(each) for each in values)


@dataclass(frozen=True)
class Stored:
    """A topic of batches with one, two and all values of each column, each an object."""

    url: str
    log: sl.Log
    rows: list[dict[str, Any]]

    def of(self, column: str) -> list[dict[str, Any]]:
        """Return the rows of the objects that were made for this column, and of the one after."""
        first, *_, last = (row["_offset"] for row in self.rows if row[column] is not None)
        return [row for row in self.rows if first <= row["_offset"] <= last + 1]

    def kept(self, reader: Any, among: set[int]) -> set[int]:
        """Return which of these offsets the reader would look at."""
        place = SourcePartition(self.log.topic("t"), 0)
        runs = reader.reading.skipping.kept(self.log, place, min(among), max(among) + 1)
        return {offset for start, end in runs for offset in range(start, end)}


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stored]:
    folder = tmp_path_factory.mktemp("skipping")
    made: list[list[dict[str, Any]]] = []
    for name, options in VALUES.items():
        for index in range(len(options)):
            made += [[{name: options[index]}], [{name: options[index - 1]}, {name: options[index]}]]
        made.append([{name: value} for value in options])
    made.append([{"st": {"x": 1, "s": "q"}, "li": [1, 2, 3], "last": 2}, {"li": [], "last": None}])
    url = f"file:{folder / 'log'}"
    with sl.open(url) as log:
        log.scope().register("t", SCHEMA)
        for batch in made:
            log.scope().publish("t", pa.RecordBatch.from_pylist(batch, schema=SCHEMA))
        moved(log, folder / "cold", piece_records=1)
        rows = [
            {"_offset": offset, **dict.fromkeys(SCHEMA.names), **row}
            for offset, batch in enumerate(made)
            for row in batch
        ]
        yield Stored(url, log, rows)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(VALUES))
def test_no_row_that_matches_a_filter_is_skipped(stored: Stored, name: str) -> None:
    made = source(stored.url, subscribe="t", pushdown="true")
    planner = made.reader(made.schema())
    rows_near = stored.of(name)
    objects = {row["_offset"] for row in rows_near}
    skipped: dict[str, int] = {}
    tests: list[tuple[Filter, Callable[[Any], bool]]] = [
        (IsNull((name,)), lambda value: value is None),
        (IsNotNull((name,)), lambda value: value is not None),
        *((each, partial(_if_any, holds)) for each, holds in _filters(name)),
    ]
    for pushed_filter, holds in tests:
        reader: Any = copy(planner)
        reader.pushFilters([pushed_filter])

        wanted = {row["_offset"] for row in rows_near if holds(row[name])}
        kept = stored.kept(reader, objects)

        assert wanted <= kept, pushed_filter
        label = type(pushed_filter).__name__
        skipped[label] = skipped.get(label, 0) + len(objects) - len(kept)
    del skipped["Not"]
    # Each of them is good for something.
    assert all(skipped.values()), skipped


#: Predicates that statistics of single columns say nothing of.
NOT_TOLD = ("st IS NOT NULL", "li IS NOT NULL", "last = 2 OR i = 7")


@pytest.mark.slow
@pytest.mark.parametrize(
    "predicate",
    [
        *NOT_TOLD,
        "i > -1",
        "i < 7 AND i >= 0",
        "i IN (7, 8, NULL)",
        "u >= 9223372036854775808",
        "u = 5",
        "f > 2.5",
        "f > 1e300",
        "f < 0",
        "f = 0.0",
        "g < 0.5",
        "g = -2",
        "d > 1.04 AND d < 2",
        "d <= -1.5",
        "at < TIMESTAMP '1970-01-01 00:00:00Z'",
        "at = TIMESTAMP '1970-01-01 00:00:00.000001Z'",
        "ms > TIMESTAMP '1970-01-01 00:00:00Z'",
        "day < DATE '1970-01-01'",
        "s >= 'm'",
        "startswith(s, 'mm')",
        "s > 'z'",
        "s = ''",
        "b IS NULL",
        "last = 2 AND NOT (st IS NULL)",
        "NOT (last IS NULL)",
    ],
)
def test_no_row_that_matches_a_predicate_is_skipped(stored: Stored, predicate: str) -> None:
    batch = pa.RecordBatch.from_pylist(stored.rows, schema=SCHEMA)
    picked = parse_predicate(predicate, SCHEMA).matches(batch).to_pylist()
    wanted = [row["_offset"] for row, is_match in zip(stored.rows, picked, strict=True) if is_match]

    found = rows(stored.url, subscribe="t", predicate=predicate, columns="_offset")

    assert wanted
    assert [row["_offset"] for row in found] == wanted
    made = source(stored.url, subscribe="t", predicate=predicate)
    objects = {row["_offset"] for row in stored.rows}
    kept = stored.kept(made.reader(made.schema()), objects)
    assert kept < objects or predicate in NOT_TOLD


@pytest.mark.slow
def test_versions_of_a_schema_are_known_by_what_they_had(
    log: sl.Log, url: str, store: Path
) -> None:
    old = pa.schema([("n", pa.int32()), ("x", pa.float32())])
    new = pa.schema([("n", pa.int64()), ("x", pa.float64()), ("note", pa.string())])
    scope = log.scope()
    scope.register("t", old)
    scope.publish("t", pa.RecordBatch.from_pylist([{"n": 1, "x": 0.5}], schema=old))
    scope.evolve("t", new)
    rows_new = [{"n": 2**40, "x": 0.1, "note": "hello"}]
    scope.publish("t", pa.RecordBatch.from_pylist(rows_new, schema=new))
    moved(log, store, piece_records=1)

    def found(wanted: Filter) -> list[int]:
        given = {"subscribe": "t", "columns": "n", "pushdown": "true"}
        return [row["n"] for row in pushed(url, [wanted], **given)]

    assert found(GreaterThan(("n",), 5)) == [2**40]
    assert found(EqualTo(("n",), 1)) == [1]
    assert found(EqualTo(("x",), 0.5)) == [1]
    assert found(IsNull(("note",))) == [1]
    assert found(IsNotNull(("note",))) == [2**40]
    assert found(EqualTo(("note",), "zzz")) == []
    spoilt(store)(0)
    assert found(StringStartsWith(("note",), "hell")) == [2**40]


@pytest.mark.slow
def test_a_predicate_that_can_fail_meets_every_row(log: sl.Log, url: str, store: Path) -> None:
    """Whether a row makes it fail must not depend on where the row is kept."""
    schema = pa.schema([("n", pa.int64())])
    log.scope().register("t", schema)
    for number in (2**62, 1):
        log.scope().publish("t", pa.RecordBatch.from_pylist([{"n": number}], schema=schema))
    moved(log, store, piece_records=1)

    with pytest.raises(sl.PredicateEvalError):
        rows(url, subscribe="t", predicate="n * 4 < 100 AND n < 5")


def test_an_object_that_is_gone_is_reported_and_not_skipped(
    log: sl.Log, url: str, store: Path
) -> None:
    log.create_topic("t")
    fill(log, 10)
    moved(log, store)
    next(store.rglob("*.parquet")).unlink()

    with pytest.raises(sl.CorruptError):
        pushed(url, [EqualTo(("kind",), "none")], subscribe="t", pushdown="true")


@pytest.mark.slow
@pytest.mark.parametrize("url", ["file"], indirect=True)
def test_spark_itself_leaves_objects_alone(
    spark: SparkSession, log: sl.Log, url: str, store: Path
) -> None:
    schema = pa.schema([("n", pa.int64()), ("price", pa.decimal128(10, 2)), ("x", pa.float64())])
    log.scope().register("t", schema)
    for number in range(3):
        made = [{"n": number, "price": Decimal(f"{number}.50"), "x": [1.0, 7.0, NAN][number]}]
        log.scope().publish("t", pa.RecordBatch.from_pylist(made, schema=schema))
    moved(log, store, piece_records=1)
    spoilt(store)(1)
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        reader = spark.read.format("strandline").option("subscribe", "t")
        read = reader.option("pushdown", "true").load(url)

        assert [row.n for row in read.where("price > 2.10").collect()] == [2]
        assert [row.n for row in read.where("n in (0, 2)").collect()] == [0, 2]
        assert [row.n for row in read.where("x < 5").collect()] == [0]
        assert [row.n for row in read.where("n = 2 and x > 7").collect()] == [2]
    finally:
        spark.conf.set("spark.sql.python.filterPushdown.enabled", "false")
