"""Which rows a topic takes, and what they become."""

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import strandline as sl
from strandline.spark.sink import staging
from strandline.typed import spark_schema
from strandline.values import RECORD_BYTES_MAX, InvalidError, ValueKind
from tests.spark.as_sink import Sink, events, numbers_in

pytestmark = pytest.mark.parametrize("url", ["file"], indirect=True)

SPARK_TIME = pa.timestamp("us", "Etc/UTC")
NOON = dt.datetime(2026, 11, 15, 12, 0, 0, 5, tzinfo=dt.UTC)


def values(log: sl.Log, topic: str = "t") -> list[Any]:
    return [record.value for record in log.read(topic, 0, 0)]


# --- events ---


def test_events_have_all_that_the_source_gives(log: sl.Log, url: str) -> None:
    log.create_topic("t")
    rows = pa.record_batch(
        {
            "occurred_at": pa.array([NOON, None], SPARK_TIME),
            "headers": pa.array(
                [[("b", "1"), ("a", "é")], None], pa.map_(pa.string(), pa.string())
            ),
            "payload": ['{"n": 1.50}', None],
            "key": ["k", None],
            "kind": ["made", "lost"],
        }
    )
    Sink(log, url).write(0, rows)

    assert values(log) == [
        sl.Event("made", {"n": 1.5}, key="k", headers={"a": "é", "b": "1"}, occurred_at=NOON),
        sl.Event("lost"),
    ]
    assert values(log)[0].payload_json == b'{"n": 1.50}'


def test_a_kind_is_enough(log: sl.Log, url: str) -> None:
    log.create_topic("t")
    Sink(log, url).write(0, pa.record_batch({"kind": ["a", "b"]}))

    assert values(log) == [sl.Event("a"), sl.Event("b")]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"kind": ["a", None]}, "has a kind"),
        ({"kind": ["a\n"]}, "control character"),
        ({"payload": ["1"]}, "missing=.*kind"),
        ({"kind": ["a"], "payload": ["{"]}, "no JSON"),
        ({"kind": ["a"], "payload": ["NaN"]}, "no JSON"),
        ({"kind": ["a"], "payload": ["[" * 200 + "]" * 200]}, "nests too deeply"),
        ({"kind": ["a"], "key": pa.array([b"\xff"]).view(pa.string())}, "UTF-8"),
        ({"kind": ["a"], "n": [1]}, "unknown=.*'n'"),
        ({"kind": ["a"], "_offset": [1]}, "unknown=.*_offset"),
        ({"kind": ["a"], "occurred_at": ["noon"]}, "another type"),
        ({"kind": ["a"], "value": [b"1"]}, "unknown=.*value"),
        ({"kind": ["a"], "payload": ['"' + "x" * RECORD_BYTES_MAX + '"']}, "too large"),
        (
            {
                "kind": ["a"],
                "headers": pa.array([[("a", None)]], pa.map_(pa.string(), pa.string())),
            },
            "header has no value",
        ),
    ],
)
def test_what_no_event_can_be_is_refused_before_anything_is_recorded(
    log: sl.Log, url: str, columns: dict[str, Any], message: str
) -> None:
    log.create_topic("t")
    sink = Sink(log, url)
    with pytest.raises(InvalidError, match=message):
        sink.write(0, pa.record_batch(columns))

    assert sink.files() == []


def test_rows_without_a_key_are_spread(log: sl.Log, url: str) -> None:
    log.create_topic("t", partitions=3)
    sink = Sink(log, url)
    sink.write(0, *[pa.record_batch({"kind": ["a"] * 5}) for _ in range(6)])

    assert [int(log.marks("t", n).high) for n in range(3)] == [10, 10, 10]


def test_much_is_staged_in_blocks_and_appended_in_order(
    log: sl.Log, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging, "BLOCK_ROWS", 10)
    monkeypatch.setattr(staging, "HELD_BYTES", 2000)
    log.create_topic("t", partitions=2)
    sink = Sink(log, url)
    sink.write(0, events(range(500)))

    assert numbers_in(log) == [*range(500)]
    for partition in range(2):
        found = [record.payload["n"] for record in log.read("t", partition, 0)]
        assert found == sorted(found)


# --- topics by column ---


def test_a_column_names_the_topic_of_each_row(log: sl.Log, url: str) -> None:
    log.create_topic("a")
    log.create_topic("b")
    rows = pa.record_batch({"topic": ["a", "b", "a"], "kind": ["x", "y", "z"]})
    Sink(log, url, topic=None).write(0, rows)

    assert values(log, "a") == [sl.Event("x"), sl.Event("z")]
    assert values(log, "b") == [sl.Event("y")]


def test_the_option_beats_the_column(log: sl.Log, url: str) -> None:
    log.create_topic("a")
    rows = pa.record_batch({"topic": ["b"], "kind": ["x"]})
    Sink(log, url, topic="a").write(0, rows)

    assert values(log, "a") == [sl.Event("x")]


def test_a_row_without_a_topic_is_refused(log: sl.Log, url: str) -> None:
    sink = Sink(log, url, topic=None)
    with pytest.raises(InvalidError, match="option topic"):
        sink.write(0, pa.record_batch({"kind": ["x"]}))
    with pytest.raises(InvalidError, match="null in some rows"):
        sink.write(0, pa.record_batch({"kind": ["x"], "topic": pa.array([None], pa.string())}))
    log.create_topic("orders")
    sink.topic = "order"
    with pytest.raises(InvalidError, match="orders"):
        sink.write(0, pa.record_batch({"kind": ["x"]}))


# --- bytes ---


@pytest.mark.parametrize("text", [pa.string(), pa.binary()])
def test_rows_as_kafka_has_them_become_records_of_bytes(
    log: sl.Log, url: str, text: pa.DataType
) -> None:
    log.create_topic("t", value_kind=ValueKind.BYTES)
    rows = pa.record_batch({"key": pa.array(["a", None], text), "value": pa.array(["1", ""], text)})
    Sink(log, url).write(0, rows)

    assert [(each.key, each.value) for each in log.read("t", 0, 0)] == [("a", b"1"), (None, b"")]


def test_bytes_need_a_value_and_keys_are_text(log: sl.Log, url: str) -> None:
    log.create_topic("t", value_kind=ValueKind.BYTES)
    sink = Sink(log, url)
    with pytest.raises(InvalidError, match="value is null"):
        sink.write(0, pa.record_batch({"value": pa.array([None], pa.binary())}))
    with pytest.raises(InvalidError, match="UTF-8"):
        sink.write(0, pa.record_batch({"key": [b"\xff"], "value": [b""]}))


# --- typed topics ---

TYPES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "bool": (pa.bool_(), [True, None]),
    "int8": (pa.int8(), [-128, 127]),
    "uint8": (pa.uint8(), [0, 255]),
    "uint16": (pa.uint16(), [0, 65535]),
    "uint32": (pa.uint32(), [0, 2**32 - 1]),
    "uint64": (pa.uint64(), [0, 2**64 - 1]),
    "float16": (pa.float16(), [1.5, None]),
    "double": (pa.float64(), [0.1, float("inf")]),
    "large_string": (pa.large_string(), ["é", None]),
    "large_binary": (pa.large_binary(), [b"\x00", b""]),
    "fixed": (pa.binary(3), [b"abc", None]),
    "date32": (pa.date32(), [dt.date(2026, 1, 2), None]),
    "date64": (pa.date64(), [dt.date(2026, 1, 2), None]),
    "seconds": (pa.timestamp("s", "UTC"), [dt.datetime(2026, 1, 2, tzinfo=dt.UTC), None]),
    "millis": (pa.timestamp("ms"), [dt.datetime(2026, 1, 2, 3, 4, 5, 6000), None]),
    "berlin": (pa.timestamp("us", "Europe/Berlin"), [NOON, None]),
    "decimal": (pa.decimal128(20, 3), [Decimal("1.250"), None]),
    "list": (pa.list_(pa.uint8()), [[1, None], []]),
    "large_list": (pa.large_list(pa.string()), [["a"], None]),
    "fixed_list": (pa.list_(pa.int32(), 2), [[1, 2], None, [None, 4]]),
    "struct_of_fixed_lists": (
        pa.struct([("a", pa.list_(pa.uint8(), 2))]),
        [None, {"a": [1, 2]}, {"a": None}],
    ),
    "fixed_lists_of_maps": (
        pa.list_(pa.map_(pa.string(), pa.list_(pa.float16(), 1)), 1),
        [[[("a", [1.5])]], None, [None], [[("b", None)]]],
    ),
    "list_of_float16": (pa.list_(pa.float16()), [[1.5, float("-inf"), None], None]),
    "struct": (
        pa.struct([("a", pa.uint8()), ("b", pa.large_string())]),
        [{"a": 1, "b": "x"}, None],
    ),
    "map": (pa.map_(pa.string(), pa.uint16()), [[("a", 1)], None]),
}


@pytest.mark.parametrize("name", TYPES)
def test_every_type_comes_back_from_spark_exactly(log: sl.Log, url: str, name: str) -> None:
    arrow, given = TYPES[name]
    schema = pa.schema([pa.field("c", arrow)])
    scope = log.scope()
    scope.register("t", schema)
    original = pa.record_batch([pa.array(given, arrow)], schema=schema)
    as_spark = original.cast(spark_schema(schema))
    if as_spark.schema.field("c").type == pa.timestamp("us", "UTC"):
        as_spark = as_spark.cast(pa.schema([("c", SPARK_TIME)]))

    Sink(log, url).write(0, as_spark)

    (found,) = values(log)
    assert found.equals(original)


@pytest.mark.parametrize(
    ("arrow", "column"),
    [
        (pa.uint8(), pa.array([256], pa.int16())),
        (pa.uint64(), pa.array([Decimal(-1)], pa.decimal128(20, 0))),
        (pa.float16(), pa.array([0.1], pa.float32())),
        (pa.list_(pa.float32()), pa.array([None, [0.1]], pa.list_(pa.float64()))),
        (
            pa.map_(pa.string(), pa.struct([("a", pa.float16())])),
            pa.array([[("k", {"a": 0.1})]], pa.map_(pa.string(), pa.struct([("a", pa.float32())]))),
        ),
        (pa.timestamp("s", "UTC"), pa.array([NOON], SPARK_TIME)),
        (pa.binary(3), pa.array([b"four"])),
        (pa.list_(pa.int32(), 2), pa.array([[1]], pa.list_(pa.int32()))),
        (pa.int64(), pa.array(["x"])),
    ],
)
def test_a_value_that_would_change_is_refused(
    log: sl.Log, url: str, arrow: pa.DataType, column: pa.Array
) -> None:
    log.scope().register("t", pa.schema([pa.field("c", arrow)]))
    sink = Sink(log, url)
    with pytest.raises(InvalidError, match=r"does not fit.*cast it in the query") as caught:
        sink.write(0, pa.record_batch([column], ["c"]))

    assert "read a newer" not in str(caught.value)
    assert sink.files() == []


@pytest.mark.parametrize("within", [lambda each: each, pa.list_, lambda each: pa.list_(each, 1)])
def test_lists_of_a_fixed_size_may_all_be_null(
    log: sl.Log, url: str, within: Callable[[pa.DataType], pa.DataType]
) -> None:
    arrow = within(pa.list_(pa.int16(), 2))
    schema = pa.schema([pa.field("c", arrow)])
    log.scope().register("t", schema)
    # Spark sends no address for a buffer without values.
    empty = pa.foreign_buffer(0, 0)
    inner = pa.Array.from_buffers(pa.int16(), 0, [None, empty])
    nulls = pa.array([0, 0], pa.int32())
    column = pa.ListArray.from_arrays(nulls, inner, mask=pa.array([True]))
    if arrow != pa.list_(pa.int16(), 2):
        column = pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), column)

    Sink(log, url).write(0, pa.record_batch([column], ["c"]))

    (found,) = values(log)
    assert found.equals(pa.record_batch([pa.array(column.to_pylist(), arrow)], schema=schema))


ZONED, LOCAL = pa.timestamp("us", "UTC"), pa.timestamp("us")


@pytest.mark.parametrize(
    ("wanted", "given", "name"),
    [
        (ZONED, pa.array([NOON.replace(tzinfo=None)], LOCAL), "c"),
        (pa.timestamp("us", "Europe/Berlin"), pa.array([None], LOCAL), "c"),
        (ZONED, pa.array([NOON.date()]), "c"),
        (LOCAL, pa.array([NOON], SPARK_TIME), "c"),
        (pa.date32(), pa.array([NOON], SPARK_TIME), "c"),
        (pa.struct([("at", ZONED)]), pa.array([{"at": None}], pa.struct([("at", LOCAL)])), "c.at"),
        (pa.list_(LOCAL), pa.array([[NOON]], pa.list_(SPARK_TIME)), "c"),
        (pa.map_(pa.string(), ZONED), pa.array([[]], pa.map_(pa.string(), LOCAL)), "c"),
    ],
)
def test_a_time_zone_is_neither_assumed_nor_dropped(
    log: sl.Log, url: str, wanted: pa.DataType, given: pa.Array, name: str
) -> None:
    log.scope().register("t", pa.schema([pa.field("c", wanted)]))
    sink = Sink(log, url)

    with pytest.raises(InvalidError, match=f"time zone.*cast the column.*column='{name}'"):
        sink.write(0, pa.record_batch([given], ["c"]))

    assert sink.files() == []


def test_an_event_has_no_time_without_a_zone(log: sl.Log, url: str) -> None:
    log.create_topic("t")
    rows = pa.record_batch({"kind": ["a"], "occurred_at": pa.array([None], LOCAL)})

    with pytest.raises(InvalidError, match=r"time zone.*column='occurred_at'"):
        Sink(log, url).write(0, rows)


def test_columns_of_a_typed_topic_are_matched_by_name(log: sl.Log, url: str) -> None:
    schema = pa.schema([pa.field("a", pa.int64(), nullable=False), ("b", pa.string())])
    log.scope().register("t", schema)
    sink = Sink(log, url)
    sink.write(0, pa.record_batch({"b": ["x"], "a": pa.array([1], pa.int64())}))
    sink.write(1, pa.record_batch({"a": pa.array([2], pa.int64())}))

    assert [each.to_pylist() for each in values(log)] == [
        [{"a": 1, "b": "x"}],
        [{"a": 2, "b": None}],
    ]
    with pytest.raises(InvalidError, match=r"missing=.*'a'"):
        sink.write(2, pa.record_batch({"b": ["x"]}))
    with pytest.raises(InvalidError, match="may not be null"):
        sink.write(2, pa.record_batch({"a": pa.array([None], pa.int64())}))
    with pytest.raises(InvalidError, match=r"unknown=.*'c'"):
        sink.write(2, pa.record_batch({"a": pa.array([2], pa.int64()), "c": [1]}))


@pytest.mark.parametrize(
    ("given", "strange"),
    [
        ({"st": {"A": 1, "b": 2}}, "st.A"),
        ({"st": {"a": 1, "b": 2, "c": 3}}, "st.c"),
        ({"many": [{"a": 1, "q": 2}]}, "many.q"),
        ({"deep": {"in": {"x": 1}}}, "deep.in.x"),
    ],
)
def test_a_field_within_a_column_that_has_no_place_is_refused(
    log: sl.Log, url: str, given: dict[str, Any], strange: str
) -> None:
    inner = pa.struct([("a", pa.int64()), ("b", pa.int64())])
    schema = pa.schema(
        [("st", inner), ("many", pa.list_(inner)), ("deep", pa.struct([("in", inner)]))]
    )
    log.scope().register("t", schema)
    sink = Sink(log, url)

    with pytest.raises(InvalidError, match=f"unknown=.*'{strange}'"):
        sink.write(0, pa.RecordBatch.from_pylist([given]))

    assert sink.files() == []


def test_rows_of_a_typed_topic_are_one_record_for_each_key(log: sl.Log, url: str) -> None:
    log.scope().register("t", pa.schema([("n", pa.int64())]))
    rows = pa.record_batch({"_key": ["b", "a", "b", None], "n": pa.array([1, 2, 3, 4], pa.int64())})
    Sink(log, url).write(0, rows)

    records: list[Any] = [*log.read("t", 0, 0)]
    found = {each.key: each.value.column("n").to_pylist() for each in records}
    assert found == {"a": [2], "b": [1, 3], None: [4]}


def test_a_replay_after_the_schema_has_evolved_is_the_same_content(log: sl.Log, url: str) -> None:
    scope = log.scope()
    scope.register("t", pa.schema([("n", pa.int32())]))
    rows = pa.record_batch({"n": pa.array([1, 2], pa.int32())})
    Sink(log, url).write(0, rows)
    scope.evolve("t", pa.schema([("n", pa.int64()), ("m", pa.string())]))
    Sink(log, url).write(0, rows)

    assert [each.to_pylist() for each in values(log)] == [[{"n": 1}, {"n": 2}]]


def test_batches_of_no_schema_are_taken_as_they_are(log: sl.Log, url: str) -> None:
    log.create_topic("t", value_kind=ValueKind.BATCH)
    rows = pa.record_batch({"n": pa.array([1, 2]), "at": pa.array([NOON, None], SPARK_TIME)})
    Sink(log, url).write(0, rows)

    (found,) = values(log)
    assert found.schema.field("at").type == pa.timestamp("us", "UTC")
    assert found.column("at").to_pylist() == [NOON, None]


@pytest.mark.slow
def test_wide_rows_become_several_records(log: sl.Log, url: str) -> None:
    log.scope().register("t", pa.schema([("b", pa.binary())]))
    Sink(log, url).write(0, pa.record_batch({"b": [bytes(3_000_000)] * 8}))

    assert sum(each.num_rows for each in values(log)) == 8
    with pytest.raises(InvalidError, match="too large"):
        Sink(log, url).write(1, pa.record_batch({"b": [bytes(RECORD_BYTES_MAX + 1)]}))


# --- tenants ---


def test_a_tenant_writes_its_own_topic_and_its_own_records(log: sl.Log, url: str) -> None:
    log.create_topic("t")
    log.create_topic("shared")
    own = log.create_topic("t", tenant="acme")
    Sink(log, url, tenant="acme").write(0, pa.record_batch({"kind": ["a"]}))
    Sink(log, url, tenant="acme", topic="shared", app="2").write(
        0, pa.record_batch({"kind": ["b"]})
    )

    assert [each.kind for each in log.read(own, 0, 0)] == ["a"]
    assert values(log) == []
    assert [(each.kind, each.tenant) for each in log.read("shared", 0, 0)] == [("b", "acme")]
