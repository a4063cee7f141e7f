"""Which rows there are, and what is in them: typed topics, other batches, predicates."""

import subprocess
import sys
import weakref
from collections.abc import Iterator
from datetime import UTC, datetime

import pyarrow as pa
import pytest

import strandline as sl
from strandline.predicates import PredicateError
from strandline.spark.source.rows import merged
from tests.spark.as_spark import Query, numbers, rows, source, table

ORDERS = pa.schema([pa.field("id", pa.int32(), nullable=False), pa.field("price", pa.float64())])
WIDER = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("price", pa.float64()),
        pa.field("note", pa.string()),
    ]
)


def orders(*ids: int, schema: pa.Schema = ORDERS) -> pa.RecordBatch:
    columns = {"id": list(ids), "price": [n / 2 for n in ids], "note": [f"n{n}" for n in ids]}
    return pa.RecordBatch.from_pydict({name: columns[name] for name in schema.names}, schema=schema)


def test_a_typed_topic_has_its_registered_columns(log: sl.Log, url: str) -> None:
    scope = log.scope()
    scope.register("orders", ORDERS)
    assert rows(url, subscribe="orders") == []
    scope.publish("orders", orders(1, 2))

    assert rows(url, subscribe="orders") == [{"id": 1, "price": 0.5}, {"id": 2, "price": 1.0}]
    placed = rows(url, subscribe="orders", columns="id,_offset,_row,_topic")
    assert placed == [
        {"id": 1, "_offset": 0, "_row": 0, "_topic": "orders"},
        {"id": 2, "_offset": 0, "_row": 1, "_topic": "orders"},
    ]


def test_an_evolved_topic_reads_as_its_newest_version(log: sl.Log, url: str) -> None:
    scope = log.scope()
    scope.register("orders", ORDERS)
    scope.publish("orders", orders(1))
    scope.evolve("orders", WIDER)
    scope.publish("orders", orders(2**40, schema=WIDER))

    found = table(url, subscribe="orders")

    assert found.schema.field("id").type == pa.int64()
    assert found.to_pylist() == [
        {"id": 1, "price": 0.5, "note": None},
        {"id": 2**40, "price": 2**39, "note": f"n{2**40}"},
    ]


def test_a_schema_change_under_a_stream_is_reported_or_dropped(log: sl.Log, url: str) -> None:
    scope = log.scope()
    scope.register("orders", ORDERS)
    strict = Query(url, subscribe="orders", startingOffsets="earliest")
    drop = Query(url, subscribe="orders", startingOffsets="earliest", schemaMode="drop")
    scope.evolve("orders", WIDER)
    scope.publish("orders", orders(7, schema=WIDER))

    with pytest.raises(sl.InvalidError, match="start it again") as caught:
        strict.next()
    assert caught.value.fields["columns"] == ["note"]
    assert drop.next() == [{"id": 7, "price": 3.5}]
    again = Query(url, offset=strict.offset, subscribe="orders")
    assert again.next() == [{"id": 7, "price": 3.5, "note": "n7"}]


def test_batches_without_a_registered_schema_have_their_own(log: sl.Log, url: str) -> None:
    log.create_topic("t", value_kind=sl.ValueKind.BATCH, partitions=2)
    with pytest.raises(sl.InvalidError, match="no batch yet"):
        rows(url, subscribe="t")
    log.append("t", pa.RecordBatch.from_pydict({"a": [1]}), partition=0)
    log.append("t", pa.RecordBatch.from_pydict({"b": ["x"]}), partition=1)

    assert rows(url, subscribe="t") == [{"a": 1, "b": None}, {"a": None, "b": "x"}]
    with pytest.raises(sl.InvalidError, match="valueFormat"):
        rows(url, subscribe="t", valueFormat="kafka")


@pytest.mark.parametrize(
    ("type_", "value", "wanted"),
    [
        (pa.uint64(), 2**64 - 1, "decimal(20,0)"),
        (pa.timestamp("ms"), datetime(2026, 1, 2), "timestamp_ntz"),
        (pa.timestamp("us", "Europe/Berlin"), datetime(2026, 1, 2, tzinfo=UTC), "timestamp"),
        (pa.large_string(), "é", "string"),
        (pa.list_(pa.int8()), [1, None], "array<tinyint>"),
        (pa.struct([("x", pa.date32())]), {"x": datetime(2026, 1, 2).date()}, "struct<x:date>"),
        (pa.map_(pa.string(), pa.float32()), [("k", 0.5)], "map<string,float>"),
    ],
)
def test_types_arrive_as_spark_has_them(
    log: sl.Log, url: str, type_: pa.DataType, value: object, wanted: str
) -> None:
    log.scope().register("t", pa.schema([("v", type_)]))
    batch = pa.RecordBatch.from_arrays([pa.array([value, None], type_)], names=["v"])
    log.scope().publish("t", batch)

    assert source(url, subscribe="t").schema()["v"].dataType.simpleString() == wanted
    assert [row["v"] for row in rows(url, subscribe="t")] == [value, None]


def test_topics_of_different_kinds_are_read_apart(log: sl.Log, url: str) -> None:
    log.create_topic("a")
    log.create_topic("b", value_kind=sl.ValueKind.BYTES)

    with pytest.raises(sl.InvalidError, match="read them separately"):
        rows(url, subscribe="a,b")


@pytest.mark.slow
def test_a_predicate_picks_events_by_what_they_carry(log: sl.Log, url: str) -> None:
    log.create_topic("t")
    for number in range(10):
        log.append(
            "t",
            sl.Event(
                "even" if number % 2 == 0 else "odd",
                {"n": number},
                key=f"c-{number % 3}",
                headers={"size": "big"} if number > 6 else {},
            ),
        )

    def picked(text: str) -> list[int]:
        batch = numbers(rows(url, subscribe="t", predicate=text))
        stream = Query(url, subscribe="t", startingOffsets="earliest", predicate=text).next()
        assert numbers(stream) == batch
        return batch

    assert picked("kind = 'odd'") == [1, 3, 5, 7, 9]
    assert picked("kind = 'odd' AND key <> 'c-1'") == [3, 5, 9]
    assert picked("headers['size'] = 'big'") == [7, 8, 9]
    assert picked("timestamp > TIMESTAMP '2200-01-01'") == []
    assert picked("1 = 1") == [*range(10)]
    assert picked("payload.n > 6 AND key <> 'c-1'") == [8, 9]
    assert picked("payload.n % 5 = 0 AND timestamp <= current_timestamp") == [0, 5]
    kafka = rows(url, subscribe="t", predicate="kind = 'odd'", valueFormat="kafka")
    assert len(kafka) == 5


def test_a_predicate_reads_the_columns_of_a_typed_topic(log: sl.Log, url: str) -> None:
    scope = log.scope()
    scope.register("orders", ORDERS)
    scope.publish("orders", orders(1, 2, 3, 4))

    found = rows(url, subscribe="orders", predicate="price >= 1.0 AND id < 4", columns="id,_row")
    assert found == [{"id": 2, "_row": 1}, {"id": 3, "_row": 2}]


@pytest.mark.parametrize("text", ["price >", "cost > 1", "sum(id) > 1", "id + 1", " "])
def test_a_predicate_that_is_none_is_refused_at_once(log: sl.Log, url: str, text: str) -> None:
    log.scope().register("orders", ORDERS)

    with pytest.raises(sl.InvalidError) as caught:
        source(url, subscribe="orders", predicate=text).schema()
    assert isinstance(caught.value, PredicateError) or not text.strip()


def test_plain_bytes_have_nothing_for_a_predicate(log: sl.Log, url: str) -> None:
    log.create_topic("t", value_kind=sl.ValueKind.BYTES)

    with pytest.raises(sl.InvalidError, match="no columns"):
        rows(url, subscribe="t", predicate="1 = 1")


def test_a_predicate_sees_no_row_of_another_tenant(log: sl.Log, url: str) -> None:
    """It would tell of it by failing."""
    log.create_topic("t")
    log.append("t", sl.Event("k", {"n": 0}, key="x"), tenant="other")
    log.append("t", sl.Event("k", {"n": 1}, key="7"), tenant="acme")

    found = rows(url, subscribe="t", tenant="acme", predicate="CAST(key AS INT) = 7")
    assert numbers(found) == [1]


_READING = """
import sys
from strandline.spark.source.strandline_source import StrandlineSource

made = StrandlineSource({"path": sys.argv[1], "subscribe": "events"})
reader = made.reader(made.schema())
batches = [batch for part in reader.partitions() for batch in reader.read(part)]
has_pandas = "pandas" in sys.modules
print([row["headers"] for batch in batches for row in batch.to_pylist()], has_pandas)
"""


@pytest.mark.slow
@pytest.mark.parametrize("url", ["file"], indirect=True)
def test_a_process_that_reads_columns_of_events_does_without_pandas(log: sl.Log, url: str) -> None:
    """Importing it would take longer than reading a hundred thousand of them."""
    log.create_topic("events")
    events = [sl.Event("made", {}, headers={"é": "1", "b": ""}), *([sl.Event("made", {})] * 99)]
    log.append_many("events", events)

    done = subprocess.run(
        [sys.executable, "-c", _READING, url], capture_output=True, check=True, text=True
    )

    headers = [[("b", ""), ("é", "1")], *([[]] * 99)]
    assert done.stdout == f"{headers} False\n"


class Frame(bytearray):
    """Memory whose end can be seen."""


def frames(seen: list[weakref.ref[Frame]], counts: list[int]) -> Iterator[pa.RecordBatch]:
    """Yield one column each of frames that have more, with rising numbers."""
    start = 0
    for count in counts:
        numbers = range(start, start + count)
        frame = Frame(b"".join(number.to_bytes(8, "little") for number in numbers))
        seen.append(weakref.ref(frame))
        buffer = pa.py_buffer(frame)
        del frame
        column = pa.Array.from_buffers(pa.int64(), count, [None, buffer])
        del buffer
        batch = pa.record_batch([column], names=["n"])
        del column
        yield batch
        del batch
        start += count


def test_small_batches_are_joined_and_hold_no_memory_of_their_frames() -> None:
    seen: list[weakref.ref[Frame]] = []
    joined = merged(frames(seen, [1, 2, 0, 3, 8, 2, 1]), 4)

    first = next(joined)
    # The generator itself still has the last.
    assert [each() for each in seen[:-1]] == [None] * 3

    found = [first, *joined]
    assert [each.num_rows for each in found] == [6, 8, 3]
    assert pa.Table.from_batches(found).column("n").to_pylist() == list(range(17))
